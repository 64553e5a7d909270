#include "troupe/runtime/seats/seat.hpp"

#include "troupe/files/json.hpp"
#include "troupe/net/guests/greeting.hpp"
#include "troupe/runtime/plan/worker_of_plan.hpp"
#include "troupe/runtime/tcp/connection.hpp"
#include "troupe/runtime/tcp/guest_arrival.hpp"
#include "troupe/runtime/transport/frame.hpp"

#include <ATen/ops/empty.h>
#include <boost/asio/post.hpp>
#include <caf/all.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace troupe::guests {

namespace asio = boost::asio;

namespace {

using transport::frame;
using transport::frame_error;
using transport::frame_kind;

/// How long a program may take to leave once the run is over.
constexpr std::chrono::milliseconds time_to_leave{300};

at::Tensor bytes_of(std::string_view text) {
  const auto bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

}  // namespace

/// A program that has greeted. The members but `line` are used on the thread of the links only.
struct seat::program {
  std::shared_ptr<asio::io_context> io;
  std::shared_ptr<transport::connection> line;
  bool seated{false};      ///< Whether its hello has arrived. Read by other threads with the lock of the seat.
  std::uint64_t asked{0};  ///< Number of the last request for its state.
  std::string state;       ///< What has arrived of the answer.
  std::function<void(const at::Tensor&)> then{};
  std::function<void(const std::string&)> refused{};

  void send(const at::Tensor& bytes) const { line->send(transport::header_of_control(bytes), bytes); }
};

seat::seat(const plan& plan, std::uint32_t place, models::buffer_pool pool)
    : exchange_(plan.exchanges.at(place).name), place_(place), pool_(std::move(pool)) {
  const auto& exchange = plan.exchanges[place];
  actor_ = exchange.nature.actor;
  members_ = static_cast<std::uint32_t>(exchange.members.size());
  stand_in_id_ = rank_id{exchange.first_server};
  carries_ = exchange.carries;
  same_ = answers_all(exchange.settings);
  const auto elements = exchange.layout.parameter_end;
  limits_ = {.run = run_id_of(plan),
             .world_size = members_,
             .ranks = members_,
             .servers = 1,
             .exchanged = {elements},
             .total = elements,
             .largest_control = most_line_bytes};
}

bool seat::is_taken() const {
  const std::lock_guard lock{mutex_};
  return program_ && program_->seated;
}

bool seat::listen(listener to) {
  const std::lock_guard lock{mutex_};
  listener_ = std::move(to);
  return program_ && program_->seated;
}

bool seat::begin() {
  const std::lock_guard lock{mutex_};
  begun_ = program_ && program_->seated;
  return begun_;
}

void seat::deliver_to(const peer_port& stand_in) {
  const std::lock_guard lock{mutex_};
  stand_in_ = stand_in;
}

seat::program_pointer seat::occupant() const {
  const std::lock_guard lock{mutex_};
  return program_ && program_->seated ? program_ : nullptr;
}

void seat::send(const part& contribution) {
  const auto to = occupant();
  if (!to) return;  // it is lost, and the run ends
  auto piece = contribution;
  piece.which = {};
  to->line->send(transport::header_of(members_, piece), piece.piece.values);
}

void seat::ask_state(std::function<void(const at::Tensor&)> then) {
  const auto whom = occupant();
  if (!whom) return;
  asio::post(*whom->io, [whom, then = std::move(then)]() mutable {
    whom->then = std::move(then);
    whom->state.clear();
    whom->send(bytes_of(files::json_text(files::json{{"state", ++whom->asked}})));
  });
}

void seat::restore(const at::Tensor& state) {
  const auto whom = occupant();
  if (!whom) return;
  const auto total = state.numel();
  for (std::int64_t first = 0; first < total; first += transport::state_piece_bytes) {
    const transport::state_piece piece{
        .first = first,
        .total = total,
        .bytes = state.narrow(0, first, std::min(transport::state_piece_bytes, total - first))};
    whom->line->send(transport::header_of(piece), piece.bytes);
  }
}

void seat::close(int status) {
  program_pointer last;
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    listener_ = {};
    stand_in_ = peer_port{};
    last = std::exchange(program_, nullptr);
  }
  if (!last) return;
  asio::post(*last->io, [last, status] {
    const auto text = bytes_of(files::json_text(files::json{{"over", true}, {"status", status}}));
    last->line->finish(transport::header_of_control(text), text, time_to_leave);
  });
}

std::string seat::objection() const {
  const std::lock_guard lock{mutex_};
  if (closed_) return "the run has ended";
  if (begun_ && !program_) return "the run has lost its program " + actor_;
  if (program_ && !program_->seated) return "another program is attaching as " + actor_ + "; try again in a few seconds";
  return program_ ? "there is a program " + actor_ + " already" : "";
}

void seat::describe(guests::answer& greeting) const {
  greeting.exchange = exchange_place{.name = exchange_,
                                     .run = static_cast<std::uint64_t>(limits_.run),
                                     .members = members_,
                                     .elements = limits_.total,
                                     .sends = name_of(carries_.sends),
                                     .answers_all = same_};
}

