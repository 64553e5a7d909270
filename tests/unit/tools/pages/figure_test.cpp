// The figures of a comparison: round numbers on the axes, and drawings that are well-formed whatever the names are.
#include "troupe/tools/pages/figure.hpp"

#include "tests/support/doctest.hpp"

#include "troupe/tools/comparing/figures.hpp"
#include "troupe/tools/comparing/report.hpp"

#include <nlohmann/json.hpp>

#include <limits>
#include <string>
#include <vector>

namespace pages_figure_test {

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

TEST_CASE("a row whose value is 0 is not said to have failed on a logarithmic axis") {
  auto what = of_one({.name = "a", .style = 0, .marks = {mark_at(0, 0)}}, true);
  what.kind = figure_kind::rows;
  what.all.push_back({.name = "b", .style = 1, .marks = {mark_at(3, 0)}});
  what.all.push_back({.name = "c", .style = 2, .marks = {}});
  const auto drawn = draw(what);
  CHECK(contains(drawn, "a: a value that a logarithmic axis cannot show"));
  CHECK(contains(drawn, "c: not reached in most runs"));
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

TEST_CASE("a figure has its places on every axis that can be chosen, and its values in every unit") {
  auto what = of_one({.name = "a", .style = 0, .marks = {mark_at(1, 1), mark_at(2, 0), mark_at(3, 100)}}, false);
  CHECK_FALSE(contains(draw(what), "data-places"));
  what.x.column = "seconds";
  what.y.column = "loss";
  what.other_x = {{.title = "epochs", .column = "epochs"}, {.title = "bytes (KiB)", .column = "bytes", .unit = 1024}};
  what.offers_logarithmic_y = true;
  const auto nothing = std::numeric_limits<double>::quiet_NaN();
  for (auto& at : what.all[0].marks) at.other_x = {2 * at.x, nothing};
  what.all[0].marks[2].other_x[1] = 0.5;
  const auto drawn = draw(what);
  CHECK(contains(drawn, "<g class=\"axis\" data-x=\"seconds\""));
  CHECK(contains(drawn, "<g class=\"axis other\" data-x=\"epochs\" data-title=\"epochs\""));
  CHECK(contains(drawn, "<g class=\"axis other\" data-y=\"logarithmic\""));
  const std::string name = "data-places=\"";
  const auto begin = drawn.find(name) + name.size();
  auto text = drawn.substr(begin, drawn.find('"', begin) - begin);
  for (auto at = text.find("&quot;"); at != text.npos; at = text.find("&quot;")) text.replace(at, 6, "\"");
  const auto places = nlohmann::json::parse(text);
  CHECK(places["x"]["epochs"] == places["x"]["seconds"]);
  CHECK(places["x"]["bytes"][0].is_null());
  CHECK(places["x"]["bytes"][2].is_number());
  CHECK(places["y"]["logarithmic"]["middle"][1].is_null());
  CHECK(places["y"]["logarithmic"]["middle"][2] < places["y"]["logarithmic"]["middle"][0]);
  CHECK_FALSE(places["y"]["linear"].contains("low"));
  CHECK(csv_of(what) == "series,seconds,loss,lowest,highest,epochs,bytes\na,1,1,,,2,\na,2,0,,,4,\na,3,100,,,6,512\n");
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

TEST_CASE(
    "a comparison draws no figure without values, and says why; variants that are far apart get a logarithmic axis") {
  comparison what;
  what.variants.resize(2);
  what.variants[0].label = "quick";
  what.variants[1].label = "slow";
  what.target = 0.99;
  const auto run_of = [](std::size_t variant, double seconds) {
    run_result result;
    result.status = "done";
    result.seconds = seconds;
    result.bytes_sent = 1000;
    result.points = {{.step = 1, .bytes_sent = 500, .seconds = seconds / 2, .val_loss = 2.0},
                     {.step = 2, .bytes_sent = 1000, .seconds = seconds, .val_loss = 1.0}};
    return made_run{{variant, 1, 0}, result};
  };
  const auto report = make_report(what, {run_of(0, 15), run_of(1, 660)});
  const auto page = html_of(report);
  CHECK_FALSE(contains(page, "no values"));
  CHECK(contains(page, "There are no curves of the validation accuracy, because no run has reported a value."));
  CHECK(contains(page, "because no variant reached 99 % in more than half of its runs."));
  CHECK_FALSE(contains(page, "Time to 99 %"));
  CHECK(contains(page,
                 "<figure class=\"card\" data-figure=\"loss-seconds\">\n<div class=\"form\" data-x=\"logarithmic\""));
  CHECK(
      contains(page, "<figure class=\"card\" data-figure=\"loss-bytes_sent\">\n<div class=\"form\" data-x=\"linear\""));
  for (const auto& [path, content] : pictures_of(report)) CHECK_FALSE(contains(content, "no values"));
  CHECK(contains(markdown_of(report), "pictures/loss-seconds-logarithmic-x.svg)"));
  CHECK(contains(html_of(make_report(what, {})), "There are no figures, because no run has finished."));
}

TEST_CASE("a drawing that shows all workers as one box is left out, and the machine is named") {
  comparison what;
  what.variants.resize(2);
  what.variants[0].label = "few";
  what.variants[0].settings = {{"workers.count", "4"}};
  what.variants[0].wiring = "<svg><title>w0</title><title>w1</title></svg>";
  what.variants[1].label = "many";
  what.variants[1].settings = {{"workers.count", "64"}};
  what.variants[1].wiring = "<svg><title>w0 to w63</title></svg>";
  what.machines = {{{"Troupe", "1.0"}, {"LibTorch", "2.11.0"}, {"CPU", "A"}},
                   {{"Troupe", "1.0"}, {"LibTorch", "2.11.0"}, {"CPU", "B"}}};
  const auto page = html_of(make_report(what, {}));
  CHECK(contains(page, "Wiring of few"));
  CHECK_FALSE(contains(page, "Wiring of many"));
  CHECK(contains(page, "Not drawn: many."));
  CHECK(contains(page, "Troupe 1.0, LibTorch 2.11.0; CPU several"));
}

TEST_CASE("a file of a figure has its styles inside") {
  const auto file = standalone(draw(of_one({.name = "a", .style = 0, .marks = {mark_at(1, 1), mark_at(2, 2)}}, false)));
  CHECK(file.starts_with("<svg "));
  CHECK(contains(file, "<style>"));
  CHECK(contains(file, "prefers-color-scheme: dark"));
}

}  // namespace pages_figure_test
