// The certificate with which a node identifies itself to the others, or a guest to a node.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace troupe::security {

/// Paths of PEM files.
struct credential_files {
  std::filesystem::path authority;    ///< Certificate of the authority that has signed those of all nodes.
  std::filesystem::path certificate;  ///< Certificate of this node, then those of intermediate authorities, if any.
  std::filesystem::path key;          ///< Private key of this node.
};

/// Returns the files of a node in a folder that `troupe certs` has written.
credential_files files_in(const std::filesystem::path& folder, const std::string& node);

/// Checks the files of a node before it connects to others. Throws input_error if one cannot be read, if others can
/// read the key, if the key does not belong to the certificate, or if the certificate is for another node, is not valid
/// now, or is not from the authority.
void check(const credential_files& files, const std::string& node);

/// Checks the files of a guest in the same way, and returns the name that its certificate is for.
std::string check_guest(const credential_files& files);

}  // namespace troupe::security
