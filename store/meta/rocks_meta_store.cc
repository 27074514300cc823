#include "store/meta/rocks_meta_store.h"

#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "store/file/rocks_common.h"
#include "store/file/rocks_file_system.h"
#include "store/meta/rocks_meta_database.h"

namespace kvgate::store::meta {

using file::FromStatus;
using file::ToSlice;

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSource = "store.meta";

// Identifies the file behind a path. IDENTITY is written once in the life of a database.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
  static FileIdentity Of(const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return {};
    return {.device = info.st_dev, .inode = info.st_ino};
  }
};

// What RocksDB hands out, while it holds it. RocksDB orders its threads where ThreadSanitizer,
// which it is not built with, does not see it: there it is copied by code that is not watched.
#if defined(__SANITIZE_THREAD__)
using HeldBytes = std::string;
__attribute__((no_sanitize("thread"))) HeldBytes BytesOf(const rocksdb::Slice& slice) {
  HeldBytes bytes(slice.size(), '\0');
  const volatile char* const from = slice.data();  // no memcpy, which would be watched
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = from[i];
  return bytes;
}
#else
using HeldBytes = std::string_view;
HeldBytes BytesOf(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
#endif

// Keeps hard links to the logs beside the database until it is known if one of them is damaged,
// because opening reads the logs and then deletes them.
class LogCopies {
 public:
  explicit LogCopies(const fs::path& database)
      : database_(database), copies_(database.string() + ".logs") {
    std::error_code error;
    fs::remove_all(copies_, error);
    fs::directory_iterator file(database_, error);
    for (; !error && file != fs::directory_iterator(); file.increment(error)) {
      std::error_code one;
      if (file->path().extension() != ".log" || file->file_size(one) == 0) continue;
      fs::create_directory(copies_, one);
      fs::permissions(copies_, fs::perms::owner_all, one);
      fs::create_hard_link(file->path(), copies_ / file->path().filename(), one);
    }
  }
  ~LogCopies() {
    std::error_code ignored;
    fs::remove_all(copies_, ignored);
  }
  LogCopies(const LogCopies&) = delete;
  LogCopies& operator=(const LogCopies&) = delete;

  // Keeps the links for good and returns their directory, or an empty path on failure.
  fs::path Keep() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const fs::path target =
        fmt::format("{}.damaged-{}", database_.string(),
                    std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
    std::error_code error;
    fs::rename(copies_, target, error);
    return error ? fs::path() : target;
  }

 private:
  const fs::path database_;
  const fs::path copies_;
};

class RocksMetaStore final : public MetaStore {
 public:
  explicit RocksMetaStore(const MetaStoreOptions& options) : options_(options) {}

  // Also succeeds without a writable database if the disk is the cause.
  Result<void> Open();

  MetaStoreStats Stats() const override {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
  }

  Result<void> PutAll(MetaTable table, std::span<const MetaWrite> writes) override;

  // All families are flushed, because the log is deleted only then.
  Result<void> Compact(MetaTable table) override {
    const std::shared_lock lock(mutex_);
    if (!writable_) return MakeError(ErrorCode::kUnavailable, kSource, "compacting: not writable");
    std::vector<rocksdb::ColumnFamilyHandle*> families;
    for (size_t i = 0; i < kNumMetaTables; ++i) {
      families.push_back(database_->Family(static_cast<MetaTable>(i)));
    }
    const rocksdb::Status flushed = database_->db().Flush({}, families);
    if (!flushed.ok()) return FromStatus(flushed, kSource, "compacting");
    rocksdb::CompactRangeOptions options;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    const rocksdb::Status done =
        database_->db().CompactRange(options, database_->Family(table), nullptr, nullptr);
    if (!done.ok()) return FromStatus(done, kSource, "compacting");
    database_->Acknowledge();
    return {};
  }

  Result<std::optional<std::string>> Get(MetaTable table, std::string_view key) const override {
    const std::shared_lock lock(mutex_);
    KVGATE_TRY(const bool has_rows, HasRows("reading"));
    if (!has_rows) return std::optional<std::string>();
    std::string value;
    const rocksdb::Status status = file::Fenced(
        [&] { return database_->db().Get({}, database_->Family(table), ToSlice(key), &value); });
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return ReadError(status, "reading");
    return std::optional<std::string>(std::move(value));
  }

  Result<void> ScanFrom(MetaTable table, const ScanArgs& args, const Visit& visit) const override {
    const std::shared_lock lock(mutex_);
    KVGATE_TRY(const bool has_rows, HasRows("scanning"));
    if (!has_rows) return {};
    const std::unique_ptr<rocksdb::Iterator> at(
        database_->db().NewIterator({}, database_->Family(table)));
    for (at->Seek(ToSlice(std::max(args.prefix, args.from))); at->Valid(); at->Next()) {
      const HeldBytes key = BytesOf(at->key());
      if (!key.starts_with(args.prefix)) break;
      if (!visit(key, BytesOf(at->value()))) return {};
    }
    if (!at->status().ok()) return ReadError(at->status(), "scanning");
    return {};
  }

  Result<void> ScanBack(MetaTable table, const ScanBackArgs& args,
                        const Visit& visit) const override {
    const std::shared_lock lock(mutex_);
    KVGATE_TRY(const bool has_rows, HasRows("scanning"));
    if (!has_rows) return {};
    std::string before = args.before;
    if (before.empty()) {
      // The scan starts before the first key after all keys with the prefix.
      before = args.prefix;
      while (!before.empty() && before.back() == '\xff') before.pop_back();
      if (!before.empty()) before.back() = static_cast<char>(before.back() + 1);
    }
    const std::unique_ptr<rocksdb::Iterator> at(
        database_->db().NewIterator({}, database_->Family(table)));
    if (before.empty()) {
      at->SeekToLast();
    } else {
      at->SeekForPrev(before);
      if (at->Valid() && BytesOf(at->key()) == before) at->Prev();
    }
    for (; at->Valid(); at->Prev()) {
      const HeldBytes key = BytesOf(at->key());
      if (!key.starts_with(args.prefix)) break;
      if (!visit(key, BytesOf(at->value()))) return {};
    }
    if (!at->status().ok()) return ReadError(at->status(), "scanning");
    return {};
  }

 private:
  Result<void> TryWrite(MetaTable table, std::span<const MetaWrite> writes);
  Result<void> CheckDirectory() const;
  // REQUIRES: mutex_ held.
  Result<bool> HasRows(std::string_view doing) const {
    if (database_ != nullptr || is_new_) return database_ != nullptr;
    return MakeError(ErrorCode::kUnavailable, kSource,
                     fmt::format("{}: the database is not open", doing));
  }
  Error ReadError(const rocksdb::Status& status, std::string_view doing) const;
  bool Reopen();
  Result<void> OpenWritable();
  void SetError(const Error* error);

  MetaDatabase::Options DatabaseOptions(bool read_only) const {
    return {.directory = options_.directory,
            .read_only = read_only,
            .acked_path = AckedPath(options_.directory),
            .env = options_.env};
  }

  const MetaStoreOptions options_;
  mutable std::shared_mutex mutex_;  // exclusive while the database is replaced
  std::chrono::steady_clock::time_point reopen_at_{};
  std::unique_ptr<MetaDatabase> database_;  // null if the disk does not let it be opened
  bool is_new_ = false;                     // the database was never created, so it is empty
  bool writable_ = false;
  std::atomic<bool> failed_{false};  // a write failed: the database has to be reopened
  FileIdentity identity_;

  mutable std::mutex stats_mutex_;
  mutable MetaStoreStats stats_;
};

Result<void> RocksMetaStore::Open() {
  if (options_.read_only) {
    KVGATE_TRY(database_, MetaDatabase::Open(DatabaseOptions(true)));
    return {};
  }
  auto opened = OpenWritable();
  if (opened) return opened;
  Error error = opened.error();
  if (error.code == ErrorCode::kDataLoss) {
    error.detail += "; `kvgate cache repair` keeps what can be read";
    return error;
  }
  // The disk refuses writes, but existing rows can still be read.
  auto readable = MetaDatabase::Open(DatabaseOptions(true));
  if (!readable && readable.error().code != ErrorCode::kNotFound) return error;
  if (readable) database_ = std::move(*readable);
  is_new_ = database_ == nullptr;
  SetError(&error);
  return {};
}

// REQUIRES: mutex_ held exclusively, or no other thread yet.
Result<void> RocksMetaStore::OpenWritable() {
  LogCopies copies(options_.directory);
  KVGATE_TRY(database_, MetaDatabase::Open(DatabaseOptions(false)));
  writable_ = true;
  failed_ = false;
  is_new_ = false;
  identity_ = FileIdentity::Of(options_.directory / "IDENTITY");
  const LogLosses& losses = database_->losses();
  const uint64_t num_lost = losses.num_writes;
  if (num_lost > 0 || losses.num_bytes > 0) {
    const fs::path kept = losses.num_bytes > 0 ? copies.Keep() : fs::path();
    KVGATE_LOG(kError, kSource,
               "THE LOG OF {} WAS DAMAGED: {} rows that had been acknowledged are lost (of stored "
               "responses, conversations, pins or the ledger); {} bytes were skipped{}{}{}{}",
               options_.directory.string(), num_lost, losses.num_bytes,
               losses.first.empty() ? "" : ": ", losses.first,
               kept.empty() ? "" : "; the log as it was is in ", kept.string());
    const std::lock_guard lock(stats_mutex_);
    stats_.num_lost += num_lost;
    stats_.damaged_log_bytes += losses.num_bytes;
  }
  return {};
}

Result<void> RocksMetaStore::PutAll(MetaTable table, std::span<const MetaWrite> writes) {
  if (options_.read_only) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     "writing: the directory is open for reading only");
  }
  auto written = TryWrite(table, writes);
  // Damage is permanent: reopening would only meet it again.
  if (!written && written.error().code != ErrorCode::kDataLoss && Reopen()) {
    written = TryWrite(table, writes);
  }
  if (written) {
    SetError(nullptr);
  } else {
    SetError(&written.error());
  }
  return written;
}

