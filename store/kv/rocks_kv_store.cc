#include "store/kv/rocks_kv_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace kvgate::store::kv {
namespace {

constexpr std::string_view kSource = "store.kv";

KvIndexEntry EntryOf(const KvRecord& record) {
  return {.key = record.key,
          .parent = record.parent,
          .depth = record.depth,
          .digest = record.digest,
          .group = record.group,
          .shape_tag = record.shape_tag,
          .payload_bytes = record.payload.size()};
}

// Returns the keys of the blocks up to this one, which is null if it is not in the index.
Result<std::vector<KvKey>> ChainOf(const KvIndex::Node* node, const BlockHash& last) {
  if (node == nullptr || !node->visible) {
    return MakeError(ErrorCode::kNotFound, kSource,
                     fmt::format("no stored prefix ends with block {}", ToHex(last)));
  }
  std::vector<KvKey> keys;
  for (; node != nullptr; node = node->parent) keys.push_back(node->entry.key);
  std::ranges::reverse(keys);
  return keys;
}

Error ReadOnlyError(std::string_view doing) {
  return MakeError(ErrorCode::kUnsupported, kSource,
                   fmt::format("{}: the directory is open for reading only", doing));
}

Result<void> CheckPut(std::span<const KvRecord> records, const KvStoreOptions& options) {
  if (options.read_only) return ReadOnlyError("writing records");
  uint64_t total = 0;
  for (const KvRecord& record : records) {
    const uint64_t bytes = record.payload.size() + kKvOverheadBytes;
    total += bytes;
    if (record.tokens.size() > kKvTokensMax) {
      return MakeError(ErrorCode::kInvalidArgument, kSource,
                       fmt::format("record {}: {} token ids; the limit is {}",
                                   ToHex(record.key.hash), record.tokens.size(), kKvTokensMax));
    }
    if (bytes > options.capacity_bytes / 16) {
      return MakeError(ErrorCode::kTooLarge, kSource,
                       fmt::format("a record of {} bytes; the limit is 1/16 of the cap, {}", bytes,
                                   options.capacity_bytes / 16));
    }
    if ((record.depth == 0) != (record.parent == BlockHash{})) {
      return MakeError(ErrorCode::kInvalidArgument, kSource,
                       fmt::format("record {}: depth {} with parent {}", ToHex(record.key.hash),
                                   record.depth, ToHex(record.parent)));
    }
  }
  if (total > options.capacity_bytes / 3) {
    return MakeError(ErrorCode::kTooLarge, kSource,
                     fmt::format("{} bytes in one call; the limit is 1/3 of the cap, {}", total,
                                 options.capacity_bytes / 3));
  }
  return {};
}

}  // namespace

// Progress of one Put: the chunk being filled, and everything inserted so far, for a rollback.
struct RocksKvStore::PutCall {
  std::vector<KvRecord> records;      // of the chunk
  std::vector<KvIndexEntry> entries;  // of the chunk
  uint64_t chunk_bytes = 0;
  std::vector<std::pair<KvKey, uint64_t>> inserted;  // key and generation, parents first
  size_t num_written = 0;                            // of `inserted`
};

RocksKvStore::RocksKvStore(const KvStoreOptions& options)
    : options_(options), marks_(KvWatermarks::For(options.capacity_bytes)) {}

RocksKvStore::~RocksKvStore() {
  StopThreads();
  if (!options_.read_only && database_ != nullptr) {
    if (const auto flushed = FlushNow(); !flushed) {
      KVGATE_LOG(kWarning, kSource, "closing without the last writes: {}",
                 flushed.error().ToString());
    }
  }
  database_.reset();
}

