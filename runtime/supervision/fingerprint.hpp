// The properties other than the topology file on which the bits of a result depend. Nodes compare them when they join.
#pragma once

#include "troupe/data/sets/dataset.hpp"
#include "troupe/runtime/plan/plan.hpp"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace troupe {

/// Returns Troupe's version.
std::string version();

/// Returns LibTorch's version, its CPU capability and the name of the CPU, keyed by readable names.
std::map<std::string, std::string> names_of_machine();

/// Returns names_of_machine(), the CUDA devices, digests of this machine's arithmetic and the environment variables
/// that select kernels (see arithmetic.hpp). The first call computes the digests.
std::map<std::string, std::string> fingerprint();

/// Returns the entries of fingerprint() on which the bits of this run depend: without the CUDA devices if all workers
/// use the CPU, and without the arithmetic of bfloat16 if they do not use it.
std::map<std::string, std::string> fingerprint_of(const plan& plan);

/// Describes the entries in which `theirs` differs from `ours`. Returns an empty string if they are equal. Arithmetic
/// and settings that `theirs` lacks, because an earlier build wrote it, are not compared.
std::string differing(const std::map<std::string, std::string>& ours, const std::map<std::string, std::string>& theirs);

/// Returns the CRC-32C of the bytes of a CPU tensor, as 8 hexadecimal digits. If `script` is not empty, the bytes of
/// that file (the module to which the weights belong) are included after them.
std::string digest_of(const at::Tensor& values, const std::filesystem::path& script = {});

/// Returns the same kind of digest over all samples, training and validation.
std::string digest_of(const data::dataset_pair& data);

}  // namespace troupe
