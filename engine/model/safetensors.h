// SafetensorsFile: the tensors of one .safetensors file, memory-mapped. It knows the file format,
// not models. Format: the specification of huggingface/safetensors: a little-endian u64 with the
// length of a JSON object, that object (name: {dtype, shape, data_offsets}), then the data.
//
// Nothing in the file is trusted: a length, shape, offset or type that is not true gives kDataLoss
// or kUnsupported with the tensor's name, and memory used is bounded by a small multiple of the
// header's size. Reading is thread-safe after Open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/modelfile/mapped_file.h"

namespace kvgate::model {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;                // "BF16", as the file spells it; one whose size is known
  std::vector<int64_t> shape;       // outermost first, as in the file; empty: one number
  std::span<const std::byte> data;  // in the mapping; aligned to nothing
};

class SafetensorsFile {
 public:
  static Result<std::unique_ptr<SafetensorsFile>> Open(const std::filesystem::path& path);
  // The same over bytes the caller keeps alive: for tests and fuzzing.
  static Result<std::unique_ptr<SafetensorsFile>> Parse(std::span<const std::byte> bytes);

  // In the order of their data, which they share among them without overlaps or gaps.
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }
  size_t total_bytes() const { return total_bytes_; }
  // Null after Parse.
  const MappedFile* mapping() const { return mapping_.get(); }

 private:
  SafetensorsFile() = default;
  Result<void> Read(std::span<const std::byte> bytes);

  std::unique_ptr<MappedFile> mapping_;  // null after Parse
  size_t total_bytes_ = 0;
  std::vector<SafetensorsTensor> tensors_;
};

}  // namespace kvgate::model
