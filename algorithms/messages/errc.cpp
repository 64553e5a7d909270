#include "troupe/algorithms/messages/errc.hpp"

#include "troupe/models/networks/out_of_memory.hpp"

#include <c10/util/Exception.h>

namespace troupe {

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

std::string describe(const std::exception_ptr& raised) {
  try {
    std::rethrow_exception(raised);
  } catch (const c10::Error& error) {
    return models::out_of_memory(error).value_or(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return models::out_of_memory(error).value_or(error.what());
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace troupe
