// Connects a guest to a run: dials, shakes hands and exchanges greetings. Blocks; what follows does not. Only sources
// that use Asio include this header.
#pragma once

#include "troupe/net/channels/channel.hpp"
#include "troupe/net/channels/endpoint.hpp"
#include "troupe/net/guests/credentials.hpp"
#include "troupe/net/guests/greeting.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::guests {

struct dial_options {
  std::shared_ptr<boost::asio::io_context> io;
  endpoint address;
  std::function<std::unique_ptr<transport::channel>(int socket)> channel;
  std::chrono::milliseconds patience{10'000};  ///< For everything together.
};

/// A run, and with what this program identifies itself to it.
struct run_address {
  std::string text;  ///< The address, for messages.
  std::string name;  ///< The name in the certificate of this program; "" if it has none.
  endpoint address;
  std::function<std::unique_ptr<transport::channel>(int socket)> channel;

  dial_options how() const {
    return {.io = std::make_shared<boost::asio::io_context>(1), .address = address, .channel = channel};
  }
};

/// Returns the run on this host that writes its results to the folder `out`. Throws attach_error.
run_address run_in(const std::filesystem::path& out);

/// Returns the run at an address such as "10.0.0.1:4700". Throws attach_error.
run_address run_at(const std::string& address, const guest_credentials& who);

/// A connection to a run that has accepted the guest.
struct dialled {
  std::shared_ptr<boost::asio::io_context> io;  ///< Outlives the socket.
  boost::asio::ip::tcp::socket socket;
  std::unique_ptr<transport::channel> bytes;
  guests::answer answer;
  std::vector<std::byte> already;  ///< What has arrived after the answer.
};

/// Throws std::runtime_error with a clause if the run cannot be reached or refuses the guest.
dialled dial(const dial_options& how, const introduction& who);

}  // namespace troupe::guests
