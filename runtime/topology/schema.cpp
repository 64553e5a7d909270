#include "troupe/runtime/topology/schema.hpp"

#include "troupe/actors/exchange/registry.hpp"
#include "troupe/actors/optimizer_kinds.hpp"
#include "troupe/data/dataset.hpp"
#include "troupe/models/network.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace troupe::topology {
namespace {

using std::chrono::milliseconds;

// How a member is held in a setting_value. ------------------------------------------------------------------------

template <class T>
struct holds : std::type_identity<T> {};
template <class T>
struct holds<std::optional<T>> : std::type_identity<T> {};

template <class Member>
constexpr setting_type type_of() {
  using held = typename holds<Member>::type;
  if constexpr (std::is_same_v<held, bool>) return setting_type::boolean;
  if constexpr (std::is_integral_v<held>) return setting_type::integer;
  if constexpr (std::is_same_v<held, double>) return setting_type::real;
  if constexpr (std::is_same_v<held, std::filesystem::path>) return setting_type::path;
  if constexpr (std::is_same_v<held, milliseconds>) return setting_type::duration;
  if constexpr (std::is_same_v<held, interval>) return setting_type::every;
  if constexpr (std::is_same_v<held, std::vector<std::string>>) return setting_type::words;
  if constexpr (std::is_same_v<held, std::vector<double>>) return setting_type::reals;
  return setting_type::text;
}

template <class T>
void assign(T& member, const setting_value& value) {
  if constexpr (std::is_same_v<T, milliseconds>) {
    const double* seconds = std::get_if<double>(&value);
    member = seconds ? milliseconds(std::llround(*seconds * 1000)) : *parse_duration(std::get<std::string>(value));
  } else if constexpr (std::is_same_v<T, interval>) {
    member = *parse_interval(std::get<std::string>(value));
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    member = std::get<std::string>(value);
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    member = static_cast<T>(std::get<std::int64_t>(value));
  } else {
    member = std::get<T>(value);
  }
}

template <class T>
void assign(std::optional<T>& member, const setting_value& value) {
  assign(member.emplace(), value);
}

template <class T>
std::optional<setting_value> value_of(const T& member, setting_type type) {
  if constexpr (std::is_same_v<T, milliseconds>) {
    if (type == setting_type::real) return static_cast<double>(member.count()) / 1000;
    return print_duration(member);
  } else if constexpr (std::is_same_v<T, interval>) {
    return print_interval(member);
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    if (member.empty()) return {};
    return member.string();
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double>) {
    return member;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::int64_t>(member);
  } else {
    if (member.empty()) return {};
    if constexpr (std::is_same_v<T, std::vector<std::string>>)
      if (type == setting_type::devices && member.size() == 1) return member.front();
    return member;
  }
}

template <class T>
std::optional<setting_value> value_of(const std::optional<T>& member, setting_type type) {
  return member ? value_of(*member, type) : std::nullopt;
}

// Rows. ------------------------------------------------------------------------------------------------------------

/// Where a member lies, by the section's struct, of which there may be a list.
template <class Section, class Member>
auto in(Section topology::*section, Member Section::*member) {
  return [=](auto& file, std::size_t) -> auto& {
    return file.*section.*member;
  };
}

template <class Section, class Member>
auto each(std::vector<Section> topology::*sections, Member Section::*member) {
  return [=](auto& file, std::size_t index) -> auto& {
    return (file.*sections).at(index).*member;
  };
}

struct limits {
  std::optional<double> minimum{}, maximum{};
  bool minimum_excluded{false}, maximum_excluded{false};
  std::vector<std::string> choices{};
  std::optional<setting_type> type{};  ///< Where the member's own is not what the file says.
};

/// Makes a key. Its type and its default are those of the member, and so are said only there.
template <class Where>
key row(std::string name, Where where, limits within, std::string explanation) {
  topology defaults;
  defaults.exchanges.resize(1);
  defaults.nodes.resize(1);
  using member = std::decay_t<decltype(where(defaults, 0))>;
  const setting_type type = within.type.value_or(within.choices.empty() ? type_of<member>() : setting_type::choice);
  const auto value = value_of(where(defaults, 0), type);
  return {.row = {.name = std::move(name),
                  .type = type,
                  .default_text = value ? to_toml(*value) : "",
                  .explanation = std::move(explanation),
                  .choices = std::move(within.choices),
                  .minimum = within.minimum,
                  .maximum = within.maximum,
                  .minimum_excluded = within.minimum_excluded,
                  .maximum_excluded = within.maximum_excluded},
          .get = [=](const topology& file, std::size_t index) { return value_of(where(file, index), type); },
          .set = [=](topology& file, std::size_t index, const setting_value& v) { assign(where(file, index), v); }};
}

/// The only format there is, so that a file of a later one is refused rather than misread.
key format_row() {
  return {.row = {.name = "format",
                  .type = setting_type::integer,
                  .default_text = "1",
                  .explanation = "Version of this grammar; a later one is refused rather than misread.",
                  .minimum = 1,
                  .maximum = 1},
          .get = [](const topology&, std::size_t) { return setting_value{std::int64_t{1}}; },
          .set = [](topology&, std::size_t, const setting_value&) {}};
}

/// Has been done away with by the time that keys are read: see parse.cpp. Here so that it is explained.
key extends_row() {
  return {.row = {.name = "extends",
                  .type = setting_type::path,
                  .default_text = "",
                  .explanation = "Another topology file, which says what this one does not. Sections merge key by key, "
                                 "lists are replaced whole; a kind of exchange takes the place of another with its "
                                 "settings. Paths in it begin at its own folder. At most 16 deep."},
          .get = [](const topology&, std::size_t) -> std::optional<setting_value> { return {}; },
          .set = [](topology&, std::size_t, const setting_value&) {}};
}

/// Makes a section that may stand several times.
template <class Section>
section list(std::string name, std::string explanation, std::vector<Section> topology::*tables, std::string needed,
             std::vector<key> keys) {
  return {.name = std::move(name),
          .explanation = std::move(explanation),
          .keys = std::move(keys),
          .needed = std::move(needed),
          .count = [=](const topology& file) { return (file.*tables).size(); },
          .resize = [=](topology& file, std::size_t count) { (file.*tables).resize(count); }};
}

template <class Kind>
std::vector<std::string> names(const std::vector<Kind>& kinds) {
  std::vector<std::string> result;
  for (const Kind& kind : kinds) result.push_back(kind.name);
  return result;
}

std::vector<section> make_sections() {
  using t = topology;
  using run = run_settings;
  using model = model_settings;
  using data = data_settings;
  using augment = augment_settings;
  using optimizer = optimizer_settings;
  using workers = worker_settings;
  using exchange = exchange_settings;
  using evaluate = evaluate_settings;
  using node = node_settings;
  return {
      {"", "At the top of the file, before the first section.", {format_row(), extends_row()}},
      {"run",
       "How long to train, and what a run depends on.",
       {row("seed", in(&t::run, &run::seed), {.minimum = 0},
            "Seed of everything random: initial weights, order of the samples, dropout."),
        row("epochs", in(&t::run, &run::epochs), {.minimum = 0, .maximum = 1e6},
            "Passes over the data; excludes steps. With neither, one epoch."),
        row("steps", in(&t::run, &run::steps), {.minimum = 0, .maximum = 1e12},
            "Steps of each worker; excludes epochs. 0 writes the initial weights."),
        row("threads", in(&t::run, &run::threads), {.minimum = 1, .maximum = 256},
            "Threads inside one worker's tensor operations; another number gives other bits."),
        row("timeout", in(&t::run, &run::timeout), {}, "How long any actor waits for another before the run fails."),
        row("join_timeout", in(&t::run, &run::join_timeout), {},
            "How long nodes wait for each other before the run begins. A run of one node has nobody to wait for."),
        row("max_seconds", in(&t::run, &run::max_seconds),
            {.minimum = 0.001, .maximum = 3.6e7, .type = setting_type::real},
            "Ends the run in good order after so many seconds."),
        row("stop_on_non_finite", in(&t::run, &run::stop_on_non_finite), {},
            "A loss that is nan or inf ends the run, naming step and worker; false lets it go on.")}},
      {"model",
       "The network.",
       {row("name", in(&t::model, &model::name), {.choices = names(models::network_kinds())}, "Which network."),
        row("script", in(&t::model, &model::script), {},
            "A TorchScript file (.pt) to train instead: any module that Python has exported."),
        row("init", in(&t::model, &model::init), {},
            "Weights to start from: safetensors, TorchScript, or a dict of tensors saved by torch.save; else PyTorch's "
            "initialisers under the seed."),
        row("loss", in(&t::model, &model::loss),
            {.choices = {"auto", "cross_entropy", "nll", "binary_cross_entropy", "hinge", "mse"}},
            "Loss, mean over the batch; auto is the one that fits the model's output."),
        row("layers", in(&t::model, &model::layers), {.minimum = 1, .maximum = 1024},
            "Of mlp: hidden layers, else 2; of gpt: blocks, else 4; of wide_resnet: blocks of a group, else 2."),
        row("width", in(&t::model, &model::width), {.minimum = 1, .maximum = 65536},
            "Of mlp: units of a hidden layer, else 128; of gpt: length of an embedding, else 128; of wide_resnet and "
            "wide_resnet_pooled: the factor of their widths, else 10."),
        row("heads", in(&t::model, &model::heads), {.minimum = 1, .maximum = 1024},
            "Of gpt: attention heads, which share the width; else 4."),
        row("dropout", in(&t::model, &model::dropout), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
            "Used by mlp, gpt, wide_resnet and wide_resnet_pooled: share of values that are zeroed in training; else "
            "0, "
            "for wide_resnet_pooled 0.01."),
        row("shortcut", in(&t::model, &model::shortcut), {.choices = {"projection", "pad"}},
            "Used only by resnet20: how a shortcut changes the number of channels. \"projection\" (the default) is a "
            "1x1 convolution with batch norm (He et al. 2016, option B); \"pad\" subsamples and fills the new channels "
            "with zeros (option A)."),
        row("initializer", in(&t::model, &model::initializer), {.choices = {"default", "normal"}},
            "Initial weights: \"default\" uses the initializers of the model; \"normal\" draws the weights of "
            "convolutions and linear layers from N(0, initializer_std^2). model.init, where given, wins."),
        row("initializer_std", in(&t::model, &model::initializer_std), {.minimum = 0, .maximum = 100},
            "Used only when initializer = \"normal\": standard deviation of the weights."),
        row("initializer_bias", in(&t::model, &model::initializer_bias), {.choices = {"default", "zero"}},
            "Used only when initializer = \"normal\": biases of convolutions and linear layers keep the model's "
            "default initializer, or start at zero."),
        row("rank", in(&t::model, &model::rank), {.minimum = 1, .maximum = 4096},
            "Of matrix_completion: length of the factor of a user or an item; else 10."),
        row("sync_batch_norm", in(&t::model, &model::sync_batch_norm), {},
            "Batch norm over the batches of all workers together, forward and backward, by messages in the middle of "
            "both.")}},
      {"data",
       "What is learned from, and how the workers share it.",
       {row("name", in(&t::data, &data::name), {.choices = names(troupe::data::dataset_kinds())}, "Which data set."),
        row("dir", in(&t::data, &data::dir), {},
            "Folder that holds the data sets' folders; else $TROUPE_DATA, else data-cache. digits needs none."),
        row("file", in(&t::data, &data::file), {},
            "Training samples: the user's file of libsvm, triplets, tensors or text; the folder of image_folder."),
        row("test_file", in(&t::data, &data::test_file), {},
            "Validation samples likewise; else the training samples are evaluated."),
        row("mapped", in(&t::data, &data::mapped), {},
            "Of libsvm and triplets: the rows are kept in a file beside theirs and mapped into memory, which they may "
            "exceed."),
        row("rows", in(&t::data, &data::rows), {.minimum = 10, .maximum = 1e9},
            "Of sparse: training samples, 20,000 by default; a tenth as many for validation."),
        row("columns", in(&t::data, &data::columns), {.minimum = 1, .maximum = 2e9},
            "Of sparse: coordinates of a sample, 10,000 by default."),
        row("nonzeros", in(&t::data, &data::nonzeros), {.minimum = 1, .maximum = 1e6},
            "Of sparse: how many of them are not zero, 50 by default."),
        row("skew", in(&t::data, &data::skew), {.minimum = 1, .maximum = 16},
            "Of sparse: 1, the default, all columns are met alike often; above, a few are met by most samples."),
        row("sequence_length", in(&t::data, &data::sequence_length), {.minimum = 1, .maximum = 65536},
            "Of text: characters of a sample, 64 by default."),
        row("random_windows", in(&t::data, &data::random_windows), {},
            "Used only by text: a training sample begins anywhere in the text, drawn anew in each epoch, instead of at "
            "a multiple of sequence_length. With data.validation, the end of the text is held out."),
        row("image_size", in(&t::data, &data::image_size), {.minimum = 1, .maximum = 4096},
            "Of image_folder: height and width; the shorter side is scaled to it and the middle cut out. Else all "
            "images must be of one size."),
        row("validation", in(&t::data, &data::validation),
            {.minimum = 0, .maximum = 1, .minimum_excluded = true, .maximum_excluded = true},
            "Share of the training samples that is held out and evaluated; else the test samples are."),
        row("threads", in(&t::data, &data::threads), {.minimum = 0, .maximum = 256},
            "Threads that read, decode and augment ahead, in each process; 0: none. The bits do not depend on it."),
        row("batch_size", in(&t::data, &data::batch_size), {.minimum = 1, .maximum = 1e6},
            "Samples of one worker's step; excludes global_batch_size."),
        row("global_batch_size", in(&t::data, &data::global_batch_size), {.minimum = 1, .maximum = 1e9},
            "Samples of all workers' steps together; must divide by the number of workers."),
        row("micro_batch_size", in(&t::data, &data::micro_batch_size), {.minimum = 1, .maximum = 1e6},
            "Samples computed at once: a worker's batch is gone through in such parts, whose gradients are "
            "accumulated. "
            "Else the whole batch."),
        row("shuffle", in(&t::data, &data::shuffle), {}, "Each epoch in an order of its own, a function of the seed."),
        row("drop_last", in(&t::data, &data::drop_last), {},
            "Drop the last batch of an epoch if it is smaller than the others, as the PyTorch DataLoader's drop_last "
            "does; false keeps it."),
        row("remainder", in(&t::data, &data::remainder), {.choices = {"drop", "pad"}},
            "What happens when the training set does not divide evenly among the workers: \"drop\" leaves the "
            "remaining samples out of the epoch; \"pad\" repeats samples from its start until every worker has as "
            "many, as PyTorch's DistributedSampler does."),
        row("split", in(&t::data, &data::split), {.choices = {"strided", "contiguous", "all", "dirichlet", "by_label"}},
            "Which samples a worker sees: every n-th of the epoch's order, a fixed block, or all; or, not "
            "independently "
            "and identically distributed, classes in shares drawn from a Dirichlet distribution, or a block of the "
            "samples sorted by class."),
        row("alpha", in(&t::data, &data::alpha), {.minimum = 0, .maximum = 1e6, .minimum_excluded = true},
            "Of split dirichlet: concentration, 0.5 by default; small, a worker sees few classes, large, all of them "
            "alike."),
        row("normalize", in(&t::data, &data::normalize), {}, "Subtract the mean and divide by std, per channel."),
        row("mean", in(&t::data, &data::mean), {.minimum = -1e6, .maximum = 1e6},
            "Mean of each channel, inputs in [0, 1]; else as published."),
        row("std", in(&t::data, &data::std), {.minimum = 0, .maximum = 1e6, .minimum_excluded = true},
            "Standard deviation of each channel; else as published.")}},
      {"augment",
       "Random changes of images in training, as torchvision's: crop, flip, rotation, affine, then colours in an order "
       "that "
       "is drawn. A function of seed, epoch and sample.",
       {row("preset", in(&t::augment, &augment::preset), {.choices = {"none", "crop_flip", "affine_jitter"}},
            "crop_flip: padding of 4, flip; affine_jitter: flip, rotation 10, shear 10, scale 0.8 to 1.2, "
            "brightness, contrast and saturation 0.2, mean and std 0.5. Keys beside it win."),
        row("crop_padding", in(&t::augment, &augment::crop_padding), {.minimum = 0, .maximum = 4096},
            "Pixels of black around an image, out of which its size is cut anywhere."),
        row("flip", in(&t::augment, &augment::flip), {.minimum = 0, .maximum = 1},
            "Probability that left and right are exchanged."),
        row("rotation", in(&t::augment, &augment::rotation), {.minimum = 0, .maximum = 180},
            "Degrees, at most, to either side."),
        row("shear", in(&t::augment, &augment::shear), {.minimum = 0, .maximum = 89},
            "Degrees, at most, to either side, along the rows."),
        row("scale", in(&t::augment, &augment::scale), {.minimum = 0, .maximum = 100, .minimum_excluded = true},
            "Least and most factor of size: [0.8, 1.2]."),
        row("brightness", in(&t::augment, &augment::brightness), {.minimum = 0, .maximum = 100},
            "Factor in 1 ± so much."),
        row("contrast", in(&t::augment, &augment::contrast), {.minimum = 0, .maximum = 100}, "Factor in 1 ± so much."),
        row("saturation", in(&t::augment, &augment::saturation), {.minimum = 0, .maximum = 100},
            "Factor in 1 ± so much."),
        row("hue", in(&t::augment, &augment::hue), {.minimum = 0, .maximum = 0.5},
            "Turn of the colour circle, at most, to either side.")}},
      {"optimizer",
       "The step: of sgd v = momentum·v + g + weight_decay·p; p = p - lr·v.",
       {row("name", in(&t::optimizer, &optimizer::name), {.choices = names(optimizer_kinds())},
            "Optimizer: sgd, adam and adamw as in PyTorch, novograd as in the Python package torch_optimizer."),
        row("lr", in(&t::optimizer, &optimizer::lr), {.minimum = 0, .maximum = 1e6}, "Learning rate."),
        row("momentum", in(&t::optimizer, &optimizer::momentum), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
            "Of sgd: how much of the last step's direction is kept."),
        row("weight_decay", in(&t::optimizer, &optimizer::weight_decay), {.minimum = 0, .maximum = 1e6},
            "How much of the weights is added to the gradient; adamw takes it off the weights instead."),
        row("l2_penalty", in(&t::optimizer, &optimizer::l2_penalty), {.minimum = 0, .maximum = 1e6},
            "Factor of the weights added to the gradient when a worker computes it, before any exchange. weight_decay, "
            "by contrast, acts in the optimizer step, on the weights after the exchange. Both may be set."),
        row("no_decay", in(&t::optimizer, &optimizer::no_decay), {},
            "Name patterns of parameters that get no weight decay, such as [\"*.bias\", \"*bn?.weight\"]; * matches "
            "any text, "
            "? one character."),
        row("decay_min_dims", in(&t::optimizer, &optimizer::decay_min_dims), {.minimum = 0, .maximum = 8},
            "Weight decay applies only to parameters with at least this many dimensions; 2 excludes biases and the "
            "parameters of normalization layers."),
        row("nesterov", in(&t::optimizer, &optimizer::nesterov), {}, "Of sgd: Nesterov's momentum; needs momentum."),
        row("betas", in(&t::optimizer, &optimizer::betas), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
            "Of adam, adamw and novograd: how much is kept of the first and second moment; else [0.9, 0.999], of "
            "novograd [0.95, 0.0]."),
        row("eps", in(&t::optimizer, &optimizer::eps), {.minimum = 0, .maximum = 1, .minimum_excluded = true},
            "Of them: added to the root of the second moment; else 1e-8."),
        row("grad_averaging", in(&t::optimizer, &optimizer::grad_averaging), {},
            "Used only by novograd: multiply the normalized gradient plus weight decay by 1 - beta1 before it enters "
            "the first moment."),
        row("moment_start", in(&t::optimizer, &optimizer::moment_start), {.choices = {"zero", "gradient"}},
            "Used only by novograd: the first moment starts from zero, as in the package torch_optimizer, or is the "
            "first "
            "normalized gradient, as in algorithm 1 of the paper."),
        row("clip_norm", in(&t::optimizer, &optimizer::clip_norm),
            {.minimum = 0, .maximum = 1e9, .minimum_excluded = true},
            "Longest gradient, in Euclidean norm over all parameters; a longer one is scaled down to it before the "
            "step."),
        row("scale_lr", in(&t::optimizer, &optimizer::scale_lr), {.choices = {"none", "linear", "sqrt"}},
            "Multiply lr by k, or by the square root of k, where k = effective batch / base_batch_size. The effective "
            "batch is what one step averages over: the batches of all workers under a synchronous exchange of "
            "gradients. Refused for several workers under any other wiring."),
        row("base_batch_size", in(&t::optimizer, &optimizer::base_batch_size), {.minimum = 1, .maximum = 1e9},
            "Used only with scale_lr: batch size that lr was chosen for; by default one worker's batch. Required "
            "together with data.global_batch_size."),
        row("warmup_epochs", in(&t::optimizer, &optimizer::warmup_epochs), {.minimum = 0, .maximum = 1e6},
            "Number of epochs, or a fraction, over which lr grows linearly from warmup_start * lr."),
        row("warmup_start", in(&t::optimizer, &optimizer::warmup_start), {.minimum = 0, .maximum = 1},
            "Factor of lr that the warm-up begins with."),
        row("schedule", in(&t::optimizer, &optimizer::schedule),
            {.choices = {"constant", "step", "cosine", "polynomial"}},
            "Learning rate after the warm-up: \"constant\"; \"step\" multiplies it by decay_factor after each of "
            "decay_epochs; \"cosine\" and \"polynomial\" take it down to min_lr at the end of the run."),
        row("schedule_by", in(&t::optimizer, &optimizer::schedule_by), {.choices = {"step", "epoch"}},
            "Whether warm-up and schedule change the learning rate after every step or only after every epoch, as a "
            "PyTorch scheduler does whose step() is called once per epoch."),
        row("min_lr", in(&t::optimizer, &optimizer::min_lr), {.minimum = 0, .maximum = 1e6},
            "Used only by the schedules \"cosine\" and \"polynomial\": the learning rate at the end of the run."),
        row("decay_power", in(&t::optimizer, &optimizer::decay_power),
            {.minimum = 0, .maximum = 100, .minimum_excluded = true},
            "Used only by the schedule \"polynomial\": its exponent; 1 is linear decay."),
        row("decay_epochs", in(&t::optimizer, &optimizer::decay_epochs), {.minimum = 0, .maximum = 1e6},
            "Used only by the schedule \"step\": the epochs after which lr is multiplied by decay_factor, ascending."),
        row("decay_factor", in(&t::optimizer, &optimizer::decay_factor), {.minimum = 0, .maximum = 1},
            "Used only by the schedule \"step\": factor of lr at each of decay_epochs.")}},
      {"workers",
       "Who trains, and what a worker does in one step.",
       {row("count", in(&t::workers, &workers::count), {.minimum = 1, .maximum = 4096},
            "Number of workers; with [[node]]s, the sum of theirs."),
        row("loop", in(&t::workers, &workers::loop), {},
            "Words of a step, in order: gradient, apply, exchange or the name of one. Else gradient, the exchange if "
            "there is one, apply."),
        row("precision", in(&t::workers, &workers::precision), {.choices = {"float32", "bfloat16"}},
            "bfloat16: forward and backward passes under autocast; weights, gradients and sums stay float32."),
        row("device", in(&t::workers, &workers::device), {.type = setting_type::devices},
            "Where the workers compute. A list is dealt to the workers of each node in turn, and says how many there "
            "are where count does not; cuda stands for all GPUs there are, auto for the same, or the cpu where there "
            "are none.")}},
      list(
          "exchange",
          "What the workers send each other: one [exchange], or several [[exchange]] with a name each. A kind has "
          "settings of its own.",
          &t::exchanges, "kind",
          {row("name", each(&t::exchanges, &exchange::name), {},
               "What the loop and messages call it; needed where there are several."),
           row("kind", each(&t::exchanges, &exchange::kind), {.choices = names(exchange_kinds())},
               "The wiring. Always needed."),
           row("sends", each(&t::exchanges, &exchange::sends), {.choices = {"gradient", "parameters"}},
               "What a worker puts in; else what the kind is made for."),
           row("members", each(&t::exchanges, &exchange::members), {},
               "Who takes part: workers (w0, w1 …), or names of other exchanges, each for the group of its workers; "
               "else all workers. Who does not passes the word by."),
           row("every", each(&t::exchanges, &exchange::every), {},
               "How often: when the number of completed steps is divisible by it, but not at 0 (except elastic with "
               "apply = \"each\" placed before \"apply\" in the loop, which begins at 0). The default is each step.")}),
      {"evaluate",
       "Validation while training; the end is always evaluated.",
       {row("every", in(&t::evaluate, &evaluate::every), {}, "How often."),
        row("batch_size", in(&t::evaluate, &evaluate::batch_size), {.minimum = 1, .maximum = 1e6},
            "Samples evaluated at once. Without drop_last, this changes memory and time only."),
        row("target_accuracy", in(&t::evaluate, &evaluate::target_accuracy),
            {.minimum = 0, .maximum = 1, .minimum_excluded = true}, "Stop once validation accuracy reaches it."),
        row("target_hold", in(&t::evaluate, &evaluate::target_hold), {.minimum = 1, .maximum = 1e6},
            "Evaluations in a row that must reach target_accuracy."),
        row("top_k", in(&t::evaluate, &evaluate::top_k), {.minimum = 1, .maximum = 1e6},
            "Also counts how often the class is among the k highest scores."),
        row("drop_last", in(&t::evaluate, &evaluate::drop_last), {},
            "Drop the last batch of an evaluation if it is smaller than evaluate.batch_size."),
        row("split", in(&t::evaluate, &evaluate::split), {.choices = {"whole", "workers"}},
            "\"whole\" evaluates the validation set once; \"workers\" divides it among the workers as "
            "DistributedSampler does, without shuffling, evaluates each share, and reports the mean of the shares."),
        row("buffers", in(&t::evaluate, &evaluate::buffers), {.choices = {"mean", "first"}},
            "Running statistics of batch norm in the result, where the workers' differ: the mean over the workers, or "
            "those of the first worker, as PyTorch's DDP with broadcast_buffers keeps them."),
        row("pause_training", in(&t::evaluate, &evaluate::pause_training), {},
            "Let the workers wait until an evaluation is done, so that it takes no processor time from them."),
        row("patience", in(&t::evaluate, &evaluate::patience), {.minimum = 1, .maximum = 1e6},
            "Stop after so many evaluations in a row without improvement: of the accuracy, or where there is none of "
            "the "
            "loss.")}},
      list("node",
           "A process that runs some of the workers: a [[node]] for each, where there are several. Ranks count through "
           "the nodes in their order.",
           &t::nodes, "name",
           {row("name", each(&t::nodes, &node::name), {},
                "What messages call it; letters, digits, - and _. Always needed."),
            row("address", each(&t::nodes, &node::address), {.type = setting_type::endpoint},
                "Where other nodes reach it; tensors come in on the next port. Port 0: two free ones, chosen at the "
                "start."),
            row("listen", each(&t::nodes, &node::listen), {.type = setting_type::endpoint},
                "What it binds instead, where that is not its address. For now only loopback may be listened on: "
                "localhost, 127.0.0.0/8, ::1."),
            row("workers", each(&t::nodes, &node::workers), {.minimum = 1, .maximum = 4096},
                "How many of the workers it runs; workers.count is the sum.")}),
  };
}

}  // namespace

