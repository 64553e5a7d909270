#include "troupe/runtime/topology/validate_optimizer.hpp"

#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/files/text.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/runtime/support/units.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace troupe::topology {
namespace {

bool whole(double epochs) {
  return epochs == std::floor(epochs);
}

class optimizer_checker {
 public:
  optimizer_checker(const topology& file, const places& known, mistakes& found)
      : file_(file), given_(file.optimizer), known_(known), found_(found) {}

  void run() {
    if (const optimizer_kind* kind = find_optimizer(given_.name)) step(*kind);
    groups();
    scaling();
    warm_up();
    schedule();
  }

 private:
  void refuse(const std::string& key, const std::string& text) {
    found_.add(known_.at("optimizer." + key), "optimizer." + key + " " + text);
  }

  /// Refuses a key that only other optimizers read. Returns whether it did.
  bool foreign(const optimizer_kind& kind, const std::string& key, bool set) {
    if (!set || goes_by(kind, key)) return false;
    std::vector<std::string> others;
    for (const optimizer_kind& other : optimizer_kinds())
      if (goes_by(other, key)) others.push_back(to_toml(other.name));
    refuse(key, "is used only by " + text::listed(others, "and") + ", but the optimizer is " + to_toml(kind.name) +
                    "; set optimizer.name = " + text::listed(others) + ", or remove the key");
    return true;
  }

  void step(const optimizer_kind& kind) {
    foreign(kind, "momentum", given_.momentum != 0);
    foreign(kind, "eps", given_.eps.has_value());
    foreign(kind, "grad_averaging", given_.grad_averaging);
    foreign(kind, "moment_start", given_.moment_start != optimizer_settings{}.moment_start);
    if (!foreign(kind, "nesterov", given_.nesterov) && given_.nesterov && given_.momentum == 0)
      refuse("nesterov", "requires momentum; expected optimizer.momentum above 0, for instance 0.9");
    const auto betas = given_.betas.size();
    if (!foreign(kind, "betas", betas > 0) && betas > 0 && betas != 2)
      refuse("betas", "has " + counted(betas, "number") +
                          "; expected two, one for the first and one for the second moment, such as [0.9, 0.999]");
  }

  /// Refuses tensor groups for models with a sparse step, which decays the coordinates of its samples in any tensor.
  void groups() {
    const models::network_kind* model = models::find_network(file_.model.name);
    if (model == nullptr || model->step == nullptr) return;
    const auto grouped = [&](const std::string& key, bool set) {
      if (set)
        refuse(key, "excludes tensors from weight decay, but " + model->name +
                        " updates single coordinates; use another model, or remove the key");
    };
    grouped("no_decay", !given_.no_decay.empty());
    grouped("decay_min_dims", given_.decay_min_dims > 0);
  }

  void scaling() {
    const bool scales = given_.scale_lr != "none";
    if (given_.base_batch_size && !scales)
      refuse("base_batch_size",
             "is used only when optimizer.scale_lr = \"linear\" or \"sqrt\"; set optimizer.scale_lr to one of them, or "
             "remove the key");
    if (scales && file_.data.global_batch_size && !given_.base_batch_size)
      refuse("scale_lr",
             "together with data.global_batch_size requires the batch size for which optimizer.lr was chosen; expected "
             "optimizer.base_batch_size, for instance 256");
  }

  void warm_up() {
    if (given_.warmup_start != 0 && given_.warmup_epochs == 0)
      refuse("warmup_start",
             "requires a warm-up; set optimizer.warmup_epochs, for instance to 5, or "
             "remove the key");
    if (given_.schedule_by != "epoch") return;
    const std::string text =
        "is not a whole number of epochs, but with optimizer.schedule_by = \"epoch\" the learning "
        "rate changes only between epochs; expected whole numbers, or schedule_by = \"step\"";
    if (!whole(given_.warmup_epochs)) refuse("warmup_epochs", text);
    if (!std::all_of(given_.decay_epochs.begin(), given_.decay_epochs.end(), whole)) refuse("decay_epochs", text);
  }

  void schedule() {
    const optimizer_settings usual;
    belongs("min_lr", given_.min_lr != usual.min_lr, {"cosine", "polynomial"});
    belongs("decay_power", given_.decay_power != usual.decay_power, {"polynomial"});
    belongs("decay_epochs", !given_.decay_epochs.empty(), {"step"});
    belongs("decay_factor", given_.decay_factor != usual.decay_factor, {"step"});
  }

  void belongs(const std::string& key, bool set, const std::vector<std::string>& schedules) {
    const auto& own = given_.schedule;
    if (!set || std::find(schedules.begin(), schedules.end(), own) != schedules.end()) return;
    const auto required = "optimizer.schedule = " + text::listed(text::in_quotes(schedules));
    refuse(key, "is used only when " + required + ", but the schedule is " + to_toml(own) + "; set " + required +
                    ", or remove the key");
  }

  const topology& file_;
  const optimizer_settings& given_;
  const places& known_;
  mistakes& found_;
};

}  // namespace

void check_optimizer(const topology& file, const places& known, mistakes& found) {
  optimizer_checker(file, known, found).run();
}

}  // namespace troupe::topology
