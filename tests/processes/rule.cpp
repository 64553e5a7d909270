// The rule of an exchange for tests, in a program of its own: `rule OUT NAME RULE`, or `rule HOST:PORT FOLDER NAME
// RULE`.
//
//   mean      the mean of all contributions
//   momentum  the mean, added to .5 of the last answer; kept in its state
//   first     the mean of the contributions but that of the last member, without waiting for it
//   own       to each member half of its own contribution; from another thread
//   throws    fails at the third step, while it keeps where to answer; late: begins only after six seconds
//   mute      the mean, but never a state
//   silent    no answer; freeze: no answer, and the program is stopped
//   twice     every answer twice; later: the answer to a step that does not exist; short: an answer with too few values
#include <troupe/client.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using floats = std::vector<float>;

class rule final : public troupe::remote_rule {
 public:
  explicit rule(std::string name) : name_(std::move(name)) {}
  ~rule() override {
    for (auto& thread : threads_) thread.join();
  }

  void begin(const troupe::remote_exchange& where) override {
    where_ = where;
    last_.assign(static_cast<std::size_t>(where.elements), 0);
    std::printf("%s of %u members, %ld values of the %s, on \"%s\" with %s\n", where.name.c_str(), where.members,
                static_cast<long>(where.elements), where.sends.c_str(), where.node.c_str(), where.version.c_str());
    std::fflush(stdout);
    if (name_ == "late") std::this_thread::sleep_for(std::chrono::seconds(6));
  }

  void restore(std::string_view state) override {
    if (state.size() != last_.size() * sizeof(float)) throw std::runtime_error("the state has another size");
    std::memcpy(last_.data(), state.data(), state.size());
  }

  void receive(troupe::contribution&& what, const std::shared_ptr<troupe::answers>& to) override {
    if (name_ == "silent") return;
    if (name_ == "freeze") {
      name_ = "silent";
      ::raise(SIGSTOP);
      return;
    }
    if (name_ == "own") return answer_alone(std::move(what), to);
    const auto step = what.step;
    kept_ = to;
    if (name_ == "throws" && step == 3) throw std::runtime_error("the rule has failed");
    auto& all = steps_[step];
    all.emplace(what.member, std::move(what.values));
    const auto expected = where_.members - (name_ == "first" ? 1 : 0);
    if (name_ == "first") all.erase(where_.members - 1);
    if (all.size() < expected || step < next_) return;
    next_ = step + 1;
    auto answer = mean_of(all);
    steps_.erase(step);
    if (name_ == "momentum")
      for (std::size_t i = 0; i < answer.size(); ++i) last_[i] = answer[i] += last_[i] / 2;
    if (name_ == "short") answer.pop_back();
    to->give(step + (name_ == "later" ? 7 : 0), answer);
    if (name_ == "twice") to->give(step, answer);
  }

  std::string state() override {
    if (name_ == "mute") std::this_thread::sleep_for(std::chrono::seconds(3));
    return name_ == "momentum" ? std::string(reinterpret_cast<const char*>(last_.data()), last_.size() * sizeof(float))
                               : std::string();
  }

 private:
  static floats mean_of(const std::map<std::uint32_t, floats>& all) {
    floats sum(all.begin()->second.size());
    for (const auto& [member, values] : all)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    for (auto& value : sum) value /= static_cast<float>(all.size());
    return sum;
  }

  void answer_alone(troupe::contribution&& what, const std::shared_ptr<troupe::answers>& to) {
    threads_.emplace_back([what = std::move(what), to]() mutable {
      for (auto& value : what.values) value /= 2;
      to->give(what.step, what.member, std::move(what.values));
    });
  }

  std::string name_;
  troupe::remote_exchange where_;
  std::map<std::uint64_t, std::map<std::uint32_t, floats>> steps_;
  std::uint64_t next_{0};  ///< The first step that is not answered.
  floats last_;
  std::shared_ptr<troupe::answers> kept_;
  std::vector<std::thread> threads_;
};

}  // namespace

int main(int count, char** arguments) try {
  if (count < 4) return 2;
  rule with{arguments[count - 1]};
  const auto status = count == 4
                          ? troupe::take_part(with, arguments[1], arguments[2])
                          : troupe::take_part(with, arguments[1],
                                              troupe::guest_credentials{.folder = arguments[2], .name = arguments[3]});
  std::printf("over, with status %d\n", status);
  return 0;
} catch (const std::exception& problem) {
  std::fprintf(stderr, "rule: %s\n", problem.what());
  return 1;
}
