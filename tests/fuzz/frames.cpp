// Tests with libFuzzer whether a stream of bytes from a peer can crash a connection, make it leak, or make it use
// memory beyond its window. `scripts/fuzz [seconds]` builds and runs it. An empty corpus folder is filled with valid
// streams.
#include "tests/fuzz/frames.hpp"

#include <filesystem>
#include <fstream>
#include <string>

using namespace troupe;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  namespace fs = std::filesystem;
  for (int i = 1; i < *count; ++i) {
    const fs::path folder{(*arguments)[i]};
    if (!fs::is_directory(folder) || !fs::is_empty(folder)) continue;
    fuzz::engine random{1};
    for (int n = 0; n < 64; ++n) {
      const auto stream = fuzz::seed(random);
      std::ofstream(folder / ("seed-" + std::to_string(n)), std::ios::binary)
          .write(reinterpret_cast<const char*>(stream.data()), static_cast<std::streamsize>(stream.size()));
    }
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  fuzz::engine random{seed};
  fuzz::bytes stream(data, data + size);
  if (fuzz::below(random, 2) == 0) {
    stream.resize(most);
    stream.resize(LLVMFuzzerMutate(stream.data(), size, most));
    if (fuzz::below(random, 4) != 0) fuzz::repair(stream);
  } else {
    fuzz::mutate(stream, random);
  }
  const auto written = std::min(stream.size(), most);
  std::copy_n(stream.begin(), written, data);
  return written;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::drive({data, size});
  return 0;
}
