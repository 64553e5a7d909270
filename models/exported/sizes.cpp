#include "troupe/models/exported/reading.hpp"

#include <string_view>

namespace troupe::models::exported {

namespace {

/// An expression of sizes as sympy.srepr() writes it, such as "Mul(Integer(2), Symbol('s77', integer=True))".
class expression {
 public:
  expression(std::string_view source, const std::string& samples) : rest_{source}, samples_{samples} {}

  /// Returns it for people, where the symbol `samples` is "N": "2·N".
  std::string text() { return term(0); }

 private:
  std::string term(int depth) {
    constexpr int deepest = 20;
    const auto name = until("(,)");
    if (depth > deepest || !skip('(')) return std::string{name};
    std::vector<std::string> arguments;
    do arguments.push_back(term(depth + 1));
    while (skip(','));
    skip(')');
    if (name == "Symbol") {
      std::erase(arguments.front(), '\'');
      return arguments.front() == samples_ ? "N" : arguments.front();
    }
    if (name == "Integer") return arguments.front();
    if (name == "Mul" || name == "Add") return joined(arguments, name == "Mul" ? "·" : " + ");
    return std::string{name} + "(" + joined(arguments, ", ") + ")";
  }

  static std::string joined(const std::vector<std::string>& terms, const char* between) {
    std::string text;
    for (const auto& term : terms) text += (text.empty() ? "" : between) + term;
    return text;
  }

  std::string_view until(std::string_view marks) {
    while (skip(' ')) continue;
    const auto found = rest_.substr(0, rest_.find_first_of(marks));
    rest_.remove_prefix(found.size());
    return found;
  }

  bool skip(char mark) {
    const auto found = rest_.starts_with(mark);
    if (found) rest_.remove_prefix(1);
    return found;
  }

  std::string_view rest_;
  const std::string& samples_;
};

}  // namespace

std::string symbol_of(const json& size) {
  const std::string_view begin = "Symbol('";
  if (!size.contains("as_expr")) return {};
  const auto expression = size.at("as_expr").at("expr_str").get<std::string>();
  return expression.starts_with(begin)
             ? expression.substr(begin.size(), expression.find('\'', begin.size()) - begin.size())
             : std::string{};
}

std::string sizes_text(const json& tensor_meta, const std::string& samples) {
  std::string text;
  for (const auto& size : tensor_meta.at("sizes"))
    text +=
        (text.empty() ? "" : ", ") +
        (size.contains("as_int") ? std::to_string(size.at("as_int").get<std::int64_t>())
                                 : expression{size.at("as_expr").at("expr_str").get<std::string>(), samples}.text());
  return "[" + text + "]";
}

}  // namespace troupe::models::exported
