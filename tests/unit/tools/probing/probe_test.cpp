// What is measured between two machines, and what is said to strangers on either side.
#include "troupe/tools/probing/probe.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/files/error.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace troupe::testing::probe {

namespace {

using probing::answerer, probing::measure, probing::probe_limits;
using tcp = boost::asio::ip::tcp;
using std::chrono::milliseconds;

const endpoint any_port{.host = "127.0.0.1", .port = 0};

/// A machine that answers so many connections.
struct other_machine {
  explicit other_machine(int connections,
                         probe_limits limits = {.silence = milliseconds{300}, .enough = milliseconds{20}})
      : machine(any_port, limits), thread([this, connections] {
          for (int i = 0; i < connections; ++i) problems.push_back(machine.answer_one().problem);
        }) {}

  endpoint where() const { return {.host = "127.0.0.1", .port = machine.port()}; }
  const std::vector<std::string>& wait() {
    thread.join();
    return problems;
  }

  answerer machine;
  std::vector<std::string> problems{};
  std::thread thread;
};

/// What someone else than a measuring machine is answered to these bytes, up to the end of the connection.
std::string answer_to(const endpoint& where, const std::string& bytes) {
  boost::asio::io_context io;
  tcp::socket socket{io};
  socket.connect({boost::asio::ip::make_address(where.host), where.port});
  boost::system::error_code error;
  boost::asio::write(socket, boost::asio::buffer(bytes), error);
  std::string answer(1u << 16u, '\0');
  std::size_t size = 0;
  while (!error && size < answer.size())
    size += socket.read_some(boost::asio::buffer(answer.data() + size, answer.size() - size), error);
  answer.resize(size);
  return answer;
}

std::string request(char what, std::uint64_t bytes) {
  std::string text(16, '\0');
  text[0] = what;
  for (std::size_t i = 0; i < 8; ++i) text[8 + i] = static_cast<char>(bytes >> (8 * i));
  return text;
}

}  // namespace

TEST_CASE("a network is measured in both directions") {
  other_machine other(1);
  const auto found = measure(other.where(), {.silence = milliseconds{5'000}, .enough = milliseconds{20}});
  CHECK(other.wait() == std::vector<std::string>{""});
  CHECK(found.to > 1e6);
  CHECK(found.from > 1e6);
  CHECK(found.latency < milliseconds{100});
  CHECK(found.jitter < milliseconds{100});
}

TEST_CASE("a machine answers one after the other, and ends connections of strangers") {
  const std::string greeting = "troupe probe 1\r\n";
  other_machine other(6);
  CHECK(answer_to(other.where(), "GET / HTTP/1.1\r\n\r\n") == greeting);
  CHECK(answer_to(other.where(), "") == greeting);  // silent
  CHECK(answer_to(other.where(), greeting + request(9, 1)) == greeting);
  CHECK(answer_to(other.where(), greeting + request(2, std::uint64_t{1} << 40u)) == greeting);
  CHECK(answer_to(other.where(), greeting + request(3, ~std::uint64_t{0})) == greeting);
  measure(other.where(), {.silence = milliseconds{5'000}, .enough = milliseconds{1}});
  const auto& problems = other.wait();
  REQUIRE(problems.size() == 6);
  CHECK(problems[0] == "it answers with something else");
  CHECK(problems[1] == "nothing arrived for 300ms");
  CHECK(problems[2] == "it sent something else");
  CHECK(problems[3] == "it asked for 1099511627776 bytes");
  CHECK(problems[5].empty());
}

TEST_CASE("what does not answer as it should is named") {
  const auto message_of = [](const endpoint& to) -> std::string {
    try {
      measure(to, {.silence = milliseconds{200}});
    } catch (const input_error& problem) {
      return problem.what();
    }
    return "";
  };
  boost::asio::io_context io;
  tcp::acceptor acceptor{io, {boost::asio::ip::make_address("127.0.0.1"), 0}};
  const endpoint where{.host = "127.0.0.1", .port = acceptor.local_endpoint().port()};
  SUBCASE("nothing is said") {
    CHECK(message_of(where).find("(nothing arrived for 200ms); run `troupe tune --listen 127.0.0.1:") !=
          std::string::npos);
  }
  SUBCASE("something else is said") {
    std::thread other([&] {
      tcp::socket socket{io};
      acceptor.accept(socket);
      boost::asio::write(socket, boost::asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\n\r\n")));
    });
    CHECK(message_of(where).find("(it answers with something else)") != std::string::npos);
    other.join();
  }
  SUBCASE("a transfer is answered with impossible numbers") {
    std::string numbers;
    SUBCASE("nothing has arrived after two seconds") {
      numbers = request(0, 2'000'000'000);
    }
    SUBCASE("a transfer takes a negative time") {
      numbers = request('\xff', 1) + request('\xff', ~std::uint64_t{0});
    }
    std::thread other([&] {
      tcp::socket socket{io};
      acceptor.accept(socket);
      std::string answers = "troupe probe 1\r\n";
      for (std::uint64_t i = 0; i < 30; ++i) answers += request(1, i);
      answers += numbers;
      boost::system::error_code ended;
      boost::asio::write(socket, boost::asio::buffer(answers), ended);
      std::string content(1u << 16u, '\0');
      while (!ended) socket.read_some(boost::asio::buffer(content), ended);
    });
    CHECK(message_of(where).find("(it answers with something else)") != std::string::npos);
    other.join();
  }
  SUBCASE("nobody listens") {
    acceptor.close();
    CHECK(message_of(where).find("(Connection refused)") != std::string::npos);
  }
}

}  // namespace troupe::testing::probe
