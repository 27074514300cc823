#include "store/meta/rocks_meta_database.h"

#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "store/file/rocks_common.h"
#include "store/file/rocks_file_system.h"
#include "store/file/rocks_manifest.h"

namespace kvgate::store::meta {

using file::AckedSequence;

namespace {

constexpr std::string_view kSource = "store.meta";
constexpr uint64_t kMiB = uint64_t{1} << 20;
// In the order of MetaTable.
constexpr std::array<const char*, kNumMetaTables> kTableNames{"directory", "turns", "prefixes",
                                                              "ledger", "pins"};

// RocksDB packs a row's number and its kind into 64 bits.
constexpr uint64_t kRowNumberMax = (uint64_t{1} << 56) - 1;

// Accepts only the record kinds that this store writes. Markers of transactions have to be handled,
// because RocksDB asserts that a handler overrides them; here they count as foreign.
class RowsOnly final : public rocksdb::WriteBatch::Handler {
 public:
  rocksdb::Status PutCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(uint32_t, const rocksdb::Slice&) override {
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteRangeCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
    return rocksdb::Status::OK();
  }
  rocksdb::Status MarkNoop(bool) override { return rocksdb::Status::OK(); }
  rocksdb::Status MarkBeginPrepare(bool) override { return Foreign(); }
  rocksdb::Status MarkEndPrepare(const rocksdb::Slice&) override { return Foreign(); }
  rocksdb::Status MarkRollback(const rocksdb::Slice&) override { return Foreign(); }
  rocksdb::Status MarkCommit(const rocksdb::Slice&) override { return Foreign(); }
  rocksdb::Status MarkCommitWithTimestamp(const rocksdb::Slice&, const rocksdb::Slice&) override {
    return Foreign();
  }
  bool only() const { return only_; }

 private:
  rocksdb::Status Foreign() {
    only_ = false;
    return rocksdb::Status::OK();
  }
  bool only_ = true;
};

// RocksDB reports skipped parts of a log only in its own info log: "FILE: dropping N bytes; WHY".
class DropWatch final : public rocksdb::Logger {
 public:
  DropWatch()
      : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), next_(file::MakeRocksLogger(kSource)) {}

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

rocksdb::Options MakeOptions(const MetaDatabase::Options& wanted, rocksdb::Env& env) {
  rocksdb::Options options;
  options.env = &env;
  options.create_if_missing = !wanted.lenient;
  options.create_missing_column_families = true;
  options.paranoid_checks = !wanted.lenient;
  // One damaged record costs that record, not all records after it. The loss of acknowledged rows
  // is reported: see LogLosses.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  options.max_file_opening_threads = 1;  // the caller's thread: see Fenced
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  options.max_manifest_file_size = kMiB;
  options.manifest_preallocation_size = 64 << 10;
  options.max_total_wal_size = 32 * kMiB;
  options.db_write_buffer_size = 32 * kMiB;
  options.write_buffer_size = 8 * kMiB;
  options.compression = rocksdb::kNoCompression;
  options.disable_auto_compactions = wanted.lenient;
  // Rebuilt tables may overlap in any order, which is fine for reading by key.
  options.force_consistency_checks = !wanted.lenient;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.table_factory = file::MakeTableFactory(8 * kMiB);
  // Without it compaction reads block by block, with a system call for each.
  options.compaction_readahead_size = 256 << 10;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(const rocksdb::Options& options) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families{
      {rocksdb::kDefaultColumnFamilyName, options}};
  for (const char* name : kTableNames) families.emplace_back(name, options);
  // Turns are text and are kept for long, so they are compressed.
  const auto supported = rocksdb::GetSupportedCompressions();
  if (std::find(supported.begin(), supported.end(), rocksdb::kZSTD) != supported.end()) {
    families[static_cast<size_t>(MetaTable::kTurns) + 1].options.compression = rocksdb::kZSTD;
  }
  // The ledger is written all the time and read seldom, and new rows come behind the old ones but
  // for a few sums: compacting half as often rewrites the old ones half as often. It is read from
  // end to end, by compaction and where old rows go, so larger blocks cost it less; that damage to
  // one costs more rows matters less to it than to turns.
  auto& ledger = families[static_cast<size_t>(MetaTable::kLedger) + 1].options;
  ledger.level0_file_num_compaction_trigger = 8;
  if (const auto* table = options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>()) {
    rocksdb::BlockBasedTableOptions larger = *table;  // with the same cache
    larger.block_size = 16 << 10;
    ledger.table_factory.reset(rocksdb::NewBlockBasedTableFactory(larger));
  }
  return families;
}

}  // namespace

uint64_t FirstRowOf(const rocksdb::WriteBatch& batch) {
  uint64_t first = kRowNumberMax;  // a batch starts with this number
  if (batch.Data().size() >= sizeof(first)) std::memcpy(&first, batch.Data().data(), sizeof(first));
  return first;
}

// A MANIFEST in the place of a log has records with valid checksums, and RocksDB fails assertions
// on their meaning and on row numbers that leave no room for the kind.
bool IsOurs(const rocksdb::WriteBatch& batch) {
  RowsOnly rows;
  const uint64_t first = FirstRowOf(batch);
  return first < kRowNumberMax && batch.Iterate(&rows).ok() && rows.only() &&
         first < kRowNumberMax - batch.Count();
}

// Sees every batch that is read from the logs, in order. Row numbers are consecutive, so that a gap
// shows how many rows were lost.
class MetaDatabase::GapCounter final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "KvgateGapCounter"; }
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                     bool*) override {
    if (!IsOurs(batch)) {
      num_foreign_bytes_ += batch.GetDataSize();
      return WalProcessingOption::kIgnoreCurrentRecord;
    }
    const uint64_t first = FirstRowOf(batch);
    if (next_ == 0) first_ = first;
    if (next_ != 0 && first > next_) num_missing_ += first - next_;
    next_ = std::max(next_, first + batch.Count());
    return WalProcessingOption::kContinueProcessing;
  }
  // Number of the first row that was read; 0 means none.
  uint64_t first() const { return first_; }
  uint64_t num_missing() const { return num_missing_; }
  uint64_t num_foreign_bytes() const { return num_foreign_bytes_; }

 private:
  uint64_t first_ = 0;
  uint64_t next_ = 0;
  uint64_t num_missing_ = 0;
  uint64_t num_foreign_bytes_ = 0;
};

