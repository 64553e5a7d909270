// A trained model on disk: its weights, and what one must know to use them. Nothing of time or path is in it, so equal
// runs write equal bytes.
#pragma once

#include "troupe/data/dataset.hpp"
#include "troupe/models/buffer_pool.hpp"
#include "troupe/models/flat.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/tied.hpp"
#include "troupe/runtime/checkpoint/safetensors.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::checkpoint {

/// What a model file says beside its weights. Files from elsewhere leave names empty.
struct model_card {
  std::string model;          ///< As topology files name it.
  std::string data;           ///< What it was trained on.
  data::normalisation scale;  ///< What its inputs were scaled by.
  std::string loss;           ///< models::name_of().
  /// Of samples whose shape the data set's kind does not say; else empty.
  std::vector<std::int64_t> shape{};
  /// Of samples whose classes the data set's kind does not say: their names, by index; of a text its characters.
  std::vector<std::string> class_names{};
  /// Settings of the file by which the model and, where the program makes them, the data are what they are:
  /// "model.layers=4", "data.rows=…".
  std::vector<std::string> made_by{};
  std::vector<models::tied_name> tied{};  ///< Further names of its tensors; the file has them as tensors of their own.
  models::network::named_tensors constants{};  ///< What the file has beside the layout.
};

/// Writes the weights `flat` [layout.total]. Throws std::runtime_error naming the path.
void write_model(const std::filesystem::path& path, const model_card& card, const models::flat_layout& layout,
                 const at::Tensor& flat);

/// Returns what the metadata of `content` say; `path` is for messages. Throws input_error where they make no sense.
model_card card_of(const std::filesystem::path& path, const weights& content);

/// Copies `content` into a fresh flat tensor [layout.total] of `pool`, padding zero; other types, int64 of what counts
/// among them, are converted to float32. Throws input_error unless names and shapes are exactly those of `layout`: says
/// which are missing, unexpected or of another shape. `path` and `model` (the layout's) are for that message. Of the
/// several names of a `tied` tensor one is enough; where there are more, their values must be the same. `constants` may
/// be left out, as they never change; their values must be the same too.
at::Tensor load_into(const std::filesystem::path& path, const weights& content, const std::string& model,
                     const models::flat_layout& layout, models::buffer_pool& pool,
                     const std::vector<models::tied_name>& tied = {},
                     const models::network::named_tensors& constants = {});

}  // namespace troupe::checkpoint
