#include "troupe/runtime/guests/guest_session.hpp"

#include "troupe/net/basp/small_system.hpp"
#include "troupe/runtime/support/short_slices.hpp"

#include <boost/asio/post.hpp>
#include <caf/all.hpp>

#include <chrono>
#include <pthread.h>
#include <utility>

namespace troupe::guests {

namespace {

/// Size of the largest message of a guest, in bytes. All are small.
constexpr std::size_t most_payload = 64 << 10;

/// How often the session shows the guest that the run is alive.
constexpr std::chrono::milliseconds beat{1'000};

/// How long a guest that follows the run may take to hear of its end and leave.
constexpr std::chrono::milliseconds time_to_leave{300};
constexpr std::uint64_t most_rounds_to_leave = 10;

}  // namespace

guest_session::guest_session(std::shared_ptr<transport::guest_arrival> guest, std::vector<std::byte> already,
                             guest_session_options options)
    : options_(std::move(options)) {
  thread_ = std::thread{[this, guest = std::move(guest), already = std::move(already)]() mutable {
    pthread_setname_np(pthread_self(), "guest");
    use_short_slices();
    std::string why;
    try {
      serve(guest, std::move(already));
      const std::lock_guard lock{mutex_};
      if (left_) why = why_;
    } catch (const std::exception& problem) {  // out of threads, sockets or memory
      why = problem.what();
    }
    guest.reset();
    if (options_.ended && !why.empty()) options_.ended(why);
    ended_ = true;
  }};
}

guest_session::~guest_session() {
  begin_closing();
  thread_.join();
}

void guest_session::begin_closing() {
  const std::lock_guard lock{mutex_};
  closing_ = true;
  changed_.notify_all();
}

void guest_session::serve(const std::shared_ptr<transport::guest_arrival>& guest, std::vector<std::byte> already) {
  basp::small_config config{beat};
  add_messages(config);
  caf::actor_system system{config};
  options_.front.follows = [this] { ++requests_; };
  const auto front = spawn_front(system, options_.front);
  const auto pair = basp::make_socket_pair();
  const auto moves =
      std::make_shared<basp::pump>(guest->io, std::move(guest->socket), std::move(guest->bytes), pair.ours,
                                   basp::gate_options{.most_payload = most_payload,
                                                      .own_node = basp::node_of(system),
                                                      .actors = {front.id()},
                                                      .messages = messages_of_guest()},
                                   options_.limits, [this](const basp::pump_end& how) {
                                     const std::lock_guard lock{mutex_};
                                     left_ = true;
                                     why_ = how.text;
                                     changed_.notify_all();
                                   });
  basp::offer(system, pair.theirs, caf::actor_cast<caf::strong_actor_ptr>(front), system.message_types<run_actor>());
  moves->start(std::move(already));
  {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return left_ || closing_; });
    // A guest that has much to read asks again and again.
    for (std::uint64_t round = 0, before = 0; !left_ && requests_ != before && round < most_rounds_to_leave; ++round) {
      before = requests_;
      changed_.wait_for(lock, time_to_leave, [&] { return left_; });
    }
  }
  // Closed on the io thread, which calls nothing of this session afterwards.
  std::mutex closing;
  std::condition_variable is_closed;
  bool done = false;
  boost::asio::post(*guest->io, [&] {
    moves->close();
    const std::lock_guard lock{closing};
    done = true;
    is_closed.notify_all();
  });
  std::unique_lock lock{closing};
  is_closed.wait(lock, [&] { return done; });
  caf::anon_send_exit(front, caf::exit_reason::user_shutdown);
}

}  // namespace troupe::guests