Result<void> RocksMetaStore::TryWrite(MetaTable table, std::span<const MetaWrite> writes) {
  const std::shared_lock lock(mutex_);
  if (!writable_ || failed_) {
    return MakeError(ErrorCode::kUnavailable, kSource,
                     "writing: the disk does not let the database be written");
  }
  size_t bytes = file::kBatchRowBytes;
  for (const MetaWrite& write : writes) {
    bytes += file::kBatchRowBytes + write.key.size() + write.until.size() +
             (write.value ? write.value->size() : 0);
  }
  rocksdb::WriteBatch batch(bytes);
  for (const MetaWrite& write : writes) {
    rocksdb::ColumnFamilyHandle* const family = database_->Family(table);
    const rocksdb::Status added = write.value ? batch.Put(family, write.key, *write.value)
                                  : write.until.empty()
                                      ? batch.Delete(family, write.key)
                                      : batch.DeleteRange(family, write.key, write.until);
    if (!added.ok()) return FromStatus(added, kSource, "writing");
  }
  rocksdb::WriteOptions options;
  options.sync = options_.sync;
  const rocksdb::Status status = database_->db().Write(options, &batch);
  if (!status.ok()) {
    // DB::Resume is not used: it may continue with the same log, and RocksDB asserts that a file
    // with a failed write is not written again.
    failed_ = true;
    return FromStatus(status, kSource, "writing");
  }
  KVGATE_TRY_VOID(CheckDirectory());
  database_->Acknowledge();
  return {};
}

