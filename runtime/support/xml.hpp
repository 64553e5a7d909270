// Text in XML and HTML.
#pragma once

#include <string>

namespace troupe::xml {

/// Returns text for use between elements and in the values of attributes.
std::string escaped(const std::string& text);

}  // namespace troupe::xml
