#include "troupe/runtime/security/authority.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/text.hpp"
#include "troupe/net/security/credentials.hpp"
#include "troupe/net/security/x509.hpp"
#include "troupe/runtime/support/folder_lock.hpp"
#include "troupe/runtime/topology/canonical.hpp"
#include "troupe/runtime/topology/validate_exchanges.hpp"
#include "troupe/runtime/topology/value.hpp"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <unistd.h>

namespace troupe::security {

namespace {

namespace fs = std::filesystem;

/// The authority outlives the certificates that it signs, so that nodes can be added later.
constexpr int days_of_authority = 3650;

/// Certificates are valid from a day ago, because the clocks of the hosts may differ.
constexpr long head_start = 24 * 3600;

constexpr auto* authority_name = "authority";

struct identity {
  certificate_pointer certificate;
  key_pointer key;
};

void add_extension(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, releases<X509_EXTENSION_free>> extension{
      X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str())};
  checked(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "X509_add_ext");
}

void set_random_serial(X509* certificate) {
  constexpr int bits = 127;
  const std::unique_ptr<BIGNUM, releases<BN_free>> number{BN_new()};
  checked(number && BN_rand(number.get(), bits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
              BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr,
          "BN_rand");
}

/// Returns a new key and a certificate without extensions, which is not signed yet.
identity make_identity(const std::string& name, int days) {
  identity result{certificate_pointer{X509_new()}, key_pointer{EVP_EC_gen("P-256")}};
  checked(result.certificate && result.key, "EVP_EC_gen");
  auto* certificate = result.certificate.get();
  constexpr long version_3 = 2;
  checked(X509_set_version(certificate, version_3) == 1 && X509_set_pubkey(certificate, result.key.get()) == 1,
          "X509_set_pubkey");
  set_random_serial(certificate);
  checked(X509_gmtime_adj(X509_getm_notBefore(certificate), -head_start) != nullptr &&
              X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, nullptr) != nullptr,
          "X509_time_adj");
  checked(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0) == 1,
          "X509_NAME_add_entry_by_txt");
  return result;
}

void sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  checked(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
              X509_sign(certificate, key, EVP_sha256()) > 0,
          "X509_sign");
}

identity make_authority(int days) {
  auto authority = make_identity("Troupe authority", std::max(days, days_of_authority));
  auto* certificate = authority.certificate.get();
  add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(certificate, certificate, NID_subject_key_identifier, "hash");
  sign(certificate, certificate, authority.key.get());
  return authority;
}

/// Makes the identity of a node or a guest, with an alternative name such as "DNS:alpha".
identity make_member(const std::string& name, const std::string& alternative, int days, const identity& authority) {
  auto member = make_identity(name, days);
  auto* certificate = member.certificate.get();
  auto* issuer = authority.certificate.get();
  add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature");
  add_extension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(certificate, issuer, NID_subject_alt_name, alternative);
  add_extension(certificate, issuer, NID_subject_key_identifier, "hash");
  add_extension(certificate, issuer, NID_authority_key_identifier, "keyid");
  sign(certificate, issuer, authority.key.get());
  return member;
}

using file_pointer = std::unique_ptr<std::FILE, releases<std::fclose>>;

[[noreturn]] void fail_to_write(const fs::path& path) {
  throw std::runtime_error(path.string() + ": cannot write: " + std::strerror(errno));
}

std::string aside_of(const fs::path& path) {
  return path.string() + ".new";
}

/// Writes a file under a temporary name, from which put_in_place() renames it, so that there is never a partial file
/// under its own name. Throws std::runtime_error.
template <class Write>
void write_aside_of(const fs::path& path, mode_t mode, Write write) {
  const auto aside = aside_of(path);
  ::unlink(aside.c_str());
  const int opened = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (opened < 0) fail_to_write(path);
  file_pointer file{::fdopen(opened, "w")};
  errno = ENOSPC;
  if (write(file.get()) != 1 || std::fflush(file.get()) != 0 || ::fsync(opened) != 0) {
    const auto reason = errno;
    ::unlink(aside.c_str());
    errno = reason;
    fail_to_write(path);
  }
}