// Needed because writes to an open file succeed even after its name was removed.
Result<void> RocksMetaStore::CheckDirectory() const {
  if (FileIdentity::Of(options_.directory / "IDENTITY") == identity_) return {};
  return MakeError(ErrorCode::kUnavailable, kSource,
                   fmt::format("writing: {} has been removed or replaced while it was in use; "
                               "nothing is kept until the next start",
                               options_.directory.string()));
}

Error RocksMetaStore::ReadError(const rocksdb::Status& status, std::string_view doing) const {
  Error error = FromStatus(status, kSource, doing);
  if (error.code != ErrorCode::kDataLoss) return error;
  const std::lock_guard lock(stats_mutex_);
  if (stats_.num_damaged_reads++ == 0) {
    KVGATE_LOG(kError, kSource, "{} IS DAMAGED: {}; `kvgate cache repair` keeps what can be read",
               options_.directory.string(), error.detail);
  }
  return error;
}

void RocksMetaStore::SetError(const Error* error) {
  const std::lock_guard lock(stats_mutex_);
  if (error != nullptr) ++stats_.num_write_errors;
  if (error != nullptr && stats_.error.empty()) {
    KVGATE_LOG(kError, kSource, "nothing can be kept: {}", error->ToString());
  } else if (error == nullptr && !stats_.error.empty()) {
    KVGATE_LOG(kInfo, kSource, "what is written is kept again");
  }
  stats_.error = error != nullptr ? error->ToString() : "";
}

