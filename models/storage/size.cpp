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

/// Registers on_meta() when it is first needed: a static initialiser would abort the process where a library that
/// contains this file is loaded by a program that does, too.
void register_fallback() {
  static const auto library = [] {
    torch::Library made(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFromBoxedFunction<&on_meta>());
    return made;
  }();
}

}  // namespace

std::int64_t flat_size(const network_kind& kind, network_shape shape) {
  shape.normal.reset();  // the size does not depend on the weights
  register_fallback();
  const c10::impl::IncludeDispatchKeyGuard through{key};
  return layout_of(*make_network(kind, shape, 0)).total;
}

}  // namespace troupe::models
