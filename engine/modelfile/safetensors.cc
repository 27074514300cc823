// The header is read as events, not into a tree, so that duplicate names are noticed and nesting
// that the format does not have ends the reading at once.
#include "engine/modelfile/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "engine/modelfile/model_file.h"

namespace kvgate::modelfile {
namespace {

static_assert(std::endian::native == std::endian::little, "the length is read as it lies");

constexpr std::string_view kSource = "safetensors";
constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the reference implementation's own bound
constexpr size_t kNameBytesMax = 512;
constexpr size_t kDimensionsMax = 8;

struct DTypeSize {
  std::string_view name;
  uint64_t bytes;
};
// The dtypes of whole bytes. F4, F6_E2M3 and F6_E3M2 pack several values into a byte; they are not
// supported.
constexpr DTypeSize kDTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"C64", 8}, {"F64", 8}, {"I64", 8},     {"U64", 8},
};

Error DataLoss(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, kSource, std::move(detail));
}

std::string Printable(std::string_view name) { return PrintableName(name, 120); }

// One tensor's entry in the header.
struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

// Handles the header's JSON events. Every function returns true to continue; after one has returned
// false, error() gives the reason.
class HeaderReader {
 public:
  using Json = nlohmann::json;

  std::vector<Entry>& entries() { return entries_; }
  const std::optional<Error>& error() const { return error_; }

  // NOLINTBEGIN(readability-identifier-naming): the names of nlohmann's SAX interface.
  bool null() { return Refuse("a null"); }
  bool boolean(bool) { return Refuse("a bool"); }
  bool number_integer(Json::number_integer_t) { return Refuse("a negative number"); }
  bool number_float(Json::number_float_t, const Json::string_t&) { return Refuse("a fraction"); }
  bool binary(Json::binary_t&) { return Refuse("bytes"); }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (numbers_ == nullptr) return Refuse("a number");
    if (numbers_->size() == kDimensionsMax) return Fail(fmt::format("{} is too long", Where()));
    numbers_->push_back(value);
    return true;
  }
  bool string(Json::string_t& value) {
    if (in_metadata_ && depth_ == 2) return true;
    if (depth_ != 2 || numbers_ != nullptr || field_ != "dtype") return Refuse("a string");
    entries_.back().dtype = value;
    return true;
  }
  bool start_object(size_t) {
    if (depth_ > 1 || numbers_ != nullptr) return Refuse("an object");
    ++depth_;
    return true;
  }
  bool key(Json::string_t& name) {
    if (depth_ == 1) return BeginEntry(name);
    field_ = name;
    if (in_metadata_) return true;
    const Entry& entry = entries_.back();
    const bool seen = (name == "dtype" && entry.dtype) || (name == "shape" && entry.shape) ||
                      (name == "data_offsets" && entry.offsets);
    if (seen) return Fail(fmt::format("{} appears twice", Where()));
    if (name == "dtype" || name == "shape" || name == "data_offsets") return true;
    return Fail(fmt::format("{} is not a field of the format", Where()));
  }
  bool end_object() {
    --depth_;
    if (depth_ != 1 || in_metadata_) return true;
    const Entry& entry = entries_.back();
    if (entry.dtype && entry.shape && entry.offsets) return true;
    return Fail(fmt::format("tensor '{}' lacks its {}", Printable(entry.name),
                            !entry.dtype   ? "dtype"
                            : !entry.shape ? "shape"
                                           : "data_offsets"));
  }
  bool start_array(size_t) {
    const bool is_shape = field_ == "shape";
    const bool is_wanted = depth_ == 2 && numbers_ == nullptr && !in_metadata_ &&
                           (is_shape || field_ == "data_offsets");
    if (!is_wanted) return Refuse("an array");
    Entry& entry = entries_.back();
    numbers_ = &(is_shape ? entry.shape : entry.offsets).emplace();
    return true;
  }
  bool end_array() {
    numbers_ = nullptr;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    return Fail(fmt::format("the header is no JSON at byte {}", position));
  }
  // NOLINTEND(readability-identifier-naming)

 private:
  bool Fail(std::string detail) {
    error_ = DataLoss(std::move(detail));
    return false;
  }
  bool Refuse(std::string_view what) {
    return Fail(fmt::format("{} is {}, which the format does not have there", Where(), what));
  }
  std::string Where() const {
    if (depth_ == 0) return "the header";
    if (in_metadata_) return "'__metadata__'";
    const std::string tensor = fmt::format("tensor '{}'", Printable(entries_.back().name));
    return depth_ == 1 ? tensor : fmt::format("{}: '{}'", tensor, Printable(field_));
  }

  bool BeginEntry(const std::string& name) {
    in_metadata_ = name == "__metadata__";
    if (name.size() > kNameBytesMax) {
      return Fail(fmt::format("tensor '{}' has a name of {} bytes; the limit is {}",
                              Printable(name), name.size(), kNameBytesMax));
    }
    if (!names_.insert(name).second) {
      return Fail(fmt::format("tensor '{}' appears twice", Printable(name)));
    }
    if (!in_metadata_) entries_.push_back({.name = name, .dtype = {}, .shape = {}, .offsets = {}});
    return true;
  }

  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_;
  std::string field_;
  std::vector<uint64_t>* numbers_ = nullptr;  // the array being read; null outside arrays
  int depth_ = 0;
  bool in_metadata_ = false;
  std::optional<Error> error_;
};

