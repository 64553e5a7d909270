// The files of tools/pages, which the build compiles into the program: see cmake/TroupeEmbed.cmake.
#pragma once

#include <string_view>

namespace troupe::pages::sources {

extern const std::string_view page_css;    ///< Styles of all pages.
extern const std::string_view figure_css;  ///< Styles of the figures, also of those in files of their own.
extern const std::string_view figure_js;   ///< Script of the figures: values, names, downloads.

}  // namespace troupe::pages::sources
