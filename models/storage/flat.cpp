#include "troupe/models/storage/flat.hpp"

#include "troupe/models/storage/constants.hpp"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_set>

namespace troupe::models {

namespace {

constexpr std::int64_t elements_per_boundary = 64 / static_cast<std::int64_t>(sizeof(float));

std::int64_t aligned(std::int64_t count) {
  return (count + elements_per_boundary - 1) / elements_per_boundary * elements_per_boundary;
}

// Returns a contiguous view of `flat`, made by hand: this takes 0.1 µs, while narrow().view() passes the dispatcher
// twice and takes 1.5 µs.
at::Tensor view_of(const at::Tensor& flat, const flat_entry& entry) {
  const c10::TensorImpl& whole = *flat.unsafeGetTensorImpl();
  auto part = c10::make_intrusive<c10::TensorImpl>(c10::Storage{whole.storage()}, whole.key_set(), whole.dtype());
  part->set_storage_offset(whole.storage_offset() + entry.first);
  part->set_sizes_contiguous(entry.shape);
  return at::Tensor{std::move(part)};
}

// Calls visit(tensor, entry) for each entry of the layout. Names that a layout leaves out (the second name of a tied
// parameter, frozen ones, constants) are skipped: both lists have the same order.
template <class Visit>
void match(const network::named_tensors& tensors, const std::vector<flat_entry>& entries, Visit visit) {
  auto entry = entries.begin();
  for (const auto& [name, tensor] : tensors) {
    if (entry == entries.end() || name != entry->name) continue;
    if (tensor.sizes() != c10::IntArrayRef{entry->shape}) {
      throw std::invalid_argument("the network's " + name + " does not have the shape given by the flat layout");
    }
    visit(tensor, *entry);
    ++entry;
  }
  if (entry != entries.end()) throw std::invalid_argument("the network has no " + entry->name);
}

void require(const at::Tensor& flat, std::int64_t count, const char* what) {
  if (flat.scalar_type() == at::kFloat && flat.dim() == 1 && flat.size(0) == count && flat.is_contiguous()) return;
  throw std::invalid_argument(std::string{"expected flat "} + what + " with " + std::to_string(count) +
                              " float32 elements");
}

}  // namespace

flat_layout layout_of(const network& net) {
  flat_layout layout;
  std::unordered_set<const c10::TensorImpl*> seen;
  const auto place = [&](const std::string& name, const at::Tensor& tensor, std::vector<flat_entry>& into) {
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) return;
    if (tensor.scalar_type() != at::kFloat) throw std::invalid_argument(name + " is not float32");
    into.push_back({name, tensor.sizes().vec(), layout.total, tensor.numel()});
    layout.total += aligned(tensor.numel());
  };
  for (const auto& [name, tensor] : net.parameters()) {
    if (tensor.requires_grad()) place(name, tensor, layout.parameters);
  }
  layout.parameter_end = layout.total;
  for (const auto& entry : layout.parameters) layout.parameter_count += entry.count;
  for (const auto& [name, tensor] : net.buffers()) {
    if (is_constant(tensor)) continue;
    const std::size_t placed = layout.buffers.size();
    place(name, tensor, layout.buffers);
    if (layout.buffers.size() > placed) layout.buffers.back().integer = net.counts(name);
  }
  return layout;
}

flat_layout with_buffers(const flat_layout& layout) {
  auto result = layout;
  result.parameters.insert(result.parameters.end(), layout.buffers.begin(), layout.buffers.end());
  result.buffers.clear();
  result.parameter_end = result.total;
  return result;
}

at::Tensor flatten(const network& net, const flat_layout& layout, buffer_pool& pool) {
  at::Tensor flat = pool.take_zeros(layout.total);
  const auto copy = [&](const at::Tensor& tensor, const flat_entry& entry) {
    view_of(flat, entry).copy_(tensor.detach());
  };
  match(net.parameters(), layout.parameters, copy);
  match(net.buffers(), layout.buffers, copy);
  return flat;
}

void bind_weights(network& net, const flat_layout& layout, const at::Tensor& flat) {
  require(flat, layout.total, "weights");
  const c10::Storage& storage = flat.storage();
  const std::int64_t origin = flat.storage_offset();
  // Does what set_data(view) does, without making the view: the tensor keeps its identity, its gradient and its place
  // in the optimizer, but refers to other memory.
  const auto point = [&](const at::Tensor& tensor, const flat_entry& entry) {
    c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!tensor.is_contiguous() || tensor.device() != flat.device()) {
      tensor.set_data(view_of(flat, entry));
      return;
    }
    impl.set_storage_keep_dtype(storage);
    impl.set_storage_offset(origin + entry.first);
  };
  match(net.parameters(), layout.parameters, point);
  const auto buffers = net.buffers();
  match(buffers, layout.buffers, point);
  for (const auto& [name, buffer] : buffers) {
    if (is_constant(buffer) && buffer.device() != flat.device()) buffer.set_data(buffer.to(flat.device()));
  }
}

void bind_gradients(network& net, const flat_layout& layout, const at::Tensor& flat) {
  require(flat, layout.parameter_end, "gradients");
  match(net.parameters(), layout.parameters,
        [&](const at::Tensor& tensor, const flat_entry& entry) { tensor.mutable_grad() = view_of(flat, entry); });
}

network::named_tensors unflatten(const flat_layout& layout, const at::Tensor& flat) {
  require(flat, layout.total, "weights");
  network::named_tensors tensors;
  for (const auto& entry : layout.parameters) tensors.emplace_back(entry.name, view_of(flat, entry));
  for (const auto& entry : layout.buffers) {
    const at::Tensor values = view_of(flat, entry);
    tensors.emplace_back(entry.name, entry.integer ? values.round().to(at::kLong) : values);
  }
  return tensors;
}

}  // namespace troupe::models