Result<std::unique_ptr<RocksKvStore>> RocksKvStore::Open(const KvStoreOptions& options) {
  if (options.capacity_bytes < kKvCapacityBytesMin) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     fmt::format("a cap of {} bytes is below the least, {}", options.capacity_bytes,
                                 kKvCapacityBytesMin),
                     "kv_bytes_max");
  }
  std::unique_ptr<RocksKvStore> store(new RocksKvStore(options));
  const auto opened = store->OpenDatabase();
  if (options.read_only) {
    KVGATE_TRY_VOID(opened);
    return store;
  }
  if (!opened) store->SetError(opened.error());
  store->MeasureUsedBytes();
  store->maintenance_ = std::thread([raw = store.get()] { raw->RunMaintenance(); });
  store->collector_ = std::thread([raw = store.get()] { raw->RunCollector(); });
  return store;
}

// Opens the existing database. A damaged one is set aside and replaced by a new one, once.
Result<void> RocksKvStore::OpenDatabase() {
  const KvDatabaseOptions database_options{.directory = options_.directory,
                                           .capacity_bytes = options_.capacity_bytes,
                                           .read_only = options_.read_only,
                                           .env = options_.env,
                                           .on_background_error = [this] { Wake(); }};
  const auto attempt = [&]() -> Result<void> {
    KVGATE_TRY(database_, KvDatabase::Open(database_options));
    auto loaded = LoadIndex();
    if (!loaded) database_.reset();
    return loaded;
  };
  const auto first = attempt();
  if (first || first.error().code != ErrorCode::kDataLoss || options_.read_only) return first;
  KVGATE_TRY(const auto target, SetAside(options_.directory));
  KVGATE_LOG(kWarning, kSource, "damaged, set aside as {}; beginning anew: {}", target.string(),
             first.error().ToString());
  return attempt();
}

Result<void> RocksKvStore::LoadIndex() {
  std::vector<KvKey> damaged;
  KVGATE_TRY(auto entries, database_->ReadIndex(damaged));
  std::vector<KvKey> orphans;
  const std::lock_guard lock(index_mutex_);
  index_.Load(std::move(entries), orphans);
  PinAgain();
  pending_deletes_ = damaged;
  pending_deletes_.insert(pending_deletes_.end(), orphans.begin(), orphans.end());
  num_damaged_at_open_ += damaged.size();
  num_orphans_at_open_ += orphans.size();
  counters_.num_dropped += damaged.size() + orphans.size();
  if (!pending_deletes_.empty()) {
    KVGATE_LOG(kWarning, kSource, "dropped {} damaged and {} unreachable records", damaged.size(),
               orphans.size());
  }
  return {};
}

bool RocksKvStore::Contains(const KvKey& key) const {
  const std::lock_guard lock(index_mutex_);
  const KvIndex::Node* node = index_.Find(key);
  return node != nullptr && node->visible;
}

Result<void> RocksKvStore::CheckWritable() const {
  const std::lock_guard lock(index_mutex_);
  if (error_) return *error_;
  return {};
}

Result<void> RocksKvStore::Put(std::span<const KvRecord> records) {
  KVGATE_TRY_VOID(CheckPut(records, options_));
  std::vector<size_t> order(records.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return records[i].depth; });

  const std::lock_guard write_lock(write_mutex_);
  KVGATE_TRY_VOID(CheckWritable());
  {
    // Touched first, so that making room for children cannot evict the parent they hang from.
    const std::lock_guard lock(index_mutex_);
    for (const KvRecord& record : records) {
      KvIndex::Node* parent = index_.Find({record.key.fingerprint, record.parent});
      if (parent != nullptr) index_.Touch(*parent);
    }
  }
  const uint64_t batch_bytes = KvSizes::For(options_.capacity_bytes).batch_bytes;
  PutCall call;
  for (const size_t i : order) {
    const uint64_t bytes = records[i].payload.size() + kKvOverheadBytes;
    auto written = call.chunk_bytes > 0 && call.chunk_bytes + bytes > batch_bytes ? WriteChunk(call)
                                                                                  : Result<void>{};
    if (!written) {
      RollBack(call);
      return written;
    }
    EvictFor(bytes);
    PlaceRecord(records[i], call);
  }
  auto written = WriteChunk(call);
  if (!written) RollBack(call);
  return written;
}

