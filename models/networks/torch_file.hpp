// A PyTorch file for LibTorch to read. It is opened here, because LibTorch would open whatever a path leads to.
#pragma once

#include "troupe/files/input.hpp"

#include <caffe2/serialize/read_adapter_interface.h>

#include <cstdint>
#include <filesystem>

namespace troupe::models {

class torch_file final : public caffe2::serialize::ReadAdapterInterface {
 public:
  /// Throws files::unreadable.
  explicit torch_file(const std::filesystem::path& path) : file_{path} {}

  size_t size() const override { return file_.bytes(); }

  /// Throws files::unreadable. Returns fewer bytes only at the end of the file.
  size_t read(uint64_t position, void* into, size_t count, const char* = "") const override {
    return file_.read_at(position, into, count);
  }

 private:
  files::input file_;
};

}  // namespace troupe::models
