#include "gateway/service/branches/branch_store.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_fence.h"
#include "gateway/prompt/parse/canonical.h"
#include "store/directory_migration.h"
#include "store/file/byte_codec.h"
#include "store/file/sealed_kinds.h"

namespace kvgate::service::branches {

using prompt::history::Branch;
using prompt::parse::Identity;
using store::file::kBranchBytesKind;
using store::file::kBranchKind;
using store::meta::MetaTable;
using store::meta::MetaWrite;

namespace {

constexpr MetaTable kTable = MetaTable::kPrefixes;
constexpr std::string_view kRows = "B";
constexpr std::string_view kContents = "C";
constexpr std::string_view kMarks = "L";
constexpr std::string_view kGapKey = "G";
constexpr std::string_view kProbeKey = "P";
// A branch of that many rows is written whole with the next one.
constexpr uint64_t kRowsMax = 64;

// The parts of a row's key.
struct RowPlace {
  std::string_view tenant;
  uint64_t number = 0;
  uint64_t row = 0;
};
std::optional<RowPlace> PlaceOf(std::string_view key) {
  store::file::ByteReader reader(key);
  reader.TakeBytes(kRows.size());
  RowPlace place;
  place.tenant = reader.TakeBytes(kBranchNameBytes);
  place.number = reader.TakeBigEndian();
  place.row = reader.TakeBigEndian();
  return reader.at_end() ? std::optional(place) : std::nullopt;
}

std::string ContentName(const Keyring& ring, const std::string& tenant, const Identity& id) {
  std::string of = tenant;
  store::file::AppendValue(of, id.low);
  store::file::AppendValue(of, id.high);
  return BranchName(ring, "branches.bytes", of);
}

std::vector<Identity> KinOf(const Branch& branch) {
  return branch.first_turn ? branch.first_turn->kin : std::vector<Identity>();
}

// Returns the branch that goes on, or that went on elsewhere and comes back; null: there is none.
std::shared_ptr<StoredBranch> FindOwn(const BranchIndex& index,
                                      const BranchStore::StageArgs& args) {
  if (args.before == nullptr) return nullptr;
  if (auto branch = index.FindHead(args.before->token)) return branch;
  for (const uint64_t token : args.instead) {
    std::shared_ptr<StoredBranch> branch = index.FindHead(token);
    if (branch != nullptr && branch->keys.front() == args.keys.front()) return branch;
  }
  return nullptr;
}

}  // namespace

struct BranchStore::Write::Staged {
  std::shared_ptr<StoredBranch> branch;
  uint64_t token = 0;
  uint64_t row = 0;
  bool is_whole = false;
  uint64_t first_row = 0;  // of those that a whole row replaces
  std::string body;
  struct Bytes {
    std::string name;
    std::string key;
    std::shared_ptr<const std::string> bytes;
  };
  std::vector<Bytes> bytes;     // those that are not on disk
  std::set<std::string> names;  // of all that a whole row refers to
  int64_t time_us = 0;
  bool is_done = false;  // on disk; guarded by the store
  bool has_failed = false;
};

// What LoadRow has read of one branch.
struct BranchStore::Loading {
  std::shared_ptr<StoredBranch> branch;  // null: no row yet
  ReadBranch read;
  std::optional<Error> damage;
  struct Whole {
    std::shared_ptr<StoredBranch> branch;
    std::vector<Identity> needed;  // bytes that its last row stands on
    std::vector<Identity> others;  // bytes of the rows before
  };
  std::vector<Whole> branches;
  std::vector<MetaWrite> writes;
  uint64_t num_unnamed = 0;  // lost, and it is not known of which conversation
};

// Where a branch is on disk.
struct BranchStore::Placed {
  std::shared_ptr<StoredBranch> branch;
  std::string tenant;
  std::string prefix;
};

BranchStore::BranchStore(const Options& options)
    : options_(options),
      index_({.bytes_max = options.bytes_max, .tenant_share = options.tenant_share},
             options.meta.keyring()) {
  if (options_.enabled) {
    Load();
  } else {
    Forget();
  }
  thread_ = std::thread([this] { Run(); });
}

BranchStore::~BranchStore() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
  (void)Attempt("service", "keeping conversations", [this] { WriteCollected(); });
}

