// The files of tools/comparing/page, which the build compiles into the program: see cmake/TroupeEmbed.cmake.
#pragma once

#include <string_view>

namespace troupe::comparing::page_sources {

extern const std::string_view page_html;  ///< The page, with {{name}} where its parts belong.
extern const std::string_view page_js;    ///< Script of the page, which can also be read without it.

}  // namespace troupe::comparing::page_sources
