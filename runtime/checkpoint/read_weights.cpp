#include "troupe/runtime/checkpoint/read_weights.hpp"

#include "troupe/files/error.hpp"
#include "troupe/models/exported/exported.hpp"
#include "troupe/models/networks/model_file.hpp"
#include "troupe/models/networks/script.hpp"
#include "troupe/models/networks/torch_file.hpp"

#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace troupe::checkpoint {

namespace {

using namespace std::string_view_literals;

constexpr auto zip_magic = "PK\3\4"sv;
/// First bytes of the files of torch.save() before PyTorch 1.6: a pickled number.
constexpr auto old_magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;
/// First bytes of a pickled state_dict(): protocol 2, then the class.
constexpr auto ordered =
    "\x80\x02"
    "ccollections\nOrderedDict\n"sv;

constexpr auto* how_to_save =
    "expected a plain dict of tensors, as written by torch.save(dict(model.state_dict()), \"weights.pt\")";

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what, const std::string& mend) {
  throw input_error(path.string() + ": " + what + "; " + mend);
}

/// Returns instructions to convert a file that torch.load() reads to a plain dict. `part` selects the weights in it.
std::string converting(const std::filesystem::path& path, const std::string& part = {}) {
  auto converted = path;
  converted.replace_filename(path.stem().string() + "_dict.pt");
  return "convert it with\n  python -c \"import torch; torch.save(dict(torch.load('" + path.string() +
         "', map_location='cpu')" + part + "), '" + converted.string() + "')\"\nand use " + converted.string();
}

std::string first_bytes(const std::filesystem::path& path) {
  std::string bytes(old_magic.size(), '\0');
  bytes.resize(files::input{path}.read(bytes.data(), bytes.size()));
  return bytes;
}

weights of_script(const std::filesystem::path& path) try {
  const auto module = models::load_script(path);
  weights content;
  for (const auto& parameter : module.named_parameters())
    content.tensors.emplace_back(parameter.name, parameter.value.detach());
  for (const auto& buffer : module.named_buffers()) content.tensors.emplace_back(buffer.name, buffer.value);
  return content;
} catch (const models::file_error& reason) {
  throw input_error(reason.what());
}

weights of_exported(const std::filesystem::path& path) try {
  weights content;
  for (auto& [name, values] : models::weights_of_exported(path)) content.tensors.emplace_back(name, values.detach());
  return content;
} catch (const models::file_error& reason) {
  throw input_error(reason.what());
}

/// Reads the values of one archive of torch.save(). It checks their sizes itself, because LibTorch's reader trusts the
/// sizes stated in the pickle.
class dict_reader {
 public:
  dict_reader(const std::filesystem::path& path, caffe2::serialize::PyTorchStreamReader& archive)
      : path_{path}, archive_{archive} {}

  weights read() {
    const auto [data, size] = archive_.getRecord("data.pkl");
    const std::string_view pickle{static_cast<const char*>(data.get()), size};
    if (pickle.starts_with(ordered))
      refuse(path_, "the file is a state_dict, which only Python can read", converting(path_));
    weights content;
    const auto value = value_of(pickle);
    if (!value.isGenericDict()) refuse_others("a value of type " + value.tagKind());
    refuse_checkpoint(pickle, value);
    for (const auto& item : value.toGenericDict()) {
      if (!item.key().isString()) refuse_others("a dict whose keys are not strings");
      const auto& name = item.key().toStringRef();
      if (!item.value().isTensor()) refuse_others(name + ", a value of type " + item.value().tagKind());
      content.tensors.emplace_back(name, checked(name, item.value().toTensor()));
    }
    return content;
  }

 private:
  [[noreturn]] void refuse_others(const std::string& found) const {
    refuse(path_, "the file contains " + found, how_to_save);
  }

