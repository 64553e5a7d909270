// A text, for models of its characters. A sample is a window of the text; windows follow each other or, in training,
// begin at random positions if that is set. The target of each character is the next one. A character is a code point
// if the training text is UTF-8, otherwise a byte.
#include "troupe/data/formats/encoding.hpp"
#include "troupe/data/formats/lines.hpp"
#include "troupe/data/formats/reading.hpp"
#include "troupe/data/formats/utf8.hpp"
#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

// Each character takes eight bytes of memory, so a text of this size takes as much as a machine has.
constexpr std::uint64_t most_bytes_of_text = std::uint64_t{1} << 30;

std::string text_in(const fs::path& file, const std::string& key) {
  auto text =
      reading(file, key, "the text", [](const fs::path& path) { return files::read_all(path, most_bytes_of_text); });
  const auto refuse = [&](const std::string& reason) { throw data_error(file.string() + ": " + reason); };
  if (text.starts_with("\x1f\x8b")) refuse("the file is compressed with gzip; decompress it");
  if (const auto why = other_encoding(text, file); !why.empty()) refuse(why);
  if (const auto at = text.find('\0'); at != std::string::npos)
    refuse("found a zero byte at byte " + std::to_string(at) +
           ", which cannot occur in text; expected a text file in UTF-8 or another encoding of bytes");
  text.erase(0, utf8_mark(text));
  return text;
}

// Returns the first character of `text`, which must not be empty.
std::string_view first_of(std::string_view text, bool utf8) {
  return text.substr(0, utf8 ? std::max<std::size_t>(utf8_length_of_first(text), 1) : 1);
}

// Returns a character for metadata and messages: unchanged if it is UTF-8, otherwise as \xNN.
std::string name_of(std::string_view character) {
  return utf8_length_of_first(character) > 0 ? std::string{character} : printable_utf8(character);
}

// The characters of a text, ascending.
class vocabulary {
 public:
  vocabulary(std::string_view text) : utf8_{utf8_beginning(text) == text.size()} {
    std::set<std::string_view> characters;
    for (std::string_view rest = text; !rest.empty();) {
      const auto character = first_of(rest, utf8_);
      characters.insert(character);
      rest.remove_prefix(character.size());
    }
    for (const auto character : characters) index_.emplace(character, static_cast<std::int64_t>(index_.size()));
  }

  // Returns the index of each character of the text: [characters of the text], int64.
  at::Tensor tokens(std::string_view text, const fs::path& file, const fs::path& training_file) const {
    const auto most = static_cast<std::int64_t>(text.size());
    at::Tensor indices = at::empty({most}, at::kLong);
    auto* token = indices.mutable_data_ptr<std::int64_t>();
    std::int64_t count = 0;
    for (std::string_view rest = text; !rest.empty(); ++count) {
      const auto character = first_of(rest, utf8_);
      const auto known = index_.find(character);
      if (known == index_.end()) {
        const auto seen = text.substr(0, text.size() - rest.size());
        throw data_error(file.string() + ":" + std::to_string(std::count(seen.begin(), seen.end(), '\n') + 1) +
                         ": found the character " + quoted(character) + ", which does not occur in the training text " +
                         training_file.filename().string() + "; remove it here or add it there");
      }
      token[count] = known->second;
      rest.remove_prefix(character.size());
    }
    return indices.narrow(0, 0, count);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [character, index] : index_) all.push_back(name_of(character));
    return all;
  }

 private:
  bool utf8_;
  std::map<std::string, std::int64_t, std::less<>> index_;
};

// Inputs and targets are two views of the same characters, and targets begin one character later.
dataset windows(const at::Tensor& tokens, std::int64_t length, const fs::path& file,
                const std::vector<std::string>& classes) {
  const std::int64_t count = (tokens.numel() - 1) / length;
  if (count < 1) {
    throw data_error(file.string() + ": the file has " + std::to_string(tokens.numel()) +
                     " characters, but data.sequence_length = " + std::to_string(length) + " requires at least " +
                     std::to_string(length + 1) + "; provide more text or reduce data.sequence_length");
  }
  return {.inputs = tokens.narrow(0, 0, count * length).view({count, length}),
          .targets = tokens.narrow(0, 1, count * length).view({count, length}),
          .classes = classes};
}

dataset_pair load_text(const data_source& from) {
  std::string text = text_in(from.file, "data.file");
  const vocabulary known{text};
  const auto classes = known.names();
  const auto tokens = known.tokens(text, from.file, from.file);
  auto train = windows(tokens, from.sequence_length, from.file, classes);
  if (from.random_windows) train.drawn_from = tokens;
  dataset_pair pair{.train = std::make_shared<dataset>(std::move(train)),
                    .test{},
                    .scale{},
                    .files = {from.file.string()},
                    .sample_shape = {from.sequence_length}};
  if (from.test_file.empty()) {
    pair.test = pair.train;
    return pair;
  }
  text = text_in(from.test_file, "data.test_file");
  pair.test = std::make_shared<dataset>(
      windows(known.tokens(text, from.test_file, from.file), from.sequence_length, from.test_file, classes));
  pair.files.push_back(from.test_file.string());
  return pair;
}

}  // namespace

dataset_kind text() {
  return {.name = "text",
          .explanation = "your own text file, read character by character",
          .folder = "",
          .sample_shape = {},
          .classes = 0,
          .published{},
          .load = load_text,
          .reads = {"file", "test_file", "sequence_length", "random_windows"}};
}

}  // namespace troupe::data
