#include "troupe/runtime/guests/front.hpp"

#include "troupe/actors/wire/type_ids.hpp"

#include <caf/all.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace troupe::guests {

namespace {

/// Time between two answers with news, so that a guest costs little however often it asks.
constexpr std::chrono::milliseconds between_news{100};

/// A request for news that is not answered yet.
struct open_request {
  news_after known;
  caf::typed_response_promise<news> answer;
};

/// Bytes of a text. A message to a guest has at most 1 MiB.
constexpr std::size_t most_of_text = std::size_t{900} << 10;

/// Requests to steer the run that may wait for an answer.
constexpr std::size_t most_orders = 16;

/// The actor is told of news only if it waits for some.
struct alarm {
  std::atomic<bool> is_set{false};
};

/// Where the run sends its answers. The actor and its system may end before they arrive.
struct answer_line {
  std::mutex mutex;
  caf::actor front;  ///< Null once the actor has ended.
};

struct front_state {
  static inline const char* name = "front";
  front_options options;
  std::optional<open_request> asked;
  std::shared_ptr<alarm> on_news = std::make_shared<alarm>();
  std::uint64_t subscription{0};
  caf::actor_clock::time_point next_answer{};
  std::optional<std::uint64_t> continues_at;  ///< The next line, if the last answer had no room for it.
  std::shared_ptr<answer_line> line = std::make_shared<answer_line>();
  std::map<std::uint64_t, caf::typed_response_promise<steered>> orders;  ///< Requests that the run has not answered.
  std::uint64_t next_order{0};

  ~front_state() {
    if (options.feed) options.feed->unsubscribe(subscription);
    const std::lock_guard lock{line->mutex};
    line->front = nullptr;
  }
};

/// tick: sent to itself and by the feed: there may be news to answer with.
/// done: sent to itself: the run has answered.
using front_interface = run_actor::extend<caf::reacts_to<tick_atom>, caf::reacts_to<done_atom, completion>>;
using front_pointer = front_interface::stateful_pointer<front_state>;

void answer(front_state& my) {
  auto asked = *std::exchange(my.asked, std::nullopt);
  auto all = my.options.feed->after(asked.known);
  my.continues_at = all.version == asked.known.version ? std::optional{all.next} : std::nullopt;
  asked.answer.deliver(std::move(all));
}

/// Answers the request for news if there are any, and if the last answer was some time ago.
void answer_if_due(front_pointer self) {
  auto& my = self->state;
  if (!my.asked) return;
  my.on_news->is_set = true;  // first: news may arrive right now
  if (!my.options.feed->has_news(my.asked->known)) return;
  my.on_news->is_set = false;
  const auto now = self->clock().now();
  // A guest that reads on gets the rest of the history at once.
  const auto reads_on = my.continues_at == my.asked->known.line;
  if (now < my.next_answer && !reads_on) return self->delayed_send(self, my.next_answer - now, tick_atom_v);
  my.next_answer = now + between_news;
  answer(my);
}

caf::result<news> take_request(front_pointer self, const news_after& known) {
  auto& my = self->state;
  // A guest has one open request; an earlier one is answered without news, so that many requests need little memory.
  if (my.asked) my.asked->answer.deliver(news{.next = my.asked->known.line, .version = my.asked->known.version});
  if (my.options.follows) my.options.follows();
  auto promise = self->make_response_promise<news>();
  my.asked = open_request{known, promise};
  answer_if_due(self);
  return promise;
}

caf::result<steered> steer(front_pointer self, const steering_request& what) {
  auto& my = self->state;
  if (my.orders.size() >= most_orders) return steered{.refusal = "too many requests are waiting for an answer"};
  const auto number = my.next_order++;
  auto promise = self->make_response_promise<steered>();
  my.orders.emplace(number, promise);
  my.options.steer(what, my.options.guest, [self, line = my.line, number](const steered& how) {
    const std::lock_guard lock{line->mutex};
    if (!line->front) return;
    const auto deliver = [self, number, how] {  // runs in the actor, which exists then
      auto& orders = self->state.orders;
      const auto order = orders.find(number);
      if (order == orders.end()) return;
      order->second.deliver(steered{how});
      orders.erase(order);
    };
    caf::anon_send(line->front, done_atom_v, completion{std::make_shared<std::function<void()>>(deliver)});
  });
  return promise;
}

front_interface::behavior_type front(front_pointer self, front_options options) {
  auto& my = self->state;
  my.options = std::move(options);
  auto& about = my.options.about;
  if (about.topology.size() + about.plan.size() > most_of_text) about.plan.clear();
  const auto me = caf::actor_cast<caf::actor>(self);
  my.line->front = me;
  my.subscription = my.options.feed->subscribe([alarm = my.on_news, weak = caf::actor_cast<caf::weak_actor_ptr>(me)] {
    if (!alarm->is_set.exchange(false)) return;
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
      caf::anon_send(caf::actor_cast<caf::actor>(alive), tick_atom_v);
  });
  return {
      [self](const news_after& known) { return take_request(self, known); },
      [self](wiring_request) { return self->state.options.about; },
      [self](figures_request) {
        auto json = self->state.options.feed->figures();
        return json.size() > most_of_text ? figures{} : figures{std::move(json)};
      },
      [self](status_request) { return self->state.options.status(); },
      [self](const pause_run& what) { return steer(self, what); },
      [self](const continue_run& what) { return steer(self, what); },
      [self](const checkpoint_run& what) { return steer(self, what); },
      [self](const halt_run& what) { return steer(self, what); },
      [self](const set_learning_rate& what) { return steer(self, what); },
      [self](tick_atom) { answer_if_due(self); },
      [](done_atom, const completion& done) { (*done.run)(); },
  };
}

}  // namespace

run_actor spawn_front(caf::actor_system& system, front_options options) {
  return system.spawn(front, std::move(options));
}

}  // namespace troupe::guests
