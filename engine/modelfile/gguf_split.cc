// Models that are cut into several files: NAME-00001-of-00003.gguf and so on. Each is a GGUF file
// whose metadata says which part it is. The first has the model's metadata; tensors may be in any
// of them.
#include <fmt/format.h>

#include <charconv>

#include "engine/modelfile/gguf.h"

namespace kvgate::modelfile {
namespace {

constexpr std::string_view kSource = "gguf";
constexpr std::string_view kNumberKey = "split.no";  // from 0
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorCountKey = "split.tensors.count";
constexpr int64_t kPartsMax = 1000;

Error DataLoss(const std::filesystem::path& path, std::string detail) {
  return MakeError(ErrorCode::kDataLoss, kSource, fmt::format("{}: {}", path.string(), detail));
}

// The content of a part's file name. "-00001-of-00003.gguf" is 20 characters.
struct PartName {
  std::string stem;
  int number = 0;  // from 1
  int count = 0;
};

bool ReadDigits(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && text[0] != '-';
}

// Returns a count of 0 if the name is not that of a part.
PartName ReadPartName(const std::filesystem::path& path) {
  constexpr size_t kDigits = 5;
  constexpr size_t kSuffixBytes = 20;
  const std::string name = path.filename().string();
  PartName part;
  if (name.size() <= kSuffixBytes || !name.ends_with(".gguf")) return part;
  const std::string_view suffix = std::string_view(name).substr(name.size() - kSuffixBytes);
  if (suffix[0] != '-' || suffix.substr(1 + kDigits, 4) != "-of-") return part;
  int count = 0;
  if (!ReadDigits(suffix.substr(1, kDigits), part.number)) return part;
  if (!ReadDigits(suffix.substr(1 + kDigits + 4, kDigits), count)) return part;
  part.stem = name.substr(0, name.size() - kSuffixBytes);
  part.count = count;
  return part;
}

std::filesystem::path PartPath(const std::filesystem::path& first, const PartName& name,
                               int64_t number, int64_t count) {
  return first.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", name.stem, number, count);
}

Result<int64_t> SplitNumber(const GgufFile& file, const std::filesystem::path& path,
                            std::string_view key) {
  Result<int64_t> number = file.GetInteger(key);
  if (!number) return DataLoss(path, number.error().detail);
  return number;
}

// `number` counts from 1.
Result<void> CheckPart(const GgufFile& file, const std::filesystem::path& path, int64_t number,
                       int64_t count) {
  KVGATE_TRY(const int64_t own_number, SplitNumber(file, path, kNumberKey));
  KVGATE_TRY(const int64_t own_count, SplitNumber(file, path, kCountKey));
  if (own_count == count && own_number + 1 == number) return {};
  return DataLoss(path, fmt::format("is part {} of {} by its metadata; part {} of {} is wanted",
                                    own_number + 1, own_count, number, count));
}

}  // namespace

Result<void> GgufFile::OpenOtherParts(const std::filesystem::path& path) {
  const PartName name = ReadPartName(path);
  int64_t count = 1;
  if (Find(kCountKey) != nullptr) {
    KVGATE_TRY(count, SplitNumber(*this, path, kCountKey));
  }
  if (count == 1 && name.count <= 1) return {};
  if (count < 1 || count > kPartsMax) {
    return DataLoss(path, fmt::format("'{}' is {}, not 1 to {}", kCountKey, count, kPartsMax));
  }
  if (name.count != count) {
    return DataLoss(
        path, fmt::format("has {} parts by its metadata, and a name that says {}; a "
                          "part is called NAME-00001-of-{:05}.gguf",
                          count, name.count == 0 ? "none" : std::to_string(name.count), count));
  }
  if (name.number != 1) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     fmt::format("{} is part {} of {}: open the first, {}", path.string(),
                                 name.number, count, PartPath(path, name, 1, count).string()));
  }
  KVGATE_TRY_VOID(CheckPart(*this, path, 1, count));
  for (int64_t number = 2; number <= count; ++number) {
    const std::filesystem::path part_path = PartPath(path, name, number, count);
    Result<std::unique_ptr<GgufFile>> part = OpenOne(part_path);
    if (!part) {
      Error error = std::move(part).error();
      error.detail = fmt::format("part {} of {}: {}", number, count, error.detail);
      return error;
    }
    KVGATE_TRY_VOID(CheckPart(**part, part_path, number, count));
    total_bytes_ += (*part)->total_bytes_;
    for (GgufTensor& tensor : (*part)->tensors_) tensors_.push_back(std::move(tensor));
    (*part)->tensor_index_.clear();  // its keys refer to the moved names
    parts_.push_back(*std::move(part));
  }
  return IndexParts(path);
}

// Rebuilds the index, because moving the tensors has moved the names that it refers to.
Result<void> GgufFile::IndexParts(const std::filesystem::path& path) {
  tensor_index_.clear();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensor_index_.emplace(tensors_[i].name, i).second) {
      return DataLoss(path, fmt::format("tensor '{}' is in two parts", tensors_[i].name));
    }
  }
  if (Find(kTensorCountKey) == nullptr) return {};
  KVGATE_TRY(const int64_t expected, SplitNumber(*this, path, kTensorCountKey));
  if (expected == static_cast<int64_t>(tensors_.size())) return {};
  return DataLoss(path, fmt::format("the parts hold {} tensors together; '{}' is {}",
                                    tensors_.size(), kTensorCountKey, expected));
}

}  // namespace kvgate::modelfile
