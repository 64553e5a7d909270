#include "troupe/algorithms/training/replica_options.hpp"

namespace troupe {

bool makes_sparse_steps(const models::network_kind& model, const optimizer_options& optimizer) {
  return model.step && optimizer.name == "sgd" && optimizer.momentum == 0 && !optimizer.nesterov &&
         !optimizer.clip_norm && optimizer.l2_penalty == 0 && optimizer.undecayed.empty();
}

bool has_sparse_steps(const replica_options& options) {
  return makes_sparse_steps(*options.model, options.optimizer) && options.samples->rows && !options.accelerator;
}

}  // namespace troupe