// A flush extends the MANIFEST and deletes logs. After it, the first row in the logs is unknown
// until a writer determines it (NoteBase). The listener records this at once, because the next
// write may come a day later.
class MetaDatabase::Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(const Options& options) : options_(options) {}
  // REQUIRES: no write yet. `acked` outlives the database.
  void Begin(AckedSequence& acked) { acked_ = &acked; }

  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
    ++num_flushes_;
    AckedSequence* const acked = acked_;
    if (acked == nullptr) return;
    const auto manifest = file::MarkManifest(*file::EnvUse(options_.env), options_.directory);
    if (manifest) acked->NoteBase(0, *manifest);
  }
  uint64_t num_flushes() const { return num_flushes_; }

 private:
  const Options options_;
  std::atomic<AckedSequence*> acked_{nullptr};
  std::atomic<uint64_t> num_flushes_{0};
};

const char* MetaTableName(MetaTable table) { return kTableNames[static_cast<size_t>(table)]; }

Result<std::unique_ptr<MetaDatabase>> MetaDatabase::Open(const Options& wanted) {
  const std::string path = wanted.directory.string();
  const std::string doing = fmt::format("opening {}", path);
  KVGATE_TRY_VOID(file::CheckNotBeheaded(wanted.directory, kSource));
  KVGATE_TRY_VOID(file::CheckManifestOrder(*file::EnvUse(wanted.env), wanted.directory));
  std::error_code ignored;
  if (wanted.read_only && !std::filesystem::exists(wanted.directory / "CURRENT", ignored)) {
    return MakeError(ErrorCode::kNotFound, kSource, fmt::format("{}: no database there", doing));
  }
  // Compared before anything changes: tables that a truncated MANIFEST does not name still exist.
  const file::AckedState acked =
      AckedSequence::Read(wanted.acked_path).value_or(file::AckedState{});
  const auto change =
      file::CompareManifest(*file::EnvUse(wanted.env), wanted.directory, acked.manifest);
  if (!change && change.error().code != ErrorCode::kNotFound) return change.error();
  std::unique_ptr<MetaDatabase> database(new MetaDatabase(wanted));
  rocksdb::Options options = MakeOptions(wanted, *database->env_);
  const auto watch = std::make_shared<DropWatch>();
  options.info_log = watch;
  options.wal_filter = database->gaps_.get();
  options.listeners.push_back(database->listener_);
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = file::Fenced([&] {
    return wanted.read_only
               ? rocksdb::DB::OpenForReadOnly(options, path, Families(options),
                                              &database->families_, &db)
               : rocksdb::DB::Open(options, path, Families(options), &database->families_, &db);
  });
  database->db_.reset(db);
  if (!status.ok()) return file::FromOpenStatus(status, kSource, doing);
  database->losses_ = watch->losses();
  database->CountLosses(acked, change && *change == file::ManifestChange::kNone);
  if (!wanted.read_only && !wanted.acked_path.empty()) database->BeginAnew();
  return database;
}

