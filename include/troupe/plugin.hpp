/// @file
/// Plug-ins: a shared library with kinds of your own that a topology file loads into the `troupe` command with
/// plugins = ["libmine.so"]. Link troupe::plugin.
///
/// @code{.cpp}
/// #include "troupe/optimizer.hpp"
/// #include "troupe/plugin.hpp"
///
/// TROUPE_PLUGIN {
///   troupe::register_optimizer(my_optimizer());
/// }
/// @endcode
#pragma once

#include "troupe/runtime/plugins/plugin.hpp"
