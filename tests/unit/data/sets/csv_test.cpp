#include "tests/support/doctest.hpp"
#include "tests/support/scratch.hpp"

#include "troupe/data/sets/dataset.hpp"

#include <ATen/ops/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace csv_test {

using namespace troupe::data;
namespace testing = troupe::testing;

namespace {

using settings = std::function<void(data_source&)>;

dataset_pair load(const testing::scratch& folder, const std::string& text, const settings& with = {},
                  const std::string& test = {}) {
  data_source from;
  from.file = folder.write("rows.csv", text);
  if (!test.empty()) from.test_file = folder.write("test.csv", test);
  if (with) with(from);
  return find_dataset("csv")->load(from);
}

dataset_pair load(const std::string& text, const settings& with = {}, const std::string& test = {}) {
  const testing::scratch folder;
  return load(folder, text, with, test);
}

/// Returns why a file is refused, without its folder.
std::string refusal(const std::string& text, const settings& with = {}, const std::string& test = {}) {
  const testing::scratch folder;
  try {
    load(folder, text, with, test);
  } catch (const data_error& reason) {
    const std::string said = reason.what(), path = folder.path().string() + "/";
    return said.starts_with(path) ? said.substr(path.size()) : said;
  }
  return {};
}

const std::string flowers = "width,length,kind\n1,2.5,rose\n3,-4e1,iris\n5,6,rose\n";

}  // namespace

TEST_CASE("a table with a header and labels") {
  const auto sets = load(flowers);
  CHECK(sets.train->inputs.equal(at::tensor({1.0f, 2.5f, 3.0f, -40.0f, 5.0f, 6.0f}).view({3, 2})));
  CHECK(sets.train->targets.equal(at::tensor({1, 0, 1}, at::kLong)));
  CHECK(sets.train->classes == std::vector<std::string>{"iris", "rose"});
  CHECK(sets.sample_shape == std::vector<std::int64_t>{2});
  CHECK(sets.test == sets.train);
}

TEST_CASE("a table without a header, with other separators, quotation marks and line ends") {
  for (const std::string text :
       {"1;2;b\r\n3;4;a\r\n", "1\t2\tb\n\n3\t4\ta", "\xef\xbb\xbf\"1\",\"2\", \"b\"\n 3 ,4 ,a\n"}) {
    CAPTURE(text);
    const auto sets = load(text);
    CHECK(sets.train->inputs.equal(at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({2, 2})));
    CHECK(sets.train->targets.equal(at::tensor({1, 0}, at::kLong)));
  }
  const auto named = load("1,\"a \"\"b\"\", c\"\n2,x\n");
  CHECK(named.train->classes == std::vector<std::string>{"a \"b\", c", "x"});
}

TEST_CASE("labels that are integers are in the order of their values") {
  CHECK(load("1,10\n2,9\n3,-1\n").train->classes == std::vector<std::string>{"-1", "9", "10"});
}

TEST_CASE("columns are chosen by name or by number") {
  const auto target = [](const std::string& called) {
    return load(flowers, [&](auto& from) {
      from.target = called;
      from.inputs = {"length"};
    });
  };
  for (const std::string called : {"width", "0", "-3"}) {
    const auto sets = target(called);
    CHECK(sets.train->targets.equal(at::tensor({1.0f, 3.0f, 5.0f})));
    CHECK(sets.train->inputs.equal(at::tensor({2.5f, -40.0f, 6.0f}).view({3, 1})));
    CHECK(sets.train->classes.empty());
  }
  const auto sets = load(flowers, [](auto& from) {
    from.label = "-1";
    from.inputs = {"1", "width"};
  });
  CHECK(sets.train->inputs[0].equal(at::tensor({2.5f, 1.0f})));
}

