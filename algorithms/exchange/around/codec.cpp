#include "troupe/algorithms/exchange/around/codec.hpp"

#include <ATen/core/Tensor.h>

#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Converts each value to another type; NaN stays NaN.
class as_type final : public codec {
 public:
  as_type(std::string name, at::ScalarType type) : name_(std::move(name)), type_(type) {}

  std::string name() const override { return name_; }
  at::ScalarType payload_type() const override { return type_; }
  std::int64_t max_bytes(std::int64_t elements) const override {
    return elements * static_cast<std::int64_t>(c10::elementSize(type_));
  }
  at::Tensor encode(const at::Tensor& values, at::Tensor& /*memory*/) const override { return values.to(type_); }
  void decode(const at::Tensor& payload, at::Tensor& values) const override { values.copy_(payload); }

 private:
  std::string name_;
  at::ScalarType type_;
};

using shelf_of_codecs = std::vector<std::unique_ptr<const codec>>;

/// Returns the codecs in the order of their numbers, which start at 1.
shelf_of_codecs& codecs() {
  static shelf_of_codecs all = [] {
    shelf_of_codecs built_in;
    built_in.push_back(std::make_unique<as_type>("float32", at::kFloat));
    built_in.push_back(std::make_unique<as_type>("bf16", at::kBFloat16));  // rounds to nearest, ties to even
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
