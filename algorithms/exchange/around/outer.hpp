// An outer optimizer around the members of an exchange that averages parameters: DiLoCo, SlowMo, FedAvgM, FedAdam.
// Every member takes the same step on the mean, so nothing else is sent. See outer_optimizer.hpp.
#pragma once

#include "troupe/algorithms/exchange/around/outer_optimizer.hpp"
#include "troupe/algorithms/exchange/around/wrapper.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/files/setting.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// Returns `settings` extended by those of an outer optimizer: outer, outer_lr, outer_momentum, outer_betas, outer_eps.
std::vector<setting> with_outer_settings(std::vector<setting> settings);

/// Returns the settings with the defaults of the chosen rule, and without what it does not use; without a rule, none.
setting_values with_outer_defaults(setting_values settings);

/// Returns the outer optimizer of these settings; its rule is `none` if they have none.
outer_optimizer outer_of(const setting_values& settings);

/// Returns what is wrong with these settings, or nothing.
std::optional<complaint> wrong_outer_setting(const setting_values& settings);

/// A wrapper: makes a member that passes contributions on, and answers with a step of the outer optimizer on the mean
/// that the inner member answers. Float buffers behind the parameters are averaged only.
///
/// `sends_differences`: contributes what a worker has changed since the last exchange in place of its parameters, so
/// that an encoding rounds the change, and small steps are not lost in large parameters.
///
/// Its state is `outer/`: anchor, first, second, and the learning rate at the last exchange.
std::unique_ptr<member> make_outer_member(const member_options& own, const outer_optimizer& rule,
                                          bool sends_differences, const member_maker& make_inner);

}  // namespace troupe
