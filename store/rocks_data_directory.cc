#include "store/rocks_data_directory.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <kvgate/log.h>

#include "store/directory_lock.h"
#include "store/rocks_kv_store.h"
#include "store/rocks_meta_store.h"

namespace kvgate::store {
namespace {

constexpr std::string_view kSource = "store";
constexpr uint64_t kFormatVersion = 1;
constexpr std::string_view kFormatKey = "format_version";
constexpr std::string_view kSeedKey = "hash_seed";

class RocksDataDirectory final : public DataDirectory {
 public:
  // Destroyed in reverse order: the databases are closed before the lock goes.
  std::filesystem::path directory;
  std::optional<DirectoryLock> lock;
  std::unique_ptr<MetaStore> meta_store;
  std::unique_ptr<KvStore> kv_store;
  std::unique_ptr<PinBook> pin_book;
  uint64_t seed = 0;

  ~RocksDataDirectory() override {
    pin_book.reset();
    kv_store.reset();
    meta_store.reset();
    std::error_code ignored;  // a left-over address is told apart by its dead process
    if (lock) std::filesystem::remove(directory / "server.json", ignored);
  }

  KvStore& kv() override { return *kv_store; }
  MetaStore& meta() override { return *meta_store; }
  PinBook& pins() override { return *pin_book; }
  uint64_t hash_seed() const override { return seed; }

  Result<void> PublishAddress(const ServerAddress& address) override {
    if (!lock) {
      return MakeError(ErrorCode::kUnsupported, kSource,
                       "publishing an address: the directory is open for reading only");
    }
    return WriteServerInfo(directory, {.pid = ::getpid(),
                                       .address = address.url,
                                       .certificate_sha256 = address.certificate_sha256,
                                       .admin_token = address.admin_token});
  }
};

Error SystemError(int number, std::string detail) {
  const bool denied = number == EACCES || number == EPERM || number == EROFS;
  return MakeError(denied ? ErrorCode::kPermissionDenied : ErrorCode::kIo, kSource,
                   fmt::format("{}: {}", detail, std::generic_category().message(number)));
}

// Creates it with mode 0700 when missing; parents get the mode of the umask.
Result<void> MakePrivateDirectory(const std::filesystem::path& path) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) return SystemError(error.value(), fmt::format("creating {}", path.string()));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError(errno, fmt::format("creating {}", path.string()));
  }
  if (!std::filesystem::is_directory(path, error)) {
    return MakeError(ErrorCode::kIo, kSource, fmt::format("{} is not a directory", path.string()));
  }
  return {};
}

// A directory that others may enter is closed to them when it is empty or was ours before; one with
// other files in it belongs to somebody (--data-dir /tmp) and is refused instead.
Result<void> CloseToOthers(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return SystemError(errno, fmt::format("looking at {}", path.string()));
  }
  const uint32_t mode = info.st_mode & 07777;
  if ((mode & 077) == 0) return {};
  std::error_code code;
  const bool ours =
      std::filesystem::exists(path / "lock", code) || std::filesystem::is_empty(path, code);
  if (!ours) {
    return MakeError(ErrorCode::kPermissionDenied, kSource,
                     fmt::format("data directory {} is open to other users (mode {:04o}) and holds "
                                 "other files: name a directory of its own, or chmod 700 it",
                                 path.string(), mode));
  }
  if (::chmod(path.c_str(), 0700) != 0) {
    return SystemError(errno, fmt::format("data directory {} is open to other users (mode {:04o}) "
                                          "and cannot be closed to them",
                                          path.string(), mode));
  }
  KVGATE_LOG(kWarning, "store", "data directory {} was open to other users (mode {:04o}); now 0700",
             path.string(), mode);
  return {};
}

Result<void> CheckWritable(const std::filesystem::path& path) {
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return SystemError(errno, fmt::format("data directory {} cannot be written", path.string()));
  }
  return {};
}

Result<std::optional<uint64_t>> ReadNumber(const MetaStore& meta, std::string_view key) {
  KVGATE_TRY(const std::optional<std::string> text, meta.Get(MetaTable::kDirectory, key));
  if (!text) return std::optional<uint64_t>();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    return MakeError(ErrorCode::kDataLoss, "store.meta",
                     fmt::format("'{}' in table directory is not a number", key));
  }
  return std::optional<uint64_t>(value);
}

