// Writes GGUF v3. The header is small and built in memory; tensors go through one bounded buffer.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <type_traits>
#include <unordered_set>

#include "base/check.h"
#include "engine/modelfile/gguf.h"

namespace kvgate::modelfile {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF fields are written as they lie");

constexpr std::string_view kSource = "gguf";
constexpr uint64_t kAlignment = 32;
constexpr size_t kChunkBytes = size_t{4} << 20;

Error Invalid(std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(detail));
}

template <typename T>
void PutScalar(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void PutString(std::string& out, std::string_view text) {
  PutScalar<uint64_t>(out, text.size());
  out.append(text);
}

// Array elements and scalars of a type are encoded alike.
template <typename T>
void PutElement(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    PutString(out, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    PutScalar<uint8_t>(out, value ? 1 : 0);
  } else {
    PutScalar(out, value);
  }
}

// The number of a value type is its index in GgufValue. GgufArray has no alternative for the array
// itself, so the alternatives after it have an index that is one less.
constexpr size_t kArrayIndex = 9;

uint32_t ElementType(const GgufArray& array) {
  const size_t index = array.values.index();
  return static_cast<uint32_t>(index < kArrayIndex ? index : index + 1);
}

void PutValue(std::string& out, const GgufValue& value) {
  std::visit(
      [&out](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::shared_ptr<const GgufArray>>) {
          PutScalar<uint32_t>(out, ElementType(*held));
          std::visit(
              [&out](const auto& values) {
                using Element = typename std::decay_t<decltype(values)>::value_type;
                PutScalar<uint64_t>(out, values.size());
                for (const auto& element : values) PutElement<Element>(out, element);
              },
              held->values);
        } else {
          PutElement<T>(out, held);
        }
      },
      value);
}

void PadToAlignment(std::string& out) {
  out.append((kAlignment - out.size() % kAlignment) % kAlignment, '\0');
}

// A file named PATH.partial until Commit; it is removed if anything fails before.
class PartialFile {
 public:
  explicit PartialFile(const std::filesystem::path& path)
      : path_(path), partial_(path.string() + ".partial") {
    fd_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) error_ = errno;
  }
  ~PartialFile() {
    if (fd_ >= 0) {
      close(fd_);
      unlink(partial_.c_str());
    }
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  Result<void> Opened() const { return error_ == 0 ? Result<void>() : Failed("create", error_); }

  Result<void> Append(const void* data, size_t size) {
    const char* next = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t count = write(fd_, next, size);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return Failed("write", count < 0 ? errno : EIO);
      next += count;
      size -= static_cast<size_t>(count);
      bytes_written_ += static_cast<uint64_t>(count);
    }
    return {};
  }

  Result<void> Commit() {
    if (fsync(fd_) != 0) return Failed("sync", errno);
    if (rename(partial_.c_str(), path_.c_str()) != 0) return Failed("rename", errno);
    close(fd_);
    fd_ = -1;
    // The new name is durable after its directory is synced; the data is safe either way.
    const std::filesystem::path parent = path_.has_parent_path() ? path_.parent_path() : ".";
    const int directory = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return Failed("open the directory of", errno);
    const int status = fsync(directory);
    const int sync_error = errno;
    close(directory);
    if (status != 0) return Failed("sync the directory of", sync_error);
    return {};
  }

 private:
  Error Failed(std::string_view what, int error) const {
    return MakeError(ErrorCode::kIo, kSource,
                     fmt::format("cannot {} {}: {} (after {} bytes)", what, partial_,
                                 std::generic_category().message(error), bytes_written_));
  }

  std::filesystem::path path_;
  std::string partial_;
  int fd_ = -1;
  int error_ = 0;
  uint64_t bytes_written_ = 0;
};

struct TensorLayout {
  size_t row_bytes = 0;
  int64_t num_rows = 0;
  uint64_t offset = 0;  // in the tensor data
  uint64_t bytes = 0;
};

