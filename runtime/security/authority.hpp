// A certificate authority of a run, and the certificates of its nodes and guests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::security {

struct certificate_request {
  std::filesystem::path folder;
  std::vector<std::string> nodes;     ///< Names as in the topology file.
  std::vector<std::string> guests{};  ///< Names of guests; all names are different.
  int days{825};                      ///< Number of days, from now on, for which the certificates are valid.
  bool overwrite{false};              ///< Whether certificates of the same names are replaced.
};

/// Writes authority.crt and authority.key, unless the folder has them, and for each node and guest NAME.crt and
/// NAME.key: ECDSA with P-256, keys with mode 0600. Returns the paths that were written. Throws input_error, before
/// anything is written, if a name is not a legal name or its certificate exists; std::runtime_error if a file cannot be
/// written.
std::vector<std::filesystem::path> make_certificates(const certificate_request& request);

}  // namespace troupe::security
