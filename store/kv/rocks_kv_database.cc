#include "store/kv/rocks_kv_database.h"

#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/check.h"
#include "base/log.h"
#include "store/file/rocks_common.h"
#include "store/file/rocks_file_system.h"
#include "store/file/rocks_manifest.h"

namespace kvgate::store::kv {

using file::FromStatus;

namespace {

constexpr std::string_view kSource = "store.kv";
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kBlobHeaderBytes = 32;  // RocksDB's blob header, which precedes the key

rocksdb::DBOptions MakeDbOptions(rocksdb::Env& env) {
  rocksdb::DBOptions db;
  db.env = &env;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  // A record and its index entry are in different families and there is no WAL, so only an atomic
  // flush keeps them consistent.
  db.atomic_flush = true;
  db.paranoid_checks = true;
  db.max_file_opening_threads = 1;  // the caller: an exception on another thread is fatal
  db.info_log = file::MakeRocksLogger(kSource);
  db.max_background_jobs = 4;  // one flush, up to three compactions: a flush never queues for one
  db.max_open_files = 1024;
  db.max_manifest_file_size = kMiB;           // the default of 1 GiB would not fit a small cap
  db.manifest_preallocation_size = 64 << 10;  // the default of 4 MiB counts against the cap too
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.bytes_per_sync = kMiB;  // spreads the write-out of a flush instead of one burst at its end
  return db;
}

rocksdb::ColumnFamilyOptions MakeFamilyOptions(const KvSizes& sizes, bool records) {
  rocksdb::ColumnFamilyOptions family;
  family.compression = rocksdb::kNoCompression;
  family.write_buffer_size = sizes.write_buffer_bytes;
  family.max_write_buffer_number = 2;
  family.level0_file_num_compaction_trigger = 4;
  // Tables hold only keys and pointers, a few MiB in all, so they never justify stalling a writer.
  family.level0_slowdown_writes_trigger = 64;
  family.level0_stop_writes_trigger = 256;
  family.soft_pending_compaction_bytes_limit = 0;
  family.hard_pending_compaction_bytes_limit = 0;
  family.disable_auto_compactions = false;
  if (records) {
    family.enable_blob_files = true;
    family.min_blob_size = 0;
    family.blob_file_size = sizes.blob_file_bytes;
    family.blob_compression_type = rocksdb::kNoCompression;
    family.enable_blob_garbage_collection = false;  // Collect() does it when space is needed
  }
  family.table_factory = file::MakeTableFactory(4 * kMiB);
  return family;
}

rocksdb::WriteOptions MakeWriteOptions() {
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  return write;
}

// Returns an upper bound.
size_t BatchBytes(const KvChange& change) {
  constexpr size_t kRowBytes = file::kBatchRowBytes + kKvKeyBytes;
  size_t bytes = file::kBatchRowBytes + 2 * change.deletes.size() * kRowBytes;
  for (const KvRecord& record : change.records) {
    bytes += kRowBytes + kKvHeaderBytes + record.tokens.size_bytes() + record.payload.size();
  }
  for (const KvIndexEntry& entry : change.entries) {
    bytes += kRowBytes + EncodeKvIndexEntry(entry).size();
  }
  return bytes;
}

}  // namespace

KvSizes KvSizes::For(uint64_t capacity_bytes) {
  const uint64_t buffer = std::clamp(capacity_bytes / 32, kMiB, 64 * kMiB);
  return {.write_buffer_bytes = buffer,
          .blob_file_bytes = std::clamp(capacity_bytes / 64, kMiB, 256 * kMiB),
          .batch_bytes = std::min(4 * kMiB, buffer)};
}

// Records the error that stopped background work. RocksDB's own recovery from a full disk is
// disabled, because it can wait forever for a flush that a second error kept from starting;
// DB::Resume has the same problem. Reopening the database works.
class KvDatabase::Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(std::function<void()> notify) : notify_(std::move(notify)) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* status) override {
    if (status == nullptr || status->ok()) return;
    {
      const std::lock_guard lock(mutex_);
      error_ = FromStatus(*status, kSource, "background work");
    }
    notify_();
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }

  std::optional<Error> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  std::function<void()> notify_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

KvDatabase::KvDatabase(const KvDatabaseOptions& options, std::shared_ptr<Listener> listener)
    : options_(options),
      env_(options.env),
      sizes_(KvSizes::For(options.capacity_bytes)),
      listener_(std::move(listener)) {}

KvDatabase::~KvDatabase() {
  cancelled_ = true;
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : {index_, records_}) {
    if (handle != nullptr) db_->DestroyColumnFamilyHandle(handle);
  }
  const rocksdb::Status status = db_->Close();
  if (!status.ok()) KVGATE_LOG(kWarning, kSource, "closing: {}", status.ToString());
}

