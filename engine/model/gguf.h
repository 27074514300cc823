// GGUF v2/v3: reading (memory-mapped, everything checked before use) and writing.
// It knows the file format, not models. Format: the GGUF specification of ggml.
// A truncated or hostile file gives kDataLoss or kUnsupported with the name of the field at fault;
// no count, offset or size of the file is trusted, and memory used is bounded by a small multiple
// of the file's size. Reading is thread-safe after Open. A file must not be cut while it is mapped
// (the kernel would answer a read with SIGBUS): replace model files by rename, as GgufWriter does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <kvgate/result.h>

#include "kernels/dtype.h"

namespace kvgate::model {

// Tensor types by their number in the file. Those that we can multiply are the formats of
// kernels/weight_format.h; the ones that code speaks of by name stand here.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ6_K = 14,
  kBF16 = 30,
};

struct GgufArray;
using GgufValue =
    std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string,
                 std::shared_ptr<const GgufArray>, uint64_t, int64_t, double>;
// Arrays of one element type; nested arrays are refused (kUnsupported).
struct GgufArray {
  std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>,
               std::vector<int16_t>, std::vector<uint32_t>, std::vector<int32_t>,
               std::vector<float>, std::vector<bool>, std::vector<std::string>,
               std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>>
      values;
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> dimensions;  // innermost first, as in the file; [columns, rows] of a matrix
  uint32_t type = 0;                // GgufType, or one we do not know
  std::span<const std::byte> data;  // in the mapping; for an unknown type empty
  bool is_mapped = false;           // data lies in a file mapping: <kvgate/pages.h> may be used
};

class GgufFile {
 public:
  // A model in several files (NAME-00001-of-00003.gguf) is opened by its first, whose metadata
  // counts, and has the tensors of all. A part that is missing or another's is named.
  static Result<std::unique_ptr<GgufFile>> Open(const std::filesystem::path& path);
  // The same over bytes the caller keeps alive: for tests and fuzzing. Tensor data is aligned as
  // general.alignment says when the first byte is.
  static Result<std::unique_ptr<GgufFile>> Parse(std::span<const std::byte> bytes);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  uint32_t version() const { return version_; }
  // Null when absent.
  const GgufValue* Find(std::string_view key) const;
  // Typed access. Integers of any width convert when the value fits. kNotFound when absent,
  // kDataLoss with the key when of another type.
  Result<std::string> GetString(std::string_view key) const;
  Result<int64_t> GetInteger(std::string_view key) const;
  Result<double> GetNumber(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::span<const std::string>> GetStrings(std::string_view key) const;
  Result<std::span<const float>> GetFloats(std::string_view key) const;
  // int32 or uint32 arrays, copied.
  Result<std::vector<int32_t>> GetIntegers(std::string_view key) const;

  std::span<const std::pair<std::string, GgufValue>> metadata() const { return metadata_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;
  // Bytes of the file, of all its parts.
  size_t total_bytes() const { return total_bytes_; }

 private:
  friend class GgufParser;
  GgufFile() = default;
  struct Mapping;
  static Result<std::unique_ptr<GgufFile>> OpenOne(const std::filesystem::path& path);
  Result<void> OpenOtherParts(const std::filesystem::path& path);
  Result<void> IndexParts(const std::filesystem::path& path);

  std::unique_ptr<Mapping> mapping_;
  std::vector<std::unique_ptr<GgufFile>> parts_;  // the other ones: tensors_ points into them
  size_t total_bytes_ = 0;
  std::span<const std::byte> bytes_;
  uint32_t version_ = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  // Indices into the two above, by name. The views are of their strings, which stay where they are.
  std::unordered_map<std::string_view, size_t> metadata_index_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
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
