#include "troupe/net/security/credentials.hpp"

#include "troupe/files/error.hpp"
#include "troupe/net/security/x509.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace troupe::security {

namespace {

namespace fs = std::filesystem;

void check_time(const fs::path& path, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    throw input_error(path.string() + ": the certificate is not valid before " +
                      text_of(X509_get0_notBefore(certificate)) + "; set the clock of this machine");
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    throw input_error(path.string() + ": the certificate expired on " + text_of(X509_get0_notAfter(certificate)) +
                      "; make a new one with `troupe certs`");
}

void check_signature(const credential_files& files) {
  using context_pointer = std::unique_ptr<SSL_CTX, releases<SSL_CTX_free>>;
  const context_pointer context{SSL_CTX_new(TLS_method())};
  checked(context != nullptr, "SSL_CTX_new");
  if (SSL_CTX_load_verify_file(context.get(), files.authority.c_str()) != 1 ||
      SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1 ||
      SSL_CTX_build_cert_chain(context.get(), SSL_BUILD_CHAIN_FLAG_UNTRUSTED) != 1) {
    ERR_clear_error();
    throw input_error(files.certificate.string() + ": the certificate is not from the authority " +
                      files.authority.string() + "; make both with the same `troupe certs`");
  }
}

/// Checks the files, and between their other checks the names in the certificate with `check_names`.
template <class CheckNames>
void check_files(const credential_files& files, CheckNames check_names) {
  const auto authority = read_certificate(files.authority);
  const auto certificate = read_certificate(files.certificate);
  const auto key = read_key(files.key);
  check_time(files.authority, authority.get());
  check_time(files.certificate, certificate.get());
  check_names(certificate.get());
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    throw input_error(files.key.string() + ": the key does not belong to the certificate " +
                      files.certificate.string());
  }
  check_signature(files);
}

}  // namespace

credential_files files_in(const fs::path& folder, const std::string& node) {
  return {folder / "authority.crt", folder / (node + ".crt"), folder / (node + ".key")};
}

void check(const credential_files& files, const std::string& node) {
  check_files(files, [&](const X509* certificate) {
    if (!is_for(certificate, node))
      throw input_error(files.certificate.string() + ": the certificate is for " + names_of(certificate) +
                        ", not for node " + node + "; expected the DNS name " + node);
  });
}

std::string check_guest(const credential_files& files) {
  std::string name;
  check_files(files, [&](const X509* certificate) {
    name = name_of_guest(certificate);
    if (name.empty())
      throw input_error(files.certificate.string() + ": the certificate is for " + names_of(certificate) +
                        ", not for a guest; make one with `troupe certs --guest NAME`");
  });
  return name;
}

}  // namespace troupe::security
