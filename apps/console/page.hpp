// Text for a person to read on standard output, as wide as the terminal. Control characters, and bytes that are not
// UTF-8, are printed as \xNN.
#pragma once

#include <cstddef>
#include <string>

namespace troupe::apps {

/// Returns the number of columns of the terminal, at least 40, or `otherwise` if standard output is not one.
std::size_t page_columns(std::size_t otherwise = 100);

/// Returns the number of columns that UTF-8 text takes in a terminal. Marks that combine with the letter before them
/// take none.
std::size_t columns_of_text(const std::string& text);

/// Prints `label` and, from column `indent` on, `text`, wrapped between words. If that leaves less than half of the
/// columns, prints the text below the label.
void print_wrapped(const std::string& label, std::size_t indent, const std::string& text,
                   std::size_t columns = page_columns());

/// Prints text whose lines may be wider than the terminal. Such lines are wrapped and indented like their values: by
/// `indent` columns or, if they begin with more blanks, by as many. Without a terminal, the text is printed as it is.
void print_page(const std::string& text, std::size_t indent);

}  // namespace troupe::apps
