// The sections that describe what is trained, on which data and how.
#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/runtime/topology/schema_rows.hpp"

#include <algorithm>

namespace troupe::topology::rows {

namespace {

std::vector<std::string> auto_and(std::vector<std::string> names) {
  names.insert(names.begin(), "auto");
  return names;
}

}  // namespace

section model_section() {
  using t = topology;
  using model = model_settings;
  section made{
      "model",
      "The network, its initial weights and its loss.",
      {row("name", in(&t::model, &model::name), {.choices = names(models::network_kinds())},
           "Network to train. `troupe list models` describes each one."),
       row("exported", in(&t::model, &model::exported), {},
           "File of torch.export.save (.pt2) with a module to train instead of a built-in network. Training starts "
           "from its weights."),
       row("script", in(&t::model, &model::script), {},
           "TorchScript file (.pt) to train instead of a built-in network. PyTorch deprecated the format in 2.11; "
           "use exported."),
       row("init", in(&t::model, &model::init), {},
           "File with the weights to start from: safetensors, an exported program, TorchScript, or a dict of tensors "
           "saved by torch.save. Without it, PyTorch's initializers draw the weights from run.seed."),
       row("loss", in(&t::model, &model::loss), {.choices = auto_and(names(models::loss_kinds()))},
           "Loss function, averaged over the batch. \"auto\" selects the one that fits the model's output. `troupe "
           "list "
           "losses` describes each one."),
       row("layers", in(&t::model, &model::layers), {.minimum = 1, .maximum = 1024},
           "Number of layers. Used only by mlp (hidden layers, 2 by default), gpt (blocks, 4 by default) and "
           "wide_resnet (blocks per group, 2 by default)."),
       row("width", in(&t::model, &model::width), {.minimum = 1, .maximum = 65536},
           "Width of the layers. Used only by mlp (units per hidden layer, 128 by default), gpt (length of an "
           "embedding, 128 by default), and wide_resnet and wide_resnet_pooled (widening factor, 10 by default)."),
       row("heads", in(&t::model, &model::heads), {.minimum = 1, .maximum = 1024},
           "Number of attention heads. The width is divided among them, so it must be a multiple of this number. "
           "Used only by gpt, where it defaults to 4."),
       row("dropout", in(&t::model, &model::dropout), {.minimum = 0, .maximum = 1, .maximum_excluded = true},
           "Fraction of the values that dropout sets to zero during training. Used only by mlp, gpt and "
           "wide_resnet (0 by default) and wide_resnet_pooled (0.01 by default)."),
       row("shortcut", in(&t::model, &model::shortcut), {.choices = {"projection", "pad"}},
           "How a shortcut changes the number of channels: \"projection\" (the default) uses a 1x1 convolution "
           "with batch norm (He et al. 2016, option B); \"pad\" subsamples and fills the new channels with zeros "
           "(option A). Used only by resnet20."),
       row("initializer", in(&t::model, &model::initializer), {.choices = {"default", "normal"}},
           "How initial weights are chosen: \"default\" uses the model's own initializers; \"normal\" draws the "
           "weights of convolutions and linear layers from N(0, initializer_std^2). Weights loaded by init take "
           "precedence."),
       row("initializer_std", in(&t::model, &model::initializer_std), {.minimum = 0, .maximum = 100},
           "Standard deviation of the initial weights. Used only when initializer = \"normal\"."),
       row("initializer_bias", in(&t::model, &model::initializer_bias), {.choices = {"default", "zero"}},
           "Initial biases of convolutions and linear layers: \"default\" uses the model's own initializer; "
           "\"zero\" sets them to zero. Used only when initializer = \"normal\"."),
       row("rank", in(&t::model, &model::rank), {.minimum = 1, .maximum = 4096},
           "Length of the factor of each user and of each item. Used only by matrix_completion, where it defaults "
           "to 10."),
       row("sync_batch_norm", in(&t::model, &model::sync_batch_norm), {},
           "Whether batch norm uses the statistics of all workers' batches together. The workers then exchange "
           "messages in the middle of each forward and backward pass.")}};
  return with_kinds(
      std::move(made), in(&t::model, &model::options),
      {{.key = "name",
        .noun = "model",
        .all = [] { return described(models::network_kinds()); },
        .ignores_others = true},
       {.key = "loss", .noun = "loss", .all = [] { return described(models::loss_kinds()); }, .ignores_others = true}});
}

namespace {

/// Makes the key for the batch size of all workers, or of each of them.
key batch_size_row() {
  auto made =
      row("batch_size", in(&topology::data, &data_settings::batch_size),
          {.minimum = 1, .maximum = 1e6, .type = setting_type::integer_or_integers},
          "Number of samples in one step of one worker, or a list with a number for each worker, for machines of "
          "different speeds: means of gradients are weighted by samples. A list requires split = \"strided\" and "
          "drop_last = true. Cannot be combined with global_batch_size.");
  made.get = [](const topology& file, std::size_t) -> std::optional<setting_value> {
    if (file.data.batch_sizes.empty()) return file.data.batch_size;
    return file.data.batch_sizes;
  };
  made.set = [](topology& file, std::size_t, const setting_value& value) {
    const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
    file.data.batch_sizes = list != nullptr ? *list : std::vector<std::int64_t>{};
    file.data.batch_size = list == nullptr ? std::get<std::int64_t>(value)
                           : list->empty() ? 1
                                           : *std::max_element(list->begin(), list->end());
  };
  return made;
}

}  // namespace

section data_section() {
  using t = topology;
  using data = data_settings;
  section made{
      "data",
      "The training and validation samples, and how the workers share them.",
      {row("name", in(&t::data, &data::name), {.choices = names(troupe::data::dataset_kinds())},
           "Data set to train on. `troupe list data` describes each one."),
       row("dir", in(&t::data, &data::dir), {},
           "Folder that contains the folders of the data sets. Defaults to $TROUPE_DATA, or to data-cache if that is "
           "not set. Not needed by digits and sparse, which are built in."),
       row("file", in(&t::data, &data::file), {},
           "Your own training samples: a file or, for image_folder, a folder. Used only by libsvm, triplets, tensors, "
           "csv, text and image_folder."),
       row("test_file", in(&t::data, &data::test_file), {},
           "Your own test samples, in the same format as file and used only by the same data sets. Without it, the "
           "training samples are evaluated, unless data.validation holds some of them out."),
       row("inputs", in(&t::data, &data::inputs), {.type = setting_type::columns},
           "Columns of a table that are the inputs, by their names in the header or by their numbers, counted from 0; "
           "-1 is the last one. Used only by csv, where it defaults to all columns but the target."),
       row("label", in(&t::data, &data::label), {.type = setting_type::column},
           "Column with the class of each row, by its name or its number: whole numbers or words. Used only by csv, "
           "where it defaults to the last column. Cannot be combined with target."),
       row("target", in(&t::data, &data::target), {.type = setting_type::column},
           "Column with the number to predict for each row, by its name or its number. Used only by csv. Cannot be "
           "combined with label."),
       row("header", in(&t::data, &data::header), {},
           "Whether the first row has the names of the columns. Without it, it has if a column has a number in the "
           "second row, but not in the first. Used only by csv."),
       row("mapped", in(&t::data, &data::mapped), {},
           "Whether to keep the rows in a file next to the original one and to map it into memory, so that the data "
           "may be larger than memory. Used only by libsvm and triplets, where it defaults to false."),
       row("rows", in(&t::data, &data::rows), {.minimum = 10, .maximum = 1e9},
           "Number of training samples that the data set \"sparse\" generates; its test set has a tenth as many. Used "
           "only by sparse, where it defaults to 20,000."),
       row("columns", in(&t::data, &data::columns), {.minimum = 1, .maximum = 2e9},
           "Number of coordinates of a sample of the data set \"sparse\". Used only by sparse, where it defaults to "
           "10,000."),
       row("nonzeros", in(&t::data, &data::nonzeros), {.minimum = 1, .maximum = 1e6},
           "Number of coordinates of a sample of the data set \"sparse\" that are not zero. Used only by sparse, where "
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
       batch_size_row(),
       row("global_batch_size", in(&t::data, &data::global_batch_size), {.minimum = 1, .maximum = 1e9},
           "Number of samples in one step of all workers together. Must be a multiple of the number of workers. Cannot "
           "be combined with batch_size."),
       row("micro_batch_size", in(&t::data, &data::micro_batch_size), {.minimum = 1, .maximum = 1e6},
           "Number of samples to compute at once: a worker splits its batch into parts of this size and accumulates "
           "their gradients. Must divide the worker's batch size. Defaults to the whole batch."),
       row("shuffle", in(&t::data, &data::shuffle), {},
           "Whether each epoch visits the samples in a new order, which is a function of run.seed."),
       row("drop_last", in(&t::data, &data::drop_last), {},
           "Whether to drop the last batch of an epoch if it is smaller than the others, as drop_last of the PyTorch "
           "DataLoader does."),
       row("remainder", in(&t::data, &data::remainder), {.choices = {"drop", "pad"}},
           "What happens when the training set does not divide evenly among the workers: \"drop\" leaves the remaining "
           "samples out of the epoch; \"pad\" repeats the first samples of the epoch until every worker has the same "
           "number, as PyTorch's DistributedSampler does. \"pad\" requires split = \"strided\"."),
       row("split", in(&t::data, &data::split), {.choices = {"strided", "contiguous", "all", "dirichlet", "by_label"}},
           "Which samples a worker trains on: \"strided\" deals the samples of an epoch to the workers in turn; "
           "\"contiguous\" gives each worker a fixed block; \"all\" gives each worker the whole set. Two choices are "
           "not independent and identically distributed: \"dirichlet\" draws each worker's shares of the classes from "
           "a Dirichlet distribution around those of the whole set; \"by_label\" gives each worker one block of "
           "the samples sorted by class, all of the same size."),
       row("alpha", in(&t::data, &data::alpha), {.minimum = 0, .maximum = 1e6, .minimum_excluded = true},
           "Concentration of the Dirichlet distribution from which each worker's shares of the classes are drawn: "
           "Dir(alpha * p), where p are the shares of the whole set (Hsu et al. 2019). With a small value, a worker "
           "sees few classes; with a large one, all workers see nearly the same mixture of classes. With ten "
           "classes of equal size, 0.5 is 0.05 for each class. The alpha of NIID-Bench and FedML is another one: "
           "they divide each class among the workers, and their 0.5 leaves a worker more classes. Used only when "
           "split = \"dirichlet\", where it defaults to 0.5."),
       row("normalize", in(&t::data, &data::normalize), {},
           "Whether to subtract the mean of each channel and divide by its standard deviation."),
       row("mean", in(&t::data, &data::mean), {.minimum = -1e6, .maximum = 1e6},
           "Mean of each channel, for inputs in [0, 1]. Must be set together with std. Defaults to the value published "
           "for the data set, if there is one. Used only for images, with data.normalize = true."),
       row("std", in(&t::data, &data::std), {.minimum = 0, .maximum = 1e6, .minimum_excluded = true},
           "Standard deviation of each channel, for inputs in [0, 1]. Must be set together with mean. Defaults to the "
           "value published for the data set, if there is one. Used only for images, with data.normalize = true.")}};
  return with_kinds(std::move(made), in(&t::data, &data::options),
                    {{.key = "name",
                      .noun = "data set",
                      .all = [] { return described(troupe::data::dataset_kinds()); },
                      .ignores_others = true}});
}

section augment_section() {
  using t = topology;
  using augment = augment_settings;
  return {"augment",
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
               "Largest shift of the hue in either direction, as a fraction of the colour circle.")}};
}

