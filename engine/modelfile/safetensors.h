// SafetensorsFile: the tensors of one memory-mapped .safetensors file. It knows the file format,
// not models. Format: the specification of huggingface/safetensors: a little-endian u64 with the
// length of a JSON object, that object (name: {dtype, shape, data_offsets}), then the data.
//
// The file is not trusted: an invalid length, shape, offset or type gives kDataLoss or kUnsupported
// with the tensor's name, and memory use is bounded by a small multiple of the header's size.
// Reading is thread-safe after Open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/modelfile/mapped_file.h"

namespace kvgate::modelfile {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;                // "BF16", in the file's spelling; always a dtype of known size
  std::vector<int64_t> shape;       // outermost first, as in the file; empty for a single number
  std::span<const std::byte> data;  // in the mapping; not aligned
};

class SafetensorsFile {
 public:
  static Result<std::unique_ptr<SafetensorsFile>> Open(const std::filesystem::path& path);
  // The same for bytes that the caller keeps alive: for tests and fuzzing.
  static Result<std::unique_ptr<SafetensorsFile>> Parse(std::span<const std::byte> bytes);

  // The tensors in the order of their data, which they cover without overlaps or gaps.
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

}  // namespace kvgate::modelfile
