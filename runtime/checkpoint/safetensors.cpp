#include "troupe/runtime/checkpoint/safetensors.hpp"

#include "troupe/data/sets/dataset.hpp"
#include "troupe/files/error.hpp"
#include "troupe/runtime/support/write_aside.hpp"

namespace troupe::checkpoint {

void write_safetensors(const std::filesystem::path& path, const weights& content) {
  write_aside(path, data::safetensors_of(content));
}

weights read_safetensors(const std::filesystem::path& path, const std::string& alternatives) try {
  return data::read_safetensors(path, {.alternatives = alternatives});
} catch (const data::data_error& reason) {
  throw input_error(reason.what());
}

}  // namespace troupe::checkpoint
