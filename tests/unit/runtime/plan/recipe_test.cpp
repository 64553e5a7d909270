// How a plan interprets [model], [optimizer] and [augment].
#include "tests/support/doctest.hpp"

#include "troupe/files/error.hpp"
#include "troupe/models/storage/tied.hpp"
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/runtime/plan/undecayed.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace plan_recipe_test {

using namespace troupe;

namespace {

/// Makes a plan of this file for lenet on 6,400 samples of MNIST, with batch 16 unless the file sets another.
plan planned(const std::string& text) {
  auto file = topology::parse(text, "t.toml", {"model.name=lenet", "data.name=mnist"});
  return make_plan(file, 6'400);
}

std::string refusal(const std::string& text) {
  try {
    planned(text);
  } catch (const input_error& error) {
    return error.what();
  }
  return "accepted";
}

std::string wired(const std::string& exchange, const std::string& optimizer = "scale_lr = \"linear\"") {
  return "[data]\nbatch_size = 16\n[optimizer]\nlr = 0.1\n" + optimizer + "\n[workers]\ncount = 4\n" + exchange;
}

const std::string all_reduce = "[exchange]\nkind = \"all_reduce\"\n";

std::vector<std::string> undecayed(const plan& made) {
  std::vector<std::string> names;
  for (const auto& entry : made.layout.parameters)
    for (const auto& where : made.optimizer.undecayed)
      if (entry.first >= where.first && entry.first < where.first + where.count) names.push_back(entry.name);
  return names;
}

}  // namespace

TEST_CASE("the learning rate is scaled with the batch that a synchronous step averages over") {
  for (const std::string exchange : {"[exchange]\nkind = \"all_reduce\"\n", "[exchange]\nkind = \"star\"\n",
                                     "[exchange]\nkind = \"parameter_server\"\nshards = 2\n",
                                     "[exchange]\nkind = \"all_reduce\"\nroute = \"ring\"\nsend = \"bucket\"\n"}) {
    CAPTURE(exchange);
    CHECK(planned(wired(exchange)).optimizer.lr == doctest::Approx(0.4));
    CHECK(planned(wired(exchange, "scale_lr = \"sqrt\"")).optimizer.lr == doctest::Approx(0.2));
    CHECK(effective_batch(planned(wired(exchange))) == 64);
  }
  CHECK(planned(wired(all_reduce, "scale_lr = \"linear\"\nbase_batch_size = 128")).optimizer.lr ==
        doctest::Approx(0.05));
  CHECK(planned(wired(all_reduce, "")).optimizer.lr == 0.1);
}

TEST_CASE("a global batch is that of all workers, however many there are") {
  const auto lr = [](int workers) {
    return planned(
               "[data]\nglobal_batch_size = 64\n[optimizer]\nlr = 0.1\nscale_lr = \"linear\"\nbase_batch_size = 32\n"
               "[workers]\ncount = " +
               std::to_string(workers) + "\n" + (workers > 1 ? all_reduce : ""))
        .optimizer.lr;
  };
  for (const int workers : {1, 2, 4, 8}) CHECK(lr(workers) == doctest::Approx(0.2));
}

TEST_CASE("one worker alone has its own batch") {
  CHECK(planned("[data]\nbatch_size = 64\n[optimizer]\nlr = 0.1\nscale_lr = \"sqrt\"\nbase_batch_size = 16\n")
            .optimizer.lr == doctest::Approx(0.2));
  CHECK(planned("[optimizer]\nlr = 0.1\nscale_lr = \"linear\"\n").optimizer.lr == 0.1);
}

TEST_CASE("gradients of groups that are averaged over all groups in each step make one batch of all") {
  const std::string pairs =
      "loop = [\"gradient\", \"left\", \"right\", \"all\", \"apply\"]\n"
      "[[exchange]]\nname = \"left\"\nkind = \"all_reduce\"\nmembers = [\"w0\", \"w1\"]\n"
      "[[exchange]]\nname = \"right\"\nkind = \"all_reduce\"\nmembers = [\"w2\", \"w3\"]\n"
      "[[exchange]]\nname = \"all\"\nkind = \"all_reduce\"\nmembers = [\"left\", \"right\"]\n";
  CHECK(planned(wired(pairs)).optimizer.lr == doctest::Approx(0.4));
}

TEST_CASE("scaling is refused under every wiring whose steps have no common batch") {
  for (const std::string exchange :
       {"[exchange]\nkind = \"parameter_server\"\napply = \"each\"\n", "[exchange]\nkind = \"gossip\"\n",
        "[exchange]\nkind = \"elastic\"\n", "[exchange]\nkind = \"shared\"\n",
        "[exchange]\nkind = \"all_reduce\"\nsends = \"parameters\"\n", "[exchange]\nkind = \"all_reduce\"\nevery = 4\n",
        "loop = [\"gradient\", \"left\", \"apply\"]\n[[exchange]]\nname = \"left\"\nkind = \"all_reduce\"\nmembers = "
        "[\"w0\", \"w1\"]\n",
        ""}) {
    CAPTURE(exchange);
    const auto said = refusal(wired(exchange));
    CAPTURE(said);
    CHECK(said.starts_with("t.toml:5:12: optimizer.scale_lr = \"linear\""));
    CHECK(said.find("Goyal et al. 2017") != std::string::npos);
    CHECK(said.find("expected a synchronous exchange of gradients") != std::string::npos);
    CHECK(refusal(wired(exchange, "")) == "accepted");
  }
}

TEST_CASE("a check shows how the learning rate was scaled, and the schedule") {
  const auto text = describe(planned(wired(all_reduce,
                                           "scale_lr = \"linear\"\nschedule = \"polynomial\"\ndecay_power = 2\nmin_lr "
                                           "= 0.01\nwarmup_epochs = 1\nschedule_by "
                                           "= \"epoch\"\nweight_decay = 0.1\ndecay_min_dims = 2\nl2_penalty = 0.001")));
  CAPTURE(text);
  CHECK(
      text.find(
          "sgd, lr 0.4 (0.1 for a batch of 16, scaled linearly to 64), L2 penalty 0.001 added to the gradient, weight "
          "decay 0.1 on 4 of 8 tensors, warm-up over 1 epoch from 0 × lr, then polynomial decay of power 2 to "
          "0.01, updated after each epoch") != std::string::npos);
}

TEST_CASE("the schedule ends at min_lr, of whatever rate it begins with, and may keep to epochs") {
  const auto made = planned(wired(all_reduce,
                                  "scale_lr = \"linear\"\nschedule = \"cosine\"\nmin_lr = 0.1\nschedule_by = "
                                  "\"epoch\"\n") +
                            "[run]\nepochs = 4\n")
                        .optimizer;
  CHECK(made.schedule.hold == 100);  // 6,400 samples, 64 per step
  CHECK(made.lr * made.schedule.at(400) == doctest::Approx(0.1));
  CHECK(made.lr * made.schedule.at(299) == doctest::Approx(0.25));  // half-way at epoch 2
  CHECK(planned(wired(all_reduce)).optimizer.schedule.hold == 1);
  CHECK(refusal(wired("", "schedule = \"cosine\"\nmin_lr = 0.2"))
            .find("optimizer.min_lr = 0.2 exceeds the learning rate "
                  "0.1") != std::string::npos);
  CHECK(planned("[optimizer]\nlr = 0\nschedule = \"cosine\"\n").optimizer.schedule.minimum == 0);
}

TEST_CASE("patterns match whole names") {
  CHECK(matches("*.bias", "fc1.bias"));
  CHECK_FALSE(matches("*.bias", "fc1.bias2"));
  CHECK_FALSE(matches("bias", "fc1.bias"));
  CHECK(matches("bn*", "bn1.weight"));
  CHECK_FALSE(matches("bn*", "layer1.0.bn1.weight"));
  CHECK(matches("*.bn?.*", "layer1.0.bn1.weight"));
  CHECK(matches("*a*b*", "xaxxaybz"));
  CHECK_FALSE(matches("*a*b", "ba"));
  CHECK(matches("*", ""));
  CHECK_FALSE(matches("?", ""));
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
}

TEST_CASE("weight decay leaves out the parameters that the file names, or that have few dimensions") {
  using names = std::vector<std::string>;
  const names biases{"conv1.bias", "conv2.bias", "fc1.bias", "fc2.bias"};
  CHECK(undecayed(planned("")).empty());
  CHECK(undecayed(planned("[optimizer]\ndecay_min_dims = 2\n")) == biases);
  CHECK(undecayed(planned("[optimizer]\nno_decay = [\"*.bias\"]\n")) == biases);
  CHECK(undecayed(planned("[optimizer]\nno_decay = [\"conv?.weight\", \"fc2*\"]\n")) ==
        names{"conv1.weight", "conv2.weight", "fc2.weight", "fc2.bias"});
  const auto together = planned("[optimizer]\nno_decay = [\"conv1*\"]\n");
  CHECK((together.optimizer.undecayed == std::vector<range>{{0, together.layout.parameters[2].first}}));
  CHECK((planned("[optimizer]\nno_decay = [\"*\"]\n").optimizer.undecayed ==
         std::vector<range>{{0, together.layout.parameter_end}}));
}

TEST_CASE("a pattern that matches no parameter is refused with the nearest that would") {
  const auto said = [](const std::string& pattern) {
    return refusal("[optimizer]\nno_decay = [\"" + pattern + "\"]\n");
  };
  CHECK(said("fc1.bais")
            .find("t.toml:2:12: optimizer.no_decay: \"fc1.bais\" matches no parameter of lenet; expected a pattern "
                  "that matches names such as \"conv1.weight\" (did you mean \"fc1.bias\"?)") != std::string::npos);
  CHECK(said("*.bais").find("did you mean \"*.bias\"?") != std::string::npos);
  CHECK(said("bias").find("matches no parameter") != std::string::npos);
}

TEST_CASE("a further name of a tied parameter counts as its own") {
  topology::topology file;
  const auto net = models::make_network(*models::find_network("gpt"), {.input = {6}, .classes = 9, .width = 8}, 1);
  const auto layout = models::layout_of(*net);
  file.optimizer.no_decay = {"lm_head.weight"};
  const auto found = undecayed_of(file, layout, models::tied_names_of(*net));
  REQUIRE(found.size() == 1);
  CHECK(layout.parameters[0].name == "transformer.wte.weight");
  CHECK(found[0].first == layout.parameters[0].first);
}

TEST_CASE("settings of a model reach the network that is planned") {
  const auto made = [](const std::string& name, const std::string& settings, const std::string& data = "cifar10") {
    return make_plan(
        topology::parse("[model]\nname = \"" + name + "\"\n" + settings + "[data]\nname = \"" + data + "\"\n",
                        "t.toml"),
        6'400);
  };
  CHECK(made("resnet20", "").layout.parameter_count == 272'474);
  CHECK(made("resnet20", "shortcut = \"projection\"\n").layout.parameter_count == 272'474);
  CHECK(made("resnet20", "shortcut = \"pad\"\n").layout.parameter_count == 269'722);
  CHECK(made("wide_resnet_pooled", "width = 1\n", "mnist").shape.width == 1);
  CHECK_FALSE(made("wide_resnet_pooled", "width = 1\n", "mnist").shape.dropout);
  const auto drawn =
      made("lenet", "initializer = \"normal\"\ninitializer_std = 0.02\ninitializer_bias = \"zero\"\n", "mnist");
  REQUIRE(drawn.shape.normal);
  CHECK(drawn.shape.normal->deviation == 0.02);
  CHECK(drawn.shape.normal->zero_biases);
  CHECK(describe(drawn).find("initial weights with standard deviation 0.02") != std::string::npos);
  CHECK_FALSE(made("lenet", "", "mnist").shape.normal);
}

TEST_CASE("settings of an optimizer reach it") {
  const auto made =
      planned(
          "[optimizer]\nname = \"novograd\"\ngrad_averaging = true\nmoment_start = \"gradient\"\nl2_penalty = 0.5\n")
          .optimizer;
  CHECK(made.grad_averaging);
  CHECK(made.starts_at_gradient);
  CHECK(made.l2_penalty == 0.5);
  CHECK_FALSE(planned("[optimizer]\nname = \"novograd\"\n").optimizer.starts_at_gradient);
}

TEST_CASE(
    "affine_jitter has a flip, rotation, shear, scale, and jitter of brightness, contrast and saturation, no hue") {
  topology::topology file;
  file.augment.preset = "affine_jitter";
  const auto made = augmentation_of(file);
  CHECK(made.crop_padding == 0);
  CHECK(made.flip == 0.5);
  CHECK(made.rotation == 10);
  CHECK(made.shear == 10);
  CHECK(made.scale == std::vector<double>{0.8, 1.2});
  CHECK(made.brightness == 0.2);
  CHECK(made.contrast == 0.2);
  CHECK(made.saturation == 0.2);
  CHECK(made.hue == 0);
  CHECK(scale_of_preset(file, 3).mean == std::vector{0.5, 0.5, 0.5});
  file.augment.hue = 0.1;
  CHECK(augmentation_of(file).hue == 0.1);
  file.augment.preset = "crop_flip";
  CHECK(augmentation_of(file).crop_padding == 4);
}

}  // namespace plan_recipe_test
