// Keys of [model] and [optimizer] that cannot be combined: each row has a file, the position, and words that the
// message must contain.
#include "tests/support/doctest.hpp"

#include "troupe/runtime/topology/load.hpp"

#include <string>
#include <vector>

namespace topology_training_test {

using namespace troupe;

namespace {

struct mistake {
  std::string text;  ///< Content of the file t.toml.
  std::string place;
  std::vector<std::string> words;
};

const std::vector<mistake> mistakes = {
    {"[model]\nname = \"script\"\nscript = \"m.pt\"\ninitializer = \"normal\"\n",
     "4:15",
     {"model.initializer = \"normal\"", "script does not support that", "expected \"default\""}},
    {"[model]\nname = \"logistic\"\ninitializer = \"normal\"\n", "3:15", {"logistic does not support that"}},
    {"[model]\ninitializer_std = 0.02\n", "2:19", {"only when model.initializer = \"normal\""}},
    {"[model]\ninitializer_bias = \"zero\"\n", "2:20", {"only when model.initializer = \"normal\""}},
    {"[model]\nshortcut = \"none\"\n", "2:12", {"model.shortcut is \"none\"", "\"projection\" or \"pad\""}},

    {"[optimizer]\ngrad_averaging = true\n", "2:18", {"is used only by \"novograd\"", "the optimizer is \"sgd\""}},
    {"[optimizer]\nname = \"adam\"\nmoment_start = \"gradient\"\n", "3:16", {"is used only by \"novograd\""}},
    {"[model]\nname = \"svm\"\n[optimizer]\nno_decay = [\"bias\"]\n",
     "4:12",
     {"excludes tensors", "single coordinates"}},
    {"[model]\nname = \"svm\"\n[optimizer]\ndecay_min_dims = 2\n", "4:18", {"excludes tensors", "single coordinates"}},

    {"[optimizer]\nbase_batch_size = 64\n",
     "2:19",
     {"used only when optimizer.scale_lr = \"linear\" or \"sqrt\"", "set optimizer.scale_lr to one of them"}},
    {"[data]\nglobal_batch_size = 64\n[optimizer]\nscale_lr = \"linear\"\n",
     "4:12",
     {"requires the batch size for which optimizer.lr was chosen", "expected optimizer.base_batch_size"}},

    {"[optimizer]\nmin_lr = 0.001\n",
     "2:10",
     {"only when optimizer.schedule = \"cosine\" or \"polynomial\"", "the schedule is \"constant\""}},
    {"[optimizer]\nschedule = \"step\"\ndecay_epochs = [1]\nmin_lr = 0.001\n", "4:10", {"the schedule is \"step\""}},
    {"[optimizer]\nschedule = \"cosine\"\ndecay_power = 2\n",
     "3:15",
     {"only when optimizer.schedule = \"polynomial\""}},
    {"[optimizer]\nschedule = \"cosine\"\ndecay_epochs = [1]\n",
     "3:16",
     {"; set optimizer.schedule = \"step\", or remove the key"}},
    {"[optimizer]\ndecay_factor = 0.5\n", "2:16", {"; set optimizer.schedule = \"step\", or remove the key"}},
    {"[optimizer]\nwarmup_epochs = 1.5\nschedule_by = \"epoch\"\n",
     "2:17",
     {"is not a whole number of epochs", "changes only between epochs"}},
    {"[optimizer]\nschedule = \"step\"\ndecay_epochs = [1, 2.5]\nschedule_by = \"epoch\"\n",
     "3:16",
     {"is not a whole number of epochs"}},
    {"[optimizer]\nwarmup_start = 0.1\n", "2:16", {"set optimizer.warmup_epochs, for instance to 5"}},
};

std::string message_of(const std::string& text) {
  try {
    topology::parse(text, "t.toml");
  } catch (const input_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("settings of model and optimizer that do not go together are refused where they stand") {
  for (const auto& each : mistakes) {
    const auto message = message_of(each.text);
    CAPTURE(each.text);
    CAPTURE(message);
    CHECK(message.starts_with("t.toml:" + each.place + ": "));
    for (const auto& words : each.words) CHECK(message.find(words) != std::string::npos);
  }
}

TEST_CASE("the same settings are taken where they belong") {
  for (const std::string text : {
           "[model]\nname = \"resnet20\"\nshortcut = \"pad\"\ninitializer = \"normal\"\ninitializer_std = 0.02\n",
           "[optimizer]\nname = \"novograd\"\ngrad_averaging = true\nmoment_start = \"gradient\"\n",
           "[data]\nglobal_batch_size = 64\n[optimizer]\nscale_lr = \"linear\"\nbase_batch_size = 32\n",
           "[optimizer]\nschedule = \"polynomial\"\ndecay_power = 2\nmin_lr = 0.001\nwarmup_epochs = 1.5\n",
           "[optimizer]\nschedule = \"step\"\ndecay_epochs = [1.5]\ndecay_factor = 0.5\n",
           "[optimizer]\nschedule = \"step\"\ndecay_epochs = [1, 2]\nschedule_by = \"epoch\"\nwarmup_epochs = 5\n",
           "[model]\nname = \"svm\"\n[optimizer]\nl2_penalty = 0.1\n",
       }) {
    CAPTURE(text);
    CHECK(message_of(text) == "");
  }
}

TEST_CASE("a model keeps the settings that it reads, and no others") {
  const std::string settings = "shortcut = \"pad\"\nwidth = 2\ndropout = 0.5\nlayers = 3\n";
  const auto model = [&](const std::string& name) {
    return topology::parse("[model]\nname = \"" + name + "\"\n" + settings, "t.toml").model;
  };
  CHECK(model("resnet20").shortcut == "pad");
  CHECK_FALSE(model("resnet20").width);
  CHECK_FALSE(model("resnet18").shortcut);
  CHECK(model("wide_resnet_pooled").width == 2);
  CHECK(model("wide_resnet_pooled").dropout == 0.5);
  CHECK_FALSE(model("wide_resnet_pooled").layers);
}

}  // namespace topology_training_test
