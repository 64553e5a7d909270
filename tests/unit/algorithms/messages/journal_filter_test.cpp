#include "troupe/algorithms/messages/journal_filter.hpp"

#include "tests/support/doctest.hpp"

#include <memory>
#include <string>
#include <vector>

namespace journal_filter_test {

namespace {

using namespace troupe;

/// Records which of its functions are called. It overrides all functions of a journal.
struct noting final : journal {
  std::vector<std::string> called;

  void write(const record&) override { called.emplace_back("write"); }
  void progress(std::uint64_t) override { called.emplace_back("progress"); }
  void progress_by_worker(const std::vector<std::uint64_t>&) override { called.emplace_back("progress_by_worker"); }
  void keep(const snapshot&) override { called.emplace_back("keep"); }
  void save(const snapshot&) override { called.emplace_back("save"); }
  std::optional<state_dict> checkpoint(const run_state&, bool copied) override {
    called.emplace_back("checkpoint");
    return copied ? std::optional{state_dict{}} : std::nullopt;
  }
  void report_overdue_copy(std::uint64_t) override { called.emplace_back("report_overdue_copy"); }
};

}  // namespace

TEST_CASE("a filter of a journal forwards every function, those with a default too") {
  const auto inner = std::make_shared<noting>();
  journal_filter filter{inner};
  filter.write({});
  filter.progress(1);
  filter.progress_by_worker({1});
  filter.keep({});
  filter.save({});
  CHECK(filter.checkpoint({}, true).has_value());
  CHECK_FALSE(filter.checkpoint({}, false).has_value());
  filter.report_overdue_copy(1);
  CHECK(inner->called == std::vector<std::string>{"write", "progress", "progress_by_worker", "keep", "save",
                                                  "checkpoint", "checkpoint", "report_overdue_copy"});
}

}  // namespace journal_filter_test