// Adds the record to the chunk and to the index, where readers cannot see it yet. A record that
// exists is touched; one without a place is skipped.
void RocksKvStore::PlaceRecord(const KvRecord& record, PutCall& call) {
  const std::lock_guard lock(index_mutex_);
  KvIndexEntry entry = EntryOf(record);
  if (KvIndex::Node* node = index_.Find(record.key); node != nullptr) {
    if (node->entry.digest == record.digest) {
      index_.Touch(*node);
    } else {
      ++counters_.num_skipped;
    }
    return;
  }
  if (!index_.HasPlaceFor(entry) || !HasPinRoomFor(entry)) {
    ++counters_.num_skipped;
    return;
  }
  KvIndex::Node& node = index_.Insert(entry);
  node.visible = false;
  index_.Touch(node);
  if (pins_.contains(record.key)) TryPin(node);
  call.records.push_back(record);
  call.entries.push_back(node.entry);
  call.chunk_bytes += record.payload.size() + kKvOverheadBytes;
  call.inserted.emplace_back(record.key, node.generation);
}

Result<void> RocksKvStore::WriteChunk(PutCall& call) {
  if (call.records.empty()) return {};
  KVGATE_TRY_VOID(WaitForSpace(call.chunk_bytes));
  std::vector<KvKey> deletes;
  {
    const std::lock_guard lock(index_mutex_);
    deletes = pending_deletes_;
  }
  auto written =
      WriteToDatabase({.deletes = deletes, .records = call.records, .entries = call.entries});
  const std::lock_guard lock(index_mutex_);
  if (!written) {
    ++counters_.num_write_errors;
    return written;
  }
  ForgetDeletes(deletes.size());
  for (; call.num_written < call.inserted.size(); ++call.num_written) {
    const auto& [key, generation] = call.inserted[call.num_written];
    KvIndex::Node* node = index_.Find(key);
    if (node != nullptr && node->generation == generation) {
      node->visible = true;
      node->touched = false;  // its last use was written with the record
    } else {
      pending_deletes_.push_back(key);  // removed meanwhile, because its parent failed a check
    }
  }
  counters_.num_writes += call.records.size();
  call.records.clear();
  call.entries.clear();
  call.chunk_bytes = 0;
  return {};
}

void RocksKvStore::RollBack(const PutCall& call) {
  const std::lock_guard lock(index_mutex_);
  for (auto placed = call.inserted.rbegin(); placed != call.inserted.rend(); ++placed) {
    KvIndex::Node* node = index_.Find(placed->first);
    if (node == nullptr || node->generation != placed->second) continue;
    index_.RemoveLeaf(*node);
    pending_deletes_.push_back(placed->first);
  }
}

Result<void> RocksKvStore::WriteToDatabase(const KvChange& change) {
  uint64_t bytes = 0;
  for (const KvRecord& record : change.records) bytes += record.payload.size() + kKvOverheadBytes;
  bytes += (change.entries.size() + change.deletes.size()) * kKvOverheadBytes;
  Result<void> written;
  {
    const std::shared_lock lock(database_mutex_);
    if (database_ == nullptr) {
      return MakeError(ErrorCode::kUnavailable, kSource, "writing: the database is not open");
    }
    written = database_->Write(change);
  }
  if (!written) {
    SetError(written.error());
    return written;
  }
  used_bytes_estimate_ += bytes;
  MarkDirty();
  return written;
}

void RocksKvStore::EvictFor(uint64_t bytes) {
  const std::lock_guard lock(index_mutex_);
  if (index_.disk_bytes() + bytes <= marks_.live_max) return;
  ExpirePins();
  // Evicts in batches, one percent further than needed, so that the next records find room.
  const uint64_t low = marks_.live_max - options_.capacity_bytes / 100;
  while (index_.disk_bytes() + bytes > low) {
    KvIndex::Node* leaf = index_.OldestLeaf();
    if (leaf == nullptr || !leaf->visible) return;
    pending_deletes_.push_back(leaf->entry.key);
    index_.RemoveLeaf(*leaf);
    ++counters_.num_evicted;
  }
}

