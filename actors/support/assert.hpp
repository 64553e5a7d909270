// The one assert of the project: for programmer errors, kept in every build.
#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the process, naming file and line, where `condition` does not hold.
#define TROUPE_ASSERT(condition, text)                                                                  \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", __FILE__, __LINE__, text, #condition); \
      std::abort();                                                                                     \
    }                                                                                                   \
  } while (false)
