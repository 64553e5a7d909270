// HTTP/1.1 as text: requests are parsed with Beast, answers are put together here. No sockets. Only http_server.cpp and
// tests include this header, because it depends on Beast.
#pragma once

#include "troupe/tools/watching/site.hpp"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::watching {

constexpr std::size_t header_bytes_max = 8192;

/// Parses the header of a request. Only the header is read; what follows it is ignored.
using request_parser = boost::beast::http::request_parser<boost::beast::http::empty_body>;

/// Sets the limits of a parser.
void limit(request_parser& parser);

/// Answers the parsed request, or the error that ended the parsing. Returns the bytes to send and sets `follows` to the
/// feed that follows them. Returns "" if no request arrived or the client left before its end.
std::string answer_to(const request_parser& parser, const boost::system::error_code& error, site& from, feed& follows);

/// Parses and answers the bytes of a request; returns "" if it is not complete. For tests.
std::string answer_to(std::string_view bytes, site& from);

}  // namespace troupe::watching
