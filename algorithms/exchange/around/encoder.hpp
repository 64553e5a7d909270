// What a member does to the values that it sends and receives encoded: error feedback, and which values travel how.
#pragma once

#include "troupe/algorithms/exchange/around/codec.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"
#include "troupe/algorithms/messages/state_dict.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// How a member's parts travel encoded.
struct encoding_options {
  encoding how{encoding::float32};
  /// Whether all members get the same answer. Then a member also rounds an answer that it computes itself, as if it had
  /// received it.
  bool same_for_all{true};
  std::string state_name{"codec"};  ///< Name of the wrapper's state, unique among the wrappers of the exchange.
  /// Whether what is lost is added to the same member's next contribution, or to its next answer.
  bool feedback{false};
  double ratio{1};         ///< Share of the parameters that is sent, for a codec that sends a share.
  std::uint64_t after{0};  ///< Number of steps of the run in which everything travels as float32.
  /// Number of steps after these in which `ratio` falls from 1/4 to its value, in equal parts: 1/4, 1/16, 1/64 and so
  /// on. Source: Lin et al., "Deep Gradient Compression", ICLR 2018, section 3.3.
  std::uint64_t ratio_warm_up{0};
  /// Factor of the momentum that each member applies to what it has not yet sent, in place of the optimizer's; 0 for
  /// none. Only for top-k with feedback. Source: the same, sections 3.1 and 3.2.
  double momentum_correction{0};
  /// Ranges of a contribution that are sent to different servers, each encoded by itself; empty for one.
  std::vector<range> pieces{};
  std::int64_t rank{0};  ///< Number of columns of the factors of make_power_sgd_member().
};

/// Returns the number of elements of `where` that are parameters, not padding.
std::int64_t parameters_in(const models::flat_layout& layout, const range& where);

/// Encodes and decodes the parts of one member. All members see what the receiver of a part decodes, also of their own
/// contributions.
///
/// The scheme is that of Karimireddy et al., "Error Feedback Fixes SignSGD", ICML 2019: p = g + e is encoded in place
/// of g, and e becomes p minus what the receiver decodes. It applies to contributions and, in the member that computes
/// them, to answers. If a piece of p is not finite, its e becomes 0.
class encoder {
 public:
  encoder(const member_options& own, encoding_options options);

  /// Returns the member's own contribution as its receivers decode it.
  part contribution(const part& own);

  /// Returns a part as it travels. It is a piece of the last contribution, a partial sum or an answer.
  part sent(const part& piece);

  /// Returns an answer as other members decode it, if they receive the same answer.
  part answer(const part& piece);

  /// Returns a part from a peer as float32.
  part received(const part& piece);

  /// Forgets what was sent, but not what was lost.
  void forget_sent();

  /// Returns what was lost and is still to be sent.
  state_dict state() const;

 private:
  /// A part of a contribution that is encoded by itself.
  struct encoded_piece {
    range where{};
    std::int64_t used{0};  ///< Number of its elements that are parameters.
    at::Tensor payload{};  ///< What was sent of the last contribution; undefined if that travels as float32.
    /// Places in the piece, int64 [k], ascending, of the values that all members send, by the step of their origin. Of
    /// the last few steps.
    std::map<std::uint64_t, at::Tensor> places{};
  };

  struct sent_answer {
    at::Tensor values{}, payload{};
  };

  /// Returns the payload of a recent answer, or an undefined tensor.
  at::Tensor sent_as(const at::Tensor& answer) const;

  bool is_encoded_at(const part& piece) const;
  bool encodes_answers() const;
  double ratio_at(std::uint64_t step) const;
  encoding_task task_of(const part& piece, std::int64_t first, std::uint64_t phase) const;
  part as_values_of(const part& piece);
  at::Tensor places_in(const range& where, std::uint64_t step);
  at::Tensor encode(const at::Tensor& values, const range& where, std::uint64_t step, const encoding_task& task);
  void decode(const at::Tensor& payload, const range& where, std::uint64_t step, at::Tensor& values);
  void encode_piece(const part& own, encoded_piece& into, at::Tensor& decoded);
  std::optional<at::Tensor> cut_of(const range& where) const;
  at::Tensor answer_payload(const part& piece);
  at::Tensor left_of_answer(const range& where);
  void restore(const state_dict& saved, std::int64_t total);

  encoding_options options_;
  const codec& codec_;
  codec_nature nature_;
  models::buffer_pool pool_;
  std::uint64_t seed_, place_, rank_, lead_;
  std::int64_t first_element_;
  bool is_server_;
  std::vector<range> used_, gaps_;  ///< The parameters, and the padding behind them.
  at::Tensor error_;                ///< [P]: what contributions have lost; undefined without feedback.
  at::Tensor velocity_;             ///< [P]; undefined without momentum correction.
  /// What answers have lost, by the first element of ranges that do not overlap.
  std::map<std::int64_t, at::Tensor> errors_of_answers_;
  at::Tensor contributed_;  ///< The last contribution, decoded.
  std::vector<encoded_piece> pieces_;
  std::array<sent_answer, 4> answers_sent_;  ///< The last answers, because an answer is sent to many peers.
  std::size_t next_answer_{0};
};

}  // namespace troupe
