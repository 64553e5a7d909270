/// @file
/// Data sets of your own: troupe::register_dataset() adds a function that loads or generates samples to the values
/// of data.name. Link troupe::command, or troupe::plugin for a plug-in. examples/own_model is complete.
#pragma once

#include "troupe/data/formats/data_error.hpp"
#include "troupe/data/random/random.hpp"
#include "troupe/data/random/shuffle.hpp"
#include "troupe/data/sets/dataset.hpp"

namespace troupe {

using data::data_error;
using data::data_source;
using data::dataset;
using data::dataset_kind;
using data::dataset_pair;
using data::normalisation;
using data::register_dataset;

}  // namespace troupe
