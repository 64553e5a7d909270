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

// How a setting_value holds a member. -----------------------------------------------------------------------------

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

/// Returns a function that accesses a member of a section's struct (in), or of a list of such structs (each).
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
  std::optional<setting_type> type{};  ///< Type in the file, where it differs from the member's own.
};

/// Makes a key. Its type and default are those of the member, so that they are defined in one place.
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

/// Makes the key `format`. Only format 1 exists, so a file of a later one is refused rather than misread.
key format_row() {
  return {
      .row = {.name = "format",
              .type = setting_type::integer,
              .default_text = "1",
              .explanation = "Version of the file format. A file of a later version is refused rather than misread.",
              .minimum = 1,
              .maximum = 1},
      .get = [](const topology&, std::size_t) { return setting_value{std::int64_t{1}}; },
      .set = [](topology&, std::size_t, const setting_value&) {}};
}

/// Makes the key `extends`. parse.cpp removes it before keys are read; this row only documents it.
key extends_row() {
  return {.row = {.name = "extends",
                  .type = setting_type::path,
                  .default_text = "",
                  .explanation =
                      "Path of another topology file, which provides every key that this file leaves out. Sections are "
                      "merged key by key; lists are replaced as a whole. If this file names another kind of exchange, "
                      "the settings that belong only to the other file's kind are dropped. Paths in the other file are "
                      "relative to its own folder. Files may extend each other up to 16 levels deep."},
          .get = [](const topology&, std::size_t) -> std::optional<setting_value> { return {}; },
          .set = [](topology&, std::size_t, const setting_value&) {}};
}

