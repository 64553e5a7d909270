/// @file
/// The whole command line of `troupe` as a function, for a program that adds exchanges, codecs or graphs of its own.
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
