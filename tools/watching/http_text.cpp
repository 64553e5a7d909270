#include "troupe/tools/watching/http_text.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>

namespace troupe::watching {

namespace http = boost::beast::http;

namespace {

std::string text_of(const http_answer& answer, bool with_body) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(answer.status));
  std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " " + std::string(reason.data(), reason.size()) +
                     "\r\nContent-Type: " + answer.type +
                     "\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                     "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n";
  for (const auto& [name, value] : answer.fields) text += name + ": " + value + "\r\n";
  if (answer.follows == feed::none) text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  text += "\r\n";
  return with_body ? text + answer.body : text;
}

http_request request_of(const request_parser& parser) {
  const auto& head = parser.get();
  const auto field = [&](http::field name) {
    const auto text = head.count(name) == 1 ? head[name] : boost::beast::string_view{};
    return std::string(text.data(), text.size());
  };
  const auto method = head.method_string(), target = head.target();
  return {.method = {method.data(), method.size()},
          .target = {target.data(), target.size()},
          .host = field(http::field::host),
          .authorization = field(http::field::authorization),
          .has_body = parser.chunked() || parser.content_length().value_or(0) > 0};
}

}  // namespace

void limit(request_parser& parser) {
  parser.header_limit(header_bytes_max);
  parser.body_limit(0);
}

std::string answer_to(const request_parser& parser, const boost::system::error_code& error, site& from, feed& follows) {
  follows = feed::none;
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return text_of({.status = 431, .body = "The header of the request is too long.\n"}, true);
  if (error == http::error::body_limit)
    return text_of({.status = 413, .body = "A request must not have a body.\n"}, true);
  if (error == http::error::end_of_stream || error == http::error::partial_message) return {};
  if (error) return text_of({.status = 400, .body = "This is not an HTTP request.\n"}, true);
  const auto request = request_of(parser);
  const auto answer = from.answer(request);
  const bool with_body = request.method != "HEAD";
  if (with_body) follows = answer.follows;
  return text_of(answer, with_body);
}

std::string answer_to(std::string_view bytes, site& from) {
  request_parser parser;
  limit(parser);
  boost::system::error_code error;
  while (!bytes.empty() && !parser.is_header_done()) {
    const auto used = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    bytes.remove_prefix(used);
    if (error || used == 0) break;
  }
  if (error == http::error::need_more) error = bytes.size() > header_bytes_max ? http::error::header_limit : error;
  if (error == http::error::need_more || (!error && !parser.is_header_done())) return {};
  feed follows{};
  return answer_to(parser, error, from, follows);
}

}  // namespace troupe::watching
