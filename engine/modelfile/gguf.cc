// Reads GGUF. One cursor (GgufParser) walks the header; each read is checked against the rest of
// the file before it happens, so a false count fails before it can allocate memory.
#include "engine/modelfile/gguf.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/weight_format.h"

namespace kvgate::modelfile {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF fields are read as they lie");

constexpr std::string_view kSource = "gguf";
// Limits that no valid file exceeds. The largest known files have some 2000 tensors and 100 keys.
constexpr uint64_t kMetadataCountMax = 1 << 16;
constexpr uint64_t kTensorCountMax = 1 << 20;
constexpr uint64_t kKeyBytesMax = (1 << 16) - 1;  // the specification's own bound
constexpr uint64_t kTensorNameBytesMax = 256;     // the specification says 64
constexpr uint32_t kTensorDimensionsMax = 4;      // the specification's own bound
constexpr uint64_t kAlignmentDefault = 32;
constexpr uint64_t kAlignmentMin = 8;
constexpr uint64_t kAlignmentMax = 1 << 20;
// The least bytes of a metadata entry (empty key, one byte) and of a tensor entry.
constexpr uint64_t kMetadataEntryBytesMin = 8 + 4 + 1;
constexpr uint64_t kTensorEntryBytesMin = 8 + 4 + 8 + 4 + 8;

Error DataLoss(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, kSource, std::move(detail));
}

Error Unsupported(std::string detail) {
  return MakeError(ErrorCode::kUnsupported, kSource, std::move(detail));
}

std::string Printable(std::string_view name) { return PrintableName(name, 80); }

// Type names by number, as in ggml. Gaps are types that ggml has withdrawn.
constexpr std::array<std::string_view, 40> kTypeNames = {
    "F32",     "F16",    "Q4_0",    "Q4_1",  "",       "",      "Q5_0",  "Q5_1",
    "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
    "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  "",
    "",        "",       "TQ1_0",   "TQ2_0", "",       "",      "",      "MXFP4"};

}  // namespace

std::string GgufTypeName(uint32_t type) {
  if (type < kTypeNames.size() && !kTypeNames[type].empty()) return std::string(kTypeNames[type]);
  return fmt::format("type {}", type);
}

GgufType GgufTypeOf(kernels::DType dtype) {
  return static_cast<GgufType>(kernels::WeightFormatOf(dtype).gguf_type);
}

std::string SupportedGgufTypes() {
  std::string names;
  for (const kernels::WeightFormat& format : kernels::WeightFormats()) {
    names += (names.empty() ? "" : ", ") + GgufTypeName(format.gguf_type);
  }
  return names;
}

Result<size_t> GgufTensorBytes(uint32_t type, size_t count) {
  const kernels::WeightFormat* format = kernels::FindWeightFormat(type);
  if (format == nullptr) {
    return Unsupported(
        fmt::format("tensor type {} is not one of {}", GgufTypeName(type), SupportedGgufTypes()));
  }
  const auto elements = static_cast<size_t>(format->elements);
  if (count % elements != 0) {
    return DataLoss(fmt::format("{} elements are no multiple of the {} that share a block of {}",
                                count, elements, GgufTypeName(type)));
  }
  size_t bytes = 0;
  if (__builtin_mul_overflow(count / elements, format->bytes, &bytes)) {
    return DataLoss(
        fmt::format("the size of {} elements of {} overflows", count, GgufTypeName(type)));
  }
  return bytes;
}

