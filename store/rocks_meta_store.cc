#include "store/rocks_meta_store.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <vector>

#include <kvgate/log.h>

#include "store/rocks_common.h"
#include "store/rocks_file_system.h"

namespace kvgate::store {
namespace {

constexpr std::string_view kSource = "store.meta";
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr std::chrono::seconds kReopenPause{1};
// In the order of MetaTable.
constexpr std::array<const char*, 5> kTableNames{"directory", "turns", "prefixes", "ledger",
                                                 "pins"};

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }

class RocksMetaStore final : public MetaStore {
 public:
  explicit RocksMetaStore(const MetaStoreOptions& options) : options_(options) {}

  ~RocksMetaStore() override { Close(); }

  Result<void> Open();

  Result<void> Put(MetaTable table, std::string_view key, std::string_view value) override {
    return Write("writing", [&](const rocksdb::WriteOptions& write) {
      return db_->Put(write, Family(table), ToSlice(key), ToSlice(value));
    });
  }

  Result<std::optional<std::string>> Get(MetaTable table, std::string_view key) const override {
    const std::shared_lock lock(mutex_);
    if (db_ == nullptr) return NotOpen("reading");
    std::string value;
    const rocksdb::Status status = db_->Get({}, Family(table), ToSlice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return FromStatus(status, kSource, "reading");
    return std::optional<std::string>(std::move(value));
  }

  Result<void> Delete(MetaTable table, std::string_view key) override {
    return Write("deleting", [&](const rocksdb::WriteOptions& write) {
      return db_->Delete(write, Family(table), ToSlice(key));
    });
  }

  Result<void> Scan(MetaTable table, std::string_view prefix, const Visit& visit) const override {
    const std::shared_lock lock(mutex_);
    if (db_ == nullptr) return NotOpen("scanning");
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, Family(table)));
    for (at->Seek(ToSlice(prefix)); at->Valid() && at->key().starts_with(ToSlice(prefix));
         at->Next()) {
      const bool more =
          visit({at->key().data(), at->key().size()}, {at->value().data(), at->value().size()});
      if (!more) return {};
    }
    if (!at->status().ok()) return FromStatus(at->status(), kSource, "scanning");
    return {};
  }

  Result<void> PutAll(MetaTable table, std::span<const MetaWrite> writes) override {
    return Write("writing", [&](const rocksdb::WriteOptions& options) {
      // Made here: the families are others once the database has been opened again.
      rocksdb::WriteBatch batch;
      for (const MetaWrite& write : writes) {
        const rocksdb::Status added = write.value
                                          ? batch.Put(Family(table), write.key, *write.value)
                                          : batch.Delete(Family(table), write.key);
        if (!added.ok()) return added;
      }
      return db_->Write(options, &batch);
    });
  }

