// Numbered invariants of the stand-in:
// RE-1: no contribution is passed on twice or out of turn: each member contributes in the order of its steps
// (serving::roll_call).
// RE-2: each contribution is answered once, and nothing else is.
// RE-3: with answers = "same", all members get the same answer to a step.
#include "troupe/algorithms/exchange/remote/remote.hpp"

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/servers/serving.hpp"
#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/algorithms/support/assert.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

range all_of(const member_options& options) {
  return {0, options.layout.parameter_end};
}

std::string actor_in(const setting_values& settings) {
  const auto found = settings.find("actor");
  return found == settings.end() ? std::string{} : std::get<std::string>(found->second);
}

/// A worker's side.
class remote_client final : public serving::served_client {
 public:
  explicit remote_client(const member_options& options)
      : served_client(options, {.cut = {all_of(options)},
                                .versions = {options.restored ? options.restored->count("version") : 0},
                                .answers = options.carries.answers}) {}

  state_dict state() const override {
    state_dict state;
    state.put_count("version", versions().front());
    return state;
  }

 private:
  part answer_from(const part& piece) override { return piece; }
};

/// Stands in for the actor: passes contributions on, and answers to the members that they are for. The actor may answer
/// a step before all members have contributed to it.
class stand_in final : public server {
 public:
  explicit stand_in(member_options options)
      : options_(std::move(options)),
        name_(actor_in(options_.settings)),
        answers_all_(answers_all(options_.settings)),
        roll_call_(options_),
        version_(options_.restored ? options_.restored->count("version") : 0) {
    options_.restored.reset();
    options_.initial.reset();
  }

  void receive(const part& piece, outbox& out) override {
    piece.origin.sender == options_.among.rank ? take_answer(piece, out) : take_contribution(piece, out);
  }

  std::vector<rank_id> waiting_for(std::uint64_t) const override {
    if (rounds_.empty()) return {};
    const auto& [step, its] = *rounds_.begin();
    auto missing = roll_call_.missing(step);
    if (missing.empty()) missing = {options_.among.rank};
    return missing;
  }

  std::optional<std::uint64_t> open_step() const override { return rounds_.empty() ? 0 : rounds_.begin()->first; }

  std::int64_t largest_fold() const override { return 0; }

  std::optional<holding> held(std::uint64_t) override { return std::nullopt; }

  /// While no step is under way, all contributions have been answered.
  state_dict state() const override {
    TROUPE_ASSERT(rounds_.empty(), "a state must be taken between two steps");
    state_dict state;
    state.put_counts("next", roll_call_.next());
    state.put_count("version", version_);
    return state;
  }

 private:
  /// A step to which some member has contributed, until all of its contributions are answered.
  struct round {
    std::map<rank_id, part> unanswered;  ///< By member, without values.
    std::uint32_t answered{0};
    std::int64_t sample_count{0};
    std::optional<part> answer;  ///< With answers = "same", once it has arrived.
  };

  void take_contribution(const part& piece, outbox& out) {
    if (piece.at != stage::contribution)
      throw exchange_error(errc::mismatch, "a server received a part that is not a contribution");
    rules::check_fits(piece, {all_of(options_)});
    const auto member = piece.origin.sender;
    const auto step = piece.origin.step;
    roll_call_.note(member, step);  // RE-1
    auto& its = rounds_[step];
    auto stub = piece;
    stub.piece.values.reset();
    stub.receipt.reset();
    its.unanswered.emplace(member, std::move(stub));
    its.sample_count += piece.sample_count;
    if (its.answer) return answer(step, member, *its.answer, out);
    options_.remote->send(piece);
  }