TEST_CASE("whether there is a header can be said") {
  const std::string numbers = "1,2,0\n3,4,1\n";
  CHECK(load(numbers).train->size() == 2);
  CHECK(load(numbers + "5,6,0\n", [](auto& from) { from.header = true; }).train->size() == 2);
  CHECK(refusal("a,b,c\n1,2,x\n", [](auto& from) { from.header = false; }) ==
        "rows.csv:1: column \"0\" has \"a\", which is not a number; leave it out of data.inputs, or replace its values "
        "by numbers");
  const std::string named = "0,1,kind\n1,2,rose\n3,4,iris\n";  // names that are numbers
  CHECK(load(named).train->size() == 3);
  CHECK(load(named, [](auto& from) { from.label = "kind"; }).train->size() == 2);
  CHECK(refusal("a,b,c\n1;5,2;5,x\n").ends_with("; if the row has the names of the columns, set data.header = true"));
  CHECK(load("\"a; b; c; d\",length,kind\n1,2,x\n3,4,y\n").sample_shape == std::vector<std::int64_t>{2});
}

TEST_CASE("a test file has the classes and columns of the training file") {
  const auto sets = load(flowers, {}, "width,length,kind\n9,9,iris\n");
  CHECK(sets.test->targets.equal(at::tensor({0}, at::kLong)));
  CHECK(refusal(flowers, {}, "width,length,kind\n9,9,iris\n8,8,tulip\n") ==
        "test.csv:3: column \"kind\" has the label \"tulip\", which does not occur in the training set");
  CHECK(refusal(flowers, {}, "length,width,kind\n9,9,iris\n") ==
        "test.csv: its columns differ from those of rows.csv; expected the same inputs and the same target in both "
        "files");
  CHECK(refusal(
            "a,k\n1,x\n2,y\n", [](auto& from) { from.inputs = {"a"}; }, "a,k,other\n1,x,y\n")
            .ends_with("expected the same inputs and the same target in both files"));
}

TEST_CASE("a table that cannot be used is refused with the row") {
  const auto of_target = [](auto& from) { from.target = "y"; };
  CHECK(refusal("").ends_with("the file has no rows; expected one sample in each line, values separated by commas"));
  CHECK(refusal("a\n1\n") ==
        "rows.csv:1: there is only one column; expected numbers and a target, separated by commas, "
        "semicolons or tabs");
  CHECK(refusal("x,y\n") != "");
  CHECK(refusal("x,y\n1,2\n3\n", of_target) ==
        "rows.csv:3: the row has 1 values, but the first has 2; expected equal numbers");
  CHECK(refusal("x,y\n1,2\n,4\n", of_target) == "rows.csv:3: column \"x\" has no value; fill it in, or remove the row");
  CHECK(refusal("x,y\n1,2\nNA,4\n", of_target) ==
        "rows.csv:3: column \"x\" has no value (NA); fill it in, or remove the row");
  CHECK(
      refusal("x,y\n1,2\n3,high\n", of_target) ==
      "rows.csv:3: column \"y\" has \"high\", which is not a number; set data.label instead of data.target to predict "
      "classes");
  CHECK(
      refusal("x,y\n1e99,2\n", of_target) ==
      "rows.csv:2: column \"x\" has \"1e99\", which is not a finite single-precision number; replace it, or remove the "
      "row");
  CHECK(refusal("x,y\n1,2.5\n") ==
        "rows.csv:2: the last column, \"y\", has \"2.5\", which is not the label of a class; to predict numbers, set "
        "data.target = \"y\"; to take each value as a class, set data.label");
  CHECK(refusal("x,y\n1,a\n2,a\n") == "rows.csv: every label in column \"y\" is \"a\"; expected at least two classes");
  CHECK(refusal("x,y\n1,\"a\n2,b\n") ==
        "rows.csv:2: a value in quotation marks has no end in this line; expected one row in each line");
  CHECK(refusal("x,y\n1,2\n", [](auto& from) { from.target = "z"; }) ==
        "rows.csv: data.target names the column \"z\", which the file does not have; expected \"x\" or \"y\", or a "
        "number "
        "from 0 to 1 or from -1 (the last) to -2");
  CHECK(refusal("x,y\n1,2\n", [](auto& from) { from.inputs = {"y"}; }) ==
        "rows.csv: the column \"y\" is the target and one of data.inputs; remove it from data.inputs");
  CHECK(refusal("x,y,z\n1,2,3\n", [](auto& from) {
          from.inputs = {"x", "0"};
        }) == "rows.csv: data.inputs names the column \"x\" twice; remove one of them");
}

}  // namespace csv_test
