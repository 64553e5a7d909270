// The files of tools/watching/page, which the build compiles into the program: see cmake/TroupeEmbed.cmake.
#pragma once

#include <string_view>

namespace troupe::watching::page_sources {

extern const std::string_view watch_html;  ///< The page, with {{name}} where its parts belong.
extern const std::string_view watch_css;   ///< Styles of the page, in addition to those of all pages.
extern const std::string_view wiring_js;   ///< Shows in the drawing of the wiring what each worker does.
extern const std::string_view live_js;     ///< Follows the run.

}  // namespace troupe::watching::page_sources
