#include "troupe/actors/wire/error.hpp"

#include "troupe/models/storage/held_lock.hpp"

#include <caf/atom.hpp>
#include <caf/make_message.hpp>
#include <caf/message.hpp>
#include <caf/to_string.hpp>

#include <utility>

namespace troupe {

namespace {
constexpr auto category = caf::atom("troupe");
}

caf::error make_error(errc code, std::string text) {
  return {static_cast<std::uint8_t>(code), category, caf::make_message(std::move(text))};
}

caf::error error_of(const std::exception_ptr& raised) {
  auto code = errc::failed;
  try {
    std::rethrow_exception(raised);
  } catch (const models::lock_holder_died&) {
    code = errc::peer_lost;
  } catch (...) {  // failed
  }
  return make_error(code, describe(raised));
}

bool is(const caf::error& error, errc code) {
  if (!error) return false;  // it has no category either
  return error.category() == category && error.code() == static_cast<std::uint8_t>(code);
}

std::string describe(const caf::error& error) {
  if (error.category() != category) return caf::to_string(error);
  const auto& context = error.context();
  if (context.match_elements<std::string>() && !context.get_as<std::string>(0).empty())
    return context.get_as<std::string>(0);
  return to_string(static_cast<errc>(error.code()));
}

}  // namespace troupe
