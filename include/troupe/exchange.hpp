/// @file
/// What an exchange of your own is made of. Link troupe::troupe, or troupe::command for the command line as well.
///
/// - troupe::exchange_kind describes an exchange, and troupe::register_exchange() adds it to those that topology files
///   can name.
/// - troupe::member is one worker's side of it: a state machine that sends and receives troupe::part messages.
///   troupe::server is a member without a worker.
/// - troupe::member_options is what a member is made from, and troupe::outbox is where its messages go.
/// - troupe::rules::rank_folds collects contributions, and troupe::rules::mean_in_order() adds them with the same bits
///   in any order of arrival.
/// - troupe::data::keyed() and troupe::data::shuffle() draw random numbers that depend on the seed of the run alone.
///
/// The documentation, docs/composing.md, explains how to write an exchange.
#pragma once

#include "troupe/algorithms/exchange/member.hpp"
#include "troupe/algorithms/exchange/member_options.hpp"
#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/rules/reduce.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/data/random/shuffle.hpp"