// Parses one file from its first byte. `Read*` functions take the field's name for error messages.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), bytes_(file.bytes_) {}

  Result<void> Parse() {
    KVGATE_TRY_VOID(ReadHeader());
    KVGATE_TRY_VOID(ReadMetadata());
    KVGATE_TRY_VOID(ReadAlignment());
    KVGATE_TRY_VOID(ReadTensorInfos());
    return LocateTensors();
  }

 private:
  uint64_t left() const { return bytes_.size() - position_; }

  Error Truncated(std::string_view field, uint64_t wanted) const {
    return DataLoss(fmt::format("{} needs {} bytes at offset {}, but the file ends after {} bytes",
                                field, wanted, position_, bytes_.size()));
  }

  template <typename T>
  Result<T> ReadScalar(std::string_view field) {
    static_assert(std::is_trivially_copyable_v<T>);
    if constexpr (std::is_same_v<T, bool>) {
      KVGATE_TRY(const uint8_t byte, ReadScalar<uint8_t>(field));
      if (byte > 1) return DataLoss(fmt::format("{} is a bool of value {}", field, byte));
      return byte == 1;
    } else {
      if (left() < sizeof(T)) return Truncated(field, sizeof(T));
      T value;
      std::memcpy(&value, bytes_.data() + position_, sizeof(T));
      position_ += sizeof(T);
      return value;
    }
  }

  Result<std::string> ReadString(std::string_view field, uint64_t bytes_max) {
    KVGATE_TRY(const uint64_t size, ReadScalar<uint64_t>(field));
    if (size > left()) return Truncated(field, size);
    if (size > bytes_max) {
      return DataLoss(fmt::format("{} is {} bytes long; the limit is {}", field, size, bytes_max));
    }
    std::string text(reinterpret_cast<const char*>(bytes_.data() + position_), size);
    position_ += size;
    return text;
  }

  Result<void> ReadHeader() {
    if (left() < 4) return Truncated("magic", 4);
    if (std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
      return DataLoss("magic: the file does not start with \"GGUF\"");
    }
    position_ = 4;
    KVGATE_TRY(file_.version_, ReadScalar<uint32_t>("version"));
    if (file_.version_ != 2 && file_.version_ != 3) {
      const uint32_t swapped = __builtin_bswap32(file_.version_);
      if (swapped >= 1 && swapped <= 3) {
        return Unsupported("version: the file is big-endian; only little-endian is supported");
      }
      return Unsupported(fmt::format("version {} is not one of 2, 3", file_.version_));
    }
    KVGATE_TRY(num_tensors_, ReadScalar<uint64_t>("tensor count"));
    KVGATE_TRY(num_metadata_, ReadScalar<uint64_t>("metadata count"));
    KVGATE_TRY_VOID(
        CheckCount("metadata count", num_metadata_, kMetadataCountMax, kMetadataEntryBytesMin));
    return CheckCount("tensor count", num_tensors_, kTensorCountMax, kTensorEntryBytesMin);
  }

  // Checks a count of entries that follow, each at least `bytes_min` long.
  Result<void> CheckCount(std::string_view field, uint64_t count, uint64_t count_max,
                          uint64_t bytes_min) const {
    if (count > count_max) {
      return DataLoss(fmt::format("{} is {}; the limit is {}", field, count, count_max));
    }
    if (count > left() / bytes_min) {
      return DataLoss(
          fmt::format("{} is {}, more than the {} bytes left can hold", field, count, left()));
    }
    return {};
  }

  Result<void> ReadMetadata() {
    file_.metadata_.reserve(num_metadata_);
    for (uint64_t i = 0; i < num_metadata_; ++i) {
      KVGATE_TRY(std::string key, ReadString(fmt::format("metadata key {}", i), kKeyBytesMax));
      const std::string field = fmt::format("metadata '{}'", Printable(key));
      KVGATE_TRY(const uint32_t type, ReadScalar<uint32_t>(field + " (type)"));
      KVGATE_TRY(GgufValue value, ReadValue(field, type));
      file_.metadata_.emplace_back(std::move(key), std::move(value));
      // The vector never grows beyond its reserved size, so a view of the key stays valid.
      if (!file_.metadata_index_.emplace(file_.metadata_.back().first, i).second) {
        return DataLoss(field + " appears twice");
      }
    }
    return {};
  }

  template <typename T>
  Result<GgufValue> ReadScalarValue(std::string_view field) {
    KVGATE_TRY(T value, ReadScalar<T>(field));
    return GgufValue(std::in_place_type<T>, value);
  }

  // The type numbers are the indices of GgufValue's alternatives.
  Result<GgufValue> ReadValue(std::string_view field, uint32_t type) {
    switch (type) {
      case 0:
        return ReadScalarValue<uint8_t>(field);
      case 1:
        return ReadScalarValue<int8_t>(field);
      case 2:
        return ReadScalarValue<uint16_t>(field);
      case 3:
        return ReadScalarValue<int16_t>(field);
      case 4:
        return ReadScalarValue<uint32_t>(field);
      case 5:
        return ReadScalarValue<int32_t>(field);
      case 6:
        return ReadScalarValue<float>(field);
      case 7:
        return ReadScalarValue<bool>(field);
      case 8: {
        KVGATE_TRY(std::string text, ReadString(field, std::numeric_limits<uint64_t>::max()));
        return GgufValue(std::move(text));
      }
      case 9:
        return ReadArray(field);
      case 10:
        return ReadScalarValue<uint64_t>(field);
      case 11:
        return ReadScalarValue<int64_t>(field);
      case 12:
        return ReadScalarValue<double>(field);
    }
    return Unsupported(fmt::format("{} has the unknown value type {}", field, type));
  }

  // `bytes_min` is the least size of one element in the file.
  template <typename T>
  Result<GgufValue> ReadElements(std::string_view field, uint64_t count, uint64_t bytes_min) {
    if (count > left() / bytes_min) {
      return DataLoss(fmt::format("{} is an array of {} elements, more than the {} bytes left hold",
                                  field, count, left()));
    }
    auto array = std::make_shared<GgufArray>();
    std::vector<T>& values = array->values.template emplace<std::vector<T>>();
    if constexpr (std::is_same_v<T, std::string>) {
      values.reserve(count);
      for (uint64_t i = 0; i < count; ++i) {
        KVGATE_TRY(std::string text, ReadString(fmt::format("{}[{}]", field, i), left()));
        values.push_back(std::move(text));
      }
    } else if constexpr (std::is_same_v<T, bool>) {
      values.reserve(count);
      for (uint64_t i = 0; i < count; ++i) {
        KVGATE_TRY(const bool value, ReadScalar<bool>(fmt::format("{}[{}]", field, i)));
        values.push_back(value);
      }
    } else {
      values.resize(count);
      if (count > 0) std::memcpy(values.data(), bytes_.data() + position_, count * sizeof(T));
      position_ += count * sizeof(T);
    }
    return GgufValue(std::shared_ptr<const GgufArray>(std::move(array)));
  }

  Result<GgufValue> ReadArray(std::string_view field) {
    KVGATE_TRY(const uint32_t type, ReadScalar<uint32_t>(fmt::format("{} (element type)", field)));
    KVGATE_TRY(const uint64_t count, ReadScalar<uint64_t>(fmt::format("{} (length)", field)));
    switch (type) {
      case 0:
        return ReadElements<uint8_t>(field, count, 1);
      case 1:
        return ReadElements<int8_t>(field, count, 1);
      case 2:
        return ReadElements<uint16_t>(field, count, 2);
      case 3:
        return ReadElements<int16_t>(field, count, 2);
      case 4:
        return ReadElements<uint32_t>(field, count, 4);
      case 5:
        return ReadElements<int32_t>(field, count, 4);
      case 6:
        return ReadElements<float>(field, count, 4);
      case 7:
        return ReadElements<bool>(field, count, 1);
      case 8:
        return ReadElements<std::string>(field, count, 8);
      case 9:
        return Unsupported(fmt::format("{} is an array of arrays", field));
      case 10:
        return ReadElements<uint64_t>(field, count, 8);
      case 11:
        return ReadElements<int64_t>(field, count, 8);
      case 12:
        return ReadElements<double>(field, count, 8);
    }
    return Unsupported(fmt::format("{} is an array of the unknown value type {}", field, type));
  }

  Result<void> ReadAlignment() {
    constexpr std::string_view kKey = "general.alignment";
    if (file_.Find(kKey) == nullptr) return {};
    KVGATE_TRY(const int64_t alignment, file_.GetInteger(kKey));
    if (alignment < static_cast<int64_t>(kAlignmentMin) ||
        alignment > static_cast<int64_t>(kAlignmentMax) ||
        !std::has_single_bit(static_cast<uint64_t>(alignment))) {
      return DataLoss(
          fmt::format("metadata 'general.alignment' is {}, not a power of two from {} "
                      "to {}",
                      alignment, kAlignmentMin, kAlignmentMax));
    }
    alignment_ = static_cast<uint64_t>(alignment);
    return {};
  }

  Result<void> ReadTensorInfos() {
    // The metadata has consumed part of the file since the header was checked.
    KVGATE_TRY_VOID(
        CheckCount("tensor count", num_tensors_, kTensorCountMax, kTensorEntryBytesMin));
    file_.tensors_.reserve(num_tensors_);
    offsets_.reserve(num_tensors_);
    for (uint64_t i = 0; i < num_tensors_; ++i) {
      GgufTensor tensor;
      KVGATE_TRY(tensor.name, ReadString(fmt::format("name of tensor {}", i), kTensorNameBytesMax));
      const std::string field = fmt::format("tensor '{}'", Printable(tensor.name));
      KVGATE_TRY_VOID(ReadDimensions(field, tensor));
      KVGATE_TRY(tensor.type, ReadScalar<uint32_t>(field + " (type)"));
      KVGATE_TRY(const uint64_t offset, ReadScalar<uint64_t>(field + " (offset)"));
      if (offset % alignment_ != 0) {
        return DataLoss(fmt::format("{}: offset {} is no multiple of the alignment {}", field,
                                    offset, alignment_));
      }
      offsets_.push_back(offset);
      file_.tensors_.push_back(std::move(tensor));
      if (!file_.tensor_index_.emplace(file_.tensors_.back().name, i).second) {
        return DataLoss(field + " appears twice");
      }
    }
    return {};
  }

  Result<void> ReadDimensions(const std::string& field, GgufTensor& tensor) {
    KVGATE_TRY(const uint32_t count, ReadScalar<uint32_t>(field + " (number of dimensions)"));
    if (count < 1 || count > kTensorDimensionsMax) {
      return DataLoss(fmt::format("{} has {} dimensions; 1 to {} are allowed", field, count,
                                  kTensorDimensionsMax));
    }
    int64_t product = 1;
    for (uint32_t d = 0; d < count; ++d) {
      KVGATE_TRY(const uint64_t size,
                 ReadScalar<uint64_t>(fmt::format("{} (dimension {})", field, d)));
      if (size == 0 || __builtin_mul_overflow(product, size, &product)) {
        return DataLoss(
            fmt::format("{}: dimension {} is {}, which makes the tensor empty or its "
                        "size overflow",
                        field, d, size));
      }
      tensor.dimensions.push_back(static_cast<int64_t>(size));
    }
    return {};
  }

  // The data section starts at the next multiple of the alignment; a file without tensors has none.
  Result<void> LocateTensors() {
    if (file_.tensors_.empty()) return {};
    const uint64_t start = (position_ + alignment_ - 1) & ~(alignment_ - 1);
    if (start > bytes_.size()) return Truncated("tensor data", start - position_);
    const std::span<const std::byte> data = bytes_.subspan(start);
    for (size_t i = 0; i < file_.tensors_.size(); ++i) {
      GgufTensor& tensor = file_.tensors_[i];
      const std::string field = fmt::format("tensor '{}'", Printable(tensor.name));
      if (offsets_[i] > data.size()) {
        return DataLoss(fmt::format("{}: offset {} is past the end of the tensor data ({} bytes)",
                                    field, offsets_[i], data.size()));
      }
      const kernels::WeightFormat* format = kernels::FindWeightFormat(tensor.type);
      // Only the use of such a tensor is refused, not the whole file.
      if (format == nullptr) continue;
      if (tensor.dimensions[0] % format->elements != 0) {
        return DataLoss(
            fmt::format("{}: rows of {} elements are no multiple of the {} that share "
                        "a block of {}",
                        field, tensor.dimensions[0], format->elements, GgufTypeName(tensor.type)));
      }
      size_t count = 1;  // cannot overflow: ReadDimensions checked the product
      for (const int64_t d : tensor.dimensions) count *= static_cast<size_t>(d);
      Result<size_t> size = GgufTensorBytes(tensor.type, count);
      if (!size) return DataLoss(fmt::format("{}: {}", field, size.error().detail));
      if (*size > data.size() - offsets_[i]) {
        return DataLoss(
            fmt::format("{} needs {} bytes at offset {} of the tensor data, which has "
                        "{}",
                        field, *size, offsets_[i], data.size()));
      }
      tensor.data = data.subspan(offsets_[i], *size);
    }
    return {};
  }

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
  uint64_t num_tensors_ = 0;
  uint64_t num_metadata_ = 0;
  uint64_t alignment_ = kAlignmentDefault;
  std::vector<uint64_t> offsets_;  // of each tensor within the data section
};

