#include "troupe/net/guests/take_part.hpp"

#include "troupe/files/json.hpp"
#include "troupe/net/channels/channel.hpp"
#include "troupe/net/frames/layout.hpp"
#include "troupe/net/guests/dial.hpp"
#include "troupe/net/guests/greeting.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <poll.h>
#include <span>
#include <stdexcept>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace {

using transport::frame_kind;

/// The numbers in the fields `what` and `at` of a part; see docs/protocol.md.
constexpr std::uint8_t of_parameters = 0, of_gradient = 1, contributed = 0, answered = 2, float32 = 1;

/// The header of a frame, as this side uses it.
struct frame_header {
  frame_kind kind{frame_kind::beat};
  std::uint8_t how{0}, what{0}, at{0};
  std::uint32_t to{0};
  struct {
    std::uint64_t run{0};
    std::uint32_t sender{0}, generation{0};
    std::uint64_t step{0}, version{0};
  } origin{};
  struct {
    std::uint32_t place{0}, part{0};
  } which{};
  std::int64_t first{0}, total{0}, sample_count{0};
  double mass{1};
  std::uint64_t elements{0}, payload_bytes{0};
  std::uint32_t payload_crc{0};
};

/// The run cannot be reached any more; what() is a clause.
struct line_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

frame_header header_in(const std::array<std::byte, transport::header_bytes>& bytes) try {
  std::uint8_t dims = 0;
  return transport::read_header<frame_header>(bytes, dims);
} catch (const transport::frame_error& problem) {
  throw line_error(problem.what());
}

/// A descriptor on which one thread wakes another that polls.
class waker {
 public:
  waker() : file_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  ~waker() { ::close(file_); }
  waker(const waker&) = delete;
  waker& operator=(const waker&) = delete;

  int file() const { return file_; }
  void wake() const { ::eventfd_write(file_, 1); }
  void clear() const {
    eventfd_t count = 0;
    ::eventfd_read(file_, &count);
  }

 private:
  int file_;
};

/// The conversation with a run. One thread runs it; any thread may give answers.
class conversation final : public answers {
 public:
  conversation(remote_rule& rule, guests::dialled&& to)
      : rule_(rule), to_(std::move(to)), where_(*to_.answer.exchange) {
    put({.kind = frame_kind::hello,
         .which = {.place = static_cast<std::uint32_t>(transport::plane::actor)},
         .total = transport::default_window},
        std::vector<std::byte>(sizeof(transport::session_id)));
  }

  void give(std::uint64_t step, std::vector<float> values) override {
    if (!where_.answers_all) throw std::invalid_argument("the exchange has answers = \"each\"; name the member");
    give_to(step, 0, values);
  }
  void give(std::uint64_t step, std::uint32_t member, std::vector<float> values) override {
    if (where_.answers_all) throw std::invalid_argument("the exchange has answers = \"same\"; name no member");
    if (member >= where_.members) throw std::invalid_argument("the exchange has no member with this index");
    give_to(step, member, values);
  }

  /// Returns the exit status of the run when it is over. `self` is this object.
  int run(const std::shared_ptr<answers>& self) {
    self_ = self;
    write_some();  // the hello: the rule may take long to begin
    rule_.begin({.name = where_.name,
                 .members = where_.members,
                 .elements = where_.elements,
                 .sends = where_.sends,
                 .answers_all = where_.answers_all,
                 .node = to_.answer.node,
                 .version = to_.answer.version});
    while (!over_) {
      const auto waits = write_some();
      if (!read_some() && !over_) wait(waits);
    }
    return *over_;
  }

  /// Closes the connection. Other threads may still have this object.
  void end() {
    ended_ = true;
    boost::system::error_code ignored;
    to_.socket.close(ignored);
  }

 private:
  struct outgoing {
    frame_header what;
    std::array<std::byte, transport::header_bytes> header{};
    std::vector<std::byte> payload;
    std::size_t sent{0};
    bool needs_credit() const { return what.kind != frame_kind::hello && !payload.empty(); }
  };

  void give_to(std::uint64_t step, std::uint32_t member, const std::vector<float>& values) {
    if (static_cast<std::int64_t>(values.size()) != where_.elements)
      throw std::invalid_argument("an answer has " + std::to_string(values.size()) + " values; expected " +
                                  std::to_string(where_.elements));
    const auto bytes = std::as_bytes(std::span{values});
    put({.kind = frame_kind::part,
         .how = float32,
         .what = where_.sends == "gradient" ? of_gradient : of_parameters,
         .at = answered,
         .to = member,
         .origin = {.run = where_.run, .sender = where_.members, .step = step},
         .total = where_.elements,
         .sample_count = 1,
         .elements = values.size()},
        {bytes.begin(), bytes.end()});
  }

