#include "store/rocks_data_directory.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "store/directory_migration.h"
#include "store/directory_secrets.h"
#include "store/file/directory_lock.h"
#include "store/file/start_marker.h"
#include "store/kv/rocks_kv_database.h"
#include "store/kv/rocks_kv_store.h"
#include "store/meta/rocks_meta_repair.h"
#include "store/meta/rocks_meta_store.h"

namespace kvgate::store {

using file::DirectoryLock;
using meta::MetaStore;
using meta::MetaTable;
using meta::PinBook;

namespace {

constexpr std::string_view kSource = "store";
constexpr uint64_t kFormatVersion = 7;
constexpr uint64_t kClearVersion = 1;     // the last one whose turns and pins stand in clear
constexpr uint64_t kRootlessVersion = 3;  // the last one whose conversations are not sessions
constexpr std::string_view kFormatKey = "format_version";
constexpr std::string_view kSeedKey = "hash_seed";

class RocksDataDirectory final : public DataDirectory {
 public:
  explicit RocksDataDirectory(const StoreOptions& wanted)
      : options(wanted),
        meta_marker(wanted.directory / "meta.opening"),
        kv_marker(wanted.directory / "kv.opening") {}

  // Members are destroyed in reverse order, so the databases are closed before the lock is
  // released.
  const StoreOptions options;
  std::optional<DirectoryLock> lock;
  file::StartMarker meta_marker;
  file::StartMarker kv_marker;
  std::optional<Error> why_no_meta;
  std::unique_ptr<MetaStore> meta_store;
  std::unique_ptr<kv::KvStore> kv_store;
  std::unique_ptr<PinBook> pin_book;
  uint64_t seed = 0;
  uint64_t version = kFormatVersion;  // as found at opening; if smaller, it is migrated
  MigrationReport migration;
  std::shared_ptr<const Keyring> ring;
  std::mutex info_mutex;
  std::string unwritten_secret;  // guarded by info_mutex; not yet on disk
  file::ServerInfo info{.pid = ::getpid(), .address = {}};

  ~RocksDataDirectory() override {
    pin_book.reset();
    kv_store.reset();
    meta_store.reset();
    std::error_code ignored;  // readers ignore a stale file because its process is dead
    if (lock) std::filesystem::remove(options.directory / "server.json", ignored);
  }

  Result<void> Claim();
  Result<void> OpenMeta();
  Result<void> OpenRing();
  Result<void> OpenKv();
  Result<void> FinishMigration();
  Result<void> OpenPins();
  void RefuseMeta(Error why);
  Result<void> WriteInfo();
  void WriteUnwrittenSecret();

  kv::KvStore& kv() override { return *kv_store; }
  MetaStore& meta() override { return *meta_store; }
  const Error* meta_error() const override { return why_no_meta ? &*why_no_meta : nullptr; }
  PinBook& pins() override { return *pin_book; }
  uint64_t hash_seed() const override { return seed; }
  const Keyring& keyring() const override { return *ring; }

