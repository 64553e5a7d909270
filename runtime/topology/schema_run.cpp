// The sections that describe the run, its workers and exchanges, and where they run.
#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/runtime/topology/schema_rows.hpp"

namespace troupe::topology::rows {

section run_section() {
  using t = topology;
  using run = run_settings;
  return {
      "run",
      "How long to train, the random seed, and what ends a run early.",
      {row("seed", in(&t::run, &run::seed), {.minimum = 0},
           "Seed of everything random, such as the initial weights, the order of the samples and dropout, except "
           "the random graph of a gossip exchange (exchange.graph_seed)."),
       row("epochs", in(&t::run, &run::epochs), {.minimum = 0, .maximum = 1e6},
           "Number of passes over the training data. Cannot be combined with steps. If neither is set, the run "
           "takes one epoch."),
       row("steps", in(&t::run, &run::steps), {.minimum = 0, .maximum = 1e12},
           "Number of steps that each worker takes; with run.budget = \"total\", the average over the workers. "
           "Cannot be combined with epochs. With 0, the run only writes the initial weights."),
       row("budget", in(&t::run, &run::budget), {.choices = {"worker", "total"}},
           "How the steps of the run are divided among n workers: with \"worker\", each worker takes all of them; "
           "with \"total\", the workers together take n times as many, and faster workers take more of them. With "
           "\"total\", batches come from one queue, and epochs, schedules and evaluations count the steps of all "
           "workers divided by n. \"total\" requires a wiring in which no worker waits for another."),
       row("threads", in(&t::run, &run::threads), {.minimum = 1, .maximum = 256},
           "Number of threads inside the tensor operations of one worker. Changing it may change the last bits of "
           "the results."),
       row("timeout", in(&t::run, &run::timeout), {},
           "How long a worker, a server or another part of the run waits for another one before the run fails."),
       row("silence", in(&t::run, &run::silence), {.minimum = 0.1},
           "How long a connected node may be silent before it counts as lost, which ends the run. Nodes send "
           "heartbeats several times in this period, also during long steps. Used only with [[node]] sections."),
       row("join_timeout", in(&t::run, &run::join_timeout), {},
           "How long the processes of a run, one for each [[node]] section, wait for all of them to connect before "
           "training begins, and the run for the programs of exchanges of kind \"remote\". For its own nodes, which it "
           "starts itself, `troupe run` waits no longer than run.timeout. Used only with [[node]] sections, or such "
           "an exchange."),
       row("max_seconds", in(&t::run, &run::max_seconds),
           {.minimum = 0.001, .maximum = 3.6e7, .type = setting_type::real},
           "Time limit of the run in seconds. When it is reached, the run stops cleanly. Without it, there is no "
           "limit."),
       row("verify_every", in(&t::run, &run::verify_every), {.minimum = 0},
           "Interval, in steps, at which the parameters of all workers are compared if the wiring keeps them equal. A "
           "difference ends the run and is reported with its step, workers and tensor. With 0, they are never "
           "compared."),
       row("stop_on_non_finite", in(&t::run, &run::stop_on_non_finite), {},
           "Whether a loss of nan or inf stops the run and reports the step and the worker. With false, training "
           "continues.")}};
}

section workers_section() {
  using t = topology;
  using workers = worker_settings;
  return {
      "workers",
      "How many workers train, on which devices, and what a worker does in one step.",
      {row("count", in(&t::workers, &workers::count), {.minimum = 1, .maximum = 1'000'000},
           "Number of workers. With [[node]] sections, it defaults to the sum of their workers and must equal it."),
       row("loop", in(&t::workers, &workers::loop), {},
           "Operations of one step, in order: \"gradient\", \"apply\", and the name of each exchange (\"exchange\" "
           "for one without a name). By default, exchanges come between \"gradient\" and \"apply\", with two "
           "exceptions: an all_reduce of parameters comes after \"apply\", and a parameter_server takes its place. "
           "An exchange of kind shared is not part of the loop."),
       row("precision", in(&t::workers, &workers::precision), {.choices = {"float32", "bfloat16"}},
           "Number format of the forward and backward passes. \"bfloat16\" runs them under autocast; weights, "
           "gradients and sums stay float32."),
       row("slowdown", in(&t::workers, &workers::slowdown),
           {.minimum = 1, .maximum = 1e6, .type = setting_type::real_or_reals},
           "Factors on the time that each worker computes, one number for all workers or one for each, to emulate slow "
           "machines. After computing, a worker waits for the rest of that time. It changes no bit of a deterministic "
           "result."),
       row("device", in(&t::workers, &workers::device), {.type = setting_type::devices},
           "Devices on which the workers compute. A list is dealt out to the workers of each node in turn; it also "
           "sets the number of workers if neither count nor a [[node]] does. \"cuda\" means all GPUs of the "
           "machine; \"auto\" means the same, or the CPU if there are none.")}};
}

section exchange_section() {
  using t = topology;
  using exchange = exchange_settings;
  auto made =
      list("exchange",
           "What the workers send each other: one [exchange] section, or several [[exchange]] sections with a name "
           "each. Every kind of exchange has additional settings of its own.",
           &t::exchanges, "kind",
           {row("name", each(&t::exchanges, &exchange::name), {},
                "Name of the exchange, used in workers.loop and in the output of troupe. Required if there are "
                "several exchanges."),
            row("kind", each(&t::exchanges, &exchange::kind), {.choices = names(exchange_kinds())},
                "Algorithm of the exchange. Required. `troupe list exchanges` describes each one."),
            row("sends", each(&t::exchanges, &exchange::sends), {.choices = {"gradient", "parameters"}},
                "What a worker contributes. Defaults to the gradient or the parameters according to the kind; "
                "`troupe list exchanges` names the default first."),
            row("members", each(&t::exchanges, &exchange::members), {},
                "Participants: workers (w0, w1, …), or names of other exchanges, each of which stands for the group "
                "of its workers. Defaults to all workers. Other workers skip this exchange."),
            row("every", each(&t::exchanges, &exchange::every), {},
                "Interval between exchanges, in steps or epochs; by default every step. With an interval of 4, an "
                "exchange after \"apply\" takes place in steps 4, 8, 12 …, and one before \"apply\" in steps 5, 9, "
                "13 …. One exception: an elastic exchange with apply = \"each\" that precedes \"apply\" also takes "
                "place in step 1. A parameter_server takes part in every step."),
            row("from", each(&t::exchanges, &exchange::from), {},
                "Steps or epochs at the beginning of the run without this exchange; the interval `every` counts from "
                "there. Default: none. An all_reduce of gradients until a step, and one of parameters from that step "
                "on, are post-local SGD."),
            row("until", each(&t::exchanges, &exchange::until), {},
                "Steps or epochs after which this exchange takes place no more. Default: it always does."),
            row("growth", each(&t::exchanges, &exchange::growth), {.minimum = 0, .minimum_excluded = true},
                "Makes the intervals between exchanges of parameters longer as the learning rate falls (the quadratic "
                "synchronisation rule): a round that begins with the learning rate lr lasts (growth / lr)² steps, and "
                "at least `every`; the last one ends with the run. Default: all intervals are equal. Source: Gu et al. "
                "2024, \"A Quadratic Synchronization Rule for Distributed Deep Learning\", section 2."),
            row("encoding", each(&t::exchanges, &exchange::encoding), {.choices = encoding_names()},
                "Number format of the tensors on their way; receivers compute in float32. \"bf16\" and \"fp16\" round "
                "each value to 16 bits. \"int8\" and \"int4\" send integers with one scale for 256 values, rounded at "
                "random so that their expectation is exact. \"sign\" sends one bit per value, and the mean magnitude "
                "of 256 values. \"top_k\" sends the largest values, as many as `ratio` says, and their indices. "
                "\"random_k\" sends the same number of values, at places that all workers draw alike, so that no "
                "indices are needed. \"powersgd\" sends each matrix of a gradient as the product of two thin ones, "
                "of which `rank` sets the width. All members still get the same answer wherever they did before. An "
                "all_reduce of parameters sends what "
                "each worker has changed since the last exchange, since rounded parameters would lose small steps; "
                "other exchanges of parameters cannot be encoded. A parameter_server keeps its parameters in float32; "
                "it rounds its answers with \"bf16\" and \"fp16\", and sends them as float32 otherwise. Groups send "
                "float32 within a group unless the encoding is \"bf16\" or \"fp16\"."),
            row("ratio", each(&t::exchanges, &exchange::ratio), {.minimum = 0, .maximum = 1, .minimum_excluded = true},
                "Share of the parameters that encoding = \"top_k\" and \"random_k\" send, which require it: of each "
                "bucket or parameter that is sent by itself, at least one. An index of \"top_k\" takes as much as a "
                "value and goes to each worker, so that above 1 / workers it costs more than float32."),
            row("rank", each(&t::exchanges, &exchange::rank), {.minimum = 1, .maximum = 1e6},
                "Rank of the approximations that encoding = \"powersgd\" sends, which requires it: such as 1, 2 or 4. "
                "A parameter is approximated if its two factors have less than half of its values; the others are "
                "sent as they are. Source: Vogels et al. 2019, \"PowerSGD\", Algorithms 1 and 2."),
            row("feedback", each(&t::exchanges, &exchange::feedback), {},
                "Whether what an encoding loses is added to what is sent next (error feedback), which takes a copy of "
                "the parameters per worker. Default: true for \"sign\", \"top_k\", \"random_k\" and \"powersgd\", "
                "otherwise false. Source: "
                "Karimireddy et al. 2019, \"Error Feedback Fixes SignSGD and other Gradient Compression Schemes\", "
                "Algorithm 2. The error is kept in units of gradients: after the learning rate has changed, what was "
                "left over is applied with the new one."),
            row("encode_after", each(&t::exchanges, &exchange::encode_after), {},
                "Steps or epochs at the beginning of the run in which messages are float32. Default: none."),
            row("ratio_warm_up", each(&t::exchanges, &exchange::ratio_warm_up), {},
                "Steps or epochs, after those of encode_after, in which the share of the values falls to `ratio` in "
                "equal parts: 25 %, 6.25 %, 1.56 % and so on. Default: none. Source: Lin et al. 2018, \"Deep Gradient "
                "Compression\", section 3.3."),
            row("momentum_correction", each(&t::exchanges, &exchange::momentum_correction),
                {.minimum = 0, .maximum = 1, .maximum_excluded = true},
                "Momentum that each worker applies to its gradients before it chooses what encoding = \"top_k\" sends, "
                "in place of optimizer.momentum; what is sent is cleared from the velocity. Source: Lin et al. 2018, "
                "section 3.")});
  return with_kinds(std::move(made), each(&t::exchanges, &exchange::options),
                    {{.key = "kind", .noun = "exchange", .all = [] { return described(exchange_kinds()); }}});
}

section evaluate_section() {
  using t = topology;
  using evaluate = evaluate_settings;
  return {
      "evaluate",
      "Validation during training. There is always an evaluation at the end.",
      {row("every", in(&t::evaluate, &evaluate::every), {}, "Interval between evaluations, in steps or epochs."),
       row("batch_size", in(&t::evaluate, &evaluate::batch_size), {.minimum = 1, .maximum = 1e6},
           "Number of samples to evaluate at once. Unless drop_last is true, it affects only memory and time."),
       row("target_accuracy", in(&t::evaluate, &evaluate::target_accuracy),
           {.minimum = 0, .maximum = 1, .minimum_excluded = true},
           "Validation accuracy at which training stops, once target_hold evaluations in a row have reached it. "
           "Without it, training continues whatever the accuracy."),
       row("target_hold", in(&t::evaluate, &evaluate::target_hold), {.minimum = 1, .maximum = 1e6},
           "Number of evaluations in a row that must reach target_accuracy. Used only when target_accuracy is set."),
       row("top_k", in(&t::evaluate, &evaluate::top_k), {.minimum = 1, .maximum = 1e6},
           "Number k for top-k accuracy: if set, evaluations also count how often the correct class is among the k "
           "highest scores."),
       row("drop_last", in(&t::evaluate, &evaluate::drop_last), {},
           "Whether to drop the last batch of an evaluation if it is smaller than evaluate.batch_size."),
       row("split", in(&t::evaluate, &evaluate::split), {.choices = {"whole", "workers"}},
           "How the validation set is evaluated: \"whole\" evaluates it once; \"workers\" divides it among the workers "
           "as DistributedSampler does, without shuffling, evaluates each share, and reports the mean of the shares."),
       row("buffers", in(&t::evaluate, &evaluate::buffers), {.choices = {"mean", "first"}},
           "Running statistics of batch norm in the result, where those of the workers differ: \"mean\" averages them "
           "over the workers; \"first\" takes those of the first worker, which PyTorch's DDP keeps with "
           "broadcast_buffers."),
       row("each_worker", in(&t::evaluate, &evaluate::each_worker), {},
           "Whether to measure the accuracy of each worker's own parameters, too (val_accuracy_workers in "
           "metrics.jsonl). Requires a wiring in which the workers' parameters differ. Each worker adds an evaluation "
           "of the whole validation set."),
       row("pause_training", in(&t::evaluate, &evaluate::pause_training), {},
           "Whether the workers wait until an evaluation is done, so that it does not take processor time from them."),
       row("patience", in(&t::evaluate, &evaluate::patience), {.minimum = 1, .maximum = 1e6},
           "Number of evaluations in a row without improvement after which training stops. What counts is the "
           "accuracy, or the loss if there is no accuracy. Without it, training continues even if nothing improves.")}};
}

section checkpoint_section() {
  using t = topology;
  using checkpoint = checkpoint_settings;
  return {"checkpoint",
          "Checkpoints, from which `troupe run --resume` continues an interrupted run. They are written to the folder "
          "checkpoints in the results folder while training continues.",
          {row("every", in(&t::checkpoint, &checkpoint::every), {},
               "Interval between checkpoints, in steps or epochs. Every worker stops at that step until the state of "
               "the run has been collected, also in asynchronous wirings. A checkpoint that is due while the previous "
               "one is still being written is skipped. Without it, no checkpoints are written."),
           row("keep", in(&t::checkpoint, &checkpoint::keep), {.minimum = 1, .maximum = 1e6},
               "Number of checkpoints to keep. When a new one is complete, older ones are removed. Used only when "
               "every is set."),
           row("copies", in(&t::checkpoint, &checkpoint::copies), {.minimum = 1, .maximum = 2},
               "Number of nodes that keep each checkpoint. With 2, the second node of the file keeps a copy in its own "
               "results folder, which can be resumed like that of the first node. Used only when every is set.")}};
}

section node_section() {
  using t = topology;
  using node = node_settings;
  return list(
      "node",
      "A process that runs some of the workers. With several processes, there is one [[node]] section for each. "
      "Workers are numbered through the nodes in the order of the file.",
      &t::nodes, "name",
      {row("name", each(&t::nodes, &node::name), {},
           "Name of the node, which messages and `troupe node --name` refer to. It consists of at most 64 letters, "
           "digits, - and _. Required."),
       row("address", each(&t::nodes, &node::address), {.type = setting_type::endpoint},
           "Address at which other nodes reach this node. With port 0, `troupe run` chooses a free port. Addresses "
           "other than loopback ones (localhost, 127.0.0.0/8, ::1) require certificates; see [security]."),
       row("listen", each(&t::nodes, &node::listen), {.type = setting_type::endpoint},
           "Local address to bind, such as \"0.0.0.0:4700\" for all interfaces, if it is another one than `address`. "
           "Defaults to address."),
       row("workers", each(&t::nodes, &node::workers), {.minimum = 1, .maximum = 1'000'000},
           "Number of workers that this node runs.")});
}

section transport_section() {
  using t = topology;
  section made{
      "transport",
      "How the nodes of a run exchange messages.",
      {row("control", in(&t::transport, &transport_settings::control), {.choices = {"auto", "caf", "frames"}},
           "What carries the control messages between the first node and each other one, on connections that are "
           "identified and encrypted in the same way: \"caf\" is CAF's own network protocol, in which the nodes' "
           "actors send each other typed messages and monitor each other; \"frames\" is Troupe's own format. "
           "\"auto\" is \"caf\". Tensors always travel in frames.")}};
  made.printed_if_set = true;
  return made;
}

section security_section() {
  using t = topology;
  using security = security_settings;
  section made{
      "security",
      "How nodes identify themselves to each other. With certificates, connections use TLS 1.3, and both sides are "
      "verified. Without them, all nodes must be on one host: they then identify themselves with a secret that "
      "`troupe run` gives them, or that `troupe node` keeps in the file troupe.secret beside the topology file. "
      "These keys may differ from node to node.",
      {row("certificates", in(&t::security, &security::certificates), {},
           "Folder with the certificates that `troupe certs` has made. A node NAME needs authority.crt, NAME.crt "
           "and NAME.key in it."),
       row("authority", in(&t::security, &security::authority), {},
           "Certificate of the authority, in PEM format. Defaults to authority.crt in security.certificates."),
       row("certificate", in(&t::security, &security::certificate), {},
           "Certificate of the node, in PEM format. One of its DNS names must be the name of the node. Defaults to "
           "NAME.crt in security.certificates."),
       row("key", in(&t::security, &security::key), {},
           "Private key of the node, in PEM format, which other users must not be able to read. Defaults to "
           "NAME.key in security.certificates."),
       row("insecure", in(&t::security, &security::insecure), {},
           "Whether nodes connect without encryption and accept every connection. Any machine in the network can then "
           "read the training, change it and end it.")}};
  made.printed_if_set = true;
  return made;
}

section actors_section() {
  using t = topology;
  section made{
      "actors",
      "Guests: other programs that may attach to a run that was started with --actors, to observe or steer it. "
      "These keys may differ from node to node.",
      {row("allow", in(&t::actors, &actors_settings::allow), {},
           "Names of the guests that may attach. A certificate of `troupe certs --guest NAME` proves the name. "
           "Without certificates, guests of the same host know a secret and say their name themselves; if the "
           "list is empty, they may use any name.")}};
  made.printed_if_set = true;
  return made;
}

}  // namespace troupe::topology::rows