// REQUIRES: write_mutex_ held. Costs one addition below collect_start.
Result<void> RocksKvStore::WaitForSpace(uint64_t bytes) {
  if (used_bytes_estimate_ + bytes <= marks_.collect_start) return {};
  const auto deadline = Clock::now() + options_.admit_timeout;
  bool applied = false;
  while (true) {
    const uint64_t used = MeasureUsedBytes() + collecting_bytes_;
    if (used + bytes <= marks_.admit_max) {
      if (used + bytes > marks_.collect_start) WakeCollector();
      return {};
    }
    if (!applied) {
      // The collector can free only values whose deletion the database knows.
      KVGATE_TRY_VOID(ApplyPending(false));
      applied = true;
    }
    KVGATE_TRY_VOID(CheckWritable());
    if (Clock::now() >= deadline || stopping_) {
      const std::lock_guard lock(index_mutex_);
      ++counters_.num_write_errors;
      return Error{.code = ErrorCode::kOverloaded,
                   .source = std::string(kSource),
                   .detail = fmt::format("writing {} bytes: {} of {} are used and freeing space "
                                         "took longer than {} ms",
                                         bytes, used, options_.capacity_bytes,
                                         options_.admit_timeout.count()),
                   .retryable = true};
    }
    put_waits_ = true;
    WakeCollector();
    {
      std::unique_lock lock(wake_mutex_);
      space_freed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    put_waits_ = false;
  }
}

Result<void> RocksKvStore::ReadAndProve(const KvIndexEntry& entry, const UseRecord& use) const {
  const std::shared_lock lock(database_mutex_);
  if (database_ == nullptr) {
    return MakeError(ErrorCode::kUnavailable, kSource, "reading: the database is not open");
  }
  return database_->ReadRecord(entry.key, [&](std::string_view bytes) -> Result<void> {
    KVGATE_TRY(const ProvedRecord proved, ProveKvRecord(bytes, entry));
    if (use) use(proved);
    return {};
  });
}

Result<void> RocksKvStore::Get(const KvLookup& lookup) {
  KvIndexEntry entry;
  uint64_t generation = 0;
  {
    const std::lock_guard lock(index_mutex_);
    KvIndex::Node* node = index_.Find(lookup.key);
    if (node == nullptr || !node->visible || node->entry.digest != lookup.digest ||
        node->entry.group != lookup.group || node->entry.shape_tag != lookup.shape_tag ||
        node->entry.payload_bytes != lookup.payload.size()) {
      ++counters_.num_misses;
      return MakeError(ErrorCode::kNotFound, kSource,
                       fmt::format("record {}: not stored", ToHex(lookup.key.hash)));
    }
    entry = node->entry;
    generation = node->generation;
  }
  const auto read = ReadAndProve(entry, [&](const ProvedRecord& proved) {
    if (!proved.payload.empty()) {
      std::memcpy(lookup.payload.data(), proved.payload.data(), proved.payload.size());
    }
  });
  if (!read) return CountMiss(entry, generation, read.error());
  const std::lock_guard lock(index_mutex_);
  ++counters_.num_hits;
  KvIndex::Node* node = index_.Find(lookup.key);
  if (node != nullptr && node->generation == generation) index_.Touch(*node);
  return {};
}

// Returns the error for a record that was indexed but could not be read; drops it if it is damaged.
Error RocksKvStore::CountMiss(const KvIndexEntry& entry, uint64_t generation, Error why) {
  const bool gone = why.code == ErrorCode::kNotFound;
  const bool broken = gone || why.code == ErrorCode::kDataLoss;
  // kNotFound has two causes: a record evicted between the two look-ups is a plain miss; one that
  // is still indexed is damaged.
  const uint64_t num_dropped = broken ? Drop(entry.key, generation, why) : 0;
  const std::lock_guard lock(index_mutex_);
  ++counters_.num_misses;
  if (gone && num_dropped > 0) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("record {}: indexed but not stored", ToHex(entry.key.hash)));
  }
  return why;
}

