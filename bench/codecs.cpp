// Time that each encoding takes per value: encoding a gradient with feedback at its sender, and decoding it at a
// receiver. Sending a float32 at 1 Gbit/s takes 32 ns.
//
//   codecs [ELEMENTS [ROUNDS]]
#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/around/encoder.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace troupe;
using seconds = std::chrono::duration<double>;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return seconds(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int count, char** words) {
  const std::int64_t elements = count > 1 ? std::stoll(words[1]) : 1 << 20;
  const int rounds = count > 2 ? std::stoi(words[2]) : 15;
  at::set_num_threads(1);
  models::flat_layout layout{.parameters = {{"a", {elements}, 0, elements}},
                             .buffers = {},
                             .parameter_end = elements,
                             .total = elements,
                             .parameter_count = elements};
  std::map<std::string, std::vector<double>> encoding, decoding;
  std::map<std::string, std::int64_t> bytes;
  std::map<std::string, encoder> senders;
  std::vector<std::string> names = encoding_names();
  std::erase(names, "powersgd");  // whose messages are float32
  for (const auto& name : names)
    senders.try_emplace(name, member_options{.layout = layout},
                        encoding_options{.how = encoding_named(name),
                                         .feedback = codec_of(encoding_named(name)).nature().block != 1,
                                         .ratio = 0.01});
  for (int round = 0; round < rounds; ++round) {
    const auto gradient = at::randn({elements});
    for (const auto& name : names) {  // interleaved
      part contribution{.origin = {.step = static_cast<std::uint64_t>(round)}, .piece = {0, gradient}};
      part sent, received;
      encoding[name].push_back(seconds_of([&] {
        contribution = senders.at(name).contribution(contribution);
        sent = senders.at(name).sent(contribution);
      }));
      decoding[name].push_back(seconds_of([&] { received = senders.at(name).received(sent); }));
      bytes[name] = static_cast<std::int64_t>(sent.piece.values.nbytes());
    }
  }
  std::printf(
      "| encoding | bytes per value | ns to encode | ns to decode | ns to send at 1 Gbit/s |\n|---|---|---|---|---|\n");
  for (const auto& name : names) {
    const auto per_value = [&](double value) { return 1e9 * value / static_cast<double>(elements); };
    const auto size = static_cast<double>(bytes[name]) / static_cast<double>(elements);
    std::printf("| %s | %.3f | %.2f | %.2f | %.2f |\n", name.c_str(), size, per_value(median(encoding[name])),
                per_value(median(decoding[name])), 8 * size);
  }
}
