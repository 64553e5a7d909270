// Fragments of the parameters that are averaged at different times, while the workers train on: streaming DiLoCo.
#pragma once

#include "troupe/algorithms/exchange/around/wrapper.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/files/setting.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// How parameters are averaged in fragments.
struct streaming {
  std::uint64_t fragments{1};  ///< Number of fragments.
  std::uint64_t delay{0};      ///< Number of steps from sending a fragment to using its mean.
  double mix{0};               ///< Weight of a worker's own values then; that of the mean is 1 − mix.

  /// Returns whether this is anything but the whole, averaged at once.
  bool is_used() const { return fragments > 1 || delay > 0 || mix > 0; }

  /// Returns when fragment `index` is sent if each is sent once in `whole.every` steps: after ⌊(index + 1) · every /
  /// fragments⌋ steps for the first time.
  cadence sends(const cadence& whole, std::uint64_t index) const;

  /// Returns when a worker takes part in the exchange: when it sends a fragment or uses its mean, in a run of so many
  /// steps.
  cadence due(const cadence& whole, std::uint64_t steps) const;

  /// Returns how often per step all parameters are sent, on average over a run of so many steps.
  double per_step(const cadence& due, std::uint64_t steps) const;
};

/// Returns `settings` extended by fragments, delay and mix.
std::vector<setting> with_streaming_settings(std::vector<setting> settings);

/// Returns the settings without these if they change nothing.
setting_values without_idle_streaming(setting_values settings);

/// Returns how parameters are averaged with these settings.
streaming streaming_of(const setting_values& settings);

/// Returns so many fragments of nearly equal size, each of whole parameters, in the order of the layout; fewer if there
/// are fewer parameters.
std::vector<range> fragments_of(const models::flat_layout& layout, std::uint64_t count);

/// A wrapper: makes a member that averages each fragment by an inner member of its own. It is due whenever a fragment
/// is sent or its mean is used, and answers the worker's own parameters, in which it has replaced the fragments whose
/// mean is due. A fragment x becomes mix · x + (1 − mix) · a, where `a` is the answer of the inner member to what was
/// sent `delay` steps ago. `whole` is when all parameters would be sent at once.
///
/// Its state contains those of the inner members and, for a fragment that has been sent but not yet used, what was
/// sent, which is sent again when the run is continued.
///
/// Source: Douillard et al., "Streaming DiLoCo with overlapping communication", arXiv 2501.18512, 2025, Algorithm 2.
std::unique_ptr<member> make_streaming_member(const member_options& own, const streaming& how, const cadence& whole,
                                              const member_maker& make_inner);

/// Returns the size, in bytes, of the parts that a member has sent of fragments of which it has not yet used the mean:
/// 0 unless it was made by make_streaming_member(). When they are sent depends on the arrival of others.
std::uint64_t bytes_under_way(const member& one);

}  // namespace troupe