int64_t BranchStore::NowUs() const {
  return options_.now_us ? options_.now_us() : WallClock::NowUs();
}
int64_t BranchStore::OldestUs() const {
  return NowUs() -
         std::chrono::duration_cast<std::chrono::microseconds>(options_.retention).count();
}

// --- Questions

BranchStore::Standing BranchStore::Find(const Question& question) const {
  const std::lock_guard lock(mutex_);
  for (const auto& branch : index_.Find(question.keys)) {
    const bool is_known =
        std::any_of(question.known.begin(), question.known.end(),
                    [&](const auto& known) { return known->token == branch->token; });
    if (!is_known) return Standing::kKept;
  }
  const bool is_gap = gap_us_ != 0 && gap_us_ >= OldestUs();
  return is_gap || index_.IsMarked(question.keys) ? Standing::kLost : Standing::kUnknown;
}

bool BranchStore::CanKeep() const {
  const std::lock_guard lock(mutex_);
  return options_.enabled && !refuses_;
}

BranchStore::Stats BranchStore::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.num_branches = index_.num_branches();
  stats.bytes = index_.num_bytes();
  return stats;
}

void BranchStore::Collect(metrics::TextWriter& writer) const {
  const Stats now = stats();
  const auto write = [&](std::string_view name, std::string_view type, std::string_view help,
                         uint64_t value) {
    writer.Family(name, type, help);
    writer.Sample(name, {}, value);
  };
  write("kvgate_conversation_states", "gauge",
        "Conversations' branches whose sent prompts are known after a restart.", now.num_branches);
  write("kvgate_conversation_state_bytes", "gauge", "What is kept of them.", now.bytes);
  write("kvgate_conversation_states_lost_total", "counter",
        "States that were not on disk when their request went out, or could not be read.",
        now.num_lost);
  write("kvgate_conversation_states_recalled_total", "counter",
        "States that were read for a request, after a restart or when memory had no room.",
        now.num_recalled);
}

// --- Writing

std::optional<BranchStore::Write> BranchStore::Stage(const StageArgs& args) {
  const Keyring& ring = options_.meta.keyring();
  auto staged = std::make_shared<Write::Staged>();
  staged->time_us = NowUs();
  std::shared_ptr<StoredBranch> branch;
  bool is_new = false;
  bool is_elsewheres = false;  // it does not go on from the last row
  bool was_stored = false;
  bool has_new_keys = false;
  {
    const std::lock_guard lock(mutex_);
    branch = FindOwn(index_, args);
    is_new = branch == nullptr;
    is_elsewheres = !is_new && branch->token != args.before->token;
    if (is_new) {
      branch = std::make_shared<StoredBranch>();
      branch->number = args.branch->token;
      branch->keys = args.keys;
      branch->kin = KinOf(*args.branch);
      branch->time_us = staged->time_us;
    }
    was_stored = std::exchange(branch->is_stored, false);
    staged->is_whole =
        !was_stored || branch->needs_whole || branch->next_row - branch->first_row >= kRowsMax;
    staged->first_row = branch->first_row;
    staged->row = branch->next_row++;
    if (!is_new) {
      index_.MoveHead(branch, args.branch->token);
      has_new_keys = index_.AddKeys(*branch, args.keys, KinOf(*args.branch));
    }
  }
  // The rows before a whole one go. Those of a branch that has gone on elsewhere stay beside one
  // that holds all: somebody may still go on from there.
  const bool holds_all = staged->is_whole || is_elsewheres;
  BranchRow row = EncodeBranchRow({.branch = *args.branch,
                                   .base = holds_all ? nullptr : args.before.get(),
                                   .base_token = branch->row_token,
                                   .keys = branch->keys,
                                   .has_new_keys = has_new_keys,
                                   .time_us = staged->time_us,
                                   .respells = branch->respells});
  staged->body = std::move(row.body);
  staged->branch = branch;
  std::string tenant = is_new ? BranchName(ring, "branches.tenant", args.tenant) : branch->tenant;
  std::vector<std::string> names;
  for (const KeptBytes& kept : row.bytes) names.push_back(ContentName(ring, tenant, kept.id));
  const std::lock_guard lock(mutex_);
  if (row.is_empty) {
    branch->is_stored = was_stored;
    return std::nullopt;
  }
  branch->needs_whole = false;
  staged->token = args.branch->token;
  branch->row_token = args.branch->token;
  branch->respells = row.respells;
  if (is_new) {
    branch->tenant = std::move(tenant);
    branch->token = args.branch->token;
    index_.Add(branch);
  }
  for (size_t i = 0; i < names.size() && !branch->is_dropped; ++i) {
    const BranchIndex::Content& content = index_.Refer(*branch, names[i]);
    if (content.bytes == 0 && staged->names.insert(names[i]).second) {
      staged->bytes.push_back({names[i], content.key, row.bytes[i].bytes});
    }
    staged->names.insert(names[i]);
  }
  return Write{.patience = std::chrono::milliseconds(refuses_ ? 0 : 20),
               .staged = std::move(staged)};
}

