#include "store/meta/rocks_meta_repair.h"

#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table_properties.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "store/file/log_records.h"
#include "store/file/rocks_common.h"
#include "store/file/rocks_file_system.h"
#include "store/kv/rocks_kv_database.h"

namespace kvgate::store::meta {

using file::FromStatus;

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSource = "store.meta";
constexpr uint64_t kBatchBytes = uint64_t{1} << 20;
constexpr size_t kWindowBytes = 16;  // key bytes in which the end of a gap is searched
constexpr uint64_t kGapsMax = 100'000;
constexpr const char* kFamilyMark = "\xff\xff of no use";
constexpr uint64_t kAddedFilesFrom = 1'000'000'000;  // above all existing file numbers

using Wide = unsigned __int128;

fs::path WorkPath(const fs::path& directory) { return directory.string() + ".work"; }
fs::path RepairedPath(const fs::path& directory) { return directory.string() + ".repaired"; }

Wide WindowOf(std::string_view key, size_t at) {
  Wide value = 0;
  for (size_t i = at; i < at + kWindowBytes; ++i) {
    value = (value << 8) | (i < key.size() ? static_cast<uint8_t>(key[i]) : 0U);
  }
  return value;
}

std::string WithWindow(std::string_view prefix, Wide value) {
  std::string key(prefix);
  for (size_t i = 0; i < kWindowBytes; ++i) {
    key += static_cast<char>(value >> (8 * (kWindowBytes - 1 - i)));
  }
  return key;
}

// Reads one table's rows in order, skipping what cannot be read.
class Reader {
 public:
  Reader(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family) : db_(db), family_(family) {}

  using Visit = std::function<Result<void>(const rocksdb::Slice& key, const rocksdb::Slice& value)>;
  // Returns the number of gaps. Errors other than damage come from the disk or the visitor.
  Result<uint64_t> Read(const Visit& visit) {
    uint64_t num_gaps = 0;
    std::optional<std::string> from = std::string();
    while (from) {
      KVGATE_TRY(const bool whole, ReadFrom(*from, visit));
      if (whole) break;
      if (++num_gaps > kGapsMax) {
        return MakeError(ErrorCode::kDataLoss, kSource, "nearly nothing of it can be read");
      }
      KVGATE_TRY(from, FindEndOfGap(last_ ? *last_ + '\0' : *from));
    }
    return num_gaps;
  }

 private:
  // Returns false if it met damage behind last_.
  Result<bool> ReadFrom(const std::string& from, const Visit& visit) {
    const auto at = NewIterator();
    for (at->Seek(from); at->Valid(); at->Next()) {
      KVGATE_TRY_VOID(visit(at->key(), at->value()));
      last_ = at->key().ToString();
    }
    if (at->status().ok()) return true;
    const Error error = FromStatus(at->status(), kSource, "reading");
    if (error.code != ErrorCode::kDataLoss) return error;
    if (!last_ || *last_ < from) last_ = from;
    return false;
  }

  // Finds, by a binary search over the first bytes of keys, about the smallest key from which
  // reading works again. Returns null if there is none.
  Result<std::optional<std::string>> FindEndOfGap(const std::string& bad) {
    for (size_t prefix = bad.size() < kWindowBytes ? 0 : bad.size() - kWindowBytes;; prefix = 0) {
      const std::string_view head = std::string_view(bad).substr(0, prefix);
      Wide low = WindowOf(bad, prefix);
      Wide high = ~Wide{0};
      KVGATE_TRY(const bool reaches, CanSeek(WithWindow(head, high)));
      if (reaches) {
        while (high - low > 1) {
          const Wide middle = low + (high - low) / 2;
          KVGATE_TRY(const bool good, CanSeek(WithWindow(head, middle)));
          (good ? high : low) = middle;
        }
        return std::optional(WithWindow(head, high));
      }
      if (prefix == 0) return std::optional<std::string>();  // damaged up to the end
    }
  }

  Result<bool> CanSeek(const std::string& key) {
    const auto at = NewIterator();
    at->Seek(key);
    if (at->status().ok()) return true;
    const Error error = FromStatus(at->status(), kSource, "reading");
    if (error.code != ErrorCode::kDataLoss) return error;
    return false;
  }

  std::unique_ptr<rocksdb::Iterator> NewIterator() {
    rocksdb::ReadOptions read;
    read.fill_cache = false;
    return std::unique_ptr<rocksdb::Iterator>(db_.NewIterator(read, family_));
  }

