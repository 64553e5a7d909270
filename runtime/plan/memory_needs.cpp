#include "troupe/runtime/plan/memory_needs.hpp"

#include "troupe/data/formats/memory.hpp"
#include "troupe/files/text.hpp"
#include "troupe/models/storage/size.hpp"
#include "troupe/runtime/plan/derive.hpp"
#include "troupe/runtime/plan/refuse.hpp"
#include "troupe/runtime/support/units.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {

namespace {

/// Sizes are doubles, so that no product overflows.
std::string bytes_text(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::min(bytes, 1e18)));
}

/// Returns the keys of the file that set the size of the model.
std::vector<std::string> size_keys(const planned_data& so_far) {
  std::vector<std::string> keys;
  for (const auto& name : so_far.model->reads)
    if (so_far.file.given.has("model." + name)) keys.push_back("model." + name);
  return keys;
}

void check_model(const planned_data& so_far, double available) {
  if (so_far.model->fits == nullptr) return;  // the size is in the model's file
  double elements = 0;
  try {
    elements = static_cast<double>(models::flat_size(*so_far.model, so_far.shape));
  } catch (const std::invalid_argument&) {
    return;  // make_network_of() reports what is wrong with the shape
  }
  const auto needed = 2 * elements * sizeof(float);
  if (needed <= available) return;
  const auto keys = size_keys(so_far);
  const auto reduce =
      keys.empty() ? std::string("use a smaller model, or smaller samples") : "reduce " + text::listed(keys, "or");
  refuse(so_far.file, keys.empty() ? "model.name" : keys.front(),
         "the model " + so_far.model->name + " has " + grouped(static_cast<std::uint64_t>(elements)) +
             " parameters, and a worker needs at least " + bytes_text(needed) +
             " for them and their gradient, but only " + bytes_text(available) +
             " of memory are available on this machine; " + reduce);
}

void check_batch(const planned_data& so_far, const std::string& key, std::int64_t samples, double available) {
  if (so_far.facts.kind == models::sample_kind::sparse) return;  // only nonzeros are stored
  double bytes = so_far.facts.kind == models::sample_kind::characters ? sizeof(std::int64_t) : sizeof(float);
  for (const auto size : so_far.shape.input) bytes *= static_cast<double>(size);
  const auto needed = bytes * static_cast<double>(samples);
  if (needed <= available) return;
  refuse(so_far.file, key,
         key + ": a batch of " + grouped(static_cast<std::uint64_t>(samples)) + " samples of " +
             sizes_text(so_far.shape.input) + " takes " + bytes_text(needed) + ", but only " + bytes_text(available) +
             " of memory are available on this machine; use at most " +
             grouped(static_cast<std::uint64_t>(available / bytes)));
}

}  // namespace

void check_memory(const planned_work& so_far) {
  const auto available = static_cast<double>(data::available_memory());
  const auto& file = so_far.file;
  check_model(so_far, available);
  const auto* key = file.data.micro_batch_size    ? "data.micro_batch_size"
                    : file.data.global_batch_size ? "data.global_batch_size"
                                                  : "data.batch_size";
  check_batch(so_far, key, so_far.sampling.batch_size / so_far.micro_batches, available);
  const auto at_once = file.evaluate.batch_size;
  check_batch(so_far, "evaluate.batch_size",
              so_far.facts.evaluated > 0 ? std::min(at_once, so_far.facts.evaluated) : at_once, available);
}

void check_workers(const planned_exchanges& plan, const std::vector<std::uint32_t>& nodes) {
  constexpr std::uint32_t most = 4096;
  const auto key_of = [&](std::uint32_t node) {
    return plan.nodes.size() == 1 ? std::string("workers.count") : "node." + plan.nodes[node].name + ".workers";
  };
  double on_cpu = 0, needed = 0;  // workers that compute on the CPU, and the bytes they need
  for (const auto node : nodes) {
    const auto first = plan.nodes[node].first_rank, workers = plan.nodes[node].workers;
    if (workers > most)
      refuse(plan.file, key_of(node),
             equals(key_of(node), workers) + " needs a thread for each worker, but a process can have at most " +
                 std::to_string(most) +
                 " workers; divide the workers among more [[node]] sections, or run the file with `troupe simulate`");
    const auto tensors = plan.memory_of(first) ? 1.0 : 2.0;
    for (auto rank = first; rank < first + workers; ++rank) {
      if (!plan.devices.empty() && !plan.devices[rank].is_cpu()) continue;
      on_cpu += 1;
      needed += tensors * static_cast<double>(plan.layout.total) * sizeof(float);
    }
  }
  const auto memory = static_cast<double>(data::available_memory());
  if (needed <= memory) return;
  const auto key = key_of(nodes.front());
  refuse(plan.file, key,
         (nodes.size() == 1 ? equals(key, plan.nodes[nodes.front()].workers) + " needs"
                            : grouped(static_cast<std::uint64_t>(on_cpu)) + " workers on this machine need") +
             " at least " + bytes_text(needed) + " for parameters and gradients, but only " + bytes_text(memory) +
             " of memory are available on this machine; reduce the number of workers, or divide them among nodes on "
             "several hosts");
}

}  // namespace troupe