  c10::IValue value_of(std::string_view pickle) try {
    const auto bytes = [rest = pickle](char* into, std::size_t wanted) mutable {
      const auto count = rest.copy(into, wanted);
      rest.remove_prefix(count);
      return count;
    };
    const auto record = [this](const std::string& name) {
      auto [data, size] = archive_.getRecord("data/" + name);
      sizes_[data.get()] = size;
      return std::move(data);
    };
    return torch::jit::Unpickler{bytes, nullptr, nullptr, record, at::kCPU}.parse_ivalue();
  } catch (const std::exception&) {
    // LibTorch's message describes its own code. It reads tensors, numbers, texts, lists and dicts, but no classes.
    if (const auto key = key_of_weights(pickle)) refuse_as_checkpoint(*key);
    refuse(path_, "the file contains Python objects, which only Python can read", how_to_save);
  }

  /// Returns the key under which the checkpoint of a training program keeps the weights, if the pickle has one of the
  /// usual keys.
  static std::optional<std::string> key_of_weights(std::string_view pickle) {
    for (const std::string key :
         {"model_state_dict", "state_dict", "model", "net", "network", "module", "model_state", "weights", "params"}) {
      // How torch.save() writes a text of this length: BINUNICODE, or SHORT_BINUNICODE in later protocols.
      const std::string length{static_cast<char>(key.size()), '\0', '\0', '\0'};
      if (pickle.find("X" + length + key) != std::string_view::npos ||
          pickle.find("\x8c" + length.substr(0, 1) + key) != std::string_view::npos)
        return key;
    }
    return std::nullopt;
  }

  [[noreturn]] void refuse_as_checkpoint(const std::string& key) const {
    refuse(path_,
           "the file is the checkpoint of a training program, which has the weights under \"" + key +
               "\" beside "
               "other values",
           converting(path_, "['" + key + "']"));
  }

  /// Refuses a dict of dicts, which a training program writes.
  void refuse_checkpoint(std::string_view pickle, const c10::IValue& value) const {
    const auto key = key_of_weights(pickle);
    if (!key) return;
    for (const auto& item : value.toGenericDict())
      if (item.key().isString() && item.key().toStringRef() == *key && item.value().isGenericDict())
        refuse_as_checkpoint(*key);
  }

  at::Tensor checked(const std::string& name, const at::Tensor& tensor) const {
    if (tensor.layout() != at::kStrided) refuse_others(name + ", a tensor that is not dense");
    if (tensor.numel() == 0) return tensor;
    std::size_t last = static_cast<std::size_t>(tensor.storage_offset());
    bool sane = tensor.storage_offset() >= 0;
    for (std::int64_t i = 0; i < tensor.dim(); ++i) {
      sane = sane && tensor.stride(i) >= 0 && tensor.size(i) > 0 &&
             !__builtin_add_overflow(last, static_cast<std::size_t>((tensor.size(i) - 1) * tensor.stride(i)), &last);
    }
    const auto held = sizes_.find(tensor.storage().data());
    if (!sane || held == sizes_.end() || last >= held->second / tensor.itemsize())
      refuse(path_, "tensor " + name + " is larger than the data stored for it", "save or copy the file again");
    return tensor.contiguous();
  }

  std::filesystem::path path_;
  caffe2::serialize::PyTorchStreamReader& archive_;
  std::unordered_map<const void*, std::size_t> sizes_;  ///< Sizes of the records that were read, in bytes.
};

}  // namespace

weights read_weights(const std::filesystem::path& path) try {
  const auto begin = first_bytes(path);
  if (begin == old_magic)
    refuse(path, "the file was written by PyTorch before 1.6 and only Python can read it", converting(path));
  if (!begin.starts_with(zip_magic))
    return read_safetensors(path, "an exported program, a TorchScript module or a dict of tensors saved by torch.save");
  try {
    caffe2::serialize::PyTorchStreamReader archive{std::make_shared<models::torch_file>(path)};
    if (archive.hasRecord("constants.pkl")) return of_script(path);
    if (archive.hasRecord("archive_format")) return of_exported(path);
    if (archive.hasRecord("data.pkl")) return dict_reader{path, archive}.read();
  } catch (const c10::Error& reason) {
    refuse(path, "not a complete PyTorch file: " + models::reason_of(reason), "save or copy it again");
  }
  refuse(path, "the file is a zip archive, but not a PyTorch file",
         "expected a safetensors file, an exported program, a TorchScript module or a dict of tensors saved by "
         "torch.save");
} catch (const files::unreadable& problem) {
  throw input_error(problem.what());
}

}  // namespace troupe::checkpoint