// Reopens the database after an error that RocksDB treats as final, or if it could not be opened
// for writing. Rows written before are recovered from the log. Returns false if the disk does not
// work yet, the last attempt was too recent, or the directory is another one.
bool RocksMetaStore::Reopen() {
  bool was_writable = false;
  {
    const std::unique_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now < reopen_at_) return false;
    reopen_at_ = now + options_.reopen_pause;
    was_writable = writable_;
    if (writable_ && !CheckDirectory()) return false;
    if (!file::IsDiskWell(*file::EnvUse(options_.env), options_.directory)) return false;
    writable_ = false;
    database_.reset();
    if (const auto opened = OpenWritable(); !opened) {
      KVGATE_LOG(kWarning, kSource, "opening again: {}", opened.error().ToString());
      auto readable = MetaDatabase::Open(DatabaseOptions(true));
      if (readable) database_ = std::move(*readable);
      return false;
    }
    KVGATE_LOG(kInfo, kSource, "opened again after an error of the disk");
  }
  if (!was_writable && options_.on_writable) options_.on_writable(*this);
  return true;
}

class RefusingMetaStore final : public MetaStore {
 public:
  explicit RefusingMetaStore(Error why) : why_(std::move(why)) {
    why_.code = ErrorCode::kUnavailable;
  }
  Result<void> PutAll(MetaTable, std::span<const MetaWrite>) override { return why_; }
  Result<std::optional<std::string>> Get(MetaTable, std::string_view) const override {
    return std::optional<std::string>();
  }
  Result<void> ScanFrom(MetaTable, const ScanArgs&, const Visit&) const override { return {}; }
  Result<void> ScanBack(MetaTable, const ScanBackArgs&, const Visit&) const override { return {}; }
  MetaStoreStats Stats() const override {
    MetaStoreStats stats;
    stats.error = why_.ToString();
    return stats;
  }

 private:
  Error why_;
};

}  // namespace

Result<std::unique_ptr<MetaStore>> OpenRocksMetaStore(const MetaStoreOptions& options) {
  auto store = std::make_unique<RocksMetaStore>(options);
  KVGATE_TRY_VOID(store->Open());
  return std::unique_ptr<MetaStore>(std::move(store));
}

std::unique_ptr<MetaStore> MakeRefusingMetaStore(Error why) {
  return std::make_unique<RefusingMetaStore>(std::move(why));
}

}  // namespace kvgate::store::meta
