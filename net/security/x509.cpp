#include "troupe/net/security/x509.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/files/text.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace troupe::security {

namespace {

/// Returns the alternative names of a kind (GEN_DNS or GEN_URI).
std::vector<std::string> alternative_names(const X509* certificate, int kind) {
  std::vector<std::string> result;
  const std::unique_ptr<GENERAL_NAMES, releases<GENERAL_NAMES_free>> names{
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr))};
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const auto* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != kind) continue;
    const auto* text = name->d.ia5;  // of both kinds
    const auto* begin = reinterpret_cast<const char*>(ASN1_STRING_get0_data(text));
    result.emplace_back(begin, static_cast<std::size_t>(ASN1_STRING_length(text)));
  }
  return result;
}

std::vector<std::string> dns_names(const X509* certificate) {
  return alternative_names(certificate, GEN_DNS);
}

namespace fs = std::filesystem;

/// A file in PEM format, as OpenSSL reads it from memory.
struct pem_file {
  struct stat about {};
  std::unique_ptr<BIO, releases<BIO_free>> bio{};
};

pem_file open(const fs::path& path) try {
  constexpr std::size_t bytes_at_most = std::size_t{1} << 20;
  const files::input file{path};
  if (file.bytes() > bytes_at_most)
    throw input_error(path.string() + ": larger than 1 MiB; expected a file of `troupe certs`");
  std::string text(file.bytes(), '\0');
  text.resize(file.read_at(0, text.data(), text.size()));
  pem_file pem{.about = file.about(), .bio = decltype(pem_file::bio)(BIO_new(BIO_s_mem()))};
  if (!pem.bio || BIO_write(pem.bio.get(), text.data(), static_cast<int>(text.size())) < 0) throw std::bad_alloc{};
  return pem;
} catch (const files::unreadable& problem) {
  throw input_error(path.string() + ": " + problem.reason() +
                    "; expected a file of `troupe certs`, see [security] in the topology file");
}

/// A key that needs a passphrase cannot be read: there is no terminal to type it.
int no_passphrase(char*, int, int, void*) {
  return -1;
}

}  // namespace

certificate_pointer read_certificate(const fs::path& path) {
  const auto file = open(path);
  certificate_pointer certificate{PEM_read_bio_X509(file.bio.get(), nullptr, no_passphrase, nullptr)};
  ERR_clear_error();
  if (!certificate) throw input_error(path.string() + ": is not a certificate; expected one in PEM format");
  return certificate;
}

key_pointer read_key(const fs::path& path, key_owner owner) {
  const auto file = open(path);
  const auto& about = file.about;
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw input_error(path.string() + ": other users of this machine may read this private key; run chmod 600 " +
                      path.string());
  if (owner == key_owner::this_user && about.st_uid != ::geteuid())
    throw input_error(path.string() +
                      ": another user owns this private key, and could sign certificates with it; run the command as "
                      "that user, or use another folder");
  key_pointer key{PEM_read_bio_PrivateKey(file.bio.get(), nullptr, no_passphrase, nullptr)};
  ERR_clear_error();
  if (!key)
    throw input_error(path.string() + ": is not a private key; expected one in PEM format without a passphrase");
  return key;
}

void checked(bool succeeded, const char* call) {
  if (succeeded) return;
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  throw std::runtime_error(std::string(call) + " failed: " + reason.data());
}

std::string text_of(const ASN1_TIME* when) {
  std::tm time{};
  if (ASN1_TIME_to_tm(when, &time) != 1) return "an unknown time";
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &time);
  return text.data();
}

bool is_for(const X509* certificate, const std::string& node) {
  const auto names = dns_names(certificate);
  return std::find(names.begin(), names.end(), node) != names.end();
}

bool is_of_node(const X509* certificate) {
  return certificate != nullptr && !dns_names(certificate).empty();
}

std::string name_of_guest(const X509* certificate) {
  if (certificate == nullptr) return {};
  for (const auto& name : alternative_names(certificate, GEN_URI))
    if (name.starts_with(guest_prefix)) return name.substr(std::string_view{guest_prefix}.size());
  return {};
}

std::string names_of(const X509* certificate) {
  if (const auto guest = name_of_guest(certificate); !guest.empty()) return "the guest " + text::printable(guest);
  auto names = dns_names(certificate);
  constexpr std::size_t most = 3;
  if (names.size() > most) names.resize(most);
  for (auto& name : names) name = text::printable(name);
  return names.empty() ? "no node" : text::listed(names, "and");
}

}  // namespace troupe::security
