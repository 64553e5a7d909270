#include "troupe/models/exported/exported.hpp"

#include "troupe/models/exported/operators.hpp"
#include "troupe/models/exported/program.hpp"
#include "troupe/models/exported/reading.hpp"
#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/networks/out_of_memory.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace troupe::models {

namespace exported {

namespace {

class exported_network final : public network {
 public:
  exported_network(program from, const loss_function& loss)
      : program_{std::move(from)}, values_(program_.slots), loss_{loss} {
    for (auto& parameter : program_.parameters) {
      parameter.values.set_requires_grad(true);
      parameters_.emplace_back(parameter.name, parameter.values);
      bind(parameter);
    }
    std::unordered_map<const c10::TensorImpl*, at::Tensor> counters;  // a layer may have several names
    for (auto& buffer : program_.buffers) {
      if (counts_batches(buffer.name, buffer.values)) {
        auto& counter = counters[buffer.values.unsafeGetTensorImpl()];
        if (!counter.defined()) counter = buffer.values.to(at::kFloat);
        buffer.values = counter;
        counters_.insert(buffer.name);
      }
      buffers_.emplace_back(buffer.name, buffer.values);
      bind(buffer);
    }
    for (const auto& constant : program_.constants) bind(constant);
    groups_.resize(program_.norm_channels.size());
  }

  at::Tensor forward(const at::Tensor& input) override {
    require_input(input);
    move_constants(input.device());
    for (const auto& buffer : program_.buffers)
      if (buffer.changes) values_[*buffer.where] = training_ ? buffer.values : buffer.values.clone();
    values_[program_.input.where] = input;
    if (!training_) of_evaluations_.set_current_seed(0);  // so that the result of an evaluation is always the same
    for (const auto& each : program_.nodes) run(each);
    values_[program_.input.where] = {};
    auto output = values_[program_.output].toTensor();
    values_[program_.output] = {};
    return output;
  }

  void train(bool on) override { training_ = on; }
  void draw_from(at::Generator generator) override { generator_ = std::move(generator); }
  named_tensors parameters() const override { return parameters_; }
  named_tensors buffers() const override { return buffers_; }
  bool counts(const std::string& buffer) const override { return counters_.contains(buffer); }
  loss_function loss() const override { return loss_; }
  bool takes_any_loss() const override { return true; }
  batch_range accepts() const override { return program_.input.samples; }
  std::vector<std::string> notes() const override { return program_.notes; }
  std::vector<std::int64_t> norm_channels() const override { return program_.norm_channels; }

  void synchronise(group_mean mean) override {
    for (std::size_t layer = 0; layer < groups_.size(); ++layer) groups_[layer] = make_norm_group(mean, layer);
  }

 private:
  void bind(const stored_tensor& tensor) {
    if (tensor.where) values_[*tensor.where] = tensor.values;
  }

  [[noreturn]] void refuse(const std::string& what) const { throw file_error(program_.path.string() + ": " + what); }

  void require_input(const at::Tensor& input) const {
    const auto& wanted = program_.input;
    auto fits = input.layout() == at::kStrided && input.scalar_type() == wanted.type &&
                input.dim() == static_cast<std::int64_t>(wanted.sizes.size());
    for (std::size_t i = 0; fits && i < wanted.sizes.size(); ++i)
      fits = !wanted.sizes[i] || *wanted.sizes[i] == input.size(static_cast<std::int64_t>(i));
    if (!fits)
      refuse("its forward() takes " + text_of(wanted.type, wanted.sizes) + ", but the samples are " + text_of(input));
  }

  static std::string text_of(at::ScalarType type, const std::vector<std::optional<std::int64_t>>& sizes) {
    std::string list;
    for (const auto& size : sizes) list += (list.empty() ? "N" : size ? ", " + std::to_string(*size) : ", any");
    return type_name(type) + " [" + list + "]";
  }

  static std::string text_of(const at::Tensor& batch) {
    if (batch.layout() != at::kStrided) return "sparse";
    const auto sizes = batch.sizes();
    return text_of(batch.scalar_type(), {sizes.begin(), sizes.end()});
  }

  /// Moves what bind_weights() does not: the tensors that are in no state dict.
  void move_constants(at::Device device) {
    if (device == device_) return;
    device_ = device;
    for (auto& constant : program_.constants) {
      constant.values = constant.values.to(device);
      bind(constant);
    }
    for (auto& each : program_.nodes)
      for (const auto index : each.devices) each.arguments[index].operands = {{.constant = device}};
  }

