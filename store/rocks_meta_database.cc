#include "store/rocks_meta_database.h"

#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include <kvgate/log.h>

#include "store/rocks_common.h"
#include "store/rocks_file_system.h"

namespace kvgate::store {
namespace {

constexpr std::string_view kSource = "store.meta";
constexpr uint64_t kMiB = uint64_t{1} << 20;
// In the order of MetaTable.
constexpr std::array<const char*, kNumMetaTables> kTableNames{"directory", "turns", "prefixes",
                                                              "ledger", "pins"};

// RocksDB packs a row's number and its kind into 64 bits.
constexpr uint64_t kRowNumberMax = (uint64_t{1} << 56) - 1;

// What this store writes, and nothing else.
class RowsOnly final : public rocksdb::WriteBatch::Handler {
 public:
  rocksdb::Status PutCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(uint32_t, const rocksdb::Slice&) override {
    return rocksdb::Status::OK();
  }
  rocksdb::Status MarkNoop(bool) override { return rocksdb::Status::OK(); }
};

// Sees every batch that is read from the logs, in order. Each row that was ever written has a
// number of its own, one more than the row's before it, so a gap is what was lost.
class GapCounter final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "KvgateGapCounter"; }
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                     bool*) override {
    // The records of a MANIFEST in a log's place have sound checksums, and RocksDB asserts what
    // they mean, and that a row's number leaves room for its kind. A batch begins with the number
    // of its first row.
    RowsOnly rows;
    uint64_t first = kRowNumberMax;
    if (batch.Data().size() >= sizeof(first)) {
      std::memcpy(&first, batch.Data().data(), sizeof(first));
    }
    if (first >= kRowNumberMax - batch.Count() || !batch.Iterate(&rows).ok()) {
      num_foreign_bytes_ += batch.GetDataSize();
      return WalProcessingOption::kIgnoreCurrentRecord;
    }
    if (next_ != 0 && first > next_) num_missing_ += first - next_;
    next_ = std::max(next_, first + batch.Count());
    return WalProcessingOption::kContinueProcessing;
  }
  uint64_t num_missing() const { return num_missing_; }
  uint64_t num_foreign_bytes() const { return num_foreign_bytes_; }

 private:
  uint64_t next_ = 0;
  uint64_t num_missing_ = 0;
  uint64_t num_foreign_bytes_ = 0;
};

// RocksDB tells of log that it skips in its own log only: "FILE: dropping N bytes; WHY".
class DropWatch final : public rocksdb::Logger {
 public:
  DropWatch()
      : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), next_(MakeRocksLogger(kSource)) {}

  using rocksdb::Logger::Logv;
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL) return;
    char line[1024];
    std::vsnprintf(line, sizeof(line), format, arguments);
    Note(line);
    rocksdb::Log(level, next_, "%s", line);
  }
  void LogHeader(const char*, va_list) override {}

  LogLosses losses() const {
    const std::lock_guard lock(mutex_);
    return losses_;
  }

 private:
  void Note(std::string_view line) {
    constexpr std::string_view kDropping = "dropping ";
    const size_t at = line.find(kDropping);
    if (at == std::string_view::npos) return;
    uint64_t bytes = 0;
    const std::string_view number = line.substr(at + kDropping.size());
    std::from_chars(number.data(), number.data() + number.size(), bytes);
    const std::lock_guard lock(mutex_);
    losses_.num_bytes += std::max<uint64_t>(bytes, 1);
    if (losses_.first.empty()) losses_.first = line;
  }

  const std::shared_ptr<rocksdb::Logger> next_;
  mutable std::mutex mutex_;
  LogLosses losses_;
};

rocksdb::Options MakeOptions(const MetaDatabase::Options& wanted) {
  rocksdb::Options options;
  options.env = &EnvOr(wanted.env);
  options.create_if_missing = !wanted.lenient;
  options.create_missing_column_families = true;
  options.paranoid_checks = !wanted.lenient;
  // One damaged record costs that record, not all that were written after it. Whoever was told
  // that they are kept hears of it: see LogLosses.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  options.max_file_opening_threads = 1;  // the caller's: see Fenced
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  options.max_manifest_file_size = kMiB;
  options.manifest_preallocation_size = 64 << 10;
  options.max_total_wal_size = 32 * kMiB;
  options.db_write_buffer_size = 32 * kMiB;
  options.write_buffer_size = 8 * kMiB;
  options.compression = rocksdb::kNoCompression;
  options.disable_auto_compactions = wanted.lenient;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.table_factory = MakeTableFactory(8 * kMiB);
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(const rocksdb::Options& options) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families{
      {rocksdb::kDefaultColumnFamilyName, options}};
  for (const char* name : kTableNames) families.emplace_back(name, options);
  // Conversations are text, and kept for long.
  const auto supported = rocksdb::GetSupportedCompressions();
  if (std::find(supported.begin(), supported.end(), rocksdb::kZSTD) != supported.end()) {
    families[static_cast<size_t>(MetaTable::kTurns) + 1].options.compression = rocksdb::kZSTD;
  }
  return families;
}

}  // namespace

const char* MetaTableName(MetaTable table) { return kTableNames[static_cast<size_t>(table)]; }

Result<std::unique_ptr<MetaDatabase>> MetaDatabase::Open(const Options& wanted) {
  const std::string path = wanted.directory.string();
  const std::string doing = fmt::format("opening {}", path);
  KVGATE_TRY_VOID(CheckNotBeheaded(wanted.directory, kSource));
  std::error_code ignored;
  if (wanted.read_only && !std::filesystem::exists(wanted.directory / "CURRENT", ignored)) {
    return MakeError(ErrorCode::kNotFound, kSource, fmt::format("{}: no database there", doing));
  }
  rocksdb::Options options = MakeOptions(wanted);
  const auto watch = std::make_shared<DropWatch>();
  options.info_log = watch;
  std::unique_ptr<MetaDatabase> database(new MetaDatabase());
  auto gaps = std::make_unique<GapCounter>();
  const GapCounter& counted = *gaps;
  database->gaps_ = std::move(gaps);
  options.wal_filter = database->gaps_.get();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = Fenced([&] {
    return wanted.read_only
               ? rocksdb::DB::OpenForReadOnly(options, path, Families(options),
                                              &database->families_, &db)
               : rocksdb::DB::Open(options, path, Families(options), &database->families_, &db);
  });
  database->db_.reset(db);
  database->losses_ = watch->losses();
  database->losses_.num_writes = counted.num_missing();
  database->losses_.num_bytes += counted.num_foreign_bytes();
  if (status.ok()) return database;
  return FromOpenStatus(status, kSource, doing);
}

MetaDatabase::MetaDatabase() = default;

MetaDatabase::~MetaDatabase() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : families_) db_->DestroyColumnFamilyHandle(family);
  const rocksdb::Status status = db_->Close();
  if (!status.ok()) KVGATE_LOG(kWarning, kSource, "closing: {}", status.ToString());
}

uint64_t MetaDatabase::LatestSequence() const { return db_->GetLatestSequenceNumber(); }

Result<void> MetaDatabase::RebuildFromTables(const Options& wanted) {
  rocksdb::Options options = MakeOptions(wanted);
  options.info_log = MakeRocksLogger(kSource);
  const std::string path = wanted.directory.string();
  const rocksdb::Status status =
      Fenced([&] { return rocksdb::RepairDB(path, options, Families(options), options); });
  if (!status.ok()) return FromStatus(status, kSource, fmt::format("rebuilding {}", path));
  return {};
}

}  // namespace kvgate::store
