// The figures of a comparison: round numbers on the axes, and drawings that are well-formed whatever the names are.
#include "tests/support/doctest.hpp"

#include "troupe/runtime/comparing/figures.hpp"
#include "troupe/runtime/comparing/report.hpp"
#include "troupe/runtime/pages/figure.hpp"

#include <string>
#include <vector>

using namespace troupe::comparing;
using namespace troupe::pages;

namespace {

figure of_one(series one, bool logarithmic) {
  figure what;
  what.name = "figure";
  what.title = "Title";
  what.kind = figure_kind::curves;
  what.x = {.title = "x", .logarithmic = logarithmic};
  what.y = {.title = "y", .logarithmic = logarithmic};
  what.all.push_back(std::move(one));
  return what;
}

mark mark_at(double x, double y) {
  mark made;
  made.x = x;
  made.y = y;
  made.text = "here";
  return made;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("ticks are round numbers inside the range") {
  CHECK(ticks(0, 10, false, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(ticks(1, 1000, true, 6) == std::vector<double>{1, 10, 100, 1000});
  CHECK(ticks(2, 12, true, 6) == std::vector<double>{2, 5, 10});
  for (const auto value : ticks(0.91, 0.93, true, 6)) CHECK((value >= 0.91 && value <= 0.93));
  CHECK(ticks(0.91, 0.93, true, 6).size() >= 3);
}

TEST_CASE("a logarithmic axis leaves out values that are not positive") {
  const auto drawn =
      draw(of_one({.name = "a", .style = 0, .marks = {mark_at(0, 1), mark_at(1, 1), mark_at(10, 2)}}, true));
  CHECK_FALSE(contains(drawn, "nan"));
  CHECK_FALSE(contains(drawn, "inf"));
}

TEST_CASE("an axis leaves out values whose marks could not be computed") {
  for (const bool logarithmic : {false, true}) {
    const auto drawn = draw(of_one({.name = "a",
                                    .style = 0,
                                    .marks = {mark_at(1, 5e-324), mark_at(1, 1), mark_at(10, 1.7e308),
                                              mark_at(-1.7e308, 2), mark_at(1e300, 1e-300)}},
                                   logarithmic));
    CHECK_FALSE(contains(drawn, "nan"));
    CHECK_FALSE(contains(drawn, "inf"));
  }
}

TEST_CASE("a figure without values, with one value or with equal values can be drawn") {
  CHECK(contains(draw(of_one({.name = "a", .style = 0, .marks = {}}, false)), "no values"));
  for (const bool logarithmic : {false, true}) {
    const auto drawn = draw(of_one({.name = "a", .style = 0, .marks = {mark_at(3, 5)}}, logarithmic));
    CHECK_FALSE(contains(drawn, "nan"));
    CHECK_FALSE(contains(drawn, "inf"));
  }
}

TEST_CASE("names cannot leave their place in a drawing or in the page") {
  const std::string hostile = "</script><script>alert(1)</script>\"'&";
  const auto drawn = draw(of_one({.name = hostile, .style = 0, .marks = {mark_at(1, 1), mark_at(2, 2)}}, false));
  CHECK_FALSE(contains(drawn, "<script"));
  comparison what;
  what.variants.resize(1);
  what.variants[0].label = what.variants[0].file = hostile;
  what.variants[0].settings = {{"key", hostile}};
  what.machines = {{{"CPU", hostile}}};
  what.target = 0.5;
  run_result result;
  result.status = "done";
  const auto page = html_of(make_report(what, {{{0, 1, 0}, result}}));
  CHECK_FALSE(contains(page, "<script>alert"));
  CHECK_FALSE(contains(page, "</script><script>a"));
  CHECK_FALSE(contains(page, "{{"));
}

TEST_CASE("a file of a figure has its styles inside") {
  const auto file = standalone(draw(of_one({.name = "a", .style = 0, .marks = {mark_at(1, 1), mark_at(2, 2)}}, false)));
  CHECK(file.starts_with("<svg "));
  CHECK(contains(file, "<style>"));
  CHECK(contains(file, "prefers-color-scheme: dark"));
}
