// Control messages for tests and for the fuzz target.
#pragma once

#include "troupe/runtime/transport/control.hpp"

#include <limits>
#include <vector>

namespace troupe::tests {

/// One message of each kind, in the order of their numbers, with a value in every field.
inline std::vector<control::message> one_of_each() {
  const rank_id rank{3};
  return {control::introduction{.node = "beta",
                                .version = "0.1",
                                .topology = "[run]\nsteps = 20\n",
                                .weights = "w",
                                .data = "d",
                                .fingerprint = {{"cpu", "x"}, {"torch", ""}},
                                .continues = true},
          control::linked{},
          control::failed{"worker 3: no"},
          control::link_lost{2, "it was silent"},
          control::waiting{1, "rank 2 is waiting for rank 3"},
          control::interrupted{15},
          control::copied{20},
          milestone{.rank = rank,
                    .step = 7,
                    .loss_sum = std::numeric_limits<double>::quiet_NaN(),
                    .sample_count = 64,
                    .correct = 3,
                    .classified = 4,
                    .bytes_sent = 5,
                    .data_wait = 0.5,
                    .busy = 1.5},
          control::at_checkpoint{rank, 8},
          control::restored{rank},
          control::verified{rank, 9, {1, 2, 0xffffffff}},
          control::halted{rank, 11},
          control::held{rank, 16},
          control::stopped{rank, 17},
          control::progress{rank, 10},
          control::welcome{{{.process = 12, .file = -1}, {.process = 1, .file = 3}}, "0123456789abcdef"},
          control::refusal{"no"},
          control::link_up{},
          control::who_waits{2},
          control::end{143, "why"},
          control::proceed{rank, 12},
          control::assign{rank, {.first_step = 1, .first_batch = 2, .count = 3}},
          control::halt{rank},
          control::finish{rank, 13},
          control::show{rank, 14},
          control::send_state{rank, 15},
          control::hold{rank},
          control::stop_at{rank, 18},
          control::change_rate{rank, 19, 0.25}};
}

}  // namespace troupe::tests
