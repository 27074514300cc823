// GGUF v2/v3: reading (memory-mapped, everything checked before use) and writing.
// It knows the file format, not models. Format: the GGUF specification of ggml.
// A truncated or hostile file gives kDataLoss or kUnsupported with the name of the field at fault;
// no count, offset or size of the file is trusted, and memory used is bounded by a small multiple
// of the file's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

#include "engine/modelfile/mapped_file.h"
#include "engine/model/model_file.h"
#include "kernels/dtype.h"

namespace kvgate::model {

class GgufFile final : public ModelFile {
 public:
  // A model in several files (NAME-00001-of-00003.gguf) is opened by its first, whose metadata
  // counts, and has the tensors of all. A part that is missing or another's is named.
  static Result<std::unique_ptr<GgufFile>> Open(const std::filesystem::path& path);
  // The same over bytes the caller keeps alive: for tests and fuzzing. Tensor data is aligned as
  // general.alignment says when the first byte is.
  static Result<std::unique_ptr<GgufFile>> Parse(std::span<const std::byte> bytes);
  ~GgufFile() override;

  uint32_t version() const { return version_; }

 private:
  friend class GgufParser;
  GgufFile() = default;
  static Result<std::unique_ptr<GgufFile>> OpenOne(const std::filesystem::path& path);
  Result<void> OpenOtherParts(const std::filesystem::path& path);
  Result<void> IndexParts(const std::filesystem::path& path);

  std::unique_ptr<MappedFile> mapping_;
  std::vector<std::unique_ptr<GgufFile>> parts_;  // the other ones: tensors_ points into them
  std::span<const std::byte> bytes_;
  uint32_t version_ = 0;
};

// Writes a v3 file: metadata and tensors in the order given. Tensor data is streamed in chunks of
// whole rows (a few MiB), so that a file larger than memory can be written.
class GgufWriter {
 public:
  void Add(std::string key, GgufValue value);
  void AddStrings(std::string key, std::vector<std::string> values);
  void AddFloats(std::string key, std::vector<float> values);
  void AddIntegers(std::string key, std::vector<int32_t> values);
  struct TensorSpec {
    std::string name;
    std::vector<int64_t> dimensions;  // innermost first
    GgufType type;
  };
  void AddTensor(TensorSpec spec);
  // What was added so far, in order.
  std::span<const std::pair<std::string, GgufValue>> metadata() const { return metadata_; }
  std::span<const TensorSpec> tensors() const { return tensors_; }
  // Called for every tensor in order, and within one for its rows in order (a row is dimensions[0]
  // elements): must write all of `data`, which holds whole rows from `first_row` on.
  using Fill =
      std::function<void(const TensorSpec& spec, int64_t first_row, std::span<std::byte> data)>;
  // Writes PATH.partial, fsyncs and renames. kIo with the path and the reason (a full disk, say);
  // then nothing is left behind. kInvalidArgument: a key or tensor twice, or a senseless shape.
  Result<void> Write(const std::filesystem::path& path, const Fill& fill) const;

 private:
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<TensorSpec> tensors_;
};

// Bytes of a tensor of `count` elements; kUnsupported for a type we cannot size, kDataLoss when
// count is no multiple of the type's block or the size overflows.
Result<size_t> GgufTensorBytes(uint32_t type, size_t count);

// Its number in a file.
GgufType GgufTypeOf(kernels::DType dtype);

// "F32", "Q4_K"; "type 99" for a number nobody has given a name.
std::string GgufTypeName(uint32_t type);
// "F32, F16, ...": those that GgufTensorBytes knows.
std::string SupportedGgufTypes();

}  // namespace kvgate::model
