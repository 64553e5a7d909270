#include "troupe/models/storage/size.hpp"

#include "troupe/models/storage/flat.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace troupe::models {

namespace {

/// A dispatch key that nothing else uses. While a thread includes it, every operator call goes through on_meta() first.
constexpr auto key = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Calls the operator with the device "meta" instead of the device on which it would make tensors.
void on_meta(const c10::OperatorHandle& called, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard further{key};
  const auto& arguments = called.schema().arguments();
  const auto first = stack->size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == "device") (*stack)[first + i] = c10::Device{c10::kMeta};
  called.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_meta>());
}

}  // namespace

std::int64_t flat_size(const network_kind& kind, network_shape shape) {
  shape.normal.reset();  // the size does not depend on the weights
  const c10::impl::IncludeDispatchKeyGuard through{key};
  return layout_of(*make_network(kind, shape, 0)).total;
}

}  // namespace troupe::models