Result<std::vector<KvKey>> RocksKvStore::Chain(const BlockHash& last) const {
  const std::lock_guard lock(index_mutex_);
  return ChainOf(index_.FindByHash(last), last);
}

Result<std::vector<KvKey>> RocksKvStore::Chain(const KvKey& last) const {
  const std::lock_guard lock(index_mutex_);
  return ChainOf(index_.Find(last), last.hash);
}

std::vector<KvKey> RocksKvStore::WindowKeys(const KvKey& key) const {
  const std::lock_guard lock(index_mutex_);
  const KvIndex::Node* node = index_.Find(key);
  return node != nullptr ? index_.WindowKeys(*node) : std::vector<KvKey>{};
}

Result<KvBlock> RocksKvStore::Read(const KvKey& key) {
  KvIndexEntry entry;
  uint64_t generation = 0;
  {
    const std::lock_guard lock(index_mutex_);
    const KvIndex::Node* node = index_.Find(key);
    if (node == nullptr || !node->visible) {
      return MakeError(ErrorCode::kNotFound, kSource,
                       fmt::format("record {}: not stored", ToHex(key.hash)));
    }
    entry = node->entry;
    generation = node->generation;
  }
  KvBlock block{.key = key,
                .parent = entry.parent,
                .depth = entry.depth,
                .digest = entry.digest,
                .group = entry.group,
                .shape_tag = entry.shape_tag,
                .tokens = {},
                .payload = {}};
  const auto read = ReadAndProve(entry, [&](const ProvedRecord& proved) {
    block.tokens = DecodeTokens(proved.token_bytes);
    block.payload.assign(proved.payload.begin(), proved.payload.end());
  });
  if (!read) return CountMiss(entry, generation, read.error());
  return block;
}

// Removes a record that failed a check, with everything below it, from the index. Returns how many
// records that were, 0 if it was replaced or removed meanwhile. The next write updates the
// database.
uint64_t RocksKvStore::Drop(const KvKey& key, uint64_t generation, const Error& why) {
  uint64_t num_dropped = 0;
  {
    const std::lock_guard lock(index_mutex_);
    KvIndex::Node* node = index_.Find(key);
    if (node == nullptr || node->generation != generation) return 0;
    num_dropped = index_.RemoveSubtree(*node, pending_deletes_);
    counters_.num_dropped += num_dropped;
  }
  KVGATE_LOG(kWarning, kSource, "record {} dropped with {} below it: {}", ToHex(key.hash),
             num_dropped - 1, why.detail);
  if (!options_.read_only) MarkDirty();
  return num_dropped;
}

void RocksKvStore::Touch(std::span<const KvKey> keys) {
  const std::lock_guard lock(index_mutex_);
  for (const KvKey& key : keys) {
    if (KvIndex::Node* node = index_.Find(key); node != nullptr) index_.Touch(*node);
  }
}

void RocksKvStore::CountHits(std::span<const KvKey> keys, const KvUse& use) {
  const std::lock_guard lock(index_mutex_);
  index_.CountHits(keys, use);
}

Result<void> RocksKvStore::Flush() {
  if (options_.read_only) return ReadOnlyError("flushing");
  KVGATE_TRY_VOID(CheckWritable());
  return FlushNow();
}

KvStoreStats RocksKvStore::Stats() const {
  KvStoreStats stats;
  {
    const std::lock_guard lock(index_mutex_);
    stats = counters_;
    stats.num_records = index_.num_records();
    stats.payload_bytes = index_.payload_bytes();
    stats.pinned_bytes = index_.pinned_bytes();
    stats.num_unflushed = counters_.num_writes - num_flushed_;
    if (error_) stats.error = error_->ToString();
  }
  stats.capacity_bytes = options_.capacity_bytes;
  const std::shared_lock lock(database_mutex_);
  if (database_ != nullptr) stats.disk_bytes = database_->DiskBytes();
  return stats;
}