section optimizer_section() {
  using t = topology;
  using optimizer = optimizer_settings;
  section made{
      "optimizer",
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
           "this fraction from the weights."),
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
           "Initial value of the first moment: \"zero\", as in the package torch_optimizer, or \"gradient\", the first "
           "normalized gradient, as in algorithm 1 of the paper. Used only by novograd."),
       row("clip_norm", in(&t::optimizer, &optimizer::clip_norm),
           {.minimum = 0, .maximum = 1e9, .minimum_excluded = true},
           "Largest Euclidean norm, over all parameters, of the gradient that an optimizer step applies (if gradients "
           "are exchanged synchronously, of their mean over the workers). A gradient with a larger norm is scaled down "
           "to it. Without it, gradients are not clipped."),
       row("scale_lr", in(&t::optimizer, &optimizer::scale_lr), {.choices = {"none", "linear", "sqrt"}},
           "How lr grows with the batch: \"linear\" multiplies it by k and \"sqrt\" by the square root of k, where k = "
           "effective batch / base_batch_size. The effective batch is the number of samples that one step averages "
           "over, which under a synchronous exchange of gradients is the sum of all workers' batches. With several "
           "workers, any other wiring is refused."),
       row("base_batch_size", in(&t::optimizer, &optimizer::base_batch_size), {.minimum = 1, .maximum = 1e9},
           "Batch size for which lr was chosen; scale_lr scales lr by the ratio of the effective batch to it. Defaults "
           "to one worker's batch size; required if data.global_batch_size is set. Used only when scale_lr = "
           "\"linear\" or \"sqrt\"."),
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
           "Factor applied to the learning rate after each of decay_epochs. Used only when schedule = \"step\".")}};
  return with_kinds(std::move(made), in(&t::optimizer, &optimizer::options),
                    {{.key = "name", .noun = "optimizer", .all = [] { return described(optimizer_kinds()); }}});
}

}  // namespace troupe::topology::rows