  Result<void> ScanBack(MetaTable table, const ScanBackArgs& args,
                        const Visit& visit) const override {
    const std::shared_lock lock(mutex_);
    if (db_ == nullptr) return NotOpen("scanning");
    std::string before = args.before;
    if (before.empty()) {
      // The first key behind all that have the prefix.
      before = args.prefix;
      while (!before.empty() && before.back() == '\xff') before.pop_back();
      if (!before.empty()) before.back() = static_cast<char>(before.back() + 1);
    }
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, Family(table)));
    if (before.empty()) {
      at->SeekToLast();
    } else {
      at->SeekForPrev(before);
      if (at->Valid() && at->key() == before) at->Prev();
    }
    for (; at->Valid() && at->key().starts_with(ToSlice(args.prefix)); at->Prev()) {
      const bool more =
          visit({at->key().data(), at->key().size()}, {at->value().data(), at->value().size()});
      if (!more) return {};
    }
    if (!at->status().ok()) return FromStatus(at->status(), kSource, "scanning");
    return {};
  }

 private:
  rocksdb::ColumnFamilyHandle* Family(MetaTable table) const {
    return families_[static_cast<size_t>(table) + 1];  // behind "default", which is not used
  }

  template <typename Operation>
  Result<void> Write(std::string_view doing, Operation operation) {
    if (options_.read_only) {
      return MakeError(ErrorCode::kUnsupported, kSource,
                       fmt::format("{}: the directory is open for reading only", doing));
    }
    auto written = TryWrite(doing, operation);
    if (written || SaysFull(written.error()) || !Reopen()) return written;
    return TryWrite(doing, operation);
  }

  template <typename Operation>
  Result<void> TryWrite(std::string_view doing, Operation operation) {
    const std::shared_lock lock(mutex_);
    if (db_ == nullptr) return NotOpen(doing);
    rocksdb::WriteOptions write;
    write.sync = options_.sync;
    rocksdb::Status status = operation(write);
    // After a full disk RocksDB refuses writes until it is asked to go on: ask, once per write.
    if (!status.ok() && status.severity() != rocksdb::Status::Severity::kNoError &&
        db_->Resume().ok()) {
      status = operation(write);
    }
    if (!status.ok()) return FromStatus(status, kSource, doing);
    return {};
  }

  // After an error that RocksDB takes for final: what was written is in its log, and is found
  // there. False: the disk is not well yet, or it was asked a moment ago.
  bool Reopen() {
    const std::unique_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now < reopen_at_) return false;
    reopen_at_ = now + kReopenPause;
    if (!IsDiskWell(*PrivateEnv(), options_.directory)) return false;
    Close();
    if (const auto opened = Open(); !opened) {
      KVGATE_LOG(kWarning, kSource, "opening again: {}", opened.error().ToString());
      return false;
    }
    KVGATE_LOG(kInfo, kSource, "opened again after an error of the disk");
    return true;
  }

  void Close() {
    if (db_ == nullptr) return;
    for (rocksdb::ColumnFamilyHandle* family : families_) db_->DestroyColumnFamilyHandle(family);
    families_.clear();
    const rocksdb::Status status = db_->Close();
    if (!status.ok()) KVGATE_LOG(kWarning, kSource, "closing: {}", status.ToString());
    db_.reset();
  }

  static Error NotOpen(std::string_view doing) {
    return MakeError(ErrorCode::kUnavailable, kSource,
                     fmt::format("{}: the database is not open", doing));
  }

  const MetaStoreOptions options_;
  mutable std::shared_mutex mutex_;  // exclusive while the database is replaced
  std::chrono::steady_clock::time_point reopen_at_{};
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
};

Result<void> RocksMetaStore::Open() {
  rocksdb::Options options;
  options.env = PrivateEnv();
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.info_log = MakeRocksLogger(kSource);
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  options.max_manifest_file_size = kMiB;
  options.manifest_preallocation_size = 64 << 10;
  options.max_total_wal_size = 32 * kMiB;
  options.db_write_buffer_size = 32 * kMiB;
  options.write_buffer_size = 8 * kMiB;
  options.compression = rocksdb::kNoCompression;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(8 * kMiB);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  std::vector<rocksdb::ColumnFamilyDescriptor> families{
      {rocksdb::kDefaultColumnFamilyName, options}};
  for (const char* name : kTableNames) families.emplace_back(name, options);
  // Conversations are text, and kept for long.
  const auto supported = rocksdb::GetSupportedCompressions();
  if (std::find(supported.begin(), supported.end(), rocksdb::kZSTD) != supported.end()) {
    families[static_cast<size_t>(MetaTable::kTurns) + 1].options.compression = rocksdb::kZSTD;
  }

  const std::string path = options_.directory.string();
  const std::string doing = fmt::format("opening {}", path);
  std::error_code ignored;
  if (options_.read_only && !std::filesystem::exists(options_.directory / "CURRENT", ignored)) {
    return MakeError(ErrorCode::kNotFound, kSource, fmt::format("{}: no database there", doing));
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      options_.read_only ? rocksdb::DB::OpenForReadOnly(options, path, families, &families_, &db)
                         : rocksdb::DB::Open(options, path, families, &families_, &db);
  db_.reset(db);
  if (status.ok()) return {};
  Error error = FromStatus(status, kSource, doing);
  if (status.IsInvalidArgument() || status.IsNotSupported() || status.IsNotFound()) {
    error.code = ErrorCode::kDataLoss;
  }
  if (error.code == ErrorCode::kDataLoss && !options_.read_only) {
    error.detail += fmt::format("; to begin anew (sessions and ledger are lost) remove {}", path);
  }
  return error;
}

}  // namespace

Result<std::unique_ptr<MetaStore>> OpenRocksMetaStore(const MetaStoreOptions& options) {
  auto store = std::make_unique<RocksMetaStore>(options);
  KVGATE_TRY_VOID(store->Open());
  return std::unique_ptr<MetaStore>(std::move(store));
}

}  // namespace kvgate::store