std::vector<KvPrefix> RocksKvStore::ListPrefixes() const {
  const std::lock_guard lock(index_mutex_);
  return index_.ListPrefixes();
}

Result<uint64_t> RocksKvStore::RemovePrefix(const BlockHash& leaf) {
  if (options_.read_only) return ReadOnlyError("removing a prefix");
  uint64_t num_removed = 0;
  {
    const std::lock_guard write_lock(write_mutex_);
    KVGATE_TRY_VOID(CheckWritable());
    const std::lock_guard lock(index_mutex_);
    const size_t before = pending_deletes_.size();
    ExpirePins();
    const std::vector<KvIndex::Node*> leaves = index_.FindLeaves(leaf);
    KVGATE_TRY_VOID(CheckNoPins(leaves));
    for (KvIndex::Node* node : leaves) index_.RemoveBranch(*node, pending_deletes_);
    num_removed = pending_deletes_.size() - before;
  }
  if (num_removed == 0) {
    return MakeError(ErrorCode::kNotFound, kSource,
                     fmt::format("no stored prefix ends with block {}", ToHex(leaf)));
  }
  // A removed prefix must not reappear after a crash.
  KVGATE_TRY_VOID(FlushNow());
  return num_removed;
}

Result<uint64_t> RocksKvStore::RemoveAll() {
  if (options_.read_only) return ReadOnlyError("removing every record");
  uint64_t num_removed = 0;
  {
    const std::lock_guard write_lock(write_mutex_);
    KVGATE_TRY_VOID(CheckWritable());
    {
      const std::lock_guard lock(index_mutex_);
      ExpirePins();
      if (index_.pinned_bytes() > 0) {
        return MakeError(ErrorCode::kInvalidArgument, kSource,
                         "some prefixes are pinned: unpin them first, or force their removal");
      }
      num_removed = index_.num_records();
      index_.Clear();
      pending_deletes_.clear();
    }
    const std::shared_lock lock(database_mutex_);
    if (database_ == nullptr) {
      return MakeError(ErrorCode::kUnavailable, kSource, "removing: the database is not open");
    }
    auto deleted = database_->DeleteEverything();
    if (!deleted) {
      SetError(deleted.error());
      return std::move(deleted).error();
    }
  }
  KVGATE_TRY_VOID(FlushNow());
  MeasureUsedBytes();
  return num_removed;
}

Result<KvVerifyReport> RocksKvStore::Verify(std::function<void(uint64_t, uint64_t)> progress) {
  std::vector<KvKey> keys;
  KvVerifyReport report;
  {
    const std::lock_guard lock(index_mutex_);
    keys = index_.Keys();
    report.num_dropped = std::exchange(num_damaged_at_open_, 0);
    report.num_orphans = std::exchange(num_orphans_at_open_, 0);
  }
  std::ranges::sort(keys);
  for (size_t i = 0; i < keys.size() && !stopping_; ++i) {
    KvIndexEntry entry;
    uint64_t generation = 0;
    {
      const std::lock_guard lock(index_mutex_);
      const KvIndex::Node* node = index_.Find(keys[i]);
      if (node != nullptr && node->visible) {
        entry = node->entry;
        generation = node->generation;
      }
    }
    if (generation != 0) {  // 0 means that it was evicted or dropped meanwhile
      ++report.num_checked;
      const auto read = ReadAndProve(entry, {});
      if (!read && (read.error().code == ErrorCode::kDataLoss ||
                    read.error().code == ErrorCode::kNotFound)) {
        const uint64_t num_dropped = Drop(keys[i], generation, read.error());
        report.num_dropped += num_dropped > 0 ? 1 : 0;
        report.num_orphans += num_dropped > 0 ? num_dropped - 1 : 0;
      } else if (!read) {
        return read.error();
      }
    }
    if (progress) progress(i + 1, keys.size());
  }
  return report;
}

void RocksKvStore::CheckIntegrity() const {
  const std::lock_guard lock(index_mutex_);
  index_.CheckIntegrity();
}

}  // namespace kvgate::store::kv
