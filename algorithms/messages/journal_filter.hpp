// A journal that forwards everything to another journal: the base class of journals that change or observe some of it.
#pragma once

#include "troupe/algorithms/messages/journal.hpp"

#include <memory>
#include <utility>

namespace troupe {

/// Forwards every function of journal; a test compares the two.
class journal_filter : public journal {
 public:
  explicit journal_filter(std::shared_ptr<journal> inner) : inner_(std::move(inner)) {}

  void write(const record& line) override { inner_->write(line); }
  void progress(std::uint64_t step) override { inner_->progress(step); }
  void progress_by_worker(const std::vector<std::uint64_t>& steps) override { inner_->progress_by_worker(steps); }
  void keep(const snapshot& best) override { inner_->keep(best); }
  void save(const snapshot& result) override { inner_->save(result); }
  std::optional<state_dict> checkpoint(const run_state& state, bool copied) override {
    return inner_->checkpoint(state, copied);
  }
  bool wrote_checkpoint() const override { return inner_->wrote_checkpoint(); }
  void report_overdue_copy(std::uint64_t step) override { inner_->report_overdue_copy(step); }

 private:
  std::shared_ptr<journal> inner_;
};

}  // namespace troupe
