#include "engine/modelfile/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

namespace kvgate::modelfile {
namespace {

constexpr std::string_view kSource = "model";

Error Absent(std::string_view key) {
  return MakeError(ErrorCode::kNotFound, kSource, fmt::format("metadata '{}' is absent", key));
}

Error WrongType(std::string_view key, std::string_view wanted) {
  return ModelDataLoss(fmt::format("metadata '{}' is not {}", key, wanted));
}

// Returns the array's elements if they are of type T, else null.
template <typename T>
const std::vector<T>* ArrayOf(const GgufValue& value) {
  const auto* array = std::get_if<std::shared_ptr<const GgufArray>>(&value);
  return array == nullptr ? nullptr : std::get_if<std::vector<T>>(&(*array)->values);
}

}  // namespace

Error ModelDataLoss(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, kSource, std::move(detail));
}

Error ModelUnsupported(std::string detail) {
  return MakeError(ErrorCode::kUnsupported, kSource, std::move(detail));
}

std::string PrintableName(std::string_view name, size_t bytes_max) {
  std::string out;
  for (const unsigned char c : name.substr(0, bytes_max)) {
    if (c < 0x20 || c == 0x7f || c == '\'') {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  if (name.size() > bytes_max) out += "...";
  return out;
}

const GgufValue* ModelFile::Find(std::string_view key) const {
  const auto found = metadata_index_.find(key);
  return found == metadata_index_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufTensor* ModelFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

std::vector<const MappedFile*> ModelFile::mappings() const {
  std::vector<const MappedFile*> files;
  for (const GgufTensor& tensor : tensors_) {
    const bool is_known = std::ranges::find(files, tensor.file) != files.end();
    if (tensor.is_mapped() && !is_known) files.push_back(tensor.file);
  }
  return files;
}

Result<void> ModelFile::IndexNames() {
  for (size_t i = 0; i < metadata_.size(); ++i) {
    if (metadata_index_.emplace(metadata_[i].first, i).second) continue;
    return ModelDataLoss(fmt::format("metadata '{}' appears twice", metadata_[i].first));
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensor_index_.emplace(tensors_[i].name, i).second) continue;
    return ModelDataLoss(fmt::format("tensor '{}' appears twice", tensors_[i].name));
  }
  return {};
}

Result<std::string> ModelFile::GetString(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(key);
  const std::string* text = std::get_if<std::string>(value);
  if (text == nullptr) return WrongType(key, "a string");
  return *text;
}

Result<int64_t> ModelFile::GetInteger(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(key);
  return std::visit(
      [&](const auto& held) -> Result<int64_t> {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          if (std::in_range<int64_t>(held)) return static_cast<int64_t>(held);
        }
        return WrongType(key, "an integer of 64 signed bits");
      },
      *value);
}

Result<double> ModelFile::GetNumber(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(key);
  return std::visit(
      [&](const auto& held) -> Result<double> {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          return static_cast<double>(held);
        } else {
          return WrongType(key, "a number");
        }
      },
      *value);
}

Result<bool> ModelFile::GetBool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(key);
  const bool* held = std::get_if<bool>(value);
  if (held == nullptr) return WrongType(key, "a bool");
  return *held;
}

Result<std::span<const std::string>> ModelFile::GetStrings(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(key);
  const auto* values = ArrayOf<std::string>(*value);
  if (values == nullptr) return WrongType(key, "an array of strings");
  return std::span<const std::string>(*values);
}

Result<std::span<const float>> ModelFile::GetFloats(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(key);
  const auto* values = ArrayOf<float>(*value);
  if (values == nullptr) return WrongType(key, "an array of 32-bit floats");
  return std::span<const float>(*values);
}

Result<std::vector<int32_t>> ModelFile::GetIntegers(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(key);
  if (const auto* values = ArrayOf<int32_t>(*value)) return *values;
  if (const auto* values = ArrayOf<uint32_t>(*value)) {
    std::vector<int32_t> converted;
    converted.reserve(values->size());
    for (const uint32_t element : *values) {
      if (!std::in_range<int32_t>(element)) return WrongType(key, "an array of 31-bit integers");
      converted.push_back(static_cast<int32_t>(element));
    }
    return converted;
  }
  return WrongType(key, "an array of 32-bit integers");
}

}  // namespace kvgate::modelfile