// Returns the size of a tensor from its dtype and shape.
Result<uint64_t> TensorBytes(const Entry& entry) {
  const auto* dtype =
      std::find_if(std::begin(kDTypes), std::end(kDTypes),
                   [&](const DTypeSize& known) { return known.name == *entry.dtype; });
  if (dtype == std::end(kDTypes)) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     fmt::format("tensor '{}' has the unknown dtype '{}'", Printable(entry.name),
                                 Printable(*entry.dtype)));
  }
  uint64_t bytes = dtype->bytes;
  for (const uint64_t size : *entry.shape) {
    if (size <= std::numeric_limits<int64_t>::max() && !__builtin_mul_overflow(bytes, size, &bytes))
      continue;
    return DataLoss(
        fmt::format("tensor '{}': the size of its shape overflows", Printable(entry.name)));
  }
  return bytes;
}

Result<SafetensorsTensor> ToTensor(Entry entry, std::span<const std::byte> data) {
  KVGATE_TRY(const uint64_t bytes, TensorBytes(entry));
  const std::vector<uint64_t>& offsets = *entry.offsets;
  const std::string name = Printable(entry.name);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size()) {
    return DataLoss(
        fmt::format("tensor '{}': data_offsets are not a begin and an end within the "
                    "{} bytes of data",
                    name, data.size()));
  }
  if (offsets[1] - offsets[0] != bytes) {
    return DataLoss(
        fmt::format("tensor '{}' has {} bytes by its data_offsets, and {} by its dtype "
                    "and shape",
                    name, offsets[1] - offsets[0], bytes));
  }
  return SafetensorsTensor{.name = std::move(entry.name),
                           .dtype = *std::move(entry.dtype),
                           .shape = {entry.shape->begin(), entry.shape->end()},
                           .data = data.subspan(offsets[0], bytes)};
}

// The format requires that every byte belongs to exactly one tensor.
Result<void> CheckLayout(std::span<const SafetensorsTensor> tensors,
                         std::span<const std::byte> data) {
  const std::byte* end = data.data();
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.data.data() != end) {
      return DataLoss(fmt::format("tensor '{}' {} the one before it", Printable(tensor.name),
                                  tensor.data.data() < end ? "overlaps" : "leaves a gap behind"));
    }
    end += tensor.data.size();
  }
  const size_t used = static_cast<size_t>(end - data.data());
  if (used == data.size()) return {};
  return DataLoss(
      fmt::format("the tensors end at byte {} of the data, which has {}", used, data.size()));
}

}  // namespace

Result<void> SafetensorsFile::Read(std::span<const std::byte> bytes) {
  total_bytes_ = bytes.size();
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    return DataLoss(
        fmt::format("the length of the header needs 8 bytes; the file has {}", bytes.size()));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  bytes = bytes.subspan(sizeof(header_bytes));
  if (header_bytes > std::min<uint64_t>(bytes.size(), kHeaderBytesMax)) {
    return DataLoss(
        fmt::format("the header has {} bytes by its length; {} are left, and the limit "
                    "is {}",
                    header_bytes, bytes.size(), kHeaderBytesMax));
  }
  const char* text = reinterpret_cast<const char*>(bytes.data());
  const std::span<const std::byte> data = bytes.subspan(header_bytes);
  HeaderReader reader;
  const bool is_read = nlohmann::json::sax_parse(text, text + header_bytes, &reader);
  if (reader.error()) return *reader.error();
  if (!is_read) return DataLoss("the header is no JSON object");
  tensors_.reserve(reader.entries().size());
  for (Entry& entry : reader.entries()) {
    KVGATE_TRY(SafetensorsTensor tensor, ToTensor(std::move(entry), data));
    tensors_.push_back(std::move(tensor));
  }
  // Sorts empty tensors before the one that begins at the same offset.
  std::sort(tensors_.begin(), tensors_.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
              if (a.data.data() != b.data.data()) return a.data.data() < b.data.data();
              return a.data.size() < b.data.size();
            });
  return CheckLayout(tensors_, data);
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Parse(std::span<const std::byte> bytes) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  KVGATE_TRY_VOID(file->Read(bytes));
  return file;
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::filesystem::path& path) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  KVGATE_TRY(file->mapping_, MappedFile::Open(path));
  Result<void> read = file->Read(file->mapping_->bytes());
  if (read) return file;
  Error error = std::move(read).error();
  error.detail = fmt::format("{}: {}", path.string(), error.detail);
  return error;
}

}  // namespace kvgate::modelfile
