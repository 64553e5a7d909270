// Numbered invariants of the server:
// EL-1: the version grows by one with each move of the centre: by one per round of all workers, or per contribution.
// EL-2: no contribution is accepted twice or out of turn: each worker contributes in the order of its steps
// (serving::roll_call).
// EL-3: no contribution is lost: each moves the centre once and is answered once.
// EL-4: with apply = "all", every worker in a round is answered with the centre after the previous round.
// EL-5: with apply = "each", the centre gains what the worker loses, computed from the same rounded d.
// EL-6: an answer is never written again: the centre is moved out of place.
#include "troupe/algorithms/exchange/servers/elastic.hpp"

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/servers/serving.hpp"
#include "troupe/algorithms/rules/elastic.hpp"
#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/algorithms/support/assert.hpp"
#include "troupe/algorithms/support/number.hpp"

#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Adds the default of α: the paper's β/n with its β = 0.9 (§5).
setting_values with_alpha(std::uint32_t workers, setting_values settings) {
  settings.try_emplace("alpha", 0.9 / workers);
  return settings;
}

double alpha_of(const member_options& options) {
  return std::get<double>(with_alpha(options.among.world_size, options.settings).at("alpha"));
}

range whole(const member_options& options) {
  return {0, options.layout.parameter_end};
}

/// A worker's side. With apply = "all", it computes the worker's move itself, because it has xⁱ and receives x̃.
class elastic_client final : public serving::served_client {
 public:
  explicit elastic_client(const member_options& options)
      : served_client(options, {.cut = {whole(options)},
                                .versions = {options.restored ? options.restored->count("version") : 0},
                                .answers = serving::applies_each(options.settings) ? slot::change : slot::parameters,
                                .may_repeat_version = true}),
        each_(serving::applies_each(options.settings)),
        alpha_(alpha_of(options)) {}

  state_dict state() const override {
    state_dict state;
    state.put_count("version", versions().front());
    return state;
  }

  std::int64_t largest_fold() const override { return each_ ? 0 : options_.layout.parameter_end; }

 private:
  void begin(const part& own) override {
    if (!each_) position_ = own.piece.values.narrow(0, 0, options_.layout.parameter_end);
  }

  part answer_from(const part& piece) override {
    auto answer = piece;
    if (!each_) answer.piece.values = rules::pulled_to_centre(position_, piece.piece.values, alpha_, options_.pool);
    position_.reset();
    return answer;
  }

  bool each_;
  double alpha_;
  at::Tensor position_;  ///< The contribution under way.
};

class centre : public serving::answering_server {
 public:
  explicit centre(member_options options)
      : answering_server(std::move(options)),
        alpha_(alpha_of(options_)),
        centre_(options_.restored ? options_.restored->tensor("centre", options_.layout.parameter_end)
                                  : options_.initial.narrow(0, 0, options_.layout.parameter_end)) {
    options_.initial.reset();  // so that its memory can be released once the centre has moved
  }

  state_dict state() const override {
    auto state = answering_server::state();
    state.put("centre", centre_);
    return state;
  }

  void receive(const part& piece, outbox& out) final {
    check(piece, slot::parameters, {whole(options_)}, 0);
    take(piece, out);
  }

 protected:
  virtual void take(const part& piece, outbox& out) = 0;

  holding now() const { return {.piece = {0, centre_}, .version = version_, .staleness = {}}; }

  double alpha_;
  at::Tensor centre_;  ///< x̃, frozen.
};

/// Moves the centre once all workers' positions have arrived. A worker is answered as soon as the previous round is
/// complete, so it may be one round ahead of the slowest worker; its next contribution is then kept.
class centre_of_all final : public centre {
 public:
  explicit centre_of_all(const member_options& options)
      : centre(options),
        archive_(options),
        step_(options.restored ? options.restored->count("round") : serving::first_due(options)),
        open_(options.among.world_size),
        ahead_(options.among.world_size) {
    options_.restored.reset();
  }

  /// While no step is under way, all workers have contributed to the same rounds, so none is open.
  state_dict state() const override {
    TROUPE_ASSERT(open_.came == 0 && ahead_.came == 0, "a state must be taken between two rounds");
    auto state = centre::state();
    state.put_count("round", step_);
    archive_.save(state);
    return state;
  }

  std::vector<rank_id> waiting_for(std::uint64_t) const override {
    return open_.came == 0 ? std::vector<rank_id>{} : roll_call_.missing(step_);
  }

  std::optional<std::uint64_t> open_step() const override { return step_; }

  std::optional<holding> held(std::uint64_t step) override { return archive_.take(step, now()); }

 private:
  struct round {
    explicit round(std::uint32_t world_size) : positions(world_size) {}
    std::vector<at::Tensor> positions;  ///< By worker.
    std::uint32_t came{0};
    std::vector<part> unanswered;
  };

  void take(const part& piece, outbox& out) override {
    const auto is_ahead = piece.origin.step > step_;
    if (is_ahead && piece.origin.step != options_.due.next_due(step_ + 1))
      throw exchange_error(errc::mismatch, "a worker is two rounds ahead");
    roll_call_.note(piece.origin.sender, piece.origin.step);
    auto& its = is_ahead ? ahead_ : open_;
    its.positions[static_cast<std::size_t>(piece.origin.sender)] = piece.piece.values;
    its.came += 1;
    if (is_ahead)
      its.unanswered.push_back(piece);
    else
      answer(piece, slot::parameters, centre_, out);  // EL-4
    if (open_.came == options_.among.world_size) close(out);
  }