void BranchStore::Commit(const Write& write) {
  Write::Staged& staged = *write.staged;
  const Keyring& ring = options_.meta.keyring();
  StoredBranch& branch = *staged.branch;
  const std::string key = BranchRowKey(branch, staged.row);
  std::vector<MetaWrite> writes;
  for (const auto& [name, bytes_key, bytes] : staged.bytes) {
    writes.push_back({.key = bytes_key,
                      .value = Seal(kBranchBytesKind, ring, bytes_key, *bytes, branch.tenant)});
  }
  writes.push_back({.key = key, .value = Seal(kBranchKind, ring, key, staged.body, branch.tenant)});
  const size_t row_bytes = key.size() + writes.back().value->size();
  if (staged.is_whole) {
    for (uint64_t row = staged.first_row; row < staged.row; ++row) {
      writes.push_back({.key = BranchRowKey(branch, row), .value = std::nullopt});
    }
  }
  const Result<void> written = options_.meta.PutAll(kTable, writes);
  const std::lock_guard lock(mutex_);
  if (!written) {
    staged.has_failed = true;
    LoseLocked(written.error().ToString());
    return;
  }
  staged.is_done = true;
  if (std::exchange(refuses_, false)) {
    KVGATE_LOG(kInfo, "service", "what conversations send is kept again");
  }
  for (size_t i = 0; i < staged.bytes.size(); ++i) {
    const auto& [name, bytes_key, bytes] = staged.bytes[i];
    const BranchIndex::Content* content = index_.FindContent(branch.tenant, name);
    if (content != nullptr && content->key == bytes_key) {
      index_.Store(branch.tenant, name, bytes_key.size() + writes[i].value->size());
    } else {
      index_.Delete(bytes_key);  // nothing refers to them any more
    }
  }
  // The branch may have been dropped meanwhile, or a later row holds everything.
  if (branch.is_dropped || staged.row < branch.first_row) {
    index_.Delete(key);
    return;
  }
  auto added = static_cast<int64_t>(row_bytes);
  if (staged.is_whole && branch.first_row < staged.row) {
    added -= static_cast<int64_t>(branch.bytes);
    branch.first_row = staged.row;
    if (branch.row_token == staged.token) index_.KeepOnly(branch, staged.names);
  }
  branch.is_stored = branch.row_token == staged.token;
  index_.Count(branch, added, staged.time_us);
  index_.MakeRoom(OldestUs());
}

void BranchStore::GoOut(const Write& write) {
  const std::lock_guard lock(mutex_);
  if (write.staged->is_done || write.staged->has_failed) return;
  LoseLocked("the disk has not answered in time");
}

void BranchStore::LoseLocked(std::string_view why) {
  ++stats_.num_lost;
  if (std::exchange(refuses_, true)) return;
  KVGATE_LOG(kWarning, "service",
             "what conversations send will not be known after a restart, and new ones go out as "
             "received: {}",
             why);
}

