// The file manifest.json of a checkpoint: its contents, and what is needed to verify them and to continue the run.
// docs/checkpoints.md describes each field.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::checkpoint {

/// A checkpoint that is incomplete, damaged or not a checkpoint. The message gives the reason without the path.
struct damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Expected size and digest of a file.
struct sealed_file {
  std::uint64_t bytes{0};
  std::string sha256{};  ///< 64 hexadecimal digits, lower case.
  bool operator==(const sealed_file&) const = default;
};

/// An entry that has the same values as one that precedes it. It is stored only once.
struct repeated_entry {
  std::string name;                ///< Name of the entry itself.
  std::string file, name_in_file;  ///< Where the values are stored.
  bool operator==(const repeated_entry&) const = default;
};

/// The state of one actor.
struct saved_actor {
  std::string file;  ///< Holds the entries that are not repeated.
  std::vector<repeated_entry> repeated{};
  bool operator==(const saved_actor&) const = default;
};

/// A file that an option such as --csv requests.
struct saved_option {
  std::string path;     ///< Absolute.
  std::uint64_t bytes;  ///< Its size when the checkpoint was written.
  std::string sha256;   ///< Digest of these bytes.
  bool operator==(const saved_option&) const = default;
};

struct manifest {
  std::uint64_t step{0};
  std::map<std::string, sealed_file> files{};   ///< All other files of the checkpoint, by name.
  std::map<std::string, saved_actor> actors{};  ///< By name of the actor, such as "worker 0".
  std::string topology{};                       ///< Canonical text; see topology::canonical().
  std::map<std::string, std::string> fingerprint{};
  /// Digests of inputs that the topology only names, such as the samples.
  std::map<std::string, std::string> digests{};
  /// Files in the results folder when the checkpoint was written. The files grow afterwards. Checkpoints of earlier
  /// versions have no digests of them.
  std::map<std::string, sealed_file> outputs{};
  std::map<std::string, saved_option> options{};  ///< By name of the option, without dashes.
  bool operator==(const manifest&) const = default;
};

/// Returns the text of the file. It contains a digest of itself.
std::string text_of(const manifest& content);

/// Parses the text of such a file. The text is untrusted. Throws damaged unless it is exactly what text_of() returns
/// for a manifest that refers only to files and entries by plain names.
manifest parse_manifest(const std::string& text);

/// Returns whether a name can be that of a file in a checkpoint: 1 to 200 letters, digits, '-', '_' and '.', where the
/// first character is not '.'.
bool plain_name(const std::string& name);

}  // namespace troupe::checkpoint