const std::vector<section>& sections() {
  static const std::vector<section> all = make_sections();
  return all;
}

const section* find_section(const std::string& name) {
  const auto found =
      std::find_if(sections().begin(), sections().end(), [&](const section& each) { return each.name == name; });
  return found == sections().end() ? nullptr : &*found;
}

const key* find_key(const section& section, const std::string& name) {
  const auto found =
      std::find_if(section.keys.begin(), section.keys.end(), [&](const key& each) { return each.row.name == name; });
  return found == section.keys.end() ? nullptr : &*found;
}

std::vector<std::string> section_names() {
  std::vector<std::string> result;
  for (const section& each : sections()) {
    if (!each.name.empty()) result.push_back(each.name);
  }
  return result;
}

std::vector<std::string> key_names(const section& section) {
  std::vector<std::string> result;
  for (const key& each : section.keys) result.push_back(each.row.name);
  return result;
}

std::vector<line> lines_of(const section& section, const topology& file, std::size_t index) {
  std::vector<line> lines;
  for (const key& each : section.keys) {
    const bool decided = std::any_of(exclusions().begin(), exclusions().end(), [&](const exclusion& pair) {
      return pair.section == section.name && pair.first == each.row.name &&
             find_key(section, pair.second)->get(file, index);
    });
    const auto value = each.get(file, index);
    if (value && !decided) lines.push_back({each.row.name, to_toml(*value), each.row.type});
  }
  if (section.name != "exchange") return lines;
  const exchange_settings& exchange = file.exchanges[index];
  const exchange_kind* kind = find_exchange(exchange.kind);
  for (const auto& [name, value] : exchange.options) {
    const auto is_it = [&](const setting& row) { return row.name == name; };
    setting_type type = setting_type::text;
    if (kind != nullptr) {
      const auto row = std::find_if(kind->settings.begin(), kind->settings.end(), is_it);
      if (row != kind->settings.end()) type = row->type;
    }
    lines.push_back({name, to_toml(value), type});
  }
  return lines;
}

const std::vector<exclusion>& exclusions() {
  static const std::vector<exclusion> all = {
      {"run", "epochs", "steps"}, {"data", "batch_size", "global_batch_size"}, {"model", "name", "script"}};
  return all;
}

}  // namespace troupe::topology
