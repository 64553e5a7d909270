#include "troupe/algorithms/exchange/around/codec.hpp"

#include "troupe/algorithms/exchange/around/compressing.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Converts each value to another type; NaN stays NaN.
class as_type : public codec {
 public:
  as_type(std::string name, at::ScalarType type) : name_(std::move(name)), type_(type) {}

  std::string name() const override { return name_; }
  at::ScalarType payload_type() const override { return type_; }
  std::int64_t max_bytes(std::int64_t elements) const override {
    return elements * static_cast<std::int64_t>(c10::elementSize(type_));
  }
  at::Tensor encode(const at::Tensor& values, const encoding_task& /*task*/) const override {
    return values.to(type_, /*non_blocking=*/false, /*copy=*/true);
  }
  void decode(const at::Tensor& payload, at::Tensor& values) const override { values.copy_(payload); }

 private:
  std::string name_;
  at::ScalarType type_;
};

/// Sends the values at the places that the exchange chooses as float32. Source: Stich, Cordonnier and Jaggi,
/// "Sparsified SGD with Memory", NeurIPS 2018, section 2.1, with the same places at all members.
class random_k final : public as_type {
 public:
  random_k() : as_type("random_k", at::kFloat) {}

  codec_nature nature() const override {
    return {.block = 0, .feedback = true, .takes_ratio = true, .same_places = true};
  }
  std::int64_t bytes(std::int64_t elements, const encoding_task& task) const override {
    return max_bytes(std::clamp<std::int64_t>(share_of(task), 1, elements));
  }
  bool may_have(std::int64_t bytes, std::int64_t elements) const override {
    return bytes > 0 && bytes % max_bytes(1) == 0 && bytes <= max_bytes(elements);
  }
};

/// Stands for make_power_sgd_member(), whose messages are float32.
class power_sgd final : public as_type {
 public:
  power_sgd() : as_type("powersgd", at::kFloat) {}

  codec_nature nature() const override { return {.block = 0, .feedback = true, .takes_rank = true}; }
  bool may_have(std::int64_t /*bytes*/, std::int64_t /*elements*/) const override { return false; }
};

using shelf_of_codecs = std::vector<std::unique_ptr<const codec>>;

/// Returns the codecs in the order of their numbers, which start at 1.
shelf_of_codecs& codecs() {
  static shelf_of_codecs all = [] {
    shelf_of_codecs built_in;
    built_in.push_back(std::make_unique<as_type>("float32", at::kFloat));
    built_in.push_back(std::make_unique<as_type>("bf16", at::kBFloat16));  // rounds to nearest, ties to even
    built_in.push_back(std::make_unique<as_type>("fp16", at::kHalf));      // the same; above 65504, infinity
    built_in.push_back(make_quantizer("int8", 8));
    built_in.push_back(make_quantizer("int4", 4));
    built_in.push_back(make_sign_codec());
    built_in.push_back(make_top_k());
    built_in.push_back(std::make_unique<random_k>());
    built_in.push_back(std::make_unique<power_sgd>());
    return built_in;
  }();
  return all;
}

}  // namespace

const codec& codec_of(encoding how) {
  return *codecs().at(static_cast<std::size_t>(how) - 1);
}

encoding register_codec(std::unique_ptr<const codec> made) {
  for (const auto& name : encoding_names())
    if (name == made->name()) throw std::invalid_argument("there is a codec \"" + name + "\" already");
  codecs().push_back(std::move(made));
  return static_cast<encoding>(codecs().size());
}

std::vector<std::string> encoding_names() {
  std::vector<std::string> names;
  for (const auto& known : codecs()) names.push_back(known->name());
  return names;
}

encoding encoding_named(const std::string& name) {
  for (std::size_t i = 0; i < codecs().size(); ++i)
    if (codecs()[i]->name() == name) return static_cast<encoding>(i + 1);
  throw std::invalid_argument("unknown encoding \"" + name + "\"");
}

bool encodes_each_value(encoding how) {
  return codec_of(how).nature().block == 1;
}

bool encodes_sums(encoding how) {
  const auto nature = codec_of(how).nature();
  return nature.block == 1 || nature.same_places;
}

std::int64_t share_of(const encoding_task& task) {
  const auto share = static_cast<std::int64_t>(std::ceil(task.ratio * static_cast<double>(task.used)));
  return std::max<std::int64_t>(share, 1);
}

std::int64_t elements_of(const part& piece) {
  return piece.how == encoding::float32 ? piece.piece.values.numel() : piece.elements;
}

part encoded(const part& piece, encoding how, const at::Tensor& payload) {
  auto result = piece;
  result.how = how;
  result.elements = piece.piece.values.numel();
  result.piece.values = payload;
  return result;
}

part decoded(const part& piece, models::buffer_pool& pool) {
  if (piece.how == encoding::float32) return piece;
  auto result = piece;
  result.how = encoding::float32;
  result.elements = 0;
  result.piece.values = pool.take(piece.elements);
  codec_of(piece.how).decode(piece.piece.values, result.piece.values);
  return result;
}

}  // namespace troupe