Result<std::unique_ptr<KvDatabase>> KvDatabase::Open(const KvDatabaseOptions& options) {
  auto listener = std::make_shared<Listener>(options.on_background_error);
  std::unique_ptr<KvDatabase> database(new KvDatabase(options, listener));
  rocksdb::DBOptions db_options = MakeDbOptions(*database->env_);
  db_options.listeners.push_back(listener);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families{
      {rocksdb::kDefaultColumnFamilyName, MakeFamilyOptions(database->sizes_, false)},
      {"records", MakeFamilyOptions(database->sizes_, true)}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const std::string path = options.directory.string();
  const std::string doing = fmt::format("opening {}", path);
  std::error_code exists_error;
  if (options.read_only && !std::filesystem::exists(options.directory / "CURRENT", exists_error)) {
    return MakeError(ErrorCode::kNotFound, kSource, fmt::format("{}: no database there", doing));
  }
  KVGATE_TRY_VOID(file::CheckNotBeheaded(options.directory, kSource));
  KVGATE_TRY_VOID(file::CheckManifestOrder(*file::EnvUse(options.env), options.directory));
  const rocksdb::Status status = file::Fenced([&] {
    return options.read_only
               ? rocksdb::DB::OpenForReadOnly(db_options, path, families, &handles, &db)
               : rocksdb::DB::Open(db_options, path, families, &handles, &db);
  });
  if (!status.ok()) return file::FromOpenStatus(status, kSource, doing);
  database->db_.reset(db);
  database->index_ = handles[0];
  database->records_ = handles[1];
  return database;
}

Result<std::vector<KvIndexEntry>> KvDatabase::ReadIndex(std::vector<KvKey>& damaged) const {
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  std::vector<KvIndexEntry> entries;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(read, index_));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key(at->key().data(), at->key().size());
    auto entry = DecodeKvIndexEntry(key, {at->value().data(), at->value().size()});
    if (entry) {
      entries.push_back(*entry);
      continue;
    }
    // A key of another size was not written here, and the table's checksum would have revealed a
    // torn one.
    KVGATE_TRY(const KvKey kv_key, DecodeKvKey(key));
    damaged.push_back(kv_key);
  }
  if (!at->status().ok()) return FromStatus(at->status(), kSource, "reading the index");
  return entries;
}

Result<void> KvDatabase::ReadRecord(
    const KvKey& key, const std::function<Result<void>(std::string_view)>& use) const {
  // Table blocks must be verified, because RocksDB fails assertions on damaged ones. For the blob,
  // the record's own checksum covers every byte that is used; RocksDB's would be a second, slower
  // pass.
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  rocksdb::PinnableSlice value;
  const std::string encoded = EncodeKvKey(key);
  const file::BlobTap tap(
      {.bytes_min = kKvHeaderBytes, .header_bytes = kBlobHeaderBytes + kKvKeyBytes, .use = use});
  const rocksdb::Status status =
      file::Fenced([&] { return db_->Get(read, records_, encoded, &value); });
  if (tap.used()) return tap.result();
  if (!status.ok()) return FromStatus(status, kSource, "reading a record");
  return use({value.data(), value.size()});
}

Result<void> KvDatabase::Write(const KvChange& change) {
  KVGATE_CHECK(change.records.size() <= change.entries.size(), "a record without its index entry");
  rocksdb::WriteBatch batch(BatchBytes(change));
  rocksdb::Status status;
  for (const KvKey& key : change.deletes) {
    const std::string encoded = EncodeKvKey(key);
    if (status.ok()) status = batch.Delete(index_, encoded);
    if (status.ok()) status = batch.Delete(records_, encoded);
  }
  std::string value;
  for (size_t i = 0; i < change.entries.size() && status.ok(); ++i) {
    const std::string encoded = EncodeKvKey(change.entries[i].key);
    if (i < change.records.size()) {
      EncodeKvRecord(change.records[i], value);
      status = batch.Put(records_, encoded, value);
    }
    if (status.ok()) status = batch.Put(index_, encoded, EncodeKvIndexEntry(change.entries[i]));
  }
  if (status.ok()) status = db_->Write(MakeWriteOptions(), &batch);
  if (status.ok()) return {};
  return FromStatus(status, kSource, fmt::format("writing {} records", change.records.size()));
}