void BranchStore::Withdraw(uint64_t token, uint64_t before) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<StoredBranch> branch = index_.FindHead(token);
  if (branch == nullptr) return;
  if (before == 0) {
    index_.Drop(branch, false);
    return;
  }
  index_.MoveHead(branch, before);
  branch->needs_whole = true;
}

// --- Reading

Result<std::vector<std::string>> BranchStore::ReadRows(const Placed& placed) const {
  std::vector<std::string> rows;
  std::optional<Error> damage;
  KVGATE_TRY_VOID(
      options_.meta.Scan(kTable, placed.prefix, [&](std::string_view key, std::string_view value) {
        auto row = Unseal(kBranchKind, options_.meta.keyring(), key, value, placed.tenant);
        if (row) rows.push_back(std::move(row->body));
        if (!row) damage = std::move(row).error();
        return !damage;
      }));
  if (damage) return *damage;
  return rows;
}

// Adds the bytes that were read to the others; null where there are none any more.
Result<void> BranchStore::ReadTexts(const Placed& placed, std::span<const Identity> ids,
                                    KeptTexts& texts) const {
  const Keyring& ring = options_.meta.keyring();
  for (const Identity& id : ids) {
    if (texts.contains(id)) continue;
    std::string key;
    {
      const std::lock_guard lock(mutex_);
      const std::string name = ContentName(ring, placed.tenant, id);
      const BranchIndex::Content* content = index_.FindContent(placed.tenant, name);
      if (content != nullptr) key = content->key;
    }
    KVGATE_TRY(const std::optional<std::string> value, options_.meta.Get(kTable, key));
    std::shared_ptr<const std::string>& text = texts[id];
    if (!value) continue;
    KVGATE_TRY(auto bytes, Unseal(kBranchBytesKind, ring, key, *value, placed.tenant));
    text = std::make_shared<const std::string>(std::move(bytes.body));
  }
  return {};
}

Result<BranchLine> BranchStore::Read(const Placed& placed) const {
  KVGATE_TRY(const std::vector<std::string> rows, ReadRows(placed));
  return ReadBranchLine(rows, [&](std::span<const Identity> ids, KeptTexts& texts) {
    return ReadTexts(placed, ids, texts);
  });
}

std::vector<BranchStore::Placed> BranchStore::PlacesOf(std::span<const Identity> keys) const {
  std::vector<Placed> placed;
  const std::lock_guard lock(mutex_);
  for (const auto& branch : index_.Find(keys)) {
    placed.push_back({branch, branch->tenant, BranchRowPrefix(*branch)});
  }
  return placed;
}

std::vector<std::shared_ptr<Branch>> BranchStore::Peek(std::span<const Identity> keys) const {
  std::vector<std::shared_ptr<Branch>> all;
  for (const Placed& one : PlacesOf(keys)) {
    Result<BranchLine> line = Read(one);
    if (!line) continue;
    const std::lock_guard lock(mutex_);
    for (std::shared_ptr<Branch>& branch : line->branches) {
      branch->conversation = one.branch->keys.front();
      all.push_back(std::move(branch));
    }
  }
  SortNewestFirst(all);
  return all;
}

std::vector<BranchStore::Recalled> BranchStore::Recall(std::span<const Identity> keys) {
  std::vector<Recalled> recalled;
  for (const Placed& one : PlacesOf(keys)) {
    Result<BranchLine> line = Read(one);
    const std::lock_guard lock(mutex_);
    if (line) {
      ++stats_.num_recalled;
      // What memory knows of its keys may be more than its rows say.
      line->keys = one.branch->keys;
      AddLine(*std::move(line), keys, recalled);
      continue;
    }
    ++stats_.num_lost;
    KVGATE_LOG(kWarning, "service", "what a conversation has sent is lost: {}",
               line.error().ToString());
    // A disk that does not answer may do so for the next one.
    const bool is_damaged = line.error().code == ErrorCode::kDataLoss ||
                            line.error().code == ErrorCode::kPermissionDenied;
    if (is_damaged) index_.Drop(one.branch, true);
  }
  for (Recalled& one : recalled) SortNewestFirst(one.branches);
  return recalled;
}

