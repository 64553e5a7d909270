// What a plug-in consists of: a shared library with a function that registers kinds.
#pragma once

#include "troupe/algorithms/exchange/registry.hpp"
#include "troupe/algorithms/training/optimizer_kinds.hpp"
#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"

#include <torch/version.h>

#include <cstddef>

namespace troupe {

/// What a plug-in and the program that loads it must have in common.
struct plugin_needs {
  const char* libtorch;  ///< Version of LibTorch.
  std::size_t layout;    ///< Changes with the types that both use.
};

/// Returns what code that is compiled with these headers needs.
consteval plugin_needs needs_of_these_headers() {
  std::size_t layout = 1;  // the version of what a plug-in may rely on
  for (const auto size :
       {sizeof(setting), sizeof(models::network_kind), sizeof(models::network_shape), sizeof(models::loss_kind),
        sizeof(data::dataset_kind), sizeof(data::data_source), sizeof(data::dataset), sizeof(data::dataset_pair),
        sizeof(optimizer_kind), sizeof(optimizer_options), sizeof(exchange_kind), sizeof(member_options)})
    layout = layout * 31 + size;
  return {.libtorch = TORCH_VERSION, .layout = layout};
}

/// What the function troupe_plugin() of a plug-in returns.
struct plugin_entry {
  plugin_needs needs;        ///< What it was compiled with.
  void (*register_kinds)();  ///< Registers its kinds. May throw std::invalid_argument.
};

}  // namespace troupe

/// Begins the function of a plug-in that registers its kinds: TROUPE_PLUGIN { troupe::register_optimizer(…); }
#define TROUPE_PLUGIN                                                                      \
  static void troupe_register_kinds();                                                     \
  extern "C" __attribute__((visibility("default"))) troupe::plugin_entry troupe_plugin() { \
    return {troupe::needs_of_these_headers(), troupe_register_kinds};                      \
  }                                                                                        \
  static void troupe_register_kinds()