/// Makes a section that may appear several times.
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
  using checkpoint = checkpoint_settings;
  using node = node_settings;
  return {
      {"", "Keys before the first section.", {format_row(), extends_row()}},
      {"run",
       "How long to train, the random seed, and what ends a run early.",
       {row("seed", in(&t::run, &run::seed), {.minimum = 0},
            "Seed of everything random, such as the initial weights, the order of the samples and dropout, except the "
            "random graph of a gossip exchange (exchange.graph_seed)."),
        row("epochs", in(&t::run, &run::epochs), {.minimum = 0, .maximum = 1e6},
            "Number of passes over the training data. Cannot be combined with steps. If neither is set, the run takes "
            "one epoch."),
        row("steps", in(&t::run, &run::steps), {.minimum = 0, .maximum = 1e12},
            "Number of steps that each worker takes; with run.budget = \"total\", the average over the workers. Cannot "
            "be "
            "combined with epochs. With 0, the run only writes the initial weights."),
        row("budget", in(&t::run, &run::budget), {.choices = {"worker", "total"}},
            "How the steps of the run are divided among n workers: with \"worker\", each worker takes all of them; "
            "with "
            "\"total\", the workers together take n times as many, and faster workers take more of them. With "
            "\"total\", batches come from one queue, and epochs, schedules and evaluations count the steps of all "
            "workers divided by n. \"total\" requires a wiring in which no worker waits for another."),
        row("threads", in(&t::run, &run::threads), {.minimum = 1, .maximum = 256},
            "Number of threads inside the tensor operations of one worker. Changing it may change the last bits of the "
            "results."),
        row("timeout", in(&t::run, &run::timeout), {},
            "How long a worker, a server or another part of the run waits for another one before the run fails."),
        row("join_timeout", in(&t::run, &run::join_timeout), {},
            "How long the processes of a run, one for each [[node]] section, wait for all of them to connect before "
            "training begins. `troupe run`, which starts all of them, waits no longer than run.timeout. Used only with "
            "[[node]] sections."),
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
            "continues.")}},
      {"model",
       "The network, its initial weights and its loss.",
       {row("name", in(&t::model, &model::name), {.choices = names(models::network_kinds())},
            "Network to train. `troupe list models` describes each one."),
        row("script", in(&t::model, &model::script), {},
            "TorchScript file (.pt) to train instead of a built-in network. It may hold any module exported from "
            "Python."),
        row("init", in(&t::model, &model::init), {},
            "File with the weights to start from: safetensors, TorchScript, or a dict of tensors saved by torch.save. "
            "Without it, PyTorch's initializers draw the weights from run.seed."),
        row("loss", in(&t::model, &model::loss),
            {.choices = {"auto", "cross_entropy", "nll", "binary_cross_entropy", "hinge", "mse"}},
            "Loss function, averaged over the batch. \"auto\" selects the one that fits the model's output."),
        row("layers", in(&t::model, &model::layers), {.minimum = 1, .maximum = 1024},
            "Number of layers. Used only by mlp (hidden layers, 2 by default), gpt (blocks, 4 by default) and "
            "wide_resnet (blocks per group, 2 by default)."),
        row("width", in(&t::model, &model::width), {.minimum = 1, .maximum = 65536},
            "Width of the layers. Used only by mlp (units per hidden layer, 128 by default), gpt (length of an "
            "embedding, 128 by default), and wide_resnet and wide_resnet_pooled (widening factor, 10 by default)."),
        row("heads", in(&t::model, &model::heads), {.minimum = 1, .maximum = 1024},
            "Number of attention heads. The width is divided among them, so it must be a multiple of this number. Used "
            "only by gpt, where it defaults to 4."),
        row("dropout", in(&t::model, &model::dropout), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
            "Fraction of the values that dropout sets to zero during training. Used only by mlp, gpt and wide_resnet "
            "(0 by default) and wide_resnet_pooled (0.01 by default)."),
        row("shortcut", in(&t::model, &model::shortcut), {.choices = {"projection", "pad"}},
            "How a shortcut changes the number of channels: \"projection\" (the default) uses a 1x1 convolution with "
            "batch norm (He et al. 2016, option B); \"pad\" subsamples and fills the new channels with zeros (option "
            "A). Used only by resnet20."),
        row("initializer", in(&t::model, &model::initializer), {.choices = {"default", "normal"}},
            "How initial weights are chosen: \"default\" uses the model's own initializers; \"normal\" draws the "
            "weights of convolutions and linear layers from N(0, initializer_std^2). Weights loaded by init take "
            "precedence."),
        row("initializer_std", in(&t::model, &model::initializer_std), {.minimum = 0, .maximum = 100},
            "Standard deviation of the initial weights. Used only when initializer = \"normal\"."),
        row("initializer_bias", in(&t::model, &model::initializer_bias), {.choices = {"default", "zero"}},
            "Initial biases of convolutions and linear layers: \"default\" uses the model's own initializer; \"zero\" "
            "sets them to zero. Used only when initializer = \"normal\"."),
        row("rank", in(&t::model, &model::rank), {.minimum = 1, .maximum = 4096},
            "Length of the factor of each user and of each item. Used only by matrix_completion, where it defaults to "
            "10."),
        row("sync_batch_norm", in(&t::model, &model::sync_batch_norm), {},
            "Whether batch norm uses the statistics of all workers' batches together. The workers then exchange "
            "messages in the middle of each forward and backward pass.")}},
      {"data",
       "The training and validation samples, and how the workers share them.",
       {row("name", in(&t::data, &data::name), {.choices = names(troupe::data::dataset_kinds())},
            "Data set to train on. `troupe list data` describes each one."),
        row("dir", in(&t::data, &data::dir), {},
            "Folder that contains the folders of the data sets. Defaults to $TROUPE_DATA, or to data-cache if that is "
            "not set. Not needed by digits and sparse, which are built in."),
        row("file", in(&t::data, &data::file), {},
            "Your own training samples: a file or, for image_folder, a folder. Used only by libsvm, triplets, tensors, "
            "text "
            "and image_folder."),
        row("test_file", in(&t::data, &data::test_file), {},
            "Your own test samples, in the same format as file and used only by the same data sets. Without it, "
            "the training samples are evaluated, unless data.validation holds some of them out."),
        row("mapped", in(&t::data, &data::mapped), {},
            "Whether to keep the rows in a file next to the original one and to map it into memory, so that the data "
            "may be larger than memory. Used only by libsvm and triplets, where it defaults to false."),
        row("rows", in(&t::data, &data::rows), {.minimum = 10, .maximum = 1e9},
            "Number of training samples that the data set \"sparse\" generates; its test set has a tenth as many. Used "
            "only "
            "by sparse, where it defaults to 20,000."),
        row("columns", in(&t::data, &data::columns), {.minimum = 1, .maximum = 2e9},
            "Number of coordinates of a sample of the data set \"sparse\". Used only by sparse, where it defaults to "
            "10,000."),
        row("nonzeros", in(&t::data, &data::nonzeros), {.minimum = 1, .maximum = 1e6},
            "Number of coordinates of a sample of the data set \"sparse\" that are not zero. Used only by sparse, "
            "where "
            "it defaults to 50."),
        row("skew", in(&t::data, &data::skew), {.minimum = 1, .maximum = 16},
            "How unevenly the nonzero coordinates are spread over the columns: with 1 (the default), all columns occur "
            "equally often; with a larger value, a few columns occur in most samples. Used only by sparse."),
        row("sequence_length", in(&t::data, &data::sequence_length), {.minimum = 1, .maximum = 65536},
            "Number of characters in a sample. Used only by text, where it defaults to 64."),
        row("random_windows", in(&t::data, &data::random_windows), {},
            "Whether a training sample begins anywhere in the text, drawn anew in each epoch, instead of at a multiple "
            "of sequence_length. If data.validation is set, the end of the text is held out. Used only by text, where "
            "it defaults to false."),
        row("image_size", in(&t::data, &data::image_size), {.minimum = 1, .maximum = 4096},
            "Height and width of a sample in pixels: the shorter side of each image is scaled to this size, and the "
            "centre is cut out. Without it, all images must have the same size. Used only by image_folder."),
        row("validation", in(&t::data, &data::validation),
            {.minimum = 0, .maximum = 1, .minimum_excluded = true, .maximum_excluded = true},
            "Fraction of the training samples to hold out and evaluate. Without it, the test samples are evaluated, or "
            "the training samples if there are no test samples."),
        row("threads", in(&t::data, &data::threads), {.minimum = 0, .maximum = 256},
            "Number of threads in each process that read, decode and augment batches ahead of time; 0 means none. "
            "Defaults to one per worker, but at most half the CPU cores. The number does not affect the results."),
        row("batch_size", in(&t::data, &data::batch_size), {.minimum = 1, .maximum = 1e6},
            "Number of samples in one step of one worker. Cannot be combined with global_batch_size."),
        row("global_batch_size", in(&t::data, &data::global_batch_size), {.minimum = 1, .maximum = 1e9},
            "Number of samples in one step of all workers together. Must be a multiple of the number of workers. "
            "Cannot be combined with batch_size."),
        row("micro_batch_size", in(&t::data, &data::micro_batch_size), {.minimum = 1, .maximum = 1e6},
            "Number of samples to compute at once: a worker splits its batch into parts of this size and accumulates "
            "their gradients. Must divide the worker's batch size. Defaults to the whole batch."),
        row("shuffle", in(&t::data, &data::shuffle), {},
            "Whether each epoch visits the samples in a new order, which is a function of run.seed."),
        row("drop_last", in(&t::data, &data::drop_last), {},
            "Whether to drop the last batch of an epoch if it is smaller than the others, as drop_last of the PyTorch "
            "DataLoader does."),
        row("remainder", in(&t::data, &data::remainder), {.choices = {"drop", "pad"}},
            "What happens when the training set does not divide evenly among the workers: \"drop\" leaves the "
            "remaining samples out of the epoch; \"pad\" repeats the first samples of the epoch until every worker has "
            "the same number, as PyTorch's DistributedSampler does. \"pad\" requires split = \"strided\"."),
        row("split", in(&t::data, &data::split), {.choices = {"strided", "contiguous", "all", "dirichlet", "by_label"}},
            "Which samples a worker trains on: \"strided\" deals the samples of an epoch to the workers in turn; "
            "\"contiguous\" gives each worker a fixed block; \"all\" gives each worker the whole set. Two choices are "
            "not independent and identically distributed: \"dirichlet\" draws each worker's shares of the classes from "
            "a Dirichlet distribution; \"by_label\" gives each worker a block of the samples sorted by class."),
        row("alpha", in(&t::data, &data::alpha), {.minimum = 0, .maximum = 1e6, .minimum_excluded = true},
            "Concentration of the Dirichlet distribution that divides the samples of each class among the workers: "
            "with a "
            "small value, a worker sees few classes; with a large "
            "one, all workers see nearly the same mixture of classes. Used only when split = \"dirichlet\", where it "
            "defaults to 0.5."),
        row("normalize", in(&t::data, &data::normalize), {},
            "Whether to subtract the mean of each channel and divide by its standard deviation."),
        row("mean", in(&t::data, &data::mean), {.minimum = -1e6, .maximum = 1e6},
            "Mean of each channel, for inputs in [0, 1]. Must be set together with std. Defaults to the value "
            "published for the data set, if there is one. Used only for images, with data.normalize = true."),
        row("std", in(&t::data, &data::std), {.minimum = 0, .maximum = 1e6, .minimum_excluded = true},
            "Standard deviation of each channel, for inputs in [0, 1]. Must be set together with mean. Defaults to the "
            "value published for the data set, if there is one. Used only for images, with data.normalize = true.")}},
      {"augment",
       "Random changes to training images, with the same meaning as in torchvision and in this order: crop, flip, "
       "rotation, affine, and then the colour changes in an order drawn at random. Each change is a function of the "
       "seed, the epoch and the sample.",
       {row("preset", in(&t::augment, &augment::preset), {.choices = {"none", "crop_flip", "affine_jitter"}},
            "Set of changes that the other keys of this section may override. \"crop_flip\" sets crop_padding 4 and "
            "flip 0.5. \"affine_jitter\" sets flip 0.5, rotation 10, shear 10, scale [0.8, 1.2], and brightness, "
            "contrast and saturation 0.2; it also normalizes with a mean and standard deviation of 0.5."),
        row("crop_padding", in(&t::augment, &augment::crop_padding), {.minimum = 0, .maximum = 4096},
            "Number of black pixels added on each side of an image before a random crop to its original size."),
        row("flip", in(&t::augment, &augment::flip), {.minimum = 0, .maximum = 1},
            "Probability that an image is mirrored left to right."),
        row("rotation", in(&t::augment, &augment::rotation), {.minimum = 0, .maximum = 180},
            "Largest angle of rotation, in degrees, in either direction."),
        row("shear", in(&t::augment, &augment::shear), {.minimum = 0, .maximum = 89},
            "Largest angle of shear along the rows, in degrees, in either direction."),
        row("scale", in(&t::augment, &augment::scale), {.minimum = 0, .maximum = 100, .minimum_excluded = true},
            "Smallest and largest factor by which an image is scaled, such as [0.8, 1.2]."),
        row("brightness", in(&t::augment, &augment::brightness), {.minimum = 0, .maximum = 100},
            "Largest change of the brightness factor, which is drawn from 1 ± this value."),
        row("contrast", in(&t::augment, &augment::contrast), {.minimum = 0, .maximum = 100},
            "Largest change of the contrast factor, which is drawn from 1 ± this value."),
        row("saturation", in(&t::augment, &augment::saturation), {.minimum = 0, .maximum = 100},
            "Largest change of the saturation factor, which is drawn from 1 ± this value."),
        row("hue", in(&t::augment, &augment::hue), {.minimum = 0, .maximum = 0.5},
            "Largest shift of the hue in either direction, as a fraction of the colour circle.")}},
      {"optimizer",
       "The optimizer and its learning rate. sgd computes v = momentum·v + g + weight_decay·p and then p = p - lr·v; "
       "`troupe list optimizers` describes the others.",
       {row("name", in(&t::optimizer, &optimizer::name), {.choices = names(optimizer_kinds())},
            "Optimizer that applies the gradient. sgd, adam and adamw are those of PyTorch; novograd is that of the "
            "Python package torch_optimizer."),
        row("lr", in(&t::optimizer, &optimizer::lr), {.minimum = 0, .maximum = 1e6},
            "Learning rate, before warm-up and schedule change it."),
        row("momentum", in(&t::optimizer, &optimizer::momentum), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
            "Fraction of the previous step's direction that is kept. Used only by sgd."),
        row("weight_decay", in(&t::optimizer, &optimizer::weight_decay), {.minimum = 0, .maximum = 1e6},
            "Fraction of the weights that the optimizer step adds to the gradient; adamw instead subtracts lr times "
            "this "
            "fraction from the weights."),
        row("l2_penalty", in(&t::optimizer, &optimizer::l2_penalty), {.minimum = 0, .maximum = 1e6},
            "Factor λ: each worker adds λ times the weights to its gradient, before any exchange. By contrast, "
            "weight_decay acts in the optimizer step, after the exchange. Both may be set."),
        row("no_decay", in(&t::optimizer, &optimizer::no_decay), {},
            "Name patterns of parameters without weight decay, such as [\"*.bias\", \"*bn?.weight\"]. In a pattern, * "
            "matches any text and ? matches one character."),
        row("decay_min_dims", in(&t::optimizer, &optimizer::decay_min_dims), {.minimum = 0, .maximum = 8},
            "Smallest number of dimensions of a parameter to which weight decay applies. 2 excludes biases and the "
            "parameters of normalization layers."),
        row("nesterov", in(&t::optimizer, &optimizer::nesterov), {},
            "Whether to use Nesterov momentum. Requires momentum above 0. Used only by sgd."),
        row("betas", in(&t::optimizer, &optimizer::betas), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
            "Fractions of the first and of the second moment that are kept in each step. Used only by adam and adamw "
            "([0.9, 0.999] by default) and novograd ([0.95, 0.0] by default)."),
        row("eps", in(&t::optimizer, &optimizer::eps), {.minimum = 0, .maximum = 1, .minimum_excluded = true},
            "Number added to the root of the second moment, to avoid division by zero. Used only by adam, adamw and "
            "novograd, where it defaults to 1e-8."),
        row("grad_averaging", in(&t::optimizer, &optimizer::grad_averaging), {},
            "Whether to multiply the normalized gradient plus weight decay by 1 - beta1 before it enters the first "
            "moment. Used only by novograd."),
        row("moment_start", in(&t::optimizer, &optimizer::moment_start), {.choices = {"zero", "gradient"}},
            "Initial value of the first moment: \"zero\", as in the package torch_optimizer, or \"gradient\", the "
            "first normalized gradient, as in algorithm 1 of the paper. Used only by novograd."),
        row("clip_norm", in(&t::optimizer, &optimizer::clip_norm),
            {.minimum = 0, .maximum = 1e9, .minimum_excluded = true},
            "Largest Euclidean norm, over all parameters, of the gradient that an optimizer step applies (if gradients "
            "are "
            "exchanged synchronously, of their mean over the workers). A gradient with a larger norm is scaled down to "
            "it. Without it, gradients are not clipped."),
        row("scale_lr", in(&t::optimizer, &optimizer::scale_lr), {.choices = {"none", "linear", "sqrt"}},
            "How lr grows with the batch: \"linear\" multiplies it by k and \"sqrt\" by the square root of k, where k "
            "= effective batch / base_batch_size. The effective batch is the number of samples that one step averages "
            "over, which under a synchronous exchange of gradients is the sum of all workers' batches. With several "
            "workers, any other wiring is refused."),
        row("base_batch_size", in(&t::optimizer, &optimizer::base_batch_size), {.minimum = 1, .maximum = 1e9},
            "Batch size for which lr was chosen; scale_lr scales lr by the ratio of the effective batch to it. "
            "Defaults to one worker's batch size; required if "
            "data.global_batch_size is set. Used only when scale_lr = \"linear\" or \"sqrt\"."),
        row("warmup_epochs", in(&t::optimizer, &optimizer::warmup_epochs), {.minimum = 0, .maximum = 1e6},
            "Number of epochs, not necessarily whole, over which the learning rate grows linearly from warmup_start * "
            "lr to lr."),
        row("warmup_start", in(&t::optimizer, &optimizer::warmup_start), {.minimum = 0, .maximum = 1},
            "Factor of lr with which the warm-up begins. Used only when warmup_epochs is above 0."),
        row("schedule", in(&t::optimizer, &optimizer::schedule),
            {.choices = {"constant", "step", "cosine", "polynomial"}},
            "Learning rate after the warm-up: \"constant\" keeps it; \"step\" multiplies it by decay_factor after each "
            "epoch listed in decay_epochs; \"cosine\" and \"polynomial\" lower it to min_lr at the end of the run."),
        row("schedule_by", in(&t::optimizer, &optimizer::schedule_by), {.choices = {"step", "epoch"}},
            "Whether warm-up and schedule change the learning rate after every step, or only after every epoch, like a "
            "PyTorch scheduler whose step() is called once per epoch."),
        row("min_lr", in(&t::optimizer, &optimizer::min_lr), {.minimum = 0, .maximum = 1e6},
            "Learning rate at the end of the run. Used only when schedule = \"cosine\" or \"polynomial\"."),
        row("decay_power", in(&t::optimizer, &optimizer::decay_power),
            {.minimum = 0, .maximum = 100, .minimum_excluded = true},
            "Exponent of the polynomial; 1 is linear decay. Used only when schedule = \"polynomial\"."),
        row("decay_epochs", in(&t::optimizer, &optimizer::decay_epochs), {.minimum = 0, .maximum = 1e6},
            "Epochs after which the learning rate is multiplied by decay_factor, in ascending order. Used only when "
            "schedule = \"step\", which requires it."),
        row("decay_factor", in(&t::optimizer, &optimizer::decay_factor), {.minimum = 0, .maximum = 1},
            "Factor applied to the learning rate after each of decay_epochs. Used only when schedule = \"step\".")}},
      {"workers",
       "How many workers train, on which devices, and what a worker does in one step.",
       {row("count", in(&t::workers, &workers::count), {.minimum = 1, .maximum = 4096},
            "Number of workers. With [[node]] sections, it defaults to the sum of their workers and must equal it."),
        row("loop", in(&t::workers, &workers::loop), {},
            "Operations of one step, in order: \"gradient\", \"apply\", and the name of each exchange (\"exchange\" "
            "for one without a name). By default, exchanges come between \"gradient\" and \"apply\", with two "
            "exceptions: "
            "an all_reduce of parameters comes after \"apply\", and a parameter_server takes its place. An exchange of "
            "kind shared is not part of the loop."),
        row("precision", in(&t::workers, &workers::precision), {.choices = {"float32", "bfloat16"}},
            "Number format of the forward and backward passes. \"bfloat16\" runs them under autocast; weights, "
            "gradients and sums stay float32."),
        row("device", in(&t::workers, &workers::device), {.type = setting_type::devices},
            "Devices on which the workers compute. A list is dealt out to the workers of each node in turn; it also "
            "sets the number of workers if neither count nor a [[node]] does. \"cuda\" means all GPUs of the machine; "
            "\"auto\" means the same, or the CPU if there are none.")}},
      list("exchange",
           "What the workers send each other: one [exchange] section, or several [[exchange]] sections with a name "
           "each. Every kind of exchange has additional settings of its own.",
           &t::exchanges, "kind",
           {row("name", each(&t::exchanges, &exchange::name), {},
                "Name of the exchange, used in workers.loop and in the output of troupe. Required if there are several "
                "exchanges."),
            row("kind", each(&t::exchanges, &exchange::kind), {.choices = names(exchange_kinds())},
                "Algorithm of the exchange. Required. `troupe list exchanges` describes each one."),
            row("sends", each(&t::exchanges, &exchange::sends), {.choices = {"gradient", "parameters"}},
                "What a worker contributes. Defaults to the gradient or the parameters according to the kind; `troupe "
                "list exchanges` names the default first."),
            row("members", each(&t::exchanges, &exchange::members), {},
                "Participants: workers (w0, w1, …), or names of other exchanges, each of which stands for the group of "
                "its workers. Defaults to all workers. Other workers skip this exchange."),
            row("every", each(&t::exchanges, &exchange::every), {},
                "Interval between exchanges, in steps or epochs; by default every step. With an interval of 4, an "
                "exchange after \"apply\" takes place in steps 4, 8, 12 …, and one before \"apply\" in steps 5, 9, 13 "
                "…. One exception: an elastic exchange with apply = \"each\" that precedes \"apply\" also takes place "
                "in step 1. A parameter_server takes part in every step."),
            row("encoding", each(&t::exchanges, &exchange::encoding), {.choices = {"float32", "bf16"}},
                "Number format of the tensors on their way. \"bf16\" rounds each value that is sent to the nearest "
                "bfloat16, so messages have half the size; receivers compute in float32. All members still get the "
                "same answer wherever they did before. Meant for gradients: parameters lose the digits that bfloat16 "
                "does not have.")}),
      {"evaluate",
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
            "How the validation set is evaluated: \"whole\" evaluates it once; \"workers\" divides it among the "
            "workers as DistributedSampler does, without shuffling, evaluates each share, and reports the mean of the "
            "shares."),
        row("buffers", in(&t::evaluate, &evaluate::buffers), {.choices = {"mean", "first"}},
            "Running statistics of batch norm in the result, where those of the workers differ: \"mean\" averages them "
            "over the workers; \"first\" takes those of the first worker, which PyTorch's DDP keeps with "
            "broadcast_buffers."),
        row("each_worker", in(&t::evaluate, &evaluate::each_worker), {},
            "Whether to measure the accuracy of each worker's own parameters, too (val_accuracy_workers in "
            "metrics.jsonl). Requires a wiring in which the workers' parameters differ. Each worker adds an "
            "evaluation of the whole validation set."),
        row("pause_training", in(&t::evaluate, &evaluate::pause_training), {},
            "Whether the workers wait until an evaluation is done, so that it does not take processor time from them."),
        row("patience", in(&t::evaluate, &evaluate::patience), {.minimum = 1, .maximum = 1e6},
            "Number of evaluations in a row without improvement after which training stops. What counts is the "
            "accuracy, or the loss if there is no accuracy. Without it, training continues even if nothing "
            "improves.")}},
      {"checkpoint",
       "Checkpoints, from which `troupe run --resume` continues an interrupted run. They are written to the folder "
       "checkpoints in the results folder while training continues.",
       {row("every", in(&t::checkpoint, &checkpoint::every), {},
            "Interval between checkpoints, in steps or epochs. Every worker stops at that step until the state of the "
            "run has been collected, also in asynchronous wirings. A checkpoint that is due while the previous one is "
            "still being written is skipped. Without it, no checkpoints are written."),
        row("keep", in(&t::checkpoint, &checkpoint::keep), {.minimum = 1, .maximum = 1e6},
            "Number of checkpoints to keep. When a new one is complete, older ones are removed. Used only when every "
            "is set."),
        row("copies", in(&t::checkpoint, &checkpoint::copies), {.minimum = 1, .maximum = 2},
            "Number of nodes that keep each checkpoint. At present, only the first node can, so it must be 1.")}},
      list("node",
           "A process that runs some of the workers. With several processes, there is one [[node]] section for each. "
           "Workers are numbered through the nodes in the order of the file.",
           &t::nodes, "name",
           {row("name", each(&t::nodes, &node::name), {},
                "Name of the node, which messages and `troupe node --name` refer to. It consists of at most 64 "
                "letters, digits, - and _. Required."),
            row("address", each(&t::nodes, &node::address), {.type = setting_type::endpoint},
                "Address at which other nodes reach this node. Tensors use the port one higher. Port 0 stands for two "
                "free ports that are chosen at the start. At present it must be a loopback address: localhost, "
                "127.0.0.0/8 or ::1."),
            row("listen", each(&t::nodes, &node::listen), {.type = setting_type::endpoint},
                "Local address to bind, if another program forwards connections from `address` to it. Otherwise leave "
                "it "
                "out. Defaults to address. At present it must be a loopback address: localhost, 127.0.0.0/8 or ::1."),
            row("workers", each(&t::nodes, &node::workers), {.minimum = 1, .maximum = 4096},
                "Number of workers that this node runs.")}),
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
