/// @file
/// Trained models in your own program: read the weights that a run has saved (troupe::checkpoint::read_safetensors(),
/// troupe::checkpoint::load_into()), make the network (troupe::models::make_network(),
/// troupe::models::bind_weights()), and use it on samples (troupe::data::make_batch()). Link troupe::troupe.
/// examples/classify is a complete program.
#pragma once

#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/runtime/checkpoint/model_file.hpp"