  void put(frame_header header, std::vector<std::byte> payload = {}) {
    if (ended_) return;
    header.payload_bytes = payload.size();
    header.payload_crc = payload.empty() ? 0 : crc32c(payload);
    outgoing frame{.what = header, .header = transport::write_header(header), .payload = std::move(payload)};
    {
      const std::lock_guard lock{mutex_};
      (frame.needs_credit() ? queue_ : urgent_).push_back(std::move(frame));
    }
    waker_.wake();
  }

  /// Returns the next frame to write, if the credit covers one.
  std::optional<outgoing> next() {
    const std::lock_guard lock{mutex_};
    auto& from = urgent_.empty() ? queue_ : urgent_;
    if (from.empty()) return {};
    if (from.front().needs_credit()) {
      const auto cost = transport::cost_of(from.front().what.payload_bytes);
      if (transport::needed_credit(cost, most_credit_) > credit_) return {};
      credit_ -= cost;
    }
    auto frame = std::move(from.front());
    from.pop_front();
    return frame;
  }

  /// Writes as much as possible. Returns for what the next attempt must wait: POLLIN, POLLOUT, or 0 if nothing is left.
  short write_some() {
    while (true) {
      if (!sending_) sending_ = next();
      if (!sending_) return 0;
      auto& frame = *sending_;
      const auto of_header = std::min(frame.sent, transport::header_bytes);
      const auto count = to_.bytes->write(std::span(frame.header).subspan(of_header),
                                          std::span(frame.payload).subspan(frame.sent - of_header));
      if (count >= 0) {
        frame.sent += static_cast<std::size_t>(count);
        if (frame.sent == transport::header_bytes + frame.payload.size()) sending_.reset();
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return to_.bytes->needs_input() ? POLLIN : POLLOUT;
      } else if (errno != EINTR) {
        return POLLIN;  // reading fails too, and says why
      }
    }
  }

  void wait(short writing) {
    std::array<pollfd, 2> polled{
        pollfd{.fd = to_.socket.native_handle(), .events = static_cast<short>(POLLIN | writing), .revents = 0},
        pollfd{.fd = waker_.file(), .events = POLLIN, .revents = 0}};
    while (::poll(polled.data(), polled.size(), -1) < 0)
      if (errno != EINTR) throw line_error(std::strerror(errno));
    waker_.clear();
  }

