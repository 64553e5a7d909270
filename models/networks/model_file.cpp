#include "troupe/models/networks/model_file.hpp"

#include "troupe/models/networks/out_of_memory.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace troupe::models {

std::string reason_of(const std::exception& failure) {
  if (auto message = out_of_memory(failure)) return *std::move(message);
  const auto* of_torch = dynamic_cast<const c10::Error*>(&failure);
  const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : failure.what();
  // LibTorch's own checks quote its code and their location in it.
  if (text.find(" INTERNAL ASSERT FAILED") != std::string::npos)
    return "LibTorch finds that it contradicts itself, so it is damaged";
  // If the interpreter reports a trace, the last line that names a kind of error contains the reason.
  std::string first, reason;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (first.empty()) first = line;
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos || line.find(' ') < colon) continue;
    const std::string_view kind{line.data(), colon};
    if (kind.ends_with("Error") || kind.ends_with("Exception")) reason = line.substr(colon + 2);
  }
  return reason.empty() ? first : reason;
}

bool counts_batches(std::string_view name, const at::Tensor& buffer) {
  const std::string_view counter = "num_batches_tracked";
  const auto is_called_so =
      name == counter || (name.ends_with(counter) && name[name.size() - counter.size() - 1] == '.');
  return is_called_so && buffer.scalar_type() == at::kLong && buffer.dim() == 0;
}

std::string type_name(at::ScalarType type) {
  return c10::getDtypeNames(type).first;
}

}  // namespace troupe::models