  void close(outbox& out) {
    archive_.keep_before(step_, now());
    centre_ = rules::moved_centre(centre_, open_.positions, alpha_, options_.pool);  // EL-6
    version_ += 1;                                                                   // EL-1
    TROUPE_ASSERT(answered_ == version_ * options_.among.world_size,
                  "EL-3: every contribution must have been answered");
    step_ = options_.due.next_due(step_ + 1);
    open_ = std::exchange(ahead_, round{options_.among.world_size});
    for (const auto& piece : std::exchange(open_.unanswered, {})) answer(piece, slot::parameters, centre_, out);
  }

  serving::archive archive_;
  std::uint64_t step_;  ///< Step of the open round.
  round open_, ahead_;
};

/// Moves the centre with every contribution.
class centre_of_each final : public centre {
 public:
  explicit centre_of_each(const member_options& options) : centre(options) { options_.restored.reset(); }

  std::vector<rank_id> waiting_for(std::uint64_t) const override { return {}; }

  std::optional<holding> held(std::uint64_t) override { return now(); }

 private:
  void take(const part& piece, outbox& out) override {
    roll_call_.note(piece.origin.sender, piece.origin.step);
    auto visit = rules::visited_centre(centre_, piece.piece.values, alpha_, options_.pool);  // EL-5
    centre_ = std::move(visit.centre);
    version_ += 1;  // EL-1
    answer(piece, slot::change, visit.change, out);
    TROUPE_ASSERT(answered_ == version_, "EL-3: every contribution must have been answered");
  }
};

std::unique_ptr<member> make_elastic_side(const member_options& options) {
  if (!options.among.is_server()) return std::make_unique<elastic_client>(options);
  if (serving::applies_each(options.settings)) return std::make_unique<centre_of_each>(options);
  return std::make_unique<centre_of_all>(options);
}

exchange_nature elastic_nature(const setting_values& settings) {
  const auto asynchronous = serving::applies_each(settings);
  return {.deterministic = !asynchronous,
          .same_for_all = false,
          .waits_for_others = !asynchronous,
          .answers = asynchronous ? std::optional{slot::change} : std::nullopt,
          .due_from_start = asynchronous,  // algorithm 1: "if τ divides tⁱ", which is 0 at first
          .servers = 1};
}

/// Refuses an alpha with which workers and centre do not come closer (derived here). With apply = "all", a round moves
/// the mean of the workers by α of its distance to the centre, x̄ ← x̄ − α(x̄ − x̃), and the centre by nα of it. This
/// multiplies the distance by 1 − (n + 1)α: it shrinks if (n + 1)α < 2 and does not grow if (n + 1)α = 2. Steps of the
/// workers between rounds can make it grow at a smaller α. With apply = "each", a contribution multiplies the distance
/// of its worker to the centre by 1 − 2α, which the range of alpha keeps below 1 in absolute value.
std::optional<complaint> check_elastic(const std::vector<std::string>& names, const setting_values& settings) {
  const auto found = settings.find("alpha");
  if (serving::applies_each(settings) || found == settings.end()) return {};
  const auto n = static_cast<double>(names.size());
  const auto alpha = std::get<double>(found->second), bound = 2 / (n + 1);
  if (alpha < bound) return {};
  return complaint{"alpha",
                   "alpha = " + short_number(alpha) + " with " + std::to_string(names.size()) +
                       " members makes workers and centre move past each other without coming closer, because "
                       "apply = \"all\" moves the centre by all of them at once; expected less than 2/(n + 1) = " +
                       short_number(bound) + ", such as " + short_number(0.9 / n)};
}

}  // namespace

exchange_kind elastic_kind() {
  return {
      .name = "elastic",
      .explanation = "A server holds a centre, and the workers and the centre are pulled towards each other (EASGD).",
      .source = "Zhang, Choromanska, LeCun 2015 (NIPS), \"Deep learning with Elastic Averaging SGD\", Algorithm 1",
      .carries = {{.sends = slot::parameters, .answers = slot::parameters}},
      .settings =
          {{.name = "alpha",
            .type = setting_type::real,
            .default_text = "",
            .explanation =
                "Moving rate: the fraction of the distance between a worker and the centre by which each of the two "
                "moves. With apply = \"all\" and n workers, it must be below 2/(n + 1), beyond which the distance "
                "between the workers and the centre grows; large learning rates require a smaller one. Defaults to "
                "0.9/n.",
            .minimum = 0,
            .maximum = 1,
            .minimum_excluded = true,
            .maximum_excluded = true},
           {.name = "apply",
            .type = setting_type::choice,
            .default_text = "\"all\"",
            .explanation = "When the centre moves: \"all\" waits for all workers and uses the values from before the "
                           "move; \"each\" moves the centre whenever one worker's parameters arrive (asynchronous).",
            .choices = {"all", "each"}}},
      .make_member = make_elastic_side,
      .edges = serving::edges_to_one_server,
      .nature = elastic_nature,
      .derive = with_alpha,
      .check = check_elastic,
  };
}

}  // namespace troupe