Result<void> KvDatabase::DeleteEverything() {
  const std::lock_guard lock(compaction_mutex_);
  rocksdb::WriteBatch batch;
  // The end is one byte longer than any key, because DeleteRange excludes its end.
  const std::string end(kKvKeyBytes + 1, '\xff');
  for (rocksdb::ColumnFamilyHandle* handle : {index_, records_}) {
    const rocksdb::Status status = batch.DeleteRange(handle, rocksdb::Slice(), file::ToSlice(end));
    if (!status.ok()) return FromStatus(status, kSource, "removing every record");
  }
  const rocksdb::Status status = db_->Write(MakeWriteOptions(), &batch);
  if (!status.ok()) return FromStatus(status, kSource, "removing every record");
  return CompactAll(std::nullopt);
}

Result<void> KvDatabase::Flush() {
  rocksdb::FlushOptions flush;
  flush.wait = true;
  flush.allow_write_stall = true;
  const rocksdb::Status status = db_->Flush(flush, {index_, records_});
  if (!status.ok()) return FromStatus(status, kSource, "flushing");
  return {};
}

Result<void> KvDatabase::CompactAll(std::optional<double> age_cutoff) {
  rocksdb::CompactRangeOptions compact;
  compact.exclusive_manual_compaction = false;
  compact.allow_write_stall = true;
  compact.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  compact.canceled = &cancelled_;
  compact.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kDisable;
  if (age_cutoff) {
    compact.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
    compact.blob_garbage_collection_age_cutoff = *age_cutoff;
  }
  const rocksdb::Status status = db_->CompactRange(compact, records_, nullptr, nullptr);
  if (status.ok()) return {};
  if (cancelled_) return MakeError(ErrorCode::kCancelled, kSource, "compaction: closing");
  return FromStatus(status, kSource, "freeing space");
}

Result<void> KvDatabase::Compact() {
  const std::lock_guard lock(compaction_mutex_);
  return CompactAll(std::nullopt);
}

Result<void> KvDatabase::Collect(size_t num_files) {
  const std::lock_guard lock(compaction_mutex_);
  const size_t num_total = BlobFiles().size();
  if (num_total == 0) return {};
  // RocksDB takes the first floor(cutoff * files); adding half a file avoids rounding errors.
  const double files = static_cast<double>(std::min(num_files, num_total)) + 0.5;
  return CompactAll(std::min(1.0, files / static_cast<double>(num_total)));
}

std::vector<KvBlobFile> KvDatabase::BlobFiles() const {
  rocksdb::ColumnFamilyMetaData metadata;
  db_->GetColumnFamilyMetaData(records_, &metadata);
  std::vector<KvBlobFile> files;
  files.reserve(metadata.blob_files.size());
  for (const rocksdb::BlobMetaData& file : metadata.blob_files) {
    files.push_back({.number = file.blob_file_number,
                     .file_bytes = file.blob_file_size,
                     .live_bytes = file.total_blob_bytes - file.garbage_blob_bytes});
  }
  std::ranges::sort(files, {}, &KvBlobFile::number);
  return files;
}

uint64_t KvDatabase::MemtableBytes() const {
  uint64_t total = 0;
  for (rocksdb::ColumnFamilyHandle* handle : {index_, records_}) {
    uint64_t bytes = 0;
    if (db_->GetIntProperty(handle, rocksdb::DB::Properties::kCurSizeAllMemTables, &bytes)) {
      total += bytes;
    }
  }
  return total;
}

uint64_t KvDatabase::DiskBytes() const {
  uint64_t total = 0;
  std::error_code error;
  std::filesystem::directory_iterator file(options_.directory, error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    std::error_code gone;  // files appear and disappear during the loop
    const uint64_t bytes = file->file_size(gone);
    if (!gone) total += bytes;
  }
  return total;
}

std::optional<Error> KvDatabase::BackgroundError() const { return listener_->error(); }

Result<std::filesystem::path> SetAside(const std::filesystem::path& directory, OlderOnes older) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string prefix = directory.filename().string() + ".damaged-";
  const std::filesystem::path target =
      directory.parent_path() /
      fmt::format("{}{}", prefix,
                  std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  std::error_code error;
  std::filesystem::rename(directory, target, error);
  if (error) {
    return MakeError(ErrorCode::kIo, kSource,
                     fmt::format("setting {} aside as {}: {}", directory.string(), target.string(),
                                 error.message()));
  }
  if (older == OlderOnes::kKeep) return target;
  std::filesystem::directory_iterator other(directory.parent_path(), error);
  for (; !error && other != std::filesystem::directory_iterator(); other.increment(error)) {
    if (other->path() == target || !other->path().filename().string().starts_with(prefix)) continue;
    std::error_code ignored;  // an old copy that stays only costs disk space
    std::filesystem::remove_all(other->path(), ignored);
  }
  return target;
}

}  // namespace kvgate::store::kv
