// A trained model on disk: its weights and the metadata required to use them. The file contains neither times nor
// paths, so equal runs write equal bytes.
#pragma once

#include "troupe/data/sets/dataset.hpp"
#include "troupe/models/networks/network.hpp"
#include "troupe/models/storage/buffer_pool.hpp"
#include "troupe/models/storage/flat.hpp"
#include "troupe/models/storage/tied.hpp"
#include "troupe/runtime/checkpoint/safetensors.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::checkpoint {

/// Metadata of a model file. Fields that are missing in a file, for example in one written by another program, are
/// empty.
struct model_card {
  std::string model;          ///< Name of the model in topology files.
  std::string data;           ///< Name of the data set on which it was trained.
  data::normalisation scale;  ///< Normalisation of its inputs.
  std::string loss;           ///< Name of the loss.
  /// Shape of a sample; empty if the kind of data set defines it.
  std::vector<std::int64_t> shape{};
  /// Names of the classes by index, or the characters of a text; empty if the kind of data set defines them.
  std::vector<std::string> class_names{};
  /// Settings that define the model and, for generated data sets, the data: "model.layers=4", "data.rows=…".
  std::vector<std::string> made_by{};
  std::vector<models::tied_name> tied{};  ///< Additional names of tensors; the file has a separate tensor for each.
  models::network::named_tensors constants{};  ///< Tensors of the model that are not part of the layout.
};

/// Writes the weights `flat` [layout.total] and the metadata. Throws std::runtime_error, naming the path.
void write_model(const std::filesystem::path& path, const model_card& card, const models::flat_layout& layout,
                 const at::Tensor& flat);

/// Parses the metadata of `content`. `path` is used in messages. Throws input_error if the metadata is invalid.
model_card card_of(const std::filesystem::path& path, const weights& content);

/// Copies `content` into a new flat tensor [layout.total] of `pool`, with zeros as padding. Other types, such as the
/// int64 of counters, are converted to float32. Throws input_error, listing missing and unexpected names and wrong
/// shapes, unless names and shapes are exactly those of `layout`. `path` and `model`, the name of the layout's model,
/// are used in messages. One of the names of a `tied` tensor is sufficient; if the file has several, their values must
/// be equal. `constants` may be missing, because they never change; otherwise, their values must be equal too.
at::Tensor load_into(const std::filesystem::path& path, const weights& content, const std::string& model,
                     const models::flat_layout& layout, models::buffer_pool& pool,
                     const std::vector<models::tied_name>& tied = {},
                     const models::network::named_tensors& constants = {});

}  // namespace troupe::checkpoint