Result<uint64_t> RandomNumber() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    return SystemError(errno, "asking the system for a random number");
  }
  return value;
}

// Checks the format and returns the seed; writes both into a new directory.
Result<uint64_t> PrepareMeta(MetaStore& meta, const StoreOptions& options) {
  KVGATE_TRY(const std::optional<uint64_t> version, ReadNumber(meta, kFormatKey));
  KVGATE_TRY(const std::optional<uint64_t> seed, ReadNumber(meta, kSeedKey));
  if (version && *version > kFormatVersion) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     fmt::format("data directory {} has format {}; this program knows up to {}: "
                                 "use the newer program, or another directory",
                                 options.directory.string(), *version, kFormatVersion));
  }
  if (version && seed) return *seed;
  if (options.read_only) {
    return MakeError(ErrorCode::kNotFound, kSource,
                     fmt::format("{} is not yet a data directory", options.directory.string()));
  }
  KVGATE_TRY(const uint64_t made, seed ? Result<uint64_t>(*seed) : RandomNumber());
  KVGATE_TRY_VOID(meta.Put(MetaTable::kDirectory, kSeedKey, std::to_string(made)));
  KVGATE_TRY_VOID(meta.Put(MetaTable::kDirectory, kFormatKey, std::to_string(kFormatVersion)));
  return made;
}

Result<std::unique_ptr<DataDirectory>> OpenOnce(const StoreOptions& options) {
  auto directory = std::make_unique<RocksDataDirectory>();
  directory->directory = options.directory;
  if (!options.read_only) {
    for (const char* part : {"", "kv", "meta"}) {
      const auto path = *part == '\0' ? options.directory : options.directory / part;
      KVGATE_TRY_VOID(MakePrivateDirectory(path));
      KVGATE_TRY_VOID(CheckWritable(path));
      if (*part == '\0') {
        KVGATE_TRY_VOID(CloseToOthers(path));
        KVGATE_TRY(directory->lock, DirectoryLock::Acquire(options.directory));
        // Names this process to whoever is refused, and replaces a killed holder's name.
        KVGATE_TRY_VOID(WriteServerInfo(options.directory, {::getpid(), ""}));
      }
    }
  }
  KVGATE_TRY(directory->meta_store, OpenRocksMetaStore({.directory = options.directory / "meta",
                                                        .sync = options.sync,
                                                        .read_only = options.read_only}));
  KVGATE_TRY(directory->seed, PrepareMeta(*directory->meta_store, options));
  KVGATE_TRY(directory->kv_store, RocksKvStore::Open({.directory = options.directory / "kv",
                                                      .capacity_bytes = options.kv_bytes_max,
                                                      .flush_interval = options.flush_interval,
                                                      .read_only = options.read_only}));
  KVGATE_TRY(directory->pin_book,
             PinBook::Open(*directory->meta_store, *directory->kv_store, options.read_only));
  return std::unique_ptr<DataDirectory>(std::move(directory));
}

}  // namespace

Result<std::unique_ptr<DataDirectory>> DataDirectory::Open(const StoreOptions& options) {
  auto opened = OpenOnce(options);
  // A reader opens beside a writer, whose files may go between being listed and being opened.
  for (int attempt = 1;
       attempt < 5 && options.read_only && !opened && opened.error().code == ErrorCode::kDataLoss &&
       DirectoryLock::IsHeld(options.directory);
       ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * attempt));
    opened = OpenOnce(options);
  }
  return opened;
}

Result<ServerAddress> DataDirectory::FindServer(const std::filesystem::path& directory) {
  KVGATE_TRY(const ServerInfo info, ReadServerInfo(directory));
  if (!IsProcessAlive(info.pid) || !DirectoryLock::IsHeld(directory)) {
    return MakeError(ErrorCode::kNotFound, kSource,
                     fmt::format("{}: process {}, which served {}, is gone", directory.string(),
                                 info.pid, info.address));
  }
  if (info.address.empty()) {
    return MakeError(ErrorCode::kNotFound, kSource,
                     fmt::format("{} is held by process {}, which serves no address",
                                 directory.string(), info.pid));
  }
  return ServerAddress{.url = info.address,
                       .certificate_sha256 = info.certificate_sha256,
                       .admin_token = info.admin_token};
}

}  // namespace kvgate::store
