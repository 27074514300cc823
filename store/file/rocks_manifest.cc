#include "store/file/rocks_manifest.h"

#include <fmt/format.h>
#include <rocksdb/env.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "store/file/byte_codec.h"
#include "store/file/log_records.h"
#include "store/file/rocks_common.h"

namespace kvgate::store::file {
namespace {

constexpr std::string_view kSource = "store";
constexpr std::string_view kPrefix = "MANIFEST-";
// RocksDB starts a new MANIFEST after 1 MiB; one more record may follow that.
constexpr uint64_t kManifestBytesMax = uint64_t{64} << 20;

struct Manifest {
  std::filesystem::path path;
  uint64_t number = 0;
  uint64_t bytes = 0;
};

Result<Manifest> FindManifest(rocksdb::Env& env, const std::filesystem::path& directory) {
  const auto doing = [&] {
    return fmt::format("looking for the MANIFEST of {}", directory.string());
  };
  const std::string current = directory / "CURRENT";
  if (!env.FileExists(current).ok()) {
    return MakeError(ErrorCode::kNotFound, kSource, doing() + ": no database there");
  }
  std::string name;
  auto status = rocksdb::ReadFileToString(&env, current, &name);
  if (!status.ok()) return FromStatus(status, kSource, doing());
  Manifest manifest;
  while (name.ends_with('\n')) name.pop_back();
  if (name.starts_with(kPrefix)) {
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), manifest.number);
  }
  manifest.path = directory / name;
  if (manifest.number == 0 || name.find('/') != std::string::npos) {
    return MakeError(ErrorCode::kDataLoss, kSource, doing() + ": CURRENT names none");
  }
  status = env.GetFileSize(manifest.path, &manifest.bytes);
  if (!status.ok()) return FromStatus(status, kSource, doing());
  return manifest;
}

Result<std::string> ReadBeginning(rocksdb::Env& env, const std::filesystem::path& path,
                                  uint64_t bytes) {
  const std::string doing = fmt::format("reading {} bytes of {}", bytes, path.string());
  if (bytes > kManifestBytesMax) return MakeError(ErrorCode::kDataLoss, kSource, doing);
  std::unique_ptr<rocksdb::SequentialFile> file;
  auto status = env.NewSequentialFile(path, &file, rocksdb::EnvOptions());
  std::string buffer(bytes, '\0');
  rocksdb::Slice read;
  if (status.ok()) status = file->Read(bytes, &read, buffer.data());
  if (!status.ok()) return FromStatus(status, kSource, doing);
  if (read.size() != bytes) {
    return MakeError(ErrorCode::kDataLoss, kSource, doing + ": it is shorter");
  }
  return read.ToString();
}

Result<uint64_t> DigestBeginning(rocksdb::Env& env, const std::filesystem::path& path,
                                 uint64_t bytes) {
  KVGATE_TRY(const std::string read, ReadBeginning(env, path, bytes));
  return Xxh3(AsBytes(read)).first;
}

// Returns the number of the last row if the edit contains it: it stands after a few fields of known
// form and before those that list files. Source: RocksDB 7.8, db/version_edit.cc.
std::optional<uint64_t> LastSequenceOf(std::string_view edit) {
  enum Tag : uint64_t {
    kComparator = 1,
    kLogNumber = 2,
    kNextFileNumber = 3,
    kLastSequence = 4,
    kPrevLogNumber = 9,
    kMinLogNumberToKeep = 10,
    kMaxColumnFamily = 203,
    kDbId = 8193,
  };
  while (true) {
    const auto tag = TakeVarint(edit);
    if (!tag) return std::nullopt;
    const auto value = TakeVarint(edit);  // for a text field, its size
    if (!value) return std::nullopt;
    switch (*tag) {
      case kLastSequence:
        return value;
      case kComparator:
      case kDbId:
        if (*value > edit.size()) return std::nullopt;
        edit.remove_prefix(*value);
        break;
      case kLogNumber:
      case kNextFileNumber:
      case kPrevLogNumber:
      case kMinLogNumberToKeep:
      case kMaxColumnFamily:
        break;
      default:
        return std::nullopt;
    }
  }
}

}  // namespace

Result<ManifestMark> MarkManifest(rocksdb::Env& env, const std::filesystem::path& directory) {
  KVGATE_TRY(const Manifest manifest, FindManifest(env, directory));
  KVGATE_TRY(const uint64_t digest, DigestBeginning(env, manifest.path, manifest.bytes));
  return ManifestMark{.number = manifest.number, .bytes = manifest.bytes, .digest = digest};
}

Result<void> CheckManifestOrder(rocksdb::Env& env, const std::filesystem::path& directory) {
  const auto manifest = FindManifest(env, directory);
  if (!manifest) {
    if (manifest.error().code == ErrorCode::kNotFound) return {};
    return manifest.error();
  }
  KVGATE_TRY(const std::string bytes, ReadBeginning(env, manifest->path, manifest->bytes));
  uint64_t last = 0;
  for (const std::string& edit : ReadLogRecords(bytes).records) {
    const uint64_t sequence = LastSequenceOf(edit).value_or(last);
    if (sequence < last) {
      return MakeError(ErrorCode::kDataLoss, kSource,
                       fmt::format("{}: row {} is the last one after row {} was",
                                   manifest->path.string(), sequence, last));
    }
    last = sequence;
  }
  return {};
}

Result<ManifestChange> CompareManifest(rocksdb::Env& env, const std::filesystem::path& directory,
                                       const ManifestMark& marked) {
  if (marked.number == 0) return ManifestChange::kOther;
  KVGATE_TRY(const Manifest manifest, FindManifest(env, directory));
  if (manifest.number > marked.number) return ManifestChange::kOther;
  if (manifest.number == marked.number && manifest.bytes >= marked.bytes) {
    KVGATE_TRY(const uint64_t digest, DigestBeginning(env, manifest.path, marked.bytes));
    if (digest == marked.digest) {
      return manifest.bytes == marked.bytes ? ManifestChange::kNone : ManifestChange::kOther;
    }
  }
  return MakeError(ErrorCode::kDataLoss, kSource,
                   fmt::format("{} is not what MANIFEST {} had been with its first {} bytes",
                               manifest.path.string(), marked.number, marked.bytes));
}

}  // namespace kvgate::store::file
