// ModelFile: what a model's file says, whatever its form: metadata by key and tensors by name, both
// in the terms of GGUF. A GgufFile is one, and a HfFolder translates its own terms into these.
// Reading is thread-safe once it is open. Tensor data lies in mappings or buffers that live as long
// as the object; mapped_file.h says what happens to a mapping whose file is written or cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <kvgate/result.h>

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

class MappedFile;
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
  std::vector<int64_t> dimensions;   // innermost first, as in the file; [columns, rows] of a matrix
  uint32_t type = 0;                 // GgufType, or one we do not know
  std::span<const std::byte> data;   // for an unknown type empty
  const MappedFile* file = nullptr;  // that data lies in, mapped; null: it is memory of ours
  // <kvgate/pages.h> may be used.
  bool is_mapped() const { return file != nullptr; }
};

// Keys that are not of the GGUF specification, or that only HfFolder writes.
// A tokenizer.json and the tokenizer_config.json beside it, as they are.
inline constexpr std::string_view kTokenizerJsonKey = "tokenizer.huggingface.json";
inline constexpr std::string_view kTokenizerConfigKey = "tokenizer.huggingface.config";
// Ids that end an answer, beside those that the vocabulary says; an array of integers.
inline constexpr std::string_view kEndTokensKey = "kvgate.end_token_ids";
// True: the rows of q and k are as they were trained and rope turns the halves of a head, where
// GGUF files of the architecture hold them permuted, so that rope turns neighbours.
inline constexpr std::string_view kRopeHalvesKey = "kvgate.rope_halves";

class ModelFile {
 public:
  virtual ~ModelFile() = default;
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

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
  // The mappings that tensors lie in, each once.
  std::vector<const MappedFile*> mappings() const;
  // Bytes of the file, or of all its parts.
  size_t total_bytes() const { return total_bytes_; }

 protected:
  ModelFile() = default;
  // Fills both indices, which view the names: the vectors stay as they are from then on. kDataLoss:
  // a key or a tensor is there twice.
  Result<void> IndexNames();

  size_t total_bytes_ = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  // Indices into the two above, by name.
  std::unordered_map<std::string_view, size_t> metadata_index_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace kvgate::model