Result<std::vector<TensorLayout>> LayOut(std::span<const GgufWriter::TensorSpec> tensors) {
  std::vector<TensorLayout> layouts;
  uint64_t offset = 0;
  for (const GgufWriter::TensorSpec& spec : tensors) {
    if (spec.dimensions.empty() || spec.dimensions.size() > 4 ||
        std::ranges::any_of(spec.dimensions, [](int64_t d) { return d <= 0; })) {
      return Invalid(fmt::format("tensor '{}' needs 1 to 4 positive dimensions", spec.name));
    }
    TensorLayout layout{.num_rows = 1, .offset = offset};
    for (size_t d = 1; d < spec.dimensions.size(); ++d) {
      if (__builtin_mul_overflow(layout.num_rows, spec.dimensions[d], &layout.num_rows)) {
        return Invalid(fmt::format("tensor '{}': its size overflows", spec.name));
      }
    }
    Result<size_t> row_bytes =
        GgufTensorBytes(static_cast<uint32_t>(spec.type), static_cast<size_t>(spec.dimensions[0]));
    if (!row_bytes) {
      return Invalid(fmt::format("tensor '{}': {}", spec.name, row_bytes.error().detail));
    }
    layout.row_bytes = *row_bytes;
    uint64_t end = 0;
    if (__builtin_mul_overflow(layout.row_bytes, layout.num_rows, &layout.bytes) ||
        __builtin_add_overflow(offset, layout.bytes, &end) || end > INT64_MAX) {
      return Invalid(fmt::format("tensor '{}': its size overflows", spec.name));
    }
    offset = (end + kAlignment - 1) & ~(kAlignment - 1);
    layouts.push_back(layout);
  }
  return layouts;
}

Result<void> WriteTensor(PartialFile& file, const GgufWriter::TensorSpec& spec,
                         const TensorLayout& layout, const GgufWriter::Fill& fill,
                         std::vector<std::byte>& buffer) {
  const int64_t chunk_rows =
      std::max<int64_t>(1, static_cast<int64_t>(kChunkBytes / layout.row_bytes));
  for (int64_t row = 0; row < layout.num_rows; row += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, layout.num_rows - row);
    buffer.assign(static_cast<size_t>(rows) * layout.row_bytes, std::byte{0});
    fill(spec, row, buffer);
    KVGATE_TRY_VOID(file.Append(buffer.data(), buffer.size()));
  }
  // The last tensor is padded too, because some readers expect whole units of the alignment.
  static constexpr char kZeros[kAlignment] = {};
  return file.Append(kZeros, (kAlignment - layout.bytes % kAlignment) % kAlignment);
}

}  // namespace

void GgufWriter::Add(std::string key, GgufValue value) {
  metadata_.emplace_back(std::move(key), std::move(value));
}

void GgufWriter::AddStrings(std::string key, std::vector<std::string> values) {
  auto array = std::make_shared<GgufArray>();
  array->values = std::move(values);
  Add(std::move(key), std::shared_ptr<const GgufArray>(std::move(array)));
}

void GgufWriter::AddFloats(std::string key, std::vector<float> values) {
  auto array = std::make_shared<GgufArray>();
  array->values = std::move(values);
  Add(std::move(key), std::shared_ptr<const GgufArray>(std::move(array)));
}

void GgufWriter::AddIntegers(std::string key, std::vector<int32_t> values) {
  auto array = std::make_shared<GgufArray>();
  array->values = std::move(values);
  Add(std::move(key), std::shared_ptr<const GgufArray>(std::move(array)));
}

void GgufWriter::AddTensor(TensorSpec spec) { tensors_.push_back(std::move(spec)); }

Result<void> GgufWriter::Write(const std::filesystem::path& path, const Fill& fill) const {
  KVGATE_CHECK(tensors_.empty() || fill != nullptr, "tensors without a function to fill them");
  KVGATE_TRY(const std::vector<TensorLayout> layouts, LayOut(tensors_));

  std::unordered_set<std::string_view> names;
  std::string header = "GGUF";
  PutScalar<uint32_t>(header, 3);
  PutScalar<uint64_t>(header, tensors_.size());
  PutScalar<uint64_t>(header, metadata_.size());
  for (const auto& [key, value] : metadata_) {
    if (!names.insert(key).second) return Invalid(fmt::format("metadata '{}' is given twice", key));
    if (key == "general.alignment") return Invalid("general.alignment is the writer's own (32)");
    PutString(header, key);
    PutScalar<uint32_t>(header, static_cast<uint32_t>(value.index()));
    PutValue(header, value);
  }
  names.clear();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& spec = tensors_[i];
    if (!names.insert(spec.name).second) {
      return Invalid(fmt::format("tensor '{}' is given twice", spec.name));
    }
    PutString(header, spec.name);
    PutScalar<uint32_t>(header, static_cast<uint32_t>(spec.dimensions.size()));
    for (const int64_t d : spec.dimensions) PutScalar<uint64_t>(header, static_cast<uint64_t>(d));
    PutScalar<uint32_t>(header, static_cast<uint32_t>(spec.type));
    PutScalar<uint64_t>(header, layouts[i].offset);
  }
  if (!tensors_.empty()) PadToAlignment(header);

  PartialFile file(path);
  KVGATE_TRY_VOID(file.Opened());
  KVGATE_TRY_VOID(file.Append(header.data(), header.size()));
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    KVGATE_TRY_VOID(WriteTensor(file, tensors_[i], layouts[i], fill, buffer));
  }
  return file.Commit();
}

}  // namespace kvgate::modelfile