  void run(const node& each) try {
    if (each.arithmetic != nullptr) {
      const auto number = [&](std::size_t i) {
        return i < each.arguments.size() ? value_of(each.arguments[i]).toInt() : 0;
      };
      values_[each.results.front().into.front()] = each.arithmetic(number(0), number(1));
    } else {
      invoke(each);
    }
    for (const auto value : each.last_uses) values_[value] = {};
  } catch (const file_error&) {
    throw;
  } catch (const std::exception& failure) {
    if (out_of_memory(failure)) throw;
    refuse((each.place.empty() ? "" : each.place + ": ") + each.target + ": " + reason_of(failure));
  }

  void invoke(const node& each) {
    stack_.clear();
    for (const auto& given : each.arguments) stack_.push_back(value_of(given));
    const auto& generator = training_ ? generator_ : of_evaluations_;
    if (each.generator && generator.defined()) stack_[*each.generator] = generator;
    if (!training_ && each.training) stack_[*each.training] = false;
    if (!training_ && each.drop_probability) stack_[*each.drop_probability] = 0.0;
    const auto* group = each.norm && training_ ? groups_[*each.norm].get() : nullptr;
    if (each.replaced == nullptr || !each.replaced({each, generator, group}, stack_)) each.op->callBoxed(stack_);
    for (std::size_t i = 0; i < each.results.size(); ++i) {
      const auto& into = each.results[i];
      if (into.is_list)
        unpack(stack_[i].toTensorVector(), into.into);
      else if (!into.into.empty())
        values_[into.into.front()] = std::move(stack_[i]);
    }
  }

  void unpack(std::vector<at::Tensor> list, const std::vector<slot>& into) {
    if (list.size() != into.size())
      throw std::invalid_argument("it returns " + std::to_string(list.size()) + " tensors instead of " +
                                  std::to_string(into.size()));
    for (std::size_t i = 0; i < list.size(); ++i) values_[into[i]] = std::move(list[i]);
  }

  const c10::IValue& value_of(const operand& from) const { return from.from ? values_[*from.from] : from.constant; }

  c10::IValue value_of(const argument& given) const {
    switch (given.how) {
      case argument::form::single:
        return value_of(given.operands.front());
      case argument::form::tensor_of_number:
        return number_tensor(value_of(given.operands.front()).toInt());
      case argument::form::tensors: {
        c10::List<at::Tensor> list;
        list.reserve(given.operands.size());
        for (const auto& each : given.operands) list.push_back(value_of(each).toTensor());
        return list;
      }
      case argument::form::optional_tensors: {
        c10::List<std::optional<at::Tensor>> list;
        list.reserve(given.operands.size());
        for (const auto& each : given.operands) list.push_back(value_of(each).toOptional<at::Tensor>());
        return list;
      }
      case argument::form::integers: {
        c10::List<std::int64_t> list;
        list.reserve(given.operands.size());
        for (const auto& each : given.operands) list.push_back(value_of(each).toInt());
        return list;
      }
    }
    return {};
  }

  program program_;
  std::vector<c10::IValue> values_;  ///< By slot. A node's results are released after their last use.
  std::vector<c10::IValue> stack_;   ///< Arguments and results of the current call.
  named_tensors parameters_, buffers_;
  std::unordered_set<std::string> counters_;
  std::vector<std::shared_ptr<const norm_group>> groups_;  ///< For each batch norm that trains.
  at::Generator generator_, of_evaluations_{at::detail::createCPUGenerator(0)};
  at::Device device_{at::kCPU};
  loss_function loss_;
  bool training_{true};
};

}  // namespace

}  // namespace exported

std::unique_ptr<network> make_exported(const network_shape& shape) {
  return std::make_unique<exported::exported_network>(
      exported::read_program(shape.file), shape.classes == 0 ? loss_function::mse : loss_function::cross_entropy);
}

std::vector<operator_row> operators_of(const std::filesystem::path& path) {
  std::vector<operator_row> rows;
  for (const auto& each : exported::read_program(path).nodes) rows.push_back({each.target, each.sizes, each.place});
  return rows;
}

network::named_tensors weights_of_exported(const std::filesystem::path& path) {
  network::named_tensors tensors;
  for (auto& tensor : exported::read_weights(path))
    tensors.emplace_back(std::move(tensor.name), std::move(tensor.values));
  return tensors;
}

}  // namespace troupe::models
