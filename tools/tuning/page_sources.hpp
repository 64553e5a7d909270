// The files of tools/tuning/page, which the build compiles into the program: see cmake/TroupeEmbed.cmake.
#pragma once

#include <string_view>

namespace troupe::tuning::page_sources {

extern const std::string_view tune_html;  ///< The page, with {{name}} where its parts belong.

}  // namespace troupe::tuning::page_sources
