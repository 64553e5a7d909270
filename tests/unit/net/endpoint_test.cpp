#include "troupe/net/channels/endpoint.hpp"

#include "tests/support/doctest.hpp"

#include <string>

namespace topology_endpoint_test {

using namespace troupe;

TEST_CASE("an endpoint is a host and a port") {
  CHECK(parse_endpoint("10.0.0.1:4700") == endpoint{"10.0.0.1", 4700});
  CHECK(parse_endpoint("LocalHost:0") == endpoint{"localhost", 0});
  CHECK(parse_endpoint("[::1]:65535") == endpoint{"::1", 65535});
  CHECK(parse_endpoint("[2001:DB8:0:0:0:0:0:1]:1") == endpoint{"2001:db8::1", 1});
  CHECK(parse_endpoint("node-3.my_lab.example:4700") == endpoint{"node-3.my_lab.example", 4700});
  CHECK(parse_endpoint("3com:1") == endpoint{"3com", 1});
}

TEST_CASE("what is no endpoint is not taken for one") {
  using namespace std::string_literals;
  for (const auto& text : {""s,
                           ":"s,
                           "a"s,
                           ":4700"s,
                           "a:"s,
                           "a:65536"s,
                           "a:-1"s,
                           "a:+1"s,
                           "a: 1"s,
                           "a:1 "s,
                           "a:1x"s,
                           "a b:1"s,
                           "::1:4700"s,
                           "[::1]"s,
                           "[]:1"s,
                           "[::g]:1"s,
                           "[10.0.0.1]:1"s,
                           "[fe80::1%eth0]:1"s,
                           "10.0.0:1"s,
                           "10.0.0.256:1"s,
                           "010.0.0.1:1"s,
                           "127.1:1"s,
                           "a..b:1"s,
                           "a.:1"s,
                           ".a:1"s,
                           "-a:1"s,
                           "http://a:1"s,
                           "a/b:1"s,
                           "\xc3\xa9:1"s,
                           "a\0b:1"s,
                           "[::1\0]:1"s,
                           std::string(254, 'a') + ":1",
                           "a:99999999999999999999"s}) {
    CAPTURE(text);
    CHECK(!parse_endpoint(text));
  }
}

TEST_CASE("an endpoint is printed as it is read") {
  for (const std::string text : {"10.0.0.1:4700", "localhost:0", "[::1]:65535", "[2001:db8::1]:1"}) {
    CAPTURE(text);
    CHECK(print_endpoint(*parse_endpoint(text)) == text);
  }
}

TEST_CASE("loopback is told by the text") {
  for (const std::string text : {"localhost:1", "127.0.0.1:1", "127.255.255.255:1", "[::1]:1", "[0:0:0:0:0:0:0:1]:1"}) {
    CAPTURE(text);
    CHECK(is_loopback(*parse_endpoint(text)));
  }
  for (const std::string text : {"126.0.0.1:1", "128.0.0.1:1", "0.0.0.0:1", "[::]:1", "[::2]:1", "[::ffff:127.0.0.1]:1",
                                 "localhost.example:1", "127.0.0.1.example:1"}) {
    CAPTURE(text);
    CHECK(!is_loopback(*parse_endpoint(text)));
  }
}

}  // namespace topology_endpoint_test
