// What all HTML pages need: templates, and text and data that cannot leave their place in a page.
#pragma once

#include "troupe/runtime/support/xml.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace troupe::pages {

using xml::escaped;

/// Returns the template with each {{name}} replaced. What replaces it is not searched again.
std::string filled(std::string_view page, const std::map<std::string, std::string, std::less<>>& parts);

/// Returns JSON text for use in an element <script>: it contains no "<", so nothing in it can end the element.
std::string script_json(const std::string& json);

/// Returns bytes in base64.
std::string base64(std::string_view bytes);

/// Returns the URL of an SVG drawing, for an element <img>: styles and names inside it do not affect the page.
std::string url_of_svg(const std::string& drawing);

/// Returns the source that allows this script in a Content-Security-Policy: 'sha256-…'.
std::string policy_source(std::string_view script);

}  // namespace troupe::pages
