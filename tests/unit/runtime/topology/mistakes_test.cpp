// Messages for mistakes: each row has a file, the position of its mistake, and words that the message must contain,
// including the fix.
#include "tests/support/doctest.hpp"

#include "troupe/runtime/topology/load.hpp"
#include "troupe/runtime/topology/suggest.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace topology_mistakes_test {

using namespace troupe;

namespace {

struct mistake {
  std::string text;                ///< Content of the file t.toml.
  std::string place;               ///< line:column, or the override.
  std::vector<std::string> words;  ///< All of them must occur in the message.
  std::vector<std::string> overrides{};
};

const std::string two_memories =
    "[workers]\ncount = 4\n[[exchange]]\nname = \"x\"\nkind = \"shared\"\nmembers = [\"w0\", \"w1\"]\n"
    "[[exchange]]\nname = \"y\"\nkind = \"shared\"\nmembers = [\"w2\", \"w3\"]\n[[exchange]]\nname = \"g\"\n";
const std::string gossip = "[workers]\ncount = 2\n[exchange]\nkind = \"gossip\"\n";

const std::vector<mistake> mistakes = {
    // Names.
    {"[run]\nsede = 1\n", "2:1", {"[run] has no key \"sede\"", "did you mean \"seed\"?"}},
    {"[run]\nfoo = 1\n", "2:1", {"no key \"foo\"", "expected seed, epochs, steps"}},
    {"[run]\nlr = 0.1\n", "2:1", {"no key \"lr\"", "expected it below [optimizer]"}},
    {"[modle]\nname = \"convnet\"\n", "1:2", {"no section [modle]", "did you mean [model]?"}},
    {"\n\n[nonsense]\n", "3:2", {"no section [nonsense]", "expected [run], [model]"}},
    {"seed = 1\n", "1:1", {"\"seed\" is outside its section", "below a line [run]"}},
    {"bogus = 1\n", "1:1", {"no key \"bogus\"", "a section such as [run]"}},
    {"[run]\nseed = 1\n[run.more]\n", "3:6", {"[run] has no key \"more\""}},
    {"[model]\nname = \"convnot\"\n", "2:8", {"model.name is \"convnot\"", "did you mean \"convnet\"?"}},
    {"[data]\nname = \"mnits\"\n", "2:8", {"data.name is \"mnits\"", "did you mean \"mnist\"?"}},
    {"[optimizer]\nname = \"lamb\"\n", "2:8", {"optimizer.name is \"lamb\"", "expected \"sgd\", \"adam\""}},
    {"[exchange]\nkind = \"al_reduce\"\n", "2:8", {"exchange.kind is \"al_reduce\"", "did you mean \"all_reduce\"?"}},
    {"[workers]\nloop = [\"exchange\"]\n[exchange]\nkind = \"gossip\"\n",
     "2:8",
     {"computes no gradient", "\"gradient\""}},
    {"[workers]\ncount = 2\n[exchange]\nkind = \"star\"\nmembers = [\"w0\", \"w2\"]\n",
     "5:18",
     {"there is no worker or exchange \"w2\"", "expected w0 to w1"}},
    {"[workers]\ncount = 2\n[exchange]\nkind = \"star\"\nmembers = [\"w0\", \"w0\"]\n",
     "5:18",
     {"w0 is in this exchange twice"}},
    {"[workers]\ncount = 2\n[exchange]\nkind = \"star\"\nmembers = []\n", "5:11", {"needs at least one member"}},
    {"[workers]\ncount = 2\n[exchange]\nkind = \"parameter_server\"\nmembers = [\"w0\"]\n",
     "5:11",
     {"applies the updates of its members only", "expected all workers"}},
    {"[workers]\nloop = [\"gradient\", \"exchange\", \"apply\"]\n[exchange]\nkind = \"shared\"\n",
     "2:21",
     {"\"exchange\" holds the parameters", "[\"gradient\", \"apply\"]"}},
    {"[exchange]\nkind = \"shared\"\nlock = true\natomic = true\n", "4:10", {"expected one of the two"}},
    {"[exchange]\nkind = \"shared\"\nevery = 4\n", "3:9", {"how often replicas are averaged", "\"node\""}},
    {"[exchange]\nkind = \"shared\"\nreplicas = \"cores\"\n", "3:12", {"did you mean \"core\"?"}},
    {"[workers]\ncount = 3\n[exchange]\nkind = \"shared\"\nmembers = [\"w0\", \"w1\"]\n",
     "5:11",
     {"w2 has no memory", "expected each worker in one"}},
    {"[workers]\ncount = 2\n[[exchange]]\nname = \"x\"\nkind = \"shared\"\n[[exchange]]\nname = \"g\"\nkind = "
     "\"all_reduce\"\n",
     "6:1",
     {"\"g\" has nothing to exchange, because its members share one memory; remove it"}},
    {two_memories + "kind = \"all_reduce\"\n", "11:1", {"\"g\" sends the gradient", "set sends = \"parameters\""}},
    {two_memories + "kind = \"star\"\n", "11:1", {"\"g\" sends the gradient", "use a kind that can send parameters"}},
    {two_memories + "kind = \"gossip\"\n",
     "11:1",
     {"w0 and w1 share a memory", "set members to one worker of each memory"}},
    {"[exchange]\nkind = \"parameter_server\"\nevery = 4\n", "3:9", {"must run in every step", "remove the key"}},
    {"[[exchange]]\nname = \"p\"\nkind = \"parameter_server\"\n[[exchange]]\nname = \"q\"\nkind = "
     "\"parameter_server\"\n",
     "4:1",
     {"\"p\" and \"q\" both apply the gradient", "expected only one of them"}},
    {"[[exchange]]\nname = \"w0\"\nkind = \"star\"\n[[exchange]]\nname = \"q\"\nkind = \"star\"\n",
     "2:8",
     {"cannot be called \"w0\""}},
    {"[workers]\ncount = 4\n[exchange]\nkind = \"elastic\"\nalpha = 0.6\n",
     "5:9",
     {"alpha = 0.6 with 4 members", "expected less than 2/(n + 1) = 0.4, such as 0.225"}},
    {"[workers]\ncount = 4\n[exchange]\nkind = \"elastic\"\nalpha = 0.4\n", "5:9", {"expected less than 2/(n + 1)"}},
    {"[workers]\ncount = 2\n[exchange]\nkind = \"elastic\"\nalpha = 0.9\n", "5:9", {"such as 0.45"}},
    {"[exchange]\nkind = \"gossip\"\nencoding = \"bf16\"\n",
     "3:12",
     {"does not preserve their mean", "set consensus_rate", "or remove encoding"}},
    {"[exchange]\nkind = \"gossip\"\nconsensus_rate = 0.3\n", "3:18", {"messages are float32", "set encoding"}},
    {"[exchange]\nkind = \"gossip\"\nencoding = \"int8\"\nconsensus_rate = 0.3\nfeedback = true\n",
     "5:12",
     {"feedback has no effect with consensus_rate", "remove the key"}},
    {"[exchange]\nkind = \"star\"\nencoding = \"top_k\"\n", "3:12", {"set ratio, such as 0.01"}},
    {"[exchange]\nkind = \"star\"\nencoding = \"int8\"\nratio = 0.1\n",
     "4:9",
     {"which sends all values", "remove the key"}},
    {"[exchange]\nkind = \"star\"\nratio = 0.1\n", "3:9", {"ratio belongs to an encoding", "set encoding"}},
    {"[exchange]\nkind = \"star\"\nencoding = \"sign\"\nfeedback = false\n", "4:12", {"needs feedback"}},
    {"[exchange]\nkind = \"all_reduce\"\nroute = \"ring\"\nencoding = \"int8\"\n",
     "3:9",
     {"partial sums would be rounded again at every hop", "use route = \"direct\""}},
    {"[exchange]\nkind = \"all_reduce\"\nroute = \"chain\"\nencoding = \"top_k\"\nratio = 0.1\n",
     "3:9",
     {"partial sums of sparse values are dense", "use route = \"auto\""}},
    {"[optimizer]\nmomentum = 0.9\n[exchange]\nkind = \"star\"\nencoding = \"top_k\"\nratio = 0.1\nmomentum_correction "
     "= 0.9\n",
     "7:23",
     {"takes the place of optimizer.momentum", "set momentum = 0"}},
    {"[exchange]\nkind = \"star\"\nencoding = \"int8\"\nmomentum_correction = 0.9\n",
     "4:23",
     {"use it with encoding = \"top_k\""}},
    {"[exchange]\nkind = \"all_reduce\"\nsends = \"parameters\"\nfrom = 5\nouter = \"nesterov\"\n",
     "4:8",
     {"an outer optimizer begins at the initial parameters", "or outer"}},
    {"[exchange]\nkind = \"all_reduce\"\nsends = \"parameters\"\nfrom = 5\nencoding = \"int8\"\n",
     "4:8",
     {"an encoding of parameters begins at the initial parameters", "or encoding"}},
    {"[exchange]\nkind = \"gossip\"\nencoding = \"top_k\"\nratio = 0.1\nconsensus_rate = 0.1\nmomentum_correction = "
     "0.5\n",
     "6:23",
     {"use it with encoding = \"top_k\" and feedback"}},
    {"[exchange]\nkind = \"star\"\nencoding = \"powersgd\"\n", "3:12", {"set rank, such as 2"}},
    {"[exchange]\nkind = \"star\"\nencoding = \"int8\"\nrank = 2\n", "4:8", {"use encoding = \"powersgd\""}},
    {"[exchange]\nkind = \"star\"\nencoding = \"powersgd\"\nrank = 2\nratio = 0.5\n",
     "5:9",
     {"ratio has no effect", "remove the key"}},
    {"[exchange]\nkind = \"parameter_server\"\nencoding = \"powersgd\"\nrank = 2\n",
     "3:12",
     {"needs two rounds among the workers"}},
    {"[exchange]\nkind = \"all_reduce\"\nsends = \"parameters\"\nencoding = \"powersgd\"\nrank = 2\n",
     "4:12",
     {"approximates the mean of gradients", "sends = \"gradient\""}},
    {"[exchange]\nkind = \"gossip\"\nencoding = \"random_k\"\nratio = 0.1\nconsensus_rate = 0.1\n",
     "3:12",
     {"what all workers have in common", "use encoding = \"top_k\""}},
    {"[exchange]\nkind = \"star\"\nencoding = \"random_k\"\nratio = 0.1\nratio_warm_up = 5\n",
     "5:17",
     {"ratio_warm_up has no effect"}},
    {"[exchange]\nkind = \"star\"\ngrowth = 0.1\n", "3:10", {"sends the gradient", "set sends = \"parameters\""}},
    {"[exchange]\nkind = \"all_reduce\"\nsends = \"parameters\"\ngrowth = 0.1\n",
     "4:10",
     {"the learning rate does not fall", "set optimizer.schedule"}},
    {"[exchange]\nkind = \"all_reduce\"\nfragments = 2\n",
     "3:13",
     {"fragments acts on the mean of parameters", "set sends = \"parameters\""}},
    {"[exchange]\nkind = \"all_reduce\"\nsends = \"parameters\"\nbuffers = \"mix\"\nevery = 4\ndelay = 2\n",
     "4:11",
     {"averages all buffers at once", "remove buffers"}},
    {"[exchange]\nkind = \"parameter_server\"\nuntil = 5\n", "3:9", {"applies the update", "remove the key"}},
    {"[exchange]\nkind = \"elastic\"\napply = \"each\"\nencoding = \"bf16\"\n", "4:12", {"would round the parameters"}},
    {"[exchange]\nkind = \"all_reduce\"\nouter = \"nesterov\"\n",
     "3:9",
     {"outer acts on the mean of parameters, but this exchange sends the gradient", "set sends = \"parameters\""}},
    {"[exchange]\nkind = \"all_reduce\"\nsends = \"parameters\"\nouter = \"adam\"\nouter_betas = [0.9]\n",
     "5:15",
     {"outer_betas needs two numbers"}},
    {"[exchange]\nkind = \"shared\"\nencoding = \"bf16\"\n",
     "3:12",
     {"shared memory sends no messages", "remove the key"}},
    {"[exchange]\nkind = \"shared\"\nreplicas = \"core\"\nencoding = \"bf16\"\n",
     "4:12",
     {"would round the parameters"}},
    {"[exchange]\nkind = \"all_reduce\"\nengine = \"nccl\"\nencoding = \"bf16\"\n",
     "4:12",
     {"engine = \"nccl\" sends float32", "remove the key"}},
    {"[exchange]\nkind = \"star\"\nevery = 0\n", "3:9", {"every is 0"}},
    {"[exchange]\nkind = \"star\"\nsend = \"hole\"\n", "3:8", {"exchange.send", "did you mean \"whole\"?"}},
    {"[exchange]\nkind = \"star\"\nrout = \"ring\"\n", "3:1", {"[exchange] has no key \"rout\"", "send or bucket_mb"}},
    {"[exchange]\nkind = \"all_reduce\"\nsends = \"parameters\"\nsend = \"bucket\"\n",
     "4:8",
     {"how a gradient is sent", "sends = \"gradient\""}},
    {"[exchange]\nkind = \"all_reduce\"\nbuffers = \"mix\"\n", "3:11", {"sends the gradient", "sync_batch_norm"}},
    {"[exchange]\nkind = \"all_reduce\"\nbucket_mb = 0\n", "3:13", {"bucket_mb is 0", "above 0"}},
    {"[data]\nbatch_size = 12\nmicro_batch_size = 5\n", "3:20", {"does not divide", "for instance 4"}},
    {"[optimizer]\nclip_norm = 1\n[exchange]\nkind = \"parameter_server\"\nshards = 2\n",
     "2:13",
     {"the whole gradient", "shards = 1"}},
    {"[exchange]\nkind = \"star\"\nroute = \"ring\"\n", "3:1", {"a setting of all_reduce", "of kind \"star\""}},

    // Types and ranges.
    {"model = \"convnet\"\n", "1:1", {"model is \"convnet\"", "expected a section: a line [model]"}},
    {"[[run]]\nseed = 1\n", "1:3", {"[[run]]", "expected one [run]"}},
    {"exchange = [1]\n", "1:1", {"exchange is a list", "a line [exchange]"}},
    {"[run]\nseed = \"one\"\n", "2:8", {"run.seed is \"one\"", "expected an integer of at least 0"}},
    {"[run]\nseed = -1\n", "2:8", {"run.seed is -1", "at least 0"}},
    {"[run]\nseed = 1979-05-27\n", "2:8", {"a date or time", "expected an integer"}},
    {"[run]\nseed = {a = 1}\n", "2:8", {"run.seed is a section"}},
    {"[run]\nepochs = 2.5\n", "2:10", {"run.epochs is 2.5", "an integer from 0 to 1000000"}},
    {"[run]\nsteps = 9000000000000\n", "2:9", {"an integer from 0 to 1000000000000"}},
    {"[run]\nthreads = 0\n", "2:11", {"an integer from 1 to 256"}},
    {"[run]\ntimeout = 60\n", "2:11", {"run.timeout is 60", "\"60s\""}},
    {"[run]\ntimeout = \"60 parsec\"\n", "2:11", {"\"60 parsec\"", "\"500ms\", \"60s\" or \"5min\""}},
    {"[workers]\ncount = 0\n", "2:9", {"workers.count is 0", "an integer from 1 to 1000000"}},
    {"[workers]\ncount = 5_000_000\n", "2:9", {"workers.count is 5000000", "from 1 to 1000000"}},
    {"[data]\nbatch_size = 0\n", "2:14", {"from 1 to 1000000"}},
    {"[data]\nbatch_size = 99999999999999999999\n", "2:34", {"too large"}},
    {"[data]\nshuffle = 1\n", "2:11", {"expected true or false"}},
    {"[data]\nmean = [\"a\"]\n", "2:9", {"data.mean holds \"a\"", "a list of numbers"}},
    {"[data]\nstd = [1.0, 0.0]\n", "2:13", {"data.std holds 0.0", "above 0"}},
    {"[optimizer]\nlr = -0.1\n", "2:6", {"optimizer.lr is -0.1", "a number from 0 to 1000000"}},
    {"[optimizer]\nlr = nan\n", "2:6", {"optimizer.lr is nan", "expected a number from 0 to"}},
    {"[optimizer]\nlr = -inf\n", "2:6", {"optimizer.lr is -inf", "expected a number from 0 to"}},
    {"[optimizer]\nmomentum = 1.0\n", "2:12", {"a number of at least 0 and below 1"}},
    {"[evaluate]\nevery = 0\n", "2:9", {"evaluate.every is 0", "\"1 epoch\""}},
    {"[evaluate]\nevery = \"1 epok\"\n", "2:9", {"\"1 epok\"", "steps or epochs"}},
    {"[evaluate]\ntarget_accuracy = 97\n", "2:19", {"a number above 0 and at most 1"}},
    {"[checkpoint]\nkeep = 0\n", "2:8", {"checkpoint.keep is 0", "an integer from 1 to"}},
    {"[checkpoint]\nevery = \"1 hour\"\n", "2:9", {"\"1 hour\"", "steps or epochs"}},
    {"[run]\nsilence = \"50ms\"\n", "2:11", {"run.silence is \"50ms\"; expected a duration from 100ms to 10000h"}},
    {"[checkpoint]\ncopies = 2\n", "2:10", {"only a second node can keep a copy", "expected 1, or"}},
    {"[workers]\nloop = \"gradient\"\n", "2:8", {"expected a list of strings"}},
    {"[workers]\nloop = [\"gradient\", 3]\n", "2:21", {"workers.loop holds 3"}},
    {"[workers]\ndevice = \"gpu\"\n", "2:10", {"workers.device is \"gpu\"", "a GPU such as \"cuda:0\""}},
    {"[workers]\ndevice = \"cuda:\"\n", "2:10", {"workers.device is \"cuda:\"", "a GPU such as \"cuda:0\""}},
    {"[workers]\ndevice = 0\n", "2:10", {"workers.device is 0", "or a list such as"}},
    {"[workers]\ndevice = []\n", "2:10", {"workers.device names no device", "or a list such as"}},
    {"[workers]\ndevice = [\"cpu\", \"cuda:x\"]\n", "2:18", {"workers.device holds \"cuda:x\"", "or a list such as"}},
    {"[workers]\ndevice = [\"auto\", \"cpu\"]\n",
     "2:10",
     {"combines \"auto\" or \"cuda\" with other devices", "or a list such as"}},
    {"[exchange]\nkind = \"all_reduce\"\nroute = \"ring\"\nengine = \"nccl\"\n",
     "3:9",
     {"NCCL chooses its own; use route = \"auto\", or engine = \"troupe\""}},
    {gossip + "weights = \"metropolitan\"\n",
     "5:11",
     {"exchange.weights is \"metropolitan\"", "\"uniform\" or a matrix such as [[0.5, 0.5], [0.5, 0.5]]",
      "did you mean \"metropolis\"?"}},
    {gossip + "weights = 0.5\n", "5:11", {"exchange.weights is 0.5", "or a matrix", "each number of at least 0"}},
    {gossip + "weights = []\n", "5:11", {"a matrix without numbers", "a matrix such as"}},
    {gossip + "weights = [[], []]\n", "5:11", {"a matrix without numbers", "a matrix such as"}},
    {gossip + "weights = [0.5, 0.5]\n", "5:12", {"exchange.weights holds 0.5 instead of a list", "a matrix such as"}},
    {gossip + "weights = [[0.5, 0.5],\n  [0.5]]\n", "6:3", {"a row of 2 numbers and a row of 1", "of equal length"}},
    {gossip + "weights = [[0.5, \"half\"], [0.5, 0.5]]\n", "5:18", {"exchange.weights holds \"half\"", "a matrix"}},
    {gossip + "weights = [[1.5, -0.5], [-0.5, 1.5]]\n", "5:18", {"exchange.weights holds -0.5", "of at least 0"}},
    {gossip + "weights = [[0.5, nan], [0.5, 0.5]]\n", "5:18", {"exchange.weights holds nan", "a finite one"}},
    {gossip + "weights = [[inf, 0.5], [0.5, 0.5]]\n", "5:13", {"exchange.weights holds inf", "a finite one"}},
    {gossip + "weights = [[[0.5]], [[0.5]]]\n", "5:13", {"exchange.weights holds a list", "a matrix such as"}},
    {gossip + "edges = \"w0\"\n", "5:9", {"exchange.edges is \"w0\"", "a list of pairs of strings, such as [["}},
    {gossip + "edges = [\"w0\", \"w1\"]\n", "5:10", {"holds \"w0\" instead of a list", "a list of pairs"}},
    {gossip + "edges = [[\"w0\", 1]]\n", "5:17", {"exchange.edges holds 1", "a list of pairs"}},
    {gossip + "edges = [[\"w0\", \"w1\"], [\"w1\"]]\n", "5:24", {"holds a list of 1 string;", "a list of pairs"}},
    {gossip + "edges = [[]]\n", "5:10", {"holds a list of 0 strings", "a list of pairs"}},
    {"format = 2\n", "1:10", {"format is 2", "expected 1", "the only format"}},

    // Illegal combinations.
    {"[run]\nsteps = 5\nepochs = 1\n", "3:10", {"run.epochs and run.steps", "expected one of them"}},
    {"[data]\nbatch_size = 4\nglobal_batch_size = 8\n", "3:21", {"data.batch_size and data.global_batch_size"}},
    {"[workers]\ncount = 4\n[data]\nglobal_batch_size = 65\n", "4:21", {"4 workers cannot share", "64 or 68"}},
    {"[optimizer]\nnesterov = true\n", "2:12", {"optimizer.momentum above 0", "0.9"}},
    {"[data]\nmean = [0.1, 0.2]\nstd = [1.0, 1.0]\n", "2:8", {"data.mean has 2 numbers", "expected 1", "channel"}},
    {"[data]\nmean = [0.1]\n", "2:8", {"data.mean is set without data.std", "expected both"}},
    {"[data]\nnormalize = false\nmean = [0.1]\nstd = [1]\n", "3:8", {"no effect", "data.normalize = false"}},
    {"[data]\nsplit = \"contiguous\"\nremainder = \"pad\"\n",
     "3:13",
     {"data.remainder = \"pad\"", "data.split is \"contiguous\"", "expected data.split = \"strided\""}},
    {"[data]\nname = \"text\"\nsplit = \"contiguous\"\nrandom_windows = true\n",
     "4:18",
     {"draws samples from the whole text", "data.split = \"contiguous\"", "expected data.split = \"strided\""}},
    {"[data]\nremainder = \"pads\"\n", "2:13", {"did you mean \"pad\"?"}},
    {"[evaluate]\nsplit = \"worker\"\n", "2:9", {"did you mean \"workers\"?"}},
    {"[exchange]\n", "1:2", {"[exchange] has no kind", "kind = \"star\", \"all_reduce\""}},
    {"[exchange]\nkind = \"star\"\nsends = \"parameters\"\n", "3:9", {"cannot send \"parameters\"", "\"gradient\""}},
    {"[workers]\nloop = []\n", "2:8", {"workers.loop is empty", "[\"gradient\", \"apply\"]"}},
    {"[workers]\nloop = [\"gradient\", \"aply\"]\n",
     "2:21",
     {"is not an operation of the loop", "did you mean \"apply\"?"}},
    {"[workers]\nloop = [\"apply\", \"gradient\"]\n",
     "2:9",
     {"\"apply\" needs a gradient; expected \"gradient\" before it"}},
    {"[exchange.ps]\nkind = \"star\"\n", "1:1", {"[exchange.ps] is not a section", "[[exchange]] with name = \"ps\""}},
    {"[workers]\nloop = [\"gradient\"]\n",
     "2:8",
     {"never applies it", "expected for instance [\"gradient\", \"apply\"]"}},
    {"[workers]\nloop = [\"gradient\", \"gradient\", \"apply\"]\n", "2:21", {"\"gradient\" twice"}},
    {"[workers]\nloop = [\"gradient\", \"exchange\", \"apply\"]\n", "2:21", {"expected a section [exchange]"}},
    {"[exchange]\nkind = \"star\"\n[workers]\nloop = [\"gradient\", \"apply\"]\n", "1:2", {"[exchange] is never used"}},
    {"[exchange]\nkind = \"all_reduce\"\n[workers]\nloop = [\"gradient\", \"exchange\"]\n",
     "4:8",
     {"never applies it", "[\"gradient\", \"exchange\", \"apply\"]"}},
    {"[exchange]\nkind = \"star\"\n[workers]\nloop = [\"gradient\", \"apply\", \"exchange\"]\n",
     "4:30",
     {"\"exchange\" needs a gradient, but \"apply\" has already applied it; remove one of the two"}},
    {"[exchange]\nname = \"apply\"\nkind = \"star\"\n", "2:8", {"cannot be called \"apply\""}},
    {"[[exchange]]\nkind = \"star\"\n[[exchange]]\nname = \"b\"\nkind = \"star\"\n", "1:1", {"no name", "name = "}},
    {"[[exchange]]\nname = \"a\"\nkind = \"star\"\n[[exchange]]\nname = \"a\"\nkind = \"star\"\n",
     "5:8",
     {"two exchanges are called \"a\""}},

    {gossip + "weights = [[0.5, 0.5], [0.4, 0.5]]\n", "5:11", {"the row of \"w1\"", "sums to 0.9", "expected"}},
    {gossip + "weights = [[1.0]]\n", "5:11", {"has 1 row, but there are 2 members", "expected"}},
    {gossip + "edges = [[\"w0\", \"w2\"]]\n", "5:9", {"\"w2\", which is not a member", "from \"w0\" to \"w1\""}},
    {gossip + "graph = \"ring\"\nedges = [[\"w0\", \"w1\"]]\n",
     "6:9",
     {"edges and graph cannot be combined", "remove one of them"}},
    {gossip + "rows = 2\n",
     "5:8",
     {"rows is used only when graph = \"torus\"; set graph = \"torus\", or remove the key"}},
    {gossip + "graph = \"torus\"\nrows = 2\n", "3:2", {"requires columns", "such as rows = 1 and columns = 2"}},

    // Nodes.
    {"[[node]]\nworkers = 2\n", "1:1", {"a node has no name", "expected name = "}},
    {"[node]\n", "1:2", {"a node has no name"}},
    {"[[node]]\nname = \"al pha\"\n", "2:8", {"cannot be called \"al pha\"", "letters, digits, - and _"}},
    {"[[node]]\nname = \"\"\n", "2:8", {"cannot be called \"\""}},
    {"[[node]]\nname = \"" + std::string(65, 'a') + "\"\n", "2:8", {"at most 64"}},
    {"[[node]]\nname = \"a\"\n[[node]]\nname = \"a\"\n", "4:8", {"two nodes are called \"a\""}},
    {"[[node]]\nname = \"a\"\nworkers = 0\n", "3:11", {"node.workers is 0", "from 1 to 1000000"}},
    {"[[node]]\nname = \"a\"\nport = 1\n", "3:1", {"[node] has no key \"port\"", "expected name, address"}},
    {"[[node]]\nname = \"a\"\nadress = \"a:1\"\n", "3:1", {"did you mean \"address\"?"}},
    {"[[node]]\nname = \"a\"\naddress = \"10.0.0.1\"\n", "3:11", {"\"10.0.0.1\"", "host:port", "[::1]:4700"}},
    {"[[node]]\nname = \"a\"\nlisten = \"here:65536\"\n", "3:10", {"node.listen", "from 0 to 65535"}},
    {"[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\naddress = 4700\n", "5:11", {"node.b.address is 4700"}},
    {"[workers]\ncount = 3\n[[node]]\nname = \"a\"\nworkers = 2\n[[node]]\nname = \"b\"\nworkers = 2\n",
     "2:9",
     {"workers.count is 3", "4 workers in total", "use 4, or remove workers.count"}},
    {"[workers]\ncount = 3\n[data]\nglobal_batch_size = 8\n[[node]]\nname = \"a\"\nworkers = 2\n",
     "2:9",  // nothing about 3 workers that cannot share 8 samples, since their number is not settled
     {"workers.count is 3", "2 workers in total"}},
    {"[data]\nglobal_batch_size = 9\n[[node]]\nname = \"a\"\nworkers = 2\n", "2:21", {"2 workers cannot share"}},
    {"[[node]]\nname = \"a\"\nworkers = 1000000\n[[node]]\nname = \"b\"\n",
     "1:3",
     {"1000001 workers", "from 1 to 1000000"}},
    {"[[node]]\nname = \"a\"\naddress = \"h:4700\"\n[[node]]\nname = \"b\"\naddress = \"H:4700\"\n",
     "6:11",
     {"the nodes \"a\" and \"b\" both use port 4700 of h", "such as \"h:4701\""}},
    {"[[node]]\nname = \"a\"\naddress = \"127.0.0.1:4700\"\n[[node]]\nname = \"b\"\naddress = "
     "\"localhost:4700\"\n",
     "6:11",
     {"the nodes \"a\" and \"b\" both use port 4700", "\"localhost:4701\""}},

    // Not TOML.
    {"[model]\nname = convnet\n", "2:8", {"without quotes", "expected \"convnet\""}},
    {"[model]\nname = \"convnet\n", "2:16", {"expected a closing quote"}},
    {"[model\nname = 1\n", "1:2", {"not closed", "expected [model]"}},
    {"[run]\nseed 1\n", "2:1", {"no = between key and value", "expected seed = 1"}},
    {"[run]\nseed: 1\n", "2:1", {"a colon", "expected seed = 1"}},
    {"[run]\nseed =\n", "2:1", {"\"seed\" has no value"}},
    {"[run]\nseed = 1\nseed = 2\n", "3:1", {"\"seed\" appears twice"}},
    {"[run]\nseed = 1\n[run]\nepochs = 1\n", "3:1", {"[run] appears twice"}},
    {"[exchange]\nkind = \"star\"\n[[exchange]]\nkind = \"star\"\n", "3:1", {"expected [[exchange]] for each"}},
    {"[run] seed = 1\n", "1:7", {"expected seed = 1 on a line of its own"}},
    {"[data]\nshuffle = True\n", "2:11", {"True is not TOML", "expected true"}},
    {"[optimizer]\nlr = 0,05\n", "2:6", {"the number contains a comma", "expected 0.05"}},
    {"[optimizer]\nlr = .05\n", "2:6", {"must begin with a digit", "expected 0.05"}},
    {"[workers]\nloop = [gradient, apply]\n", "2:8", {"without quotes", "[\"gradient\", \"apply\"]"}},
    {"[workers]\nloop = [\"gradient\",\n", "2:21", {"expected it to be closed"}},
    {"[=\n", "1:2", {"the section header has no name"}},
    {"\x7f"
     "ELF\x02\x01",
     "1:1",
     {"not readable text", "UTF-8"}},
    {"[model]\nname = “convnet”\n", "2:8", {"“ is outside a string", "straight quotes"}},
    {"[run]\ngrö = 1\n", "2:3", {"ö is outside a string"}},
    {"[run]\n\xff\xd8\xff", "2:1", {"not readable text", "UTF-8"}},
    {"a = [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n", "1:21", {"nested too deeply"}},

    // Overrides.
    {"", "--set #1", {"[run] has no key \"sede\"", "did you mean \"seed\"?"}, {"run.sede=1"}},
    {"", "--set #1", {"no section [a]"}, {"a.b.c=1"}},
    {"", "--set #2", {"run.seed is \"x\"", "an integer"}, {"run.epochs=1", "run.seed=x"}},
    {"", "--set #1", {"expected section.key=value"}, {"seed"}},
    {"", "--set #1", {"expected section.key=value"}, {"run..seed=1"}},
    {"", "--set #1", {"model.name is \"lnet\"", "did you mean \"lenet\"?"}, {"model.name=lnet"}},
    {"", "--set #1", {"a list of strings", "single quotes"}, {"workers.loop=[gradient,apply]"}},
    {gossip, "--set #1", {"list of pairs", "single quotes", "exchange.edges=[["}, {"exchange.edges=[[w0,w1]]"}},
    {gossip, "--set #1", {"exchange.weights holds -1.0", "of at least 0"}, {"exchange.weights=[[-1.0, 2.0]]"}},
    {"[run]\nseed = 1\n", "--set #1", {"run.seed has no keys of its own; expected run.seed=value"}, {"run.seed.x=3"}},
    {"[[exchange]]\nname = \"inner\"\nkind = \"star\"\n",
     "--set #1",
     {"no exchange is called \"iner\"", "did you mean \"inner\"?"},
     {"exchange.iner.send=whole"}},
    {"[[node]]\nname = \"alpha\"\n",
     "--set #1",
     {"no node is called \"alhpa\"", "did you mean \"alpha\"?"},
     {"node.alhpa.workers=2"}},
    {"[[node]]\nname = \"alpha\"\n", "--set #1", {"workers.count is 2", "1 worker in total"}, {"workers.count=2"}},
};

std::string message_of(const mistake& each) {
  try {
    topology::parse(each.text, "t.toml", each.overrides);
  } catch (const input_error& error) {
    return error.what();
  }
  return "";
}

std::string load_message(const std::filesystem::path& file) {
  try {
    topology::load(file);
  } catch (const input_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every mistake is told with its place, the reason and the mend") {
  CHECK(mistakes.size() >= 40);
  for (const mistake& each : mistakes) {
    CAPTURE(each.text);
    const std::string message = message_of(each);
    const std::string place = each.overrides.empty() ? "t.toml:" + each.place : each.place;
    CHECK_MESSAGE(message.starts_with(place + ": "), message);
    for (const std::string& word : each.words) CHECK_MESSAGE(message.find(word) != std::string::npos, message);
  }
}

TEST_CASE("all mistakes of a file are told at once, in its order") {
  const std::string message = message_of({"[workers]\ncount = 0\n[run]\nsede = 1\n", "", {}});
  const std::size_t first = message.find("t.toml:2:9: workers.count is 0");
  const std::size_t second = message.find("\nt.toml:4:1: [run] has no key \"sede\"");
  CHECK(first == 0);
  CHECK(second != std::string::npos);
}

TEST_CASE("a hundred mistakes are not all listed") {
  std::string text = "[run]\n";
  for (int i = 0; i < 100; ++i) text += "k" + std::to_string(i) + " = 1\n";
  const std::string message = message_of({text, "", {}});
  CHECK(message.ends_with("and 92 more"));
}

TEST_CASE("a file that cannot be read is told by its path") {
  const auto folder = std::filesystem::temp_directory_path() / "troupe_topology_mistakes_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "star.toml") << "";
  std::ofstream(folder / "large.toml") << std::string((1 << 20) + 1, '#');
  CHECK(load_message(folder / "sta.toml").find("did you mean \"" + (folder / "star.toml").string()) !=
        std::string::npos);
  CHECK(load_message(folder).find("this is a folder") != std::string::npos);
  CHECK(load_message(folder / "large.toml").find("larger than 1 MiB") != std::string::npos);
  CHECK(load_message(folder / "star.toml" / "below").find("no such file") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a name is suggested when it is near enough to be meant") {
  using topology::nearest;
  CHECK(topology::edit_distance("seed", "seed") == 0);
  CHECK(topology::edit_distance("sede", "seed") == 1);  // two neighbours swapped
  CHECK(topology::edit_distance("kitten", "sitting") == 3);
  CHECK(topology::edit_distance("ca", "abc") == 3);  // the alignment's well-known difference from the full metric
  CHECK(nearest("BATCH-SIZE", {"batch_size", "split"}) == "batch_size");
  CHECK(nearest("al_reduce", {"star", "all_reduce"}) == "all_reduce");
  CHECK(nearest("gossip", {"star", "all_reduce"}).empty());
  CHECK(nearest("", {"star"}).empty());
  CHECK(nearest("learning_rate", {"name", "lr", "momentum"}) == "lr");
  CHECK(nearest("optimizer.learning_rate", {"run.steps", "optimizer.lr"}) == "optimizer.lr");
  CHECK(nearest("dataset", {"name", "model.name", "data.name"}) == "data.name");
  CHECK(nearest("x", {"lr"}).empty());
}

}  // namespace topology_mistakes_test