  rocksdb::DB& db_;
  rocksdb::ColumnFamilyHandle* const family_;
  std::optional<std::string> last_;
};

// Returns true if every table can be opened and is the file that was written under its number. A
// wrong one would hide all rows with the same keys below it.
bool OpensEveryTable(const MetaDatabase& database, rocksdb::Env& env) {
  std::vector<rocksdb::LiveFileMetaData> files;
  database.db().GetLiveFilesMetaData(&files);
  rocksdb::Options options;
  options.env = &env;
  return std::ranges::all_of(files, [&](const rocksdb::LiveFileMetaData& file) {
    const std::string path = file.db_path + file.name;
    uint64_t bytes = 0;
    if (!env.GetFileSize(path, &bytes).ok() || bytes != file.size) return false;
    rocksdb::SstFileReader reader(options);
    if (!file::Fenced([&] { return reader.Open(path); }).ok()) return false;
    const auto properties = reader.GetTableProperties();
    return properties != nullptr && properties->orig_file_number == file.file_number;
  });
}

// Hard-links tables and copies other files. RocksDB may rename and delete the clones, but it never
// changes a table in place.
Result<void> Clone(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::remove_all(to, error);
  fs::create_directories(to, error);
  fs::permissions(to, fs::perms::owner_all, error);
  fs::directory_iterator file(from, error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    std::error_code one;
    if (!file->is_regular_file(one)) continue;
    const fs::path target = to / file->path().filename();
    if (file->path().extension() == ".sst") fs::create_hard_link(file->path(), target, one);
    if (!fs::exists(target)) fs::copy_file(file->path(), target, one);
    if (one) error = one;
  }
  if (!error) return {};
  return MakeError(
      ErrorCode::kIo, kSource,
      fmt::format("copying {} to {}: {}", from.string(), to.string(), error.message()));
}

// Removes tables that RocksDB's repair would mistake for ours or refuse: those of another database,
// and those stored under the number of another one. Returns how many it removed.
Result<uint64_t> TakeOutStrangeTables(const fs::path& work, rocksdb::Env& env) {
  rocksdb::Options options;
  options.env = &env;
  std::map<std::pair<std::string, uint64_t>, fs::path> seen;
  uint64_t num_strange = 0;
  std::error_code error;
  std::vector<fs::path> tables;
  for (const auto& file : fs::directory_iterator(work, error)) {
    if (file.path().extension() == ".sst") tables.push_back(file.path());
  }
  for (const fs::path& table : tables) {
    rocksdb::SstFileReader reader(options);
    if (!file::Fenced([&] { return reader.Open(table); }).ok())
      continue;  // moved to lost/ by RocksDB
    const auto properties = reader.GetTableProperties();
    if (properties == nullptr) continue;
    const uint64_t family = properties->column_family_id;
    const bool ours =
        properties->column_family_name == (family == 0 ? rocksdb::kDefaultColumnFamilyName
                                           : family <= kNumMetaTables
                                               ? MetaTableName(static_cast<MetaTable>(family - 1))
                                               : "");
    // If two files are copies of one table, the one stored under its original number is kept.
    const uint64_t made_as = properties->orig_file_number;
    const auto [at, is_first] = seen.try_emplace({properties->db_session_id, made_as}, table);
    if (ours && is_first) continue;
    const bool belongs = std::atoll(table.stem().c_str()) == static_cast<int64_t>(made_as);
    const fs::path strange = ours && belongs ? std::exchange(at->second, table) : table;
    if (!ours && is_first) seen.erase(at);
    fs::remove(strange, error);
    ++num_strange;
  }
  if (!error) return num_strange;
  return MakeError(ErrorCode::kIo, kSource,
                   fmt::format("looking through {}: {}", work.string(), error.message()));
}

// Writes a marker row into each column family, because RocksDB's repair learns of families only
// from their tables and drops tables of unknown ones. The compaction to the bottom level resets the
// row's sequence number, so that it cannot collide with those of other rows.
Result<void> MarkFamilies(const MetaDatabase& made) {
  rocksdb::CompactRangeOptions bottom;
  bottom.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  for (size_t i = 0; i < kNumMetaTables; ++i) {
    rocksdb::ColumnFamilyHandle* const family = made.Family(static_cast<MetaTable>(i));
    rocksdb::Status status = made.db().Put({}, family, kFamilyMark, "");
    if (status.ok()) status = made.db().Flush({}, family);
    if (status.ok()) status = made.db().CompactRange(bottom, family, nullptr, nullptr);
    if (!status.ok()) return FromStatus(status, kSource, "preparing a repair");
  }
  return {};
}

// Copies the records of a log that this store has written. Returns how many bytes were left out.
Result<uint64_t> CopyLog(const fs::path& from, const fs::path& to) {
  std::ifstream in(from, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  file::LogRecords log = file::ReadLogRecords(bytes);
  const uint64_t num_foreign_bytes = MetaDatabase::KeepOwnBatches(log.records);
  std::ofstream out(to, std::ios::binary);
  out << file::WriteLogRecords(log.records) << std::flush;
  if (in.good() && out.good()) return log.num_bytes_skipped + num_foreign_bytes;
  return MakeError(ErrorCode::kIo, kSource,
                   fmt::format("copying {} to {}", from.string(), to.string()));
}

// RocksDB fails assertions on damaged logs, most of all in its own repair. Therefore the sound
// records of the logs are replayed into a separate database, and the tables that result are added
// to `work`, from which the logs are removed.
Result<LogLosses> TurnLogsIntoTables(const fs::path& work, rocksdb::Env* env) {
  const fs::path place = work.string() + ".logs";
  std::error_code error;
  fs::remove_all(place, error);
  {
    KVGATE_TRY(const auto made, MetaDatabase::Open({.directory = place, .env = env}));
    KVGATE_TRY_VOID(MarkFamilies(*made));
  }
  std::vector<fs::path> logs;
  for (const auto& file : fs::directory_iterator(work, error)) {
    if (file.path().extension() == ".log") logs.push_back(file.path());
  }
  std::ranges::sort(logs, {}, [](const fs::path& log) { return std::atoll(log.stem().c_str()); });
  // Numbered behind the database's own log, in the order in which they were written.
  uint64_t number = kAddedFilesFrom;
  uint64_t num_bytes = 0;
  for (const fs::path& log : logs) {
    KVGATE_TRY(const uint64_t num_skipped, CopyLog(log, place / fmt::format("{}.log", number++)));
    num_bytes += num_skipped;
    if (!error) fs::remove(log, error);
  }
  LogLosses losses;
  if (!error) {
    KVGATE_TRY(const auto made,
               MetaDatabase::Open({.directory = place, .lenient = true, .env = env}));
    losses = made->losses();
    losses.num_bytes += num_bytes;
    std::vector<rocksdb::LiveFileMetaData> tables;
    made->db().GetLiveFilesMetaData(&tables);
    number = kAddedFilesFrom;
    for (const rocksdb::LiveFileMetaData& table : tables) {
      if (error) break;
      fs::create_hard_link(place / fs::path(table.name).filename(),
                           work / fmt::format("{}.sst", number++), error);
    }
  }
  std::error_code ignored;
  fs::remove_all(place, ignored);
  if (!error) return losses;
  return MakeError(ErrorCode::kIo, kSource,
                   fmt::format("preparing a repair in {}: {}", work.string(), error.message()));
}

struct Source {
  std::unique_ptr<MetaDatabase> database;
  uint64_t num_log_rows = 0;
  uint64_t num_log_bytes = 0;
  uint64_t num_tables = 0;  // lost
};

Result<Source> OpenSource(const fs::path& directory, rocksdb::Env* env) {
  auto opened = MetaDatabase::Open({.directory = directory,
                                    .read_only = true,
                                    .lenient = true,
                                    .acked_path = AckedPath(directory),
                                    .env = env});
  if (opened && OpensEveryTable(**opened, *file::EnvUse(env))) {
    const LogLosses losses = (*opened)->losses();
    return Source{.database = std::move(*opened),
                  .num_log_rows = losses.num_writes,
                  .num_log_bytes = losses.num_bytes};
  }
  const fs::path work = WorkPath(directory);
  KVGATE_TRY_VOID(Clone(directory, work));
  KVGATE_TRY(const uint64_t num_strange, TakeOutStrangeTables(work, *file::EnvUse(env)));
  KVGATE_TRY(const LogLosses losses, TurnLogsIntoTables(work, env));
  KVGATE_TRY_VOID(
      MetaDatabase::RebuildFromTables({.directory = work, .lenient = true, .env = env}));
  KVGATE_TRY(
      auto rebuilt,
      MetaDatabase::Open({.directory = work, .read_only = true, .lenient = true, .env = env}));
  Source source{.database = std::move(rebuilt),
                .num_log_rows = losses.num_writes,
                .num_log_bytes = losses.num_bytes,
                .num_tables = num_strange};
  const uint64_t latest = source.database->LatestSequence();
  const uint64_t acked =
      file::AckedSequence::Read(AckedPath(directory)).value_or(file::AckedState{}).sequence;
  if (acked > latest) source.num_log_rows += acked - latest;
  std::error_code error;
  fs::directory_iterator lost(work / "lost", error);
  for (; !error && lost != fs::directory_iterator(); lost.increment(error)) {
    source.num_tables += lost->path().extension() == ".sst" ? 1 : 0;
  }
  return source;
}

Result<void> CopyRows(const MetaDatabase& from, const MetaDatabase& to, MetaRepairReport& report) {
  rocksdb::WriteOptions write;
  write.disableWAL = true;  // flushed at the end
  for (size_t i = 0; i < kNumMetaTables; ++i) {
    const auto table = static_cast<MetaTable>(i);
    rocksdb::WriteBatch batch;
    const auto commit = [&]() -> Result<void> {
      const rocksdb::Status status = to.db().Write(write, &batch);
      batch.Clear();
      if (!status.ok()) return FromStatus(status, kSource, "writing what was read");
      return {};
    };
    KVGATE_TRY(const uint64_t num_gaps,
               Reader(from.db(), from.Family(table)).Read([&](const auto& key, const auto& value) {
                 if (key == kFamilyMark) return Result<void>();
                 ++report.num_rows[i];
                 const rocksdb::Status added = batch.Put(to.Family(table), key, value);
                 if (!added.ok()) return Result<void>(FromStatus(added, kSource, "writing"));
                 return batch.GetDataSize() < kBatchBytes ? Result<void>() : commit();
               }));
    report.num_gaps += num_gaps;
    KVGATE_TRY_VOID(commit());
  }
  rocksdb::FlushOptions flush;
  flush.allow_write_stall = true;
  for (size_t i = 0; i < kNumMetaTables; ++i) {
    const auto status = to.db().Flush(flush, to.Family(static_cast<MetaTable>(i)));
    if (!status.ok()) return FromStatus(status, kSource, "flushing what was read");
  }
  return {};
}

// Returns true if every row can be read after opening the database in the normal way.
Result<bool> IsHealthy(const fs::path& directory, rocksdb::Env* env, MetaRepairReport& report) {
  auto opened = MetaDatabase::Open(
      {.directory = directory, .read_only = true, .acked_path = AckedPath(directory), .env = env});
  if (!opened && opened.error().code == ErrorCode::kDataLoss) return false;
  if (!opened) return opened.error();
  const LogLosses& losses = (*opened)->losses();
  if (losses.num_bytes > 0 || losses.num_writes > 0) return false;
  if (!file::Fenced([&] { return (*opened)->db().VerifyChecksum(); }).ok()) return false;
  for (size_t i = 0; i < kNumMetaTables; ++i) {
    Reader reader((*opened)->db(), (*opened)->Family(static_cast<MetaTable>(i)));
    KVGATE_TRY(const uint64_t num_gaps, reader.Read([&](const auto&, const auto&) {
      ++report.num_rows[i];
      return Result<void>();
    }));
    if (num_gaps > 0) return false;
  }
  return true;
}

}  // namespace

void FinishMetaRepair(const fs::path& directory) {
  std::error_code error;
  const fs::path repaired = RepairedPath(directory);
  if (fs::exists(directory, error) || !fs::exists(repaired, error)) return;
  fs::remove(AckedPath(directory), error);  // it belonged to the old database
  fs::rename(repaired, directory, error);
}

Result<MetaRepairReport> RepairMeta(const fs::path& directory, rocksdb::Env* env) {
  FinishMetaRepair(directory);
  MetaRepairReport report;
  KVGATE_TRY(report.was_healthy, IsHealthy(directory, env, report));
  if (report.was_healthy) return report;
  report = {};
  const fs::path repaired = RepairedPath(directory);
  std::error_code ignored;
  fs::remove_all(repaired, ignored);
  {
    KVGATE_TRY(const Source source, OpenSource(directory, env));
    KVGATE_TRY(const auto target, MetaDatabase::Open({.directory = repaired, .env = env}));
    fs::permissions(repaired, fs::perms::owner_all, ignored);
    report.num_log_rows = source.num_log_rows;
    report.num_log_bytes = source.num_log_bytes;
    report.num_tables = source.num_tables;
    KVGATE_TRY_VOID(CopyRows(*source.database, *target, report));
    if (!report.complete()) {
      // Without the totals row, the turn store computes the totals from the rows that are left.
      target->db().Delete({}, target->Family(MetaTable::kTurns), "n").PermitUncheckedError();
    }
  }
  KVGATE_TRY(report.set_aside, kv::SetAside(directory, kv::OlderOnes::kKeep));
  FinishMetaRepair(directory);
  fs::remove_all(WorkPath(directory), ignored);
  return report;
}

}  // namespace kvgate::store::meta
