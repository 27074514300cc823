// ModelFile: the content of a model's file in any format, in GGUF's terms: metadata by key and
// tensors by name. GgufFile implements it directly, and HfFolder translates its own terms. Reading
// is thread-safe once it is open. Tensor data lies in mappings or buffers that live as long as the
// object; mapped_file.h says what happens to a mapping whose file is written or cut.
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

#include "base/result.h"

namespace kvgate::modelfile {

// Tensor types by their number in the file; only those that code refers to by name are listed. The
// supported ones are the formats of kernels/weight_format.h.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ6_K = 14,
  kBF16 = 30,
};

// Errors of a model's content.
Error ModelDataLoss(std::string detail);
Error ModelUnsupported(std::string detail);

// Makes a name from a file fit for a message: cut to that many bytes, with control bytes and quotes
// escaped.
std::string PrintableName(std::string_view name, size_t bytes_max);

class MappedFile;
struct GgufArray;
using GgufValue =
    std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string,
                 std::shared_ptr<const GgufArray>, uint64_t, int64_t, double>;
// Arrays have one element type; nested arrays are refused (kUnsupported).
struct GgufArray {
  std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>,
               std::vector<int16_t>, std::vector<uint32_t>, std::vector<int32_t>,
               std::vector<float>, std::vector<bool>, std::vector<std::string>,
               std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>>
      values;
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> dimensions;  // innermost first, as in the file; a matrix has [columns, rows]
  uint32_t type = 0;                // GgufType, or an unknown number
  std::span<const std::byte> data;  // empty for an unknown type
  // The mapping that holds `data`; null if it is in this process's own memory.
  const MappedFile* file = nullptr;
  // True if the functions of "base/pages.h" may be used on `data`.
  bool is_mapped() const { return file != nullptr; }
};

// Keys that are not part of the GGUF specification, or that only HfFolder writes. The texts of
// tokenizer.json and of the tokenizer_config.json beside it:
inline constexpr std::string_view kTokenizerJsonKey = "tokenizer.huggingface.json";
inline constexpr std::string_view kTokenizerConfigKey = "tokenizer.huggingface.config";
// An array of token ids that end an answer, in addition to those of the vocabulary.
inline constexpr std::string_view kEndTokensKey = "kvgate.end_token_ids";
// True if the rows of q and k have their trained order and rope turns the halves of a head,
// although GGUF files of the architecture hold them permuted, so that rope turns neighbours.
inline constexpr std::string_view kRopeHalvesKey = "kvgate.rope_halves";

class ModelFile {
 public:
  virtual ~ModelFile() = default;
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  // Returns null if the key is absent.
  const GgufValue* Find(std::string_view key) const;
  // Typed access. Integers of any width convert if the value fits. Fails with kNotFound if the key
  // is absent, and with kDataLoss, naming the key, if it has another type.
  Result<std::string> GetString(std::string_view key) const;
  Result<int64_t> GetInteger(std::string_view key) const;
  Result<double> GetNumber(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::span<const std::string>> GetStrings(std::string_view key) const;
  Result<std::span<const float>> GetFloats(std::string_view key) const;
  // Accepts int32 or uint32 arrays and returns a copy.
  Result<std::vector<int32_t>> GetIntegers(std::string_view key) const;

  std::span<const std::pair<std::string, GgufValue>> metadata() const { return metadata_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;
  // Returns the mappings that hold tensors, each once.
  std::vector<const MappedFile*> mappings() const;
  // Size of the file, or of all its parts.
  size_t total_bytes() const { return total_bytes_; }

 protected:
  ModelFile() = default;
  // Fills both indices, which refer to the names, so the vectors must not change afterwards. Fails
  // with kDataLoss if a key or tensor appears twice.
  Result<void> IndexNames();

  size_t total_bytes_ = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  // Indices into the two vectors above, by name.
  std::unordered_map<std::string_view, size_t> metadata_index_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace kvgate::modelfile
