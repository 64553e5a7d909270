// The coordinate-wise median of all workers' gradients, in a program of its own. Start the training with
//
//   troupe run median.toml --out runs/median --actors
//
// and then this program: ./median_server runs/median
#include <troupe/client.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace {

/// Collects the gradients of a step, and answers it with their median; for even n, with the mean of the two in the
/// middle.
class median final : public troupe::remote_rule {
 public:
  void begin(const troupe::remote_exchange& where) override { members_ = where.members; }

  void receive(troupe::contribution&& what, const std::shared_ptr<troupe::answers>& to) override {
    auto& all = steps_[what.step];
    all.push_back(std::move(what.values));
    if (all.size() < members_) return;
    to->give(what.step, of(all));
    steps_.erase(what.step);
  }

 private:
  static std::vector<float> of(const std::vector<std::vector<float>>& all) {
    std::vector<float> answer(all.front().size()), values(all.size());
    for (std::size_t i = 0; i < answer.size(); ++i) {
      std::transform(all.begin(), all.end(), values.begin(), [i](const auto& gradient) { return gradient[i]; });
      std::sort(values.begin(), values.end());
      answer[i] = (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
    }
    return answer;
  }

  std::size_t members_{0};
  std::map<std::uint64_t, std::vector<std::vector<float>>> steps_;
};

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) return std::fprintf(stderr, "usage: median_server RESULTS\n"), 2;
  median rule;
  return troupe::take_part(rule, arguments[1], "median");
} catch (const std::exception& problem) {
  return std::fprintf(stderr, "median_server: %s\n", problem.what()), 1;
}
