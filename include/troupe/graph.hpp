/// @file
/// Graphs of your own for gossip, which may change between exchanges: troupe::register_graph() adds one to the values of
/// the setting `graph`, and troupe::rules::mixing_schedule has its mixing matrices. docs/composing.md has an example.
#pragma once

#include "troupe/algorithms/exchange/gossip/graph_registry.hpp"