  void take_answer(const part& piece, outbox& out) {
    const auto step = piece.origin.step;
    const auto found = rounds_.find(step);
    if (found == rounds_.end() || found->second.answer)
      refuse("answered step " + std::to_string(step + 1) + ", to which no contribution is unanswered");
    auto given = piece;
    given.which.part = 0;
    rules::check_fits(given, {all_of(options_)});
    given.receipt.reset();
    given.origin.version = version_ + 1;
    if (!answers_all_) {
      const rank_id member{piece.which.part};
      if (!found->second.unanswered.contains(member))
        refuse("answered member " + std::to_string(piece.which.part) + " at step " + std::to_string(step + 1) +
               ", which has no unanswered contribution");
      ++version_;
      given.sample_count = found->second.unanswered.at(member).sample_count;
      return answer(step, member, given, out);
    }
    ++version_;
    given.sample_count = found->second.sample_count;
    found->second.answer = given;
    std::vector<rank_id> members;
    for (const auto& [member, stub] : found->second.unanswered) members.push_back(member);
    for (const auto member : members) answer(step, member, given, out);  // RE-3
  }

  /// Answers the contribution of a member.
  void answer(std::uint64_t step, rank_id member, const part& with, outbox& out) {
    auto& its = rounds_.at(step);
    auto piece = std::move(its.unanswered.extract(member).mapped());  // RE-2
    piece.origin.sender = options_.among.rank;
    piece.origin.version = with.origin.version;
    piece.what = options_.carries.answers;
    piece.at = stage::result;
    piece.piece.values = with.piece.values;
    piece.sample_count = with.sample_count;
    out.send(member, std::move(piece));
    if (++its.answered == options_.among.world_size) rounds_.erase(step);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw exchange_error(errc::mismatch, "actor " + name_ + " " + what);
  }

  member_options options_;
  std::string name_;
  bool answers_all_;
  serving::roll_call roll_call_;
  std::uint64_t version_;  ///< Number of answers of the actor.
  std::map<std::uint64_t, round> rounds_;
};

std::unique_ptr<member> make_remote_side(const member_options& options) {
  if (!options.among.is_server()) return std::make_unique<remote_client>(options);
  return std::make_unique<stand_in>(options);
}

exchange_nature remote_nature(const setting_values& settings) {
  return {.deterministic = false,  // unless the program promises it, which nothing here can know
          .same_for_all = answers_all(settings),
          .encoding_refusal = "the program of the actor takes and gives float32",
          .servers = 1,
          .actor = actor_in(settings)};
}

std::optional<complaint> check_remote(const std::vector<std::string>&, const setting_values& settings) {
  if (!actor_in(settings).empty()) return {};
  return complaint{"actor",
                   "an exchange of kind \"remote\" has its rule in another program; give the name under which that "
                   "program attaches, such as actor = \"median\""};
}

}  // namespace

bool answers_all(const setting_values& settings) {
  const auto found = settings.find("answers");
  return found == settings.end() || std::get<std::string>(found->second) == "same";
}

exchange_kind remote_kind() {
  return {
      .name = "remote",
      .explanation = "All workers send to an actor in another program, which answers by a rule of its own.",
      .source = "the actor model: Hewitt, Bishop, Steiger 1973 (IJCAI), \"A universal modular ACTOR formalism\"",
      .carries = {{.sends = slot::gradient, .answers = slot::gradient},
                  {.sends = slot::parameters, .answers = slot::parameters, .behind_apply = true}},
      .settings = {{.name = "actor",
                    .type = setting_type::text,
                    .default_text = "",
                    .explanation = "Name under which the program with the rule attaches to the run (troupe run "
                                   "--actors). The run waits for it before the first step, for at most "
                                   "run.join_timeout."},
                   {.name = "answers",
                    .type = setting_type::choice,
                    .default_text = "\"same\"",
                    .explanation = "\"same\": the program gives one answer to each step, which all workers receive; "
                                   "\"each\": it answers every worker separately.",
                    .choices = {"same", "each"}}},
      .make_member = make_remote_side,
      .edges = serving::edges_to_one_server,
      .nature = remote_nature,
      .check = check_remote,
  };
}

}  // namespace troupe