  Result<void> PublishAddress(const ServerAddress& address) override {
    if (!lock) {
      return MakeError(ErrorCode::kUnsupported, kSource,
                       "publishing an address: the directory is open for reading only");
    }
    {
      const std::lock_guard guard(info_mutex);
      info.address = address.url;
      info.certificate_sha256 = address.certificate_sha256;
      info.admin_token = address.admin_token;
    }
    return WriteInfo();
  }
};

Error SystemError(int number, std::string detail) {
  const bool denied = number == EACCES || number == EPERM || number == EROFS;
  return MakeError(denied ? ErrorCode::kPermissionDenied : ErrorCode::kIo, kSource,
                   fmt::format("{}: {}", detail, std::generic_category().message(number)));
}

// Creates it with mode 0700 if missing. Parent directories get the mode of the umask.
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

// Sets a directory that others may enter to mode 0700 if it is empty or was a data directory
// before. One with other files belongs to somebody (--data-dir /tmp) and is refused.
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

// Reads the copy of the seed beside the databases, which keeps kv/ usable when meta/ cannot be
// read. Returns null if the file is missing or not a number; then only meta/ knows the seed.
std::optional<uint64_t> ReadSeedFile(const std::filesystem::path& directory) {
  std::ifstream file(directory / kSeedKey);
  std::string text;
  uint64_t value = 0;
  if (!std::getline(file, text)) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void WriteSeedFile(const std::filesystem::path& directory, uint64_t seed) {
  if (ReadSeedFile(directory) == seed) return;
  const std::filesystem::path target = directory / kSeedKey;
  const std::filesystem::path draft = target.string() + ".new";
  std::error_code error;
  {
    std::ofstream file(draft, std::ios::trunc);
    std::filesystem::permissions(
        draft, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
    file << seed << std::endl;
    if (!file.good()) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(draft, target, error);
  if (error) KVGATE_LOG(kDebug, kSource, "{}: {}", target.string(), error.message());
}

struct Identity {
  uint64_t seed = 0;
  bool complete = false;  // true if meta/ has it
  uint64_t version = kFormatVersion;
};

// Checks the format version and finds the seed; generates one for a new directory.
Result<Identity> ReadIdentity(const MetaStore& meta, const StoreOptions& options) {
  KVGATE_TRY(const std::optional<uint64_t> version, ReadNumber(meta, kFormatKey));
  KVGATE_TRY(const std::optional<uint64_t> seed, ReadNumber(meta, kSeedKey));
  if (version && *version > kFormatVersion) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     fmt::format("data directory {} has format {}; this program knows up to {}: "
                                 "use the newer program, or another directory",
                                 options.directory.string(), *version, kFormatVersion));
  }
  if (version && *version < kFormatVersion && options.read_only) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     fmt::format("data directory {} has format {}, and this program writes {}: "
                                 "start `kvgate serve` on it once, which migrates it",
                                 options.directory.string(), *version, kFormatVersion));
  }
  if (version && seed) {
    return Identity{.seed = *seed, .complete = true, .version = *version};
  }
  if (options.read_only) {
    return MakeError(ErrorCode::kNotFound, kSource,
                     fmt::format("{} is not yet a data directory", options.directory.string()));
  }
  const std::optional<uint64_t> known = seed ? seed : ReadSeedFile(options.directory);
  KVGATE_TRY(const uint64_t made, known ? Result<uint64_t>(*known) : RandomNumber());
  return Identity{.seed = made};
}

Result<void> WriteIdentity(MetaStore& meta, uint64_t seed) {
  KVGATE_TRY_VOID(meta.Put(MetaTable::kDirectory, kSeedKey, std::to_string(seed)));
  return meta.Put(MetaTable::kDirectory, kFormatKey, std::to_string(kFormatVersion));
}

Result<void> RocksDataDirectory::WriteInfo() {
  const std::lock_guard guard(info_mutex);
  return file::WriteServerInfo(options.directory, info);
}

void RocksDataDirectory::WriteUnwrittenSecret() {
  const std::lock_guard guard(info_mutex);
  if (unwritten_secret.empty()) return;
  if (const auto written = file::WriteSecretFile(options.directory, unwritten_secret); !written) {
    KVGATE_LOG(kError, kSource, "what is sealed now cannot be opened after a restart: {}",
               written.error().ToString());
    return;
  }
  Wipe(unwritten_secret);
}

// KV needs the secret even if meta/ cannot be read.
Result<void> RocksDataDirectory::OpenRing() {
  const file::SecretOptions wanted{.directory = options.directory,
                                   .environment = options.secret_env,
                                   .make = !options.read_only,
                                   .unwritten = &unwritten_secret};
  if (why_no_meta) {
    KVGATE_TRY(ring, file::OpenKeyring(wanted));
    meta_store->SetKeyring(ring);
    return {};
  }
  const auto opened = OpenSecrets(*meta_store, wanted);
  // If the disk refuses writes, the secrets' ids are remembered at the next start instead.
  const bool is_of_disk = !opened && !meta_store->Stats().error.empty() &&
                          opened.error().code != ErrorCode::kInvalidArgument &&
                          opened.error().code != ErrorCode::kPermissionDenied;
  if (!opened && !is_of_disk) return opened;
  ring = meta_store->shared_keyring();
  if (version > kClearVersion) return {};
  KVGATE_TRY_VOID(MigrateTurns(*meta_store, migration));
  return MigratePins(*meta_store, migration);
}

// The last step of a migration; it stores the current format version.
Result<void> RocksDataDirectory::FinishMigration() {
  if (version > kRootlessVersion) {
    KVGATE_TRY_VOID(
        meta_store->Put(MetaTable::kDirectory, kFormatKey, std::to_string(kFormatVersion)));
    KVGATE_LOG(kInfo, "store", "data directory {} is migrated from format {} to {}: all is kept",
               options.directory.string(), version, kFormatVersion);
    return {};
  }
  KVGATE_TRY_VOID(MigrateSessions(*meta_store, migration));
  if (version > kClearVersion) {
    KVGATE_TRY_VOID(
        meta_store->Put(MetaTable::kDirectory, kFormatKey, std::to_string(kFormatVersion)));
    KVGATE_LOG(kInfo, "store",
               "data directory {} is migrated from format {} to {}: all is kept; {} conversations "
               "of stored responses are sessions now",
               options.directory.string(), version, kFormatVersion, migration.num_sessions);
    return {};
  }
  // Old records are dropped because their keys were derived from salts that were not secret.
  migration.num_records = kv_store->Stats().num_records;
  KVGATE_TRY([[maybe_unused]] const uint64_t removed, kv_store->RemoveAll());
  KVGATE_TRY_VOID(kv_store->Flush());
  // Compaction removes the remaining plain text from the disk.
  KVGATE_TRY_VOID(meta_store->Compact(MetaTable::kTurns));
  KVGATE_TRY_VOID(meta_store->Compact(MetaTable::kPins));
  KVGATE_TRY_VOID(
      meta_store->Put(MetaTable::kDirectory, kFormatKey, std::to_string(kFormatVersion)));
  KVGATE_LOG(kWarning, "store",
             "data directory {} is migrated from format {} to {}: {} turns of {} conversations "
             "and {} pins are kept, now sealed; {} damaged turns are dropped; {} records of KV are "
             "dropped, since salts are secrets now, and computed again when they are asked for; {} "
             "conversations of stored responses are sessions now",
             options.directory.string(), version, kFormatVersion, migration.num_turns,
             migration.num_conversations, migration.num_pins, migration.num_turns_damaged,
             migration.num_records, migration.num_sessions);
  return {};
}

Result<void> RocksDataDirectory::Claim() {
  KVGATE_TRY_VOID(MakePrivateDirectory(options.directory));
  KVGATE_TRY_VOID(CheckWritable(options.directory));
  KVGATE_TRY_VOID(CloseToOthers(options.directory));
  KVGATE_TRY(lock, DirectoryLock::Acquire(options.directory));
  // The file names this process to others that are refused, and replaces the name of a killed
  // holder. A full disk does not prevent serving.
  if (const auto written = WriteInfo(); !written) {
    if (!written.error().retryable && written.error().code != ErrorCode::kIo) return written;
    KVGATE_LOG(kWarning, kSource, "{}", written.error().ToString());
  }
  meta::FinishMetaRepair(options.directory / "meta");
  for (const char* part : {"kv", "meta"}) {
    const auto path = options.directory / part;
    std::error_code error;
    if (std::filesystem::exists(path, error) && !std::filesystem::is_directory(path, error)) {
      KVGATE_TRY(const auto target, kv::SetAside(path, kv::OlderOnes::kKeep));
      KVGATE_LOG(kError, kSource, "{} was no directory; it is now {}", path.string(),
                 target.string());
    }
    KVGATE_TRY_VOID(MakePrivateDirectory(path));
  }
  return {};
}

void RocksDataDirectory::RefuseMeta(Error why) {
  meta_store.reset();
  meta_marker.Settle();
  KVGATE_LOG(kError, kSource,
             "META/ IS DAMAGED: stored responses, conversations, pins and the ledger are out of "
             "reach, and none are "
             "kept: {}",
             why.ToString());
  meta_store = meta::MakeRefusingMetaStore(why);
  if (ring) meta_store->SetKeyring(ring);
  why_no_meta = std::move(why);
}

Result<void> RocksDataDirectory::OpenMeta() {
  const auto path = options.directory / "meta";
  // A crashed process had both databases open; kv/ is tried first because losing it costs no data.
  const uint32_t num_crashes = meta_marker.num_crashes();
  if (lock && (num_crashes >= 4 || (num_crashes >= 2 && kv_marker.num_crashes() == 0))) {
    RefuseMeta(MakeError(ErrorCode::kDataLoss, kSource,
                         fmt::format("{} starts have crashed with {} open; `kvgate cache repair` "
                                     "keeps what can be read",
                                     num_crashes, path.string())));
  }
  if (!why_no_meta) {
    if (lock) meta_marker.Begin();
    auto opened = meta::OpenRocksMetaStore({.directory = path,
                                            .sync = options.sync,
                                            .read_only = options.read_only,
                                            .reopen_pause = 4 * options.retry_pause,
                                            .env = options.env,
                                            .on_writable = [this](MetaStore& meta) {
                                              (void)WriteIdentity(meta, seed);
                                              (void)WriteInfo();
                                              WriteUnwrittenSecret();
                                            }});
    if (opened) {
      meta_store = std::move(*opened);
    } else if (options.read_only || opened.error().code != ErrorCode::kDataLoss) {
      return opened.error();
    } else {
      RefuseMeta(opened.error());
    }
  }
  auto identity = ReadIdentity(*meta_store, options);
  if (!identity && identity.error().code == ErrorCode::kDataLoss && !options.read_only) {
    RefuseMeta(identity.error());
    identity = ReadIdentity(*meta_store, options);
  }
  if (!identity) return identity.error();
  seed = identity->seed;
  version = identity->version;
  if (options.read_only || why_no_meta) return {};
  if (!identity->complete) {
    const auto written = WriteIdentity(*meta_store, seed);
    // If writing failed because of the disk, on_writable repeats it once writing works again.
    if (!written && meta_store->Stats().error.empty()) return written;
  }
  WriteSeedFile(options.directory, seed);
  return {};
}

Result<void> RocksDataDirectory::OpenKv() {
  const auto path = options.directory / "kv";
  if (lock && kv_marker.num_crashes() >= 2) {
    KVGATE_TRY(const auto target, kv::SetAside(path));
    KVGATE_TRY_VOID(MakePrivateDirectory(path));
    KVGATE_LOG(kError, kSource, "{} starts have crashed with {} open: set aside as {}, begun anew",
               kv_marker.num_crashes(), path.string(), target.string());
    kv_marker.Forget();
  }
  if (lock) kv_marker.Begin();
  KVGATE_TRY(kv_store, kv::RocksKvStore::Open({.directory = path,
                                               .capacity_bytes = options.kv_bytes_max,
                                               .flush_interval = options.flush_interval,
                                               .retry_pause = options.retry_pause,
                                               .read_only = options.read_only,
                                               .env = options.env,
                                               .on_settled = [this] {
                                                 meta_marker.Settle();
                                                 kv_marker.Settle();
                                               }}));
  return {};
}

Result<void> RocksDataDirectory::OpenPins() {
  auto opened = PinBook::Open(*meta_store, *kv_store, options.read_only || why_no_meta);
  if (!opened && opened.error().code == ErrorCode::kDataLoss && !options.read_only) {
    RefuseMeta(opened.error());
    opened = PinBook::Open(*meta_store, *kv_store, true);
  }
  if (!opened) return opened.error();
  pin_book = std::move(*opened);
  return {};
}

Result<std::unique_ptr<DataDirectory>> OpenOnce(const StoreOptions& options) {
  auto directory = std::make_unique<RocksDataDirectory>(options);
  if (!options.read_only) KVGATE_TRY_VOID(directory->Claim());
  KVGATE_TRY_VOID(directory->OpenMeta());
  KVGATE_TRY_VOID(directory->OpenRing());
  KVGATE_TRY_VOID(directory->OpenKv());
  if (directory->version < kFormatVersion) KVGATE_TRY_VOID(directory->FinishMigration());
  KVGATE_TRY_VOID(directory->OpenPins());
  return std::unique_ptr<DataDirectory>(std::move(directory));
}

}  // namespace