// --- Starting and tidying

void BranchStore::Load() {
  Loading loading;
  const auto scanned =
      options_.meta.Scan(kTable, kRows, [&](std::string_view key, std::string_view value) {
        LoadRow(key, value, loading);
        return true;
      });
  EndBranch(loading);
  LoadContents(loading);
  LoadMarks();
  const bool is_gap = !scanned || loading.num_unnamed > 0 || options_.meta.Stats().num_lost > 0;
  if (is_gap) {
    gap_us_ = NowUs();
    std::string time;
    store::file::AppendValue(time, gap_us_);
    loading.writes.push_back({.key = std::string(kGapKey), .value = std::move(time)});
    KVGATE_LOG(kWarning, "service",
               "what some conversations have sent is lost: those that are not known go on as "
               "received");
  }
  index_.DropUnreferred();
  index_.MakeRoom(OldestUs());
  unwritten_ = std::move(loading.writes);
  WriteCollected();
}

// Rows of a branch follow each other, because keys begin with tenant and number.
void BranchStore::LoadRow(std::string_view key, std::string_view value, Loading& loading) {
  const Keyring& ring = options_.meta.keyring();
  const std::optional<RowPlace> place = PlaceOf(key);
  if (!place) return;
  if (loading.branch == nullptr || loading.branch->number != place->number ||
      loading.branch->tenant != place->tenant) {
    EndBranch(loading);
    loading.branch = std::make_shared<StoredBranch>();
    loading.branch->tenant = place->tenant;
    loading.branch->number = place->number;
    loading.branch->first_row = place->row;
  }
  StoredBranch& branch = *loading.branch;
  branch.next_row = place->row + 1;
  branch.bytes += key.size() + value.size();
  const auto row = Unseal(kBranchKind, ring, key, value, branch.tenant);
  const Result<void> taken =
      row ? ReadBranchRow(row->body, loading.read) : Result<void>(row.error());
  if (!taken) {
    loading.damage = taken.error();
    loading.read.is_whole = false;
  } else if (!store::IsSealedWithFirst(ring, value)) {
    loading.writes.push_back(
        {.key = std::string(key), .value = Seal(kBranchKind, ring, key, row->body, branch.tenant)});
  }
}

void BranchStore::EndBranch(Loading& loading) {
  const std::shared_ptr<StoredBranch> branch = std::exchange(loading.branch, nullptr);
  ReadBranch read = std::exchange(loading.read, ReadBranch());
  const std::optional<Error> damage = std::exchange(loading.damage, std::nullopt);
  if (branch == nullptr) return;
  branch->keys = std::move(read.keys);
  branch->kin = KinOf(read.branch);
  branch->token = branch->row_token = read.branch.token;
  branch->is_stored = true;
  branch->time_us = read.time_us;
  branch->respells = read.respells;
  if (read.is_whole && !branch->keys.empty()) {
    std::sort(read.bytes.begin(), read.bytes.end());
    read.bytes.erase(std::unique(read.bytes.begin(), read.bytes.end()), read.bytes.end());
    loading.branches.push_back({branch, RefersTo(read), std::move(read.bytes)});
    return;
  }
  KVGATE_LOG(kWarning, "service", "what a conversation has sent is lost: {}",
             damage ? damage->ToString() : "rows are missing");
  ++stats_.num_lost;
  if (branch->keys.empty()) {
    ++loading.num_unnamed;
  } else {
    index_.Mark(branch->keys.front());
  }
  for (uint64_t row = branch->first_row; row < branch->next_row; ++row) {
    index_.Delete(BranchRowKey(*branch, row));
  }
}

