// Topologies that tests of plans start from.
#pragma once

#include "troupe/runtime/topology/topology.hpp"

#include <string>

namespace troupe::testing {

/// Four convnet workers with batch 16 on MNIST, exchanging gradients.
inline topology::topology four_workers() {
  topology::topology file;
  file.file = "four.toml";
  file.run.epochs = 3;
  file.data.name = "mnist";
  file.data.batch_size = 16;
  file.workers = {.count = 4, .loop = {"gradient", "exchange", "apply"}, .device = {"cpu"}};
  file.exchanges = {
      {.name = "exchange", .kind = "all_reduce", .sends = "", .options = {{"route", std::string("ring")}}}};
  return file;
}

}  // namespace troupe::testing
