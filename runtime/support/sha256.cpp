#include "troupe/runtime/support/sha256.hpp"

#include "troupe/files/input.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <vector>

namespace troupe {

namespace {

EVP_MD_CTX* context(const std::shared_ptr<void>& state) {
  return static_cast<EVP_MD_CTX*>(state.get());
}

}  // namespace

sha256_digest::sha256_digest()
    : state_(EVP_MD_CTX_new(), [](void* state) { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(state)); }) {
  if (!state_ || EVP_DigestInit_ex(context(state_), EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("this OpenSSL does not provide SHA-256");
}

void sha256_digest::add(std::string_view bytes) {
  EVP_DigestUpdate(context(state_), bytes.data(), bytes.size());
}

std::string sha256_digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context(state_), sum.data(), &length);
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text += "0123456789abcdef"[sum[i] / 16];
    text += "0123456789abcdef"[sum[i] % 16];
  }
  return text;
}

std::string sha256_of(std::string_view bytes) {
  sha256_digest digest;
  digest.add(bytes);
  return digest.finish();
}

std::optional<std::string> sha256_of_file(const std::filesystem::path& path, std::optional<std::uint64_t> limit) try {
  sha256_digest digest;
  files::input in{path};
  auto left = limit.value_or(std::numeric_limits<std::uint64_t>::max());
  std::vector<char> block(1u << 16u);
  while (left > 0) {
    const auto count = in.read(block.data(), static_cast<std::size_t>(std::min<std::uint64_t>(left, block.size())));
    if (count == 0) break;
    digest.add({block.data(), count});
    left -= count;
  }
  if (limit && left > 0) return {};
  return digest.finish();
} catch (const files::unreadable&) {
  return {};
}

}  // namespace troupe
