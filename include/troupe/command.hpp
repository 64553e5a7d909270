/// @file
/// The whole command line of `troupe` as a function, for a program that adds kinds of its own: models, data
/// sets, losses, optimizers, exchanges, codecs or graphs.
/// Link troupe::command.
///
/// @code{.cpp}
/// int main(int count, char** words) {
///   troupe::register_exchange(my_kind());
///   return troupe::apps::command(count, words);
/// }
/// @endcode
#pragma once

#include "troupe/apps/command.hpp"
