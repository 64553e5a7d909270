// Taking the place of an actor in an exchange of a run (kind "remote"): the rule of the exchange is then in this
// program, which does not need LibTorch for it, nor actors.
#pragma once

#include "troupe/net/guests/credentials.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// The exchange in which a program has a place.
struct remote_exchange {
  std::string name;          ///< Its name in the topology file.
  std::uint32_t members{0};  ///< Number of its members, n.
  std::int64_t elements{0};  ///< Number of values in each contribution and in each answer.
  std::string sends;         ///< What the values are: "gradient" or "parameters".
  bool answers_all{true};    ///< Whether one answer is for all members (`answers = "same"`).
  std::string node;          ///< Name of the node to which this program has connected.
  std::string version;       ///< The version of Troupe of the run.
};

/// What a member of the exchange has contributed to a step.
struct contribution {
  std::uint32_t member{0};       ///< Index of the member, from 0.
  std::uint64_t step{0};         ///< Number of steps that the member had completed.
  std::int64_t sample_count{0};  ///< Number of samples that the values represent.
  std::vector<float> values;     ///< [elements]
};

/// Takes the answers of a rule. Any thread may call these functions, also after take_part() has returned; they then do
/// nothing. They throw std::invalid_argument if the number of values is wrong, there is no such member, or the exchange
/// takes the other kind of answers.
class answers {
 public:
  virtual ~answers() = default;

  /// Answers a step to which some member has contributed, for all members. Only with `answers = "same"`.
  virtual void give(std::uint64_t step, std::vector<float> values) = 0;

  /// Answers the contribution of a member to a step. Only with `answers = "each"`.
  virtual void give(std::uint64_t step, std::uint32_t member, std::vector<float> values) = 0;
};

/// The rule of an exchange. take_part() calls its functions on the thread on which it was called.
class remote_rule {
 public:
  virtual ~remote_rule() = default;

  /// Called first.
  virtual void begin(const remote_exchange& /*where*/) {}

  /// Called before the first contribution if the run continues from a checkpoint for which state() returned something:
  /// `state` is that.
  virtual void restore(std::string_view /*state*/) {}

  /// Takes a contribution. The steps of each member follow each other; those of different members may differ. The
  /// answer may be given now or later, but each contribution must be answered within run.timeout.
  virtual void receive(contribution&& what, const std::shared_ptr<answers>& to) = 0;

  /// Returns what the answers to later steps depend on; called for a checkpoint, while every contribution is answered.
  /// At most 16 MiB, and 64 bytes more for each value.
  virtual std::string state() { return {}; }
};

/// Takes the place of `actor` in a run on this host that was started with --actors and writes its results to the folder
/// `out`. Returns the exit status of the run when it is over. Throws attach_error, and whatever the rule throws.
int take_part(remote_rule& with, const std::filesystem::path& out, const std::string& actor);

/// Takes the place of the actor `who.name` in a run at an address such as "10.0.0.1:4700". Does the same otherwise.
int take_part(remote_rule& with, const std::string& address, const guest_credentials& who);

}  // namespace troupe
