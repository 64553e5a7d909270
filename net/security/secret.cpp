#include "troupe/net/security/secret.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"

#include <openssl/rand.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

namespace troupe::security {

namespace {

constexpr std::string_view digits = "0123456789abcdef";
constexpr std::size_t secret_digits = 2 * sizeof(shared_secret);

struct file_descriptor {
  int number;
  ~file_descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw input_error(path.string() + ": cannot " + what + " the secret of the nodes (" + std::strerror(errno) +
                    "); expected a writable folder, or a secret in the environment variable " + secret_variable);
}

/// Writes a new secret under another name and links it to `path`, so that no process reads a partial secret. Does
/// nothing if the file exists by then.
void create(const std::filesystem::path& path) {
  auto aside = path.string() + ".XXXXXX";
  const file_descriptor file{::mkostemp(aside.data(), O_CLOEXEC)};  // with mode 0600
  if (file.number < 0) fail(path, "create");
  const auto text = make_secret() + "\n";
  const auto written = ::write(file.number, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const auto linked = written && (::link(aside.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const auto reason = errno;
  ::unlink(aside.c_str());
  errno = reason;
  if (!linked) fail(path, "create");
}

}  // namespace

std::string make_secret() {
  shared_secret bytes{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1)
    throw std::runtime_error("cannot generate a random secret");
  std::string text;
  for (const auto byte : bytes) {
    text += digits[std::to_integer<std::size_t>(byte) / digits.size()];
    text += digits[std::to_integer<std::size_t>(byte) % digits.size()];
  }
  return text;
}

shared_secret parse_secret(const std::string& text, const std::string& from) {
  const std::string_view whole{text.ends_with('\n') ? std::string_view{text}.substr(0, text.size() - 1) : text};
  shared_secret secret{};
  if (whole.size() != secret_digits || whole.find_first_not_of(digits) != std::string_view::npos)
    throw input_error(from + " is not a secret; expected " + std::to_string(secret_digits) +
                      " lower-case hexadecimal digits");
  for (std::size_t i = 0; i < secret.size(); ++i)
    secret[i] = static_cast<std::byte>(digits.find(whole[2 * i]) * digits.size() + digits.find(whole[2 * i + 1]));
  return secret;
}

shared_secret secret_in(const std::filesystem::path& path) try {
  if (::access(path.c_str(), F_OK) != 0) create(path);
  const files::input file{path, files::links::refused};
  const auto& about = file.about();
  if (about.st_uid != ::geteuid())
    throw input_error(path.string() + ": another user owns this file; remove it, so that a new secret is created");
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw input_error(path.string() +
                      ": other users may read this secret; remove the file, so that a new one is created");
  std::string text(secret_digits + 2, '\0');
  text.resize(file.read_at(0, text.data(), text.size()));
  return parse_secret(text, path.string());
} catch (const files::irregular& problem) {
  throw input_error(path.string() + ": " + problem.reason() + "; remove it, so that a new secret is created");
} catch (const files::unreadable& problem) {
  throw input_error(path.string() + ": cannot read the secret of the nodes (" + problem.reason() +
                    "); expected a secret in this file, or in the environment variable " + secret_variable);
}

}  // namespace troupe::security