MetaDatabase::MetaDatabase(const Options& options)
    : options_(options),
      env_(options.env),
      listener_(std::make_shared<Listener>(options)),
      gaps_(std::make_unique<GapCounter>()) {}

void MetaDatabase::CountLosses(const file::AckedState& acked, bool same_manifest) {
  losses_.num_writes = gaps_->num_missing();
  losses_.num_bytes += gaps_->num_foreign_bytes();
  const uint64_t latest = LatestSequence();
  if (acked.sequence > latest) losses_.num_writes += acked.sequence - latest;
  const uint64_t first = gaps_->first();
  if (acked.first_logged == 0 || first <= acked.first_logged) return;
  // A flush that was not noted may have moved the missing rows from the logs into tables.
  bool in_tables = false;
  if (!same_manifest) {
    std::vector<rocksdb::LiveFileMetaData> tables;
    db_->GetLiveFilesMetaData(&tables);
    in_tables = std::ranges::any_of(tables, [&](const rocksdb::LiveFileMetaData& table) {
      return table.largest_seqno >= acked.first_logged && table.smallest_seqno < first;
    });
  }
  if (!in_tables) losses_.num_writes += first - acked.first_logged;
}

// Restarts the count after the losses have been counted. Opening moved all rows of the logs into
// tables.
void MetaDatabase::BeginAnew() {
  acked_ = std::make_unique<AckedSequence>(options_.acked_path);
  const uint64_t latest = LatestSequence();
  const auto manifest = file::MarkManifest(*file::EnvUse(options_.env), options_.directory);
  acked_->Restart({.sequence = latest,
                   .first_logged = latest + 1,
                   .manifest = manifest.value_or(file::ManifestMark{})});
  listener_->Begin(*acked_);
}

void MetaDatabase::Acknowledge() {
  acked_->Note(LatestSequence());
  const uint64_t num_flushes = listener_->num_flushes();
  if (num_flushes_noted_.exchange(num_flushes) != num_flushes) NoteBase(num_flushes);
}

void MetaDatabase::NoteBase(uint64_t num_flushes) {
  // The MANIFEST is marked first: if it is older than what is noted about the logs, missing log
  // rows are excused, because they may be in tables.
  const auto manifest = file::MarkManifest(*file::EnvUse(options_.env), options_.directory);
  rocksdb::VectorLogPtr logs;
  uint64_t oldest = 0;
  const bool known = manifest && db_->GetSortedWalFiles(logs).ok() &&
                     db_->GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &oldest);
  if (!known) return;  // try again after the next flush or start
  const uint64_t latest = LatestSequence();
  const auto log = std::ranges::find_if(
      logs, [&](const auto& at) { return at->LogNumber() >= oldest && at->StartSequence() != 0; });
  acked_->NoteBase(log != logs.end() ? (*log)->StartSequence() : latest + 1, *manifest,
                   [&] { return listener_->num_flushes() != num_flushes; });
}

MetaDatabase::~MetaDatabase() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : families_) db_->DestroyColumnFamilyHandle(family);
  const rocksdb::Status status = db_->Close();
  if (!status.ok()) KVGATE_LOG(kWarning, kSource, "closing: {}", status.ToString());
}

uint64_t MetaDatabase::LatestSequence() const { return db_->GetLatestSequenceNumber(); }

uint64_t MetaDatabase::KeepOwnBatches(std::vector<std::string>& records) {
  uint64_t num_foreign_bytes = 0;
  std::erase_if(records, [&](const std::string& record) {
    if (IsOurs(rocksdb::WriteBatch(record))) return false;
    num_foreign_bytes += record.size();
    return true;
  });
  return num_foreign_bytes;
}

Result<void> MetaDatabase::RebuildFromTables(const Options& wanted) {
  const file::EnvUse env(wanted.env);
  rocksdb::Options options = MakeOptions(wanted, *env);
  options.info_log = file::MakeRocksLogger(kSource);
  const std::string path = wanted.directory.string();
  const rocksdb::Status status =
      file::Fenced([&] { return rocksdb::RepairDB(path, options, Families(options), options); });
  if (!status.ok()) return file::FromStatus(status, kSource, fmt::format("rebuilding {}", path));
  return {};
}

}  // namespace kvgate::store::meta