void seat::take(const std::shared_ptr<transport::guest_arrival>& guest, std::vector<std::byte> already,
                std::chrono::milliseconds patience, std::function<void(const std::string&)> refused) {
  transport::keep_alive(guest->socket.native_handle());
  const auto who = std::make_shared<program>();
  who->io = guest->io;
  who->refused = std::move(refused);
  const auto me = weak_from_this();
  const transport::connection::listener to{
      .greeted =
          [me, weak = std::weak_ptr(who)](const auto& line, const frame& hello) {
            const auto seat = me.lock();
            const auto who = weak.lock();
            if (!seat || !who || hello.header.which.place != static_cast<std::uint32_t>(transport::plane::actor))
              return false;
            line->trust();
            line->greet(0, {}, transport::plane::actor, transport::control_carrier::frames);
            seat->sit_down(who);
            return true;
          },
      .foreign = [](const auto&) { return false; },
      .arrived =
          [me, weak = std::weak_ptr(who)](const auto&, frame&& arrived, std::shared_ptr<const void> receipt) {
            const auto seat = me.lock();
            const auto who = weak.lock();
            if (seat && who) seat->hear(who, std::move(arrived), std::move(receipt));
          },
      .closed =
          [me, weak = std::weak_ptr(who)](const auto&, const transport::connection_loss& how) {
            const auto seat = me.lock();
            const auto who = weak.lock();
            if (seat && who) seat->leave(who, how.text);
          }};
  who->line = std::make_shared<transport::connection>(
      transport::connection_options{.io = guest->io, .limits = limits_, .pool = pool_, .silence = {}},
      std::move(guest->socket), std::move(guest->bytes), to);
  {
    const std::lock_guard lock{mutex_};
    if (closed_) return;
    program_ = who;
  }
  who->line->start(patience, std::move(already));
}

void seat::sit_down(const program_pointer& who) {
  listener to;
  {
    const std::lock_guard lock{mutex_};
    who->seated = true;
    to = listener_;
  }
  if (to.taken) to.taken();
}

void seat::hear(const program_pointer& who, frame&& arrived, std::shared_ptr<const void> receipt) {
  if (arrived.header.kind == frame_kind::state) return hear_state(who, arrived.as_state_piece());
  if (arrived.header.kind == frame_kind::control) return hear_text(who, arrived.values);
  hear_answer(std::move(arrived), std::move(receipt));
}

void seat::hear_answer(frame&& arrived, std::shared_ptr<const void> receipt) {
  if (arrived.header.at != stage::result || arrived.header.origin.sender != rank_id{members_})
    throw frame_error("received a part that is not an answer of the actor");
  auto piece = arrived.as_part();
  piece.origin.sender = stand_in_id_;
  piece.which = {.place = place_, .part = same_ ? 0 : arrived.header.to};
  piece.receipt = std::move(receipt);
  peer_port stand_in;
  {
    const std::lock_guard lock{mutex_};
    stand_in = stand_in_;
  }
  if (stand_in) caf::anon_send(stand_in, part_atom_v, std::move(piece));
}

void seat::hear_state(const program_pointer& who, const transport::state_piece& piece) {
  if (!who->then || piece.number != who->asked || piece.first != static_cast<std::int64_t>(who->state.size()) ||
      piece.total > limits_.largest_state())
    throw frame_error("received a piece of a state that was not asked for, or does not continue the previous one");
  who->state.append(static_cast<const char*>(piece.bytes.const_data_ptr()), piece.bytes.nbytes());
  if (static_cast<std::int64_t>(who->state.size()) == piece.total)
    take_state(who, piece.number, bytes_of(std::exchange(who->state, {})));
}

void seat::hear_text(const program_pointer& who, const at::Tensor& text) {
  const auto object =
      files::parse_json({static_cast<const char*>(text.const_data_ptr()), static_cast<std::size_t>(text.numel())});
  const auto found = object.is_object() ? object.find("stateless") : object.end();
  if (found == object.end() || !found->is_number_unsigned() || !who->then)
    throw frame_error("received a text that answers nothing");
  take_state(who, found->get<std::uint64_t>(), at::empty({0}, at::kByte));
}

void seat::take_state(const program_pointer& who, std::uint64_t number, const at::Tensor& state) {
  if (number != who->asked) throw frame_error("received a state that was not asked for");
  std::exchange(who->then, {})(state);
}

void seat::leave(const program_pointer& who, const std::string& why) {
  listener to;
  bool begun = false;
  {
    const std::lock_guard lock{mutex_};
    if (program_ != who) return;
    program_ = nullptr;
    begun = begun_;
    if (who->seated) to = listener_;
  }
  if (!who->seated) return who->refused(why);
  if (to.lost) to.lost(why, begun);
}

std::vector<std::shared_ptr<seat>> seats_of(const plan& plan, models::buffer_pool pool) {
  std::vector<std::shared_ptr<seat>> seats;
  for (const auto& exchange : plan.exchanges)
    seats.push_back(exchange.nature.is_elsewhere() ? std::make_shared<seat>(plan, exchange.place, pool) : nullptr);
  return seats;
}

}  // namespace troupe::guests