  /// Returns the next bytes, those first that arrived with the greeting.
  std::ptrdiff_t read(std::span<std::byte> room) {
    auto& already = to_.already;
    if (already.empty()) return to_.bytes->read(room);
    const auto count = std::min(room.size(), already.size());
    std::copy_n(already.begin(), count, room.begin());
    already.erase(already.begin(), already.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<std::ptrdiff_t>(count);
  }

  /// Reads up to the end of a frame, and handles it. Returns whether there was something to read.
  bool read_some() {
    const auto room = in_payload_ ? std::span{payload_}.subspan(filled_) : std::span{header_}.subspan(filled_);
    const auto count = read(room);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (count < 0 && errno == EINTR) return true;
    if (count < 0) {
      const auto reason = errno;
      throw line_error(to_.bytes->error().empty() ? std::strerror(reason) : to_.bytes->error());
    }
    if (count == 0) throw line_error("it has closed the connection before its end");
    filled_ += static_cast<std::size_t>(count);
    if (filled_ < (in_payload_ ? payload_.size() : transport::header_bytes)) return true;
    filled_ = 0;
    if (!in_payload_) {
      arriving_ = header_in(header_);
      if (arriving_.payload_bytes > most_payload()) throw line_error("it sent a frame that is too large");
      payload_.resize(arriving_.payload_bytes);
      in_payload_ = !payload_.empty();
      if (in_payload_) return true;
    }
    in_payload_ = false;
    if (!payload_.empty() && crc32c(payload_) != arriving_.payload_crc)
      throw line_error("it sent a frame whose payload was damaged in transit");
    hear();
    return true;
  }

  std::uint64_t most_payload() const {
    return std::max<std::uint64_t>(static_cast<std::uint64_t>(where_.elements) * sizeof(float),
                                   transport::state_piece_bytes);
  }

  void hear() {
    switch (arriving_.kind) {
      case frame_kind::hello: {
        const std::lock_guard lock{mutex_};
        credit_ = most_credit_ = arriving_.total;
        return;
      }
      case frame_kind::credit: {
        const std::lock_guard lock{mutex_};
        credit_ += arriving_.total;
        return;
      }
      case frame_kind::beat:
        return;
      case frame_kind::part:
        hear_contribution();
        break;
      case frame_kind::state:
        hear_state();
        break;
      case frame_kind::control:
        hear_text();
        break;
      default:
        throw line_error("it sent a frame of an unknown kind");
    }
    return_credit();
  }

  void return_credit() {
    taken_ += transport::cost_of(arriving_.payload_bytes);
    if (taken_ < transport::default_window / 4) return;
    put({.kind = frame_kind::credit, .total = std::exchange(taken_, 0)});
  }

  void hear_contribution() {
    const auto elements = static_cast<std::uint64_t>(where_.elements);
    if (arriving_.at != contributed || arriving_.how != float32 || arriving_.elements != elements ||
        payload_.size() != elements * sizeof(float))
      throw line_error("it sent a part that is not a contribution");
    contribution what{.member = arriving_.origin.sender,
                      .step = arriving_.origin.step,
                      .sample_count = arriving_.sample_count,
                      .values = std::vector<float>(elements)};
    std::memcpy(what.values.data(), payload_.data(), payload_.size());
    rule_.receive(std::move(what), self_.lock());
  }

  void hear_state() {
    state_.append(reinterpret_cast<const char*>(payload_.data()), payload_.size());
    if (static_cast<std::int64_t>(state_.size()) == arriving_.total) rule_.restore(std::exchange(state_, {}));
  }

  void hear_text() {
    const auto object = files::parse_json({reinterpret_cast<const char*>(payload_.data()), payload_.size()});
    if (!object.is_object()) throw line_error("it sent a text that is not a JSON object");
    if (object.contains("over")) {
      const auto status = object.find("status");
      over_ = status != object.end() && status->is_number_integer() ? status->get<int>() : 0;
    }
    const auto asked = object.find("state");
    if (asked == object.end() || !asked->is_number_unsigned()) return;
    send_state(asked->get<std::uint64_t>());
  }

  void send_state(std::uint64_t number) {
    const auto state = rule_.state();
    if (static_cast<std::int64_t>(state.size()) > transport::largest_state_of(where_.elements))
      throw std::length_error("the state of the rule has " + std::to_string(state.size()) +
                              " bytes; expected at most " +
                              std::to_string(transport::largest_state_of(where_.elements)));
    if (state.empty())
      return put({.kind = frame_kind::control}, bytes_of(files::json_text(files::json{{"stateless", number}})));
    const auto total = static_cast<std::int64_t>(state.size());
    for (std::int64_t first = 0; first < total; first += transport::state_piece_bytes)
      put({.kind = frame_kind::state, .origin = {.step = number}, .first = first, .total = total},
          bytes_of(std::string_view{state}.substr(static_cast<std::size_t>(first), transport::state_piece_bytes)));
  }

  remote_rule& rule_;
  guests::dialled to_;
  const guests::exchange_place where_;
  std::weak_ptr<answers> self_;
  std::optional<int> over_;  ///< The exit status of the run, once it is over.
  std::atomic<bool> ended_{false};
  waker waker_;

  std::array<std::byte, transport::header_bytes> header_{};
  frame_header arriving_;
  std::vector<std::byte> payload_;
  std::size_t filled_{0};
  bool in_payload_{false};
  std::string state_;
  std::int64_t taken_{0};            ///< Credit that is not yet returned.
  std::optional<outgoing> sending_;  ///< The frame of which a part may be written.

  std::mutex mutex_;  ///< Protects everything below.
  std::deque<outgoing> urgent_, queue_;
  std::int64_t credit_{0}, most_credit_{0};
};

int take_part_over(remote_rule& with, const guests::run_address& run, const std::string& actor) {
  std::shared_ptr<conversation> open;
  try {
    auto to = guests::dial(run.how(), {.name = actor, .as = guests::purpose::member});
    if (!to.answer.exchange) throw std::runtime_error("it has no exchange with such an actor");
    if (const auto version = to.answer.exchange->frames; version != transport::protocol_version)
      throw std::runtime_error("it uses frames of protocol " + std::to_string(version) + "; expected protocol " +
                               std::to_string(transport::protocol_version));
    transport::keep_alive(to.socket.native_handle());
    open = std::make_shared<conversation>(with, std::move(to));
  } catch (const std::exception& problem) {
    throw attach_error("cannot attach to the run at " + run.text + ": " + problem.what());
  }
  const std::shared_ptr<void> ending{nullptr, [&](void*) { open->end(); }};
  try {
    return open->run(open);
  } catch (const line_error& problem) {
    throw attach_error("the run at " + run.text + " is lost: " + problem.what());
  }
}

}  // namespace

int take_part(remote_rule& with, const std::filesystem::path& out, const std::string& actor) {
  return take_part_over(with, guests::run_in(out), actor);
}

int take_part(remote_rule& with, const std::string& address, const guest_credentials& who) {
  const auto run = guests::run_at(address, who);
  return take_part_over(with, run, run.name);
}

}  // namespace troupe
