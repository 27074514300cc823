// Reads GGUF v2/v3 (memory-mapped, everything checked before use) and writes v3. It knows the file
// format, not models. Format: the GGUF specification of ggml. A truncated or hostile file gives
// kDataLoss or kUnsupported with the name of the field at fault. No count, offset or size in the
// file is trusted, and memory use is bounded by a small multiple of the file's size.
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

#include "base/result.h"
#include "engine/modelfile/mapped_file.h"
#include "engine/modelfile/model_file.h"
#include "kernels/dtype.h"

namespace kvgate::modelfile {

class GgufFile final : public ModelFile {
 public:
  // Opens a file. A model in several files (NAME-00001-of-00003.gguf) is opened by its first one,
  // whose metadata is used, and has the tensors of all. The error for a missing or foreign part
  // names it.
  static Result<std::unique_ptr<GgufFile>> Open(const std::filesystem::path& path);
  // The same for bytes that the caller keeps alive: for tests and fuzzing. Tensor data has the
  // alignment of general.alignment if the first byte has.
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
  // The other parts, which own data that tensors_ refers to.
  std::vector<std::unique_ptr<GgufFile>> parts_;
  std::span<const std::byte> bytes_;
  uint32_t version_ = 0;
};

// Writes a v3 file with metadata and tensors in the order of the calls. Tensor data is streamed in
// chunks of whole rows (a few MiB), so a file larger than memory can be written.
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
  // The metadata and tensors added so far, in order.
  std::span<const std::pair<std::string, GgufValue>> metadata() const { return metadata_; }
  std::span<const TensorSpec> tensors() const { return tensors_; }
  // Called for every tensor in order, and within one for its rows in order (a row is dimensions[0]
  // elements). Must write all of `data`, which holds whole rows from `first_row` on.
  using Fill =
      std::function<void(const TensorSpec& spec, int64_t first_row, std::span<std::byte> data)>;
  // Writes PATH.partial, fsyncs and renames. Fails with kIo, giving the path and the reason (such
  // as a full disk), and then leaves no file behind; fails with kInvalidArgument for a duplicate
  // key or tensor or an invalid shape.
  Result<void> Write(const std::filesystem::path& path, const Fill& fill) const;

 private:
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<TensorSpec> tensors_;
};

// Returns the bytes of a tensor of `count` elements. Fails with kUnsupported for a type of unknown
// size, and with kDataLoss if count is no multiple of the type's block or the size overflows.
Result<size_t> GgufTensorBytes(uint32_t type, size_t count);

// Returns the type's number in a file.
GgufType GgufTypeOf(kernels::DType dtype);

// Returns "F32", "Q4_K"; "type 99" for a number without a name.
std::string GgufTypeName(uint32_t type);
// Returns "F32, F16, ...": the types that GgufTensorBytes knows.
std::string SupportedGgufTypes();

}  // namespace kvgate::modelfile