// Bytes are read when a conversation goes on. A branch that refers to missing ones is lost.
void BranchStore::LoadContents(Loading& loading) {
  const Keyring& ring = options_.meta.keyring();
  (void)options_.meta.Scan(kTable, kContents, [&](std::string_view key, std::string_view value) {
    store::file::ByteReader reader(key);
    reader.TakeBytes(kContents.size());
    const std::string tenant(reader.TakeBytes(kBranchNameBytes));
    const std::string name(reader.TakeBytes(kBranchNameBytes));
    if (!reader.ok()) return true;
    index_.AddContent(tenant, name, {.key = std::string(key), .bytes = key.size() + value.size()});
    if (store::IsSealedWithFirst(ring, value)) return true;
    const auto bytes = Unseal(kBranchBytesKind, ring, key, value, tenant);
    if (bytes) {
      loading.writes.push_back({.key = std::string(key),
                                .value = Seal(kBranchBytesKind, ring, key, bytes->body, tenant)});
    }
    return true;
  });
  for (auto& [branch, needed, others] : loading.branches) {
    bool is_whole = true;
    const int64_t time_us = branch->time_us;
    const auto bytes = static_cast<int64_t>(std::exchange(branch->bytes, 0));
    index_.Add(branch);
    index_.Count(*branch, bytes, time_us);
    for (const Identity& id : needed) {
      const std::string name = ContentName(ring, branch->tenant, id);
      is_whole = is_whole && index_.FindContent(branch->tenant, name) != nullptr;
      if (is_whole) index_.Refer(*branch, name);
    }
    for (const Identity& id : others) {
      const std::string name = ContentName(ring, branch->tenant, id);
      if (index_.FindContent(branch->tenant, name) != nullptr) index_.Refer(*branch, name);
    }
    if (is_whole) continue;
    ++stats_.num_lost;
    KVGATE_LOG(kWarning, "service", "what a conversation has sent is lost: bytes are missing");
    index_.Drop(branch, true);
  }
}

void BranchStore::LoadMarks() {
  (void)options_.meta.Scan(kTable, kMarks, [&](std::string_view key, std::string_view) {
    index_.AddMark(std::string(key.substr(kMarks.size())));
    return true;
  });
  const auto gap = options_.meta.Get(kTable, kGapKey);
  if (gap && *gap && (*gap)->size() == sizeof(int64_t)) {
    gap_us_ = store::file::LoadValue<int64_t>(**gap, 0);
  }
}

// Deletes what was kept. If there was anything, a conversation that goes on may be one of those.
void BranchStore::Forget() {
  LoadMarks();
  std::vector<MetaWrite> gone;
  for (const std::string_view prefix : {kRows, kContents, kMarks}) {
    (void)options_.meta.Scan(kTable, prefix, [&](std::string_view key, std::string_view) {
      gone.push_back({.key = std::string(key), .value = std::nullopt});
      return true;
    });
  }
  if (gone.empty()) return;
  gap_us_ = NowUs();
  std::string time;
  store::file::AppendValue(time, gap_us_);
  gone.push_back({.key = std::string(kGapKey), .value = std::move(time)});
  if (const auto written = options_.meta.PutAll(kTable, gone); !written) {
    KVGATE_LOG(kWarning, "service", "stored conversations cannot be deleted: {}",
               written.error().ToString());
  }
}

void BranchStore::Run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    wake_.wait_for(lock, options_.interval, [this] { return ends_; });
    if (ends_) return;
    lock.unlock();
    (void)Attempt("service", "keeping conversations", [this] { WriteCollected(); });
    lock.lock();
  }
}

// Writes deletions and marks. While the disk refuses writes, it is asked whether it takes one.
void BranchStore::WriteCollected() {
  std::vector<MetaWrite> writes;
  {
    const std::lock_guard lock(mutex_);
    index_.MakeRoom(OldestUs());
    writes = std::exchange(unwritten_, {});
    std::vector<MetaWrite> more = index_.TakeWrites();
    std::move(more.begin(), more.end(), std::back_inserter(writes));
    if (writes.empty() && refuses_) {
      writes.push_back({.key = std::string(kProbeKey), .value = std::nullopt});
    }
  }
  if (writes.empty()) return;
  const Result<void> written = options_.meta.PutAll(kTable, writes);
  const std::lock_guard lock(mutex_);
  if (written) {
    refuses_ = false;
    return;
  }
  std::move(unwritten_.begin(), unwritten_.end(), std::back_inserter(writes));
  unwritten_ = std::move(writes);
}

}  // namespace kvgate::service::branches
