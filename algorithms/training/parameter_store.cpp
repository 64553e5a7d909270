#include "troupe/algorithms/training/parameter_store.hpp"

#include "troupe/algorithms/support/assert.hpp"
#include "troupe/algorithms/training/shared_memory.hpp"
#include "troupe/models/storage/held_lock.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// What the stores have in common: the sizes of x, and copies that may be written.
class store_base : public parameter_store {
 public:
  store_base(const replica_options& options, placement& where)
      : parameters_(options.layout.parameter_end), total_(options.layout.total), where_(where) {}

 protected:
  void make_own(live_weights& x) {
    if (std::exchange(x.own, true)) return;
    auto copy = where_.take(total_);
    copy.copy_(x.now.values);
    x.now.values = std::move(copy);
  }

  at::Tensor parameters_of(const at::Tensor& x) const { return x.narrow(0, 0, parameters_); }

  std::int64_t parameters_, total_;
  placement& where_;
};

/// x arrives with each request and leaves with its result. A tensor that has arrived is never written, because others
/// read it.
class in_messages final : public store_base {
 public:
  using store_base::store_base;

  void begin(live_weights& x) override {
    if (!where_.gpu()) return;
    x.now.values = where_.bring(x.now.values, x.now.ready, last_);
    x.now.ready.reset();
  }

  void before_gradient(live_weights& x) override {
    if (total_ > parameters_) make_own(x);  // forward passes write float buffers in place
  }
  void after_gradient(live_weights&) override {}

  void step(live_weights& x, const std::function<void(const at::Tensor&)>& take_step) override {
    make_own(x);
    take_step(parameters_of(x.now.values));
  }

  sparse_access before_sparse_steps(live_weights& x) override {
    make_own(x);
    return {};
  }
  std::uint64_t most_steps(std::uint64_t wanted) const override { return wanted; }
  void after_steps(live_weights&, std::uint64_t) override {}

  void replace(live_weights& x, const at::Tensor& values) override {
    if (x.now.values.numel() == values.numel()) {
      x.now.values = values;
      x.own = false;
    } else {
      make_own(x);
      x.now.values.narrow(0, 0, values.numel()).copy_(values);
    }
  }

  void add(live_weights& x, const at::Tensor& change) override {
    make_own(x);
    x.now.values.narrow(0, 0, change.numel()).add_(change);
  }

  void end(live_weights&) override {}

  void hand_out(bool host_wanted, advanced& result) override {
    if (!where_.gpu()) return;
    auto given = where_.hand_out(result.now.values, host_wanted, last_);
    result.now.values = std::move(given.values);
    result.now.ready = std::move(given.ready);
    result.host_parameters = given.on_host;
  }

 private:
  twin last_;
};

/// What the two stores in shared memory have in common: answers of exchanges and results.
class shared_store : public store_base {
 public:
  shared_store(const replica_options& options, placement& where)
      : store_base(options, where),
        memory_(*options.memory),
        lock_(options.memory_lock ? options.memory_lock : memory_.lock_for(static_cast<std::uint32_t>(options.rank))) {}

  void begin(live_weights& x) override {
    handed_out_ = x.now.values;
    if (where_.gpu()) memory_.bring_to(*where_.gpu());
    x.now.ready.reset();
    enter(x);
  }

  void replace(live_weights& x, const at::Tensor& values) override {
    {
      const models::held_lock alone{lock_.get()};
      memory_.move(handed_out_.narrow(0, 0, values.numel()), values);  // keeps what others have written since
    }
    after_replace(x);
  }

  void add(live_weights&, const at::Tensor&) override {
    TROUPE_ASSERT(false, "an exchange of a shared memory must not answer with a change");
  }

  /// Hands out a copy of x if the host needs it: exchanges and results need the values of one moment.
  void hand_out(bool host_wanted, advanced& result) override {
    if (where_.gpu()) where_.gpu()->synchronise();  // the owner of the result also reads x
    result.host_parameters = host_wanted;
    const models::held_lock alone{host_wanted ? lock_.get() : nullptr};
    result.now.values = host_wanted ? memory_.copy(where_.pool()) : memory_.values();
  }

 protected:
  virtual void enter(live_weights& x) = 0;
  virtual void after_replace(live_weights& x) = 0;

  shared_memory& memory_;
  std::shared_ptr<models::exclusive_lock> lock_;  ///< Held while x or its counters are read or written; may be null.
  std::uint64_t seen_{0};                         ///< Updates of the memory when x was last read.