Result<std::unique_ptr<DataDirectory>> DataDirectory::Open(const StoreOptions& options) {
  auto opened = OpenOnce(options);
  // A reader may run beside a writer, whose files can disappear between being listed and being
  // opened.
  for (int attempt = 1;
       attempt < 5 && options.read_only && !opened && opened.error().code == ErrorCode::kDataLoss &&
       DirectoryLock::IsHeld(options.directory);
       ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * attempt));
    opened = OpenOnce(options);
  }
  return opened;
}

Result<RepairReport> DataDirectory::Repair(const StoreOptions& options) {
  const auto meta = options.directory / "meta";
  RepairReport report;
  {
    KVGATE_TRY(const DirectoryLock lock, DirectoryLock::Acquire(options.directory));
    file::StartMarker(options.directory / "meta.opening").Forget();
    auto repaired = meta::RepairMeta(meta, options.env);
    if (!repaired && repaired.error().code != ErrorCode::kNotFound) return repaired.error();
    if (repaired) report.meta = std::move(*repaired);
  }
  const auto set_aside = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options.directory)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("kv.damaged-")) names.insert(name);
    }
    return names;
  };
  const auto before = set_aside();
  KVGATE_TRY(const auto opened, Open(options));
  report.kv_began_anew = set_aside() != before;
  KVGATE_TRY(report.kv, opened->kv().Verify(nullptr));
  return report;
}

Result<ServerAddress> DataDirectory::FindServer(const std::filesystem::path& directory) {
  KVGATE_TRY(const file::ServerInfo info, file::ReadServerInfo(directory));
  if (!file::IsProcessAlive(info.pid) || !DirectoryLock::IsHeld(directory)) {
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