void put_in_place(const fs::path& path) {
  if (std::rename(aside_of(path).c_str(), path.c_str()) != 0) fail_to_write(path);
}

/// Writes a certificate and its key. Earlier files remain until both new ones are written. Whenever this process ends,
/// a certificate that exists has its key.
void write_identity(const identity& subject, const credential_files& files, std::vector<fs::path>& written) {
  write_aside_of(files.key, 0600, [&](std::FILE* file) {
    return PEM_write_PKCS8PrivateKey(file, subject.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  try {
    write_aside_of(files.certificate, 0644,
                   [&](std::FILE* file) { return PEM_write_X509(file, subject.certificate.get()); });
  } catch (...) {
    ::unlink(aside_of(files.key).c_str());
    throw;
  }
  fs::remove(files.certificate);
  put_in_place(files.key);
  put_in_place(files.certificate);
  written.insert(written.end(), {files.certificate, files.key});
}

/// Calls `act(option, name)` for each node and guest.
template <class Act>
void for_each_name(const certificate_request& request, Act act) {
  for (const auto& node : request.nodes) act("--node", node);
  for (const auto& guest : request.guests) act("--guest", guest);
}

void check_names(const certificate_request& request) {
  std::set<std::string> seen;
  for_each_name(request, [&](const std::string& option, const std::string& name) {
    if (!topology::legal_name(name))
      throw input_error(option + " " + text::printable(name) + ": a " + option.substr(2) +
                        " cannot have this name; expected at most 64 letters, digits, - and _");
    if (name == authority_name)
      throw input_error(option + " authority: the files of the authority have this name; expected another one");
    if (!seen.insert(name).second) throw input_error(option + " " + name + ": the name is given twice");
  });
}

/// Throws input_error if a node or guest has a certificate already.
void check_new(const certificate_request& request) {
  for_each_name(request, [&](const std::string&, const std::string& name) {
    const auto path = files_in(request.folder, name).certificate;
    if (!request.overwrite && fs::exists(path))
      throw input_error(path.string() + " exists; use --overwrite to replace it, or give only names that are new");
  });
}

/// Returns the authority of the folder, or a new one if it has none.
identity authority_of(const certificate_request& request, std::vector<fs::path>& written) {
  const auto files = files_in(request.folder, authority_name);
  if (!fs::exists(files.certificate) && !fs::exists(files.key)) {
    auto created = make_authority(request.days);
    write_identity(created, files, written);
    return created;
  }
  if (!fs::exists(files.certificate))
    throw input_error(files.key.string() + ": there is no " + files.certificate.string() +
                      " for this key; put the certificate back, or remove the key for a new authority");
  identity existing{read_certificate(files.certificate), read_key(files.key, key_owner::this_user)};
  if (X509_check_private_key(existing.certificate.get(), existing.key.get()) != 1) {
    ERR_clear_error();
    throw input_error(files.key.string() + ": the key does not belong to the certificate " +
                      files.certificate.string());
  }
  return existing;
}

}  // namespace

std::vector<fs::path> make_certificates(const certificate_request& request) {
  check_names(request);
  std::error_code failed;
  fs::create_directories(request.folder, failed);
  if (failed) throw std::runtime_error(request.folder.string() + ": cannot create the folder: " + failed.message());
  held_folder held;  // one authority, however many processes make certificates here
  held.lock_when_free(request.folder);
  check_new(request);
  std::vector<fs::path> written;
  const auto authority = authority_of(request, written);
  const auto* ends = X509_get0_notAfter(authority.certificate.get());
  std::time_t wanted = std::time(nullptr) + std::time_t{request.days} * 24 * 3600;
  if (X509_cmp_time(ends, &wanted) < 0)
    throw input_error(files_in(request.folder, authority_name).certificate.string() +
                      ": the authority's certificate expires on " + text_of(ends) +
                      ", before the new ones would; use fewer --days, or an empty folder for a new authority");
  for_each_name(request, [&](const std::string& option, const std::string& name) {
    const auto alternative = (option == "--node" ? "DNS:" : "URI:" + std::string(guest_prefix)) + name;
    write_identity(make_member(name, alternative, request.days, authority), files_in(request.folder, name), written);
  });
  return written;
}

}  // namespace troupe::security
