// The project's assert: for programmer errors, kept in every build.
#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the process with file and line if `condition` is false.
#define TROUPE_ASSERT(condition, text)                                                                  \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", __FILE__, __LINE__, text, #condition); \
      std::abort();                                                                                     \
    }                                                                                                   \
  } while (false)