 private:
  at::Tensor handed_out_;  ///< x as last handed out.
};

/// Every step reads and writes the memory itself.
class in_memory final : public shared_store {
 public:
  using shared_store::shared_store;

  /// Prepares a gradient at x itself, which others write meanwhile, or, if x is locked, at a copy made here.
  void before_gradient(live_weights& x) override {
    const models::held_lock alone{lock_.get()};
    seen_ = memory_.updates();
    if (memory_.how() == memory_writes::locked) {
      x.now.values = copied_ = memory_.copy(where_.pool());
      x.own = false;
    }
    if (total_ > parameters_) make_own(x);  // forward passes write float buffers in place
  }

  /// Writes the float buffers of a copy, which the forward passes have changed, to the memory.
  void after_gradient(live_weights& x) override {
    const auto count = total_ - parameters_;
    if (count == 0 || memory_.how() != memory_writes::locked) return;
    const models::held_lock alone{lock_.get()};
    memory_.move(copied_.narrow(0, parameters_, count), x.now.values.narrow(0, parameters_, count), parameters_);
  }

  void step(live_weights&, const std::function<void(const at::Tensor&)>& take_step) override {
    if (memory_.how() == memory_writes::atomic) {
      const auto before = parameters_of(memory_.copy(where_.pool()));
      auto after = where_.pool().take(before.numel());
      after.copy_(before);
      take_step(after);
      memory_.move(before, after);
    } else {
      const auto x = memory_.values();
      const models::held_lock alone{lock_.get()};
      take_step(parameters_of(x));
    }
  }

  sparse_access before_sparse_steps(live_weights&) override {
    const models::held_lock alone{lock_.get()};
    seen_ = memory_.updates();
    return {memory_.how() == memory_writes::atomic, lock_.get()};
  }
  std::uint64_t most_steps(std::uint64_t wanted) const override { return wanted; }
  void after_steps(live_weights&, std::uint64_t steps) override {
    const models::held_lock alone{lock_.get()};
    memory_.count(steps, seen_);
  }
  void end(live_weights&) override {}

 private:
  void enter(live_weights& x) override {
    x.now.values = memory_.values();
    x.own = true;
  }
  void after_replace(live_weights&) override {}

  at::Tensor copied_;  ///< Used only if the memory is locked: x when the gradient's passes began.
};

/// Steps on a copy of x. The change of the copy is added to the memory after `local_steps` steps and at the end of a
/// request.
class beside_memory final : public shared_store {
 public:
  beside_memory(const replica_options& options, placement& where)
      : shared_store(options, where), local_steps_(static_cast<std::uint64_t>(options.local_steps)) {}

  void before_gradient(live_weights& x) override {
    if (total_ > parameters_) make_own(x);  // forward passes write float buffers in place
  }
  void after_gradient(live_weights&) override {}

  void step(live_weights& x, const std::function<void(const at::Tensor&)>& take_step) override {
    make_own(x);
    take_step(parameters_of(x.now.values));
  }

  sparse_access before_sparse_steps(live_weights& x) override {
    make_own(x);
    return {};
  }
  std::uint64_t most_steps(std::uint64_t wanted) const override { return std::min(wanted, local_steps_ - made_); }

  void after_steps(live_weights& x, std::uint64_t steps) override {
    made_ += steps;
    if (made_ >= local_steps_) merge(x);
  }

  void end(live_weights& x) override { merge(x); }

 private:
  void enter(live_weights& x) override {
    const models::held_lock alone{lock_.get()};
    seen_ = memory_.updates();
    copied_ = memory_.copy(where_.pool());
    x.now.values = copied_;
    x.own = false;
  }
  void after_replace(live_weights& x) override { enter(x); }

  /// Adds the changes of the copy, including float buffers, to the memory and copies x again.
  void merge(live_weights& x) {
    make_own(x);
    const models::held_lock alone{lock_.get()};
    memory_.count_at_once(std::exchange(made_, 0), seen_);
    seen_ = memory_.updates();
    memory_.merge(copied_, x.now.values);
  }

  std::uint64_t local_steps_;
  std::uint64_t made_{0};  ///< Steps since the last merge.
  at::Tensor copied_;      ///< x as last read.
};

}  // namespace

std::unique_ptr<parameter_store> make_store(const replica_options& options, placement& where) {
  if (!options.memory) return std::make_unique<in_messages>(options, where);
  if (options.local_steps == 1) return std::make_unique<in_memory>(options, where);
  return std::make_unique<beside_memory>(options, where);
}

}  // namespace troupe
