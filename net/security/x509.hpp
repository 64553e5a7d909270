// OpenSSL's certificates and keys as owning pointers. Only sources that use OpenSSL include this header.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace troupe::security {

template <auto release>
struct releases {
  template <class T>
  void operator()(T* one) const {
    release(one);
  }
};

using certificate_pointer = std::unique_ptr<X509, releases<X509_free>>;
using key_pointer = std::unique_ptr<EVP_PKEY, releases<EVP_PKEY_free>>;

/// The users that may own the file of a key.
enum class key_owner : std::uint8_t {
  anyone,     ///< Any user, such as the one outside of a container in which this process is root.
  this_user,  ///< Only the user of this process.
};

/// Return the contents of a file in PEM format. Throw input_error if they cannot be read, if other users may read the
/// key, or if `owner` does not allow the owner of its file.
certificate_pointer read_certificate(const std::filesystem::path& path);
key_pointer read_key(const std::filesystem::path& path, key_owner owner = key_owner::anyone);

/// Throws std::runtime_error unless a call to OpenSSL succeeded.
void checked(bool succeeded, const char* call);

/// Returns a time of a certificate as text, such as "2027-02-24 10:00:00 UTC".
std::string text_of(const ASN1_TIME* when);

/// Returns whether a certificate is for a node of this name: one of its DNS names is equal to it.
bool is_for(const X509* certificate, const std::string& node);

/// Returns whether a certificate is for a node: it has a DNS name. Those of guests have none.
bool is_of_node(const X509* certificate);

/// What the certificate of a guest has as an alternative name of kind URI, before the name of the guest.
constexpr auto* guest_prefix = "urn:troupe:guest:";

/// Returns the name of the guest that a certificate is for, or "" if it is for none.
std::string name_of_guest(const X509* certificate);

/// Returns the names of the nodes, or of the guest, that a certificate is for as a list, or "no node".
std::string names_of(const X509* certificate);

}  // namespace troupe::security