GgufFile::~GgufFile() = default;

Result<std::unique_ptr<GgufFile>> GgufFile::Parse(std::span<const std::byte> bytes) {
  std::unique_ptr<GgufFile> file(new GgufFile);
  file->bytes_ = bytes;
  file->total_bytes_ = bytes.size();
  KVGATE_TRY_VOID(GgufParser(*file).Parse());
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::filesystem::path& path) {
  KVGATE_TRY(std::unique_ptr<GgufFile> file, OpenOne(path));
  KVGATE_TRY_VOID(file->OpenOtherParts(path));
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::OpenOne(const std::filesystem::path& path) {
  KVGATE_TRY(std::unique_ptr<MappedFile> mapping, MappedFile::Open(path));
  std::unique_ptr<GgufFile> file(new GgufFile);
  file->bytes_ = mapping->bytes();
  file->total_bytes_ = file->bytes_.size();
  file->mapping_ = std::move(mapping);
  Result<void> parsed = GgufParser(*file).Parse();
  if (!parsed) {
    Error error = std::move(parsed).error();
    error.detail = fmt::format("{}: {}", path.string(), error.detail);
    return error;
  }
  for (GgufTensor& tensor : file->tensors_) tensor.file = file->mapping_.get();
  return file;
}

}  // namespace kvgate::modelfile
