#include "troupe/actors/errc.hpp"

#include <c10/util/Exception.h>
#include <caf/atom.hpp>
#include <caf/make_message.hpp>
#include <caf/message.hpp>
#include <caf/to_string.hpp>

namespace troupe {

namespace {
constexpr auto category = caf::atom("troupe");
}

std::string to_string(errc code) {
  switch (code) {
    case errc::stale:
      return "stale";
    case errc::mismatch:
      return "mismatch";
    case errc::peer_lost:
      return "peer lost";
    case errc::timed_out:
      return "timed out";
    case errc::failed:
      return "failed";
  }
  return "unknown";
}

caf::error make_error(errc code, std::string text) {
  return {static_cast<std::uint8_t>(code), category, caf::make_message(std::move(text))};
}

bool is(const caf::error& error, errc code) {
  return error.category() == category && error.code() == static_cast<std::uint8_t>(code);
}

std::string describe(const caf::error& error) {
  if (error.category() != category) return caf::to_string(error);
  const auto& context = error.context();
  if (context.match_elements<std::string>() && !context.get_as<std::string>(0).empty())
    return context.get_as<std::string>(0);
  return to_string(static_cast<errc>(error.code()));
}

std::string describe(const std::exception_ptr& raised) {
  try {
    std::rethrow_exception(raised);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace troupe
