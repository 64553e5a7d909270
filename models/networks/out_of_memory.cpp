#include "troupe/models/networks/out_of_memory.hpp"

#include <new>
#include <string_view>

namespace troupe::models {

std::optional<std::string> out_of_memory(const std::exception& failure) {
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) return "out of memory";
  // LibTorch has no exception type for this: "… DefaultCPUAllocator: can't allocate memory: you tried to allocate 123
  // bytes. …"
  const std::string_view text = failure.what();
  if (text.find("DefaultCPUAllocator") == std::string_view::npos) return std::nullopt;
  constexpr std::string_view before = "tried to allocate ";
  const auto begin = text.find(before);
  if (begin == std::string_view::npos) return "out of memory";
  const auto size = text.substr(begin + before.size());
  return "out of memory: a tensor of " + std::string(size.substr(0, size.find_first_not_of("0123456789"))) +
         " bytes cannot be allocated";
}

}  // namespace troupe::models
