// Runs one life of a data directory from a seed: operations under faults, crashes and closes of
// every kind, damage to its files. After each end the directory is opened on a healthy disk and
// compared with a model of what was acknowledged. No wrong data may be served, and every loss must
// have been reported.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "store/file/rocks_file_system.h"
#include "store/meta/turn_store.h"
#include "store/rocks_data_directory.h"
#include "tests/store/fault_file_system.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store {

// Counts the faults of a life by kind.
struct FaultTally {
  std::array<uint64_t, kNumFaults> num_calls{};  // by Fault
  uint64_t num_bits = 0;                         // flipped in files, one at a time
  uint64_t num_changes = 0;  // to files: ranges overwritten, moved, cut; files replaced
  uint64_t num_kills = 0;
  uint64_t num_power_losses = 0;
  uint64_t num_cut = 0;  // files cut by a power loss
  uint64_t num_operations = 0;
  uint64_t num_compared = 0;
  uint64_t num_lost_said = 0;  // acknowledged, lost, and reported as lost

  // Visits every count in a fixed order, for notes that another process reads.
  template <typename Use>
  void ForEach(Use use) {
    for (uint64_t& num : num_calls) use(num);
    for (uint64_t* num : {&num_bits, &num_changes, &num_kills, &num_power_losses, &num_cut,
                          &num_operations, &num_compared, &num_lost_said}) {
      use(*num);
    }
  }
  uint64_t num_faults() const {
    uint64_t sum = num_bits + num_changes + num_kills + num_power_losses + num_cut;
    for (const uint64_t num : num_calls) sum += num;
    return sum;
  }
};

class FaultLife {
 public:
  enum class Kind {
    kCalls,   // calls fail during writes and reads
    kReads,   // reads fail or return wrong bits while everything is read repeatedly
    kDamage,  // files are changed while the directory is closed
  };
  FaultLife(Kind kind, uint64_t seed, std::filesystem::path directory)
      : kind_(kind), random_(seed), directory_(std::move(directory)) {
    std::filesystem::remove_all(directory_);
    sync_ = random_() % 2 == 0;
  }

  // Returns the faults found in the store; empty if there are none.
  std::vector<std::string> Run() {
    const uint64_t num_epochs = kind_ == Kind::kCalls ? 4 : 2;
    for (uint64_t epoch = 0; epoch < num_epochs && wrong_.empty(); ++epoch) {
      may_lose_ = false;
      const bool from_start = random_() % 2 == 0;
      if (kind_ == Kind::kCalls && from_start) BeginFaults();
      if (Open()) {
        if (kind_ == Kind::kReads) ReadUnderFaults();
        const uint64_t num_operations = 20 + random_() % (kind_ == Kind::kCalls ? 240 : 60);
        for (uint64_t i = 0; i < num_operations; ++i) {
          if (kind_ == Kind::kCalls && random_() % 24 == 0) ChangeFaults();
          Operate();
        }
      }
      End();
      if (kind_ == Kind::kDamage) Damage();
      Compare();
    }
    tally_.num_cut = system_->num_cut();
    for (size_t fault = 0; fault < kNumFaults; ++fault) {
      tally_.num_calls[fault] = system_->num_faults(static_cast<Fault>(fault));
    }
    return wrong_;
  }

  const FaultTally& tally() const { return tally_; }

 private:
  struct Row {
    std::set<std::optional<std::string>> allowed{std::nullopt};
    std::set<std::optional<std::string>> history{std::nullopt};
  };
  static constexpr const char* kTenant = "tenant";

  StoreOptions Options() const {
    StoreOptions options{.directory = directory_,
                         .kv_bytes_max = uint64_t{16} << 20,
                         .flush_interval = std::chrono::milliseconds(20),
                         .sync = sync_,
                         .retry_pause = std::chrono::milliseconds(1)};
    options.env = env_.get();
    return options;
  }

  void BeginFaults() {
    static constexpr double kOdds[] = {0.002, 0.02, 0.1, 0.3, 0.6};
    const FaultFileSystem::Odds odds{.probability = kOdds[random_() % 5],
                                     .writes_only = random_() % 2 == 0,
                                     .flips = random_() % 3 == 0,
                                     .lies = random_() % 3 == 0};
    if (random_() % 3 == 0) {
      const Fault fault = random_() % 2 == 0 ? Fault::kError : Fault::kFull;
      system_->FailNth(1 + random_() % 200, fault, random_() % 20);
    } else {
      may_lose_ = may_lose_ || odds.flips || odds.lies;
      system_->FailAtRandom(odds, random_());
    }
  }

  // Heals the disk, and half of the time begins other faults.
  void ChangeFaults() {
    system_->Heal();
    if (random_() % 2 == 0) BeginFaults();
  }

  // Reads each chain from disk many times; chains dropped because of wrong bits are put again.
  void ReadUnderFaults() {
    static constexpr double kOdds[] = {0.1, 0.3, 0.6, 0.9};
    may_lose_ = true;
    for (int round = 0; round < 32; ++round) {
      for (uint64_t chain = 0; chain < 40; ++chain) Put(chain);
      FlushKv();
      system_->FailAtRandom(
          {.probability = kOdds[random_() % 4], .reads_only = true, .flips = true}, random_());
      for (int i = 0; i < 64; ++i) {
        ++tally_.num_operations;
        CheckChain(random_() % 40, false);
      }
      system_->Heal();
    }
  }

  bool Open() {
    auto opened = DataDirectory::Open(Options());
    if (!opened) return false;
    data_ = std::move(*opened);
    if (data_->meta_error() != nullptr) return true;
    auto turns = meta::TurnStore::Open({.meta = data_->meta()});
    if (turns) turns_ = std::move(*turns);
    return true;
  }

  void Operate() {
    ++tally_.num_operations;
    switch (random_() % 9) {
      case 0:
      case 1:
        return WriteRow();
      case 2:
        return PutChain();
      case 3:
        return FlushKv();
      case 4:
        return AppendTurn();
      case 5:
        return DeleteTurn();
      case 6:
        return ReadSomething();
      case 7:
        return ChangePin();
      default:
        return RemoveChain();
    }
  }

  void WriteRow() {
    const std::string key = "row " + std::to_string(random_() % 12);
    std::optional<std::string> value;
    if (random_() % 5 != 0) value = std::to_string(random_()) + std::string(random_() % 3000, 'v');
    const auto done = value ? data_->meta().Put(meta::MetaTable::kLedger, key, *value)
                            : data_->meta().Delete(meta::MetaTable::kLedger, key);
    NoteWrite(rows_[key], value, done.has_value());
  }

  static void NoteWrite(Row& row, const std::optional<std::string>& value, bool done) {
    if (done) row.allowed.clear();
    row.allowed.insert(value);
    row.history.insert(value);
  }

  void AppendTurn() {
    const std::string id = "turn " + std::to_string(next_turn_++);
    const std::string payload = std::to_string(random_()) + std::string(random_() % 2000, 't');
    if (turns_ == nullptr) return;
    meta::Turn turn;
    turn.id = id;
    turn.tenant = kTenant;
    turn.items.push_back({.role = "user", .payload = payload});
    const auto done = turns_->Append(std::move(turn));
    NoteWrite(turn_rows_[id], payload, done.has_value());
  }

  void DeleteTurn() {
    if (turn_rows_.empty() || turns_ == nullptr) return;
    auto at = turn_rows_.begin();
    std::advance(at, random_() % turn_rows_.size());
    const auto done = turns_->Delete(kTenant, at->first);
    if (done || done.error().code != ErrorCode::kNotFound) {
      NoteWrite(at->second, std::nullopt, done.has_value());
    }
  }

  std::vector<Block> Chain(uint64_t chain) const {
    return MakeChain(chain, 1 + static_cast<uint32_t>(chain % 3), 2000 + chain % 1000);
  }

  void PutChain() { Put(random_() % 40); }
  void Put(uint64_t chain) {
    removed_.erase(chain);
    if (data_->kv().Put(Records(Chain(chain)))) put_.insert(chain);
  }

  void FlushKv() {
    if (!data_->kv().Flush()) return;
    // Chains put before a disk error that forced a reopening may already be gone.
    for (const uint64_t chain : put_) {
      if (data_->kv().Contains(Chain(chain).back().key)) flushed_.insert(chain);
    }
  }

  void RemoveChain() {
    if (random_() % 3 != 0) return;
    const uint64_t chain = random_() % 40;
    put_.erase(chain);
    flushed_.erase(chain);  // whatever the removal returns
    if (data_->kv().RemovePrefix(Chain(chain).back().key.hash)) removed_.insert(chain);
  }

  void ChangePin() {
    const uint64_t chain = random_() % 10;
    const kv::KvKey leaf = Chain(chain).back().key;
    Row& row = pins_[chain];
    if (random_() % 3 == 0) {
      const auto done = data_->pins().Remove(leaf.hash);
      if (done || done.error().code != ErrorCode::kNotFound) {
        NoteWrite(row, std::nullopt, done.has_value());
      }
      return;
    }
    meta::Pin pin;
    pin.leaf = leaf;
    pin.tokens = {static_cast<TokenId>(chain)};
    NoteWrite(row, "pinned", data_->pins().Put(pin).has_value());
  }

  void ReadSomething() {
    CheckChain(random_() % 40, false);
    const auto row =
        data_->meta().Get(meta::MetaTable::kLedger, "row " + std::to_string(random_() % 12));
    (void)row;
  }

  // Reads a chain's blocks; returns false if one of them is missing.
  bool CheckChain(uint64_t chain, bool must_answer) {
    bool whole = true;
    for (const Block& block : Chain(chain)) {
      std::vector<std::byte> payload(block.payload.size(), std::byte{0xee});
      const auto got = data_->kv().Get(block.Lookup(payload));
      ++tally_.num_compared;
      if (got && payload != block.payload) Wrong("a wrong byte of chain " + std::to_string(chain));
      whole = whole && got.has_value();
      if (!got && must_answer && got.error().code != ErrorCode::kNotFound &&
          got.error().code != ErrorCode::kDataLoss) {
        Wrong("a block cannot be read: " + got.error().ToString());
      }
    }
    return whole;
  }

  // Returns true if this opening has reported any losses.
  bool HasSaid() const {
    if (data_ == nullptr) return false;
    const meta::MetaStoreStats stats = data_->meta().Stats();
    return stats.num_lost > 0 || stats.damaged_log_bytes > 0 || stats.num_damaged_reads > 0 ||
           data_->pins().num_damaged() > 0 ||
           (turns_ != nullptr && turns_->Stats().num_damaged > 0);
  }

  void End() {
    said_before_ = HasSaid();
    const uint64_t how = random_() % 3;
    if (how > 0) system_->Stop();
    turns_.reset();
    data_.reset();
    if (how == 1) ++tally_.num_kills;
    if (how == 2) {
      ++tally_.num_power_losses;
      system_->LoseUnsynced(random_);
      may_lose_ = may_lose_ || !sync_;
    }
    system_->Heal();
    system_->Revive();
  }

  std::vector<std::filesystem::path> Files(const std::vector<const char*>& parts) const {
    std::vector<std::filesystem::path> files;
    for (const char* part : parts) {
      std::error_code error;
      for (const auto& file : std::filesystem::directory_iterator(directory_ / part, error)) {
        if (file.is_regular_file() && file.file_size() > 0) files.push_back(file.path());
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  void Damage() {
    may_lose_ = true;
    if (random_() % 4 == 0) return FlipBits();
    const uint64_t num = 1 + random_() % 4;
    for (uint64_t i = 0; i < num; ++i) {
      const auto files = Files({"meta", "kv"});
      if (files.empty()) return;
      DamageFile(files[random_() % files.size()], files[random_() % files.size()]);
    }
  }

  // Simulates bit rot: flips many bits, in kv/ alone or in all files.
  void FlipBits() {
    const auto files = random_() % 2 == 0 ? Files({"kv"}) : Files({"meta", "kv"});
    if (files.empty()) return;
    const uint64_t num = uint64_t{16} << (random_() % 6);
    damages_ += fmt::format("{} bits of {} files; ", num, files.size());
    for (uint64_t i = 0; i < num; ++i) {
      const auto& path = files[random_() % files.size()];
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(random_() % std::filesystem::file_size(path));
      file.seekg(at);
      const int byte = file.get() ^ (1 << (random_() % 8));
      file.seekp(at);
      file.put(static_cast<char>(byte));
      ++tally_.num_bits;
    }
  }

  static std::string ReadFile(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void DamageFile(const std::filesystem::path& path, const std::filesystem::path& other) {
    std::string bytes = ReadFile(path);
    const size_t at = random_() % bytes.size();
    const size_t run = std::min<size_t>(bytes.size() - at, size_t{1} << (random_() % 13));
    const uint64_t how = random_() % 10;
    ++(how < 8 ? tally_.num_changes : tally_.num_bits);
    damages_ +=
        fmt::format("{}: {} at {} of {}; ", path.filename().string(), how, at, bytes.size());
    switch (how) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes += std::string(random_() % 5000, '\0');
        break;
      case 2:
        for (size_t i = 0; i < run; ++i) bytes[at + i] = static_cast<char>(random_());
        break;
      case 3:
        bytes.replace(at, run, run, '\0');
        break;
      case 4:
        bytes.insert(at, bytes.substr(at, run));
        break;
      case 5:
        bytes.erase(at, run);
        break;
      case 6:
        bytes = ReadFile(other);
        break;
      case 7:
        std::filesystem::remove(path);
        if (random_() % 4 == 0) std::filesystem::create_directory(path);
        return;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random_() % 8)));
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  size_t NumSetAside() const { return FilesWith(directory_, "kv.damaged-").size(); }

  void Compare() {
    bool said = false;
    auto opened = DataDirectory::Open(Options());
    if (!opened) return Wrong("cannot be opened: " + opened.error().ToString());
    if ((*opened)->meta_error() != nullptr) {
      said = true;
      if (!may_lose_) Wrong("meta/ is damaged: " + (*opened)->meta_error()->ToString());
      opened->reset();
      const auto repaired = DataDirectory::Repair(Options());
      if (!repaired) return Wrong("cannot be repaired: " + repaired.error().ToString());
      opened = DataDirectory::Open(Options());
      if (!opened || (*opened)->meta_error() != nullptr) return Wrong("repaired in vain");
    }
    data_ = std::move(*opened);
    auto turns = meta::TurnStore::Open({.meta = data_->meta()});
    if (!turns) {
      if (turns.error().code == ErrorCode::kDataLoss && may_lose_) return RepairAfterAll();
      return Wrong("turns cannot be opened: " + turns.error().ToString());
    }
    turns_ = std::move(*turns);
    CompareRows(said);
    CompareKv();
    turns_.reset();
    data_.reset();
  }

  // Damage that is only met by reading a row is reported as an error and mended by repair.
  void RepairAfterAll() {
    turns_.reset();
    data_.reset();
    const auto repaired = DataDirectory::Repair(Options());
    if (!repaired) return Wrong("cannot be repaired: " + repaired.error().ToString());
    auto opened = DataDirectory::Open(Options());
    if (!opened || (*opened)->meta_error() != nullptr) return Wrong("repaired in vain");
    data_ = std::move(*opened);
    auto turns = meta::TurnStore::Open({.meta = data_->meta()});
    if (!turns) return Wrong("repaired in vain: " + turns.error().ToString());
    turns_ = std::move(*turns);
    CompareRows(true);
    CompareKv();
    turns_.reset();
    data_.reset();
  }

  void CompareRows(bool said) {
    bool damaged = false;
    std::vector<std::string> missing;
    const auto compare = [&](const std::string& name, Row& row,
                             const Result<std::optional<std::string>>& found) {
      ++tally_.num_compared;
      if (!found) {
        if (found.error().code != ErrorCode::kDataLoss || !may_lose_) {
          Wrong(name + " cannot be read: " + found.error().ToString());
        }
        damaged = true;  // and reported as such
        return;
      }
      if (!row.history.contains(*found)) Wrong(name + " has a value that nobody wrote");
      if (!row.allowed.contains(*found)) missing.push_back(name);
      row.allowed = {*found};
    };
    for (auto& [key, row] : rows_) {
      compare(key, row, data_->meta().Get(meta::MetaTable::kLedger, key));
    }
    for (auto& [id, row] : turn_rows_) {
      auto turn = turns_->Get(kTenant, id);
      Result<std::optional<std::string>> found = std::optional<std::string>();
      if (turn) {
        found = std::optional(turn->items.at(0).payload);
      } else if (turn.error().code != ErrorCode::kNotFound) {
        found = turn.error();
      }
      compare(id, row, found);
    }
    for (auto& [chain, row] : pins_) {
      const bool there = data_->pins().Find(Chain(chain).back().key.hash).has_value();
      compare("pin " + std::to_string(chain), row,
              there ? std::optional<std::string>("pinned") : std::optional<std::string>());
    }
    said = said || damaged || HasSaid() || said_before_;
    if (!missing.empty() && !may_lose_) Wrong("lost: " + missing.front());
    if (!missing.empty() && !said) Wrong("lost without a word: " + missing.front());
    tally_.num_lost_said += missing.size();
    if (damaged) Mend();
  }

  // Repairs the database, so that the next epoch can read it.
  void Mend() {
    turns_.reset();
    data_.reset();
    if (const auto repaired = DataDirectory::Repair(Options()); !repaired) {
      Wrong("cannot be repaired: " + repaired.error().ToString());
    }
    rows_.clear();
    turn_rows_.clear();
    pins_.clear();
    if (auto opened = DataDirectory::Open(Options()); opened) {
      data_ = std::move(*opened);
      if (auto turns = meta::TurnStore::Open({.meta = data_->meta()}); turns)
        turns_ = std::move(*turns);
    }
    // Rows unknown to the model may exist, under names that are not reused.
    for (int i = 0; i < 12; ++i) {
      const std::string key = "row " + std::to_string(i);
      const auto value = data_ ? data_->meta().Get(meta::MetaTable::kLedger, key)
                               : Result<std::optional<std::string>>(std::nullopt);
      if (!value) return Wrong(key + " cannot be read after repair");
      rows_[key].allowed = {*value};
      rows_[key].history.insert(*value);
    }
    for (uint64_t chain = 0; chain < 10 && data_; ++chain) {
      const bool there = data_->pins().Find(Chain(chain).back().key.hash).has_value();
      const auto value = there ? std::optional<std::string>("pinned") : std::nullopt;
      pins_[chain].allowed = {value};
      pins_[chain].history.insert(value);
    }
  }

  void CompareKv() {
    if (data_ == nullptr) return;
    const bool began_anew = NumSetAside() > 0;
    std::error_code ignored;
    for (const auto& old : FilesWith(directory_, "kv.damaged-")) {
      std::filesystem::remove_all(old, ignored);
    }
    std::set<uint64_t> found;
    for (uint64_t chain = 0; chain < 40; ++chain) {
      const bool there = CheckChain(chain, true);
      if (there) found.insert(chain);
      if (!there && flushed_.contains(chain) && !may_lose_ && !began_anew) {
        Wrong("a flushed chain is gone: " + std::to_string(chain));
      }
      if (began_anew && !may_lose_) Wrong("kv/ was set aside for nothing");
      if (there && removed_.contains(chain) && !may_lose_) {
        Wrong("a removed chain is back: " + std::to_string(chain));
      }
    }
    put_ = found;
    flushed_ = found;
    for (const uint64_t chain : found) removed_.erase(chain);
  }

  void Wrong(const std::string& what) {
    if (wrong_.size() < 3) wrong_.push_back(what + " [" + damages_ + "]");
  }

  const Kind kind_;
  std::mt19937_64 random_;
  const std::filesystem::path directory_;
  bool sync_ = false;
  bool may_lose_ = false;  // acknowledged data may be lost in this epoch, if that is reported
  bool said_before_ = false;
  const std::shared_ptr<FaultFileSystem> system_ = std::make_shared<FaultFileSystem>();
  const std::unique_ptr<rocksdb::Env> env_ =
      std::make_unique<QuickEnv>(file::MakePrivateEnv(system_));
  std::unique_ptr<DataDirectory> data_;
  std::unique_ptr<meta::TurnStore> turns_;

  std::map<std::string, Row> rows_;
  std::map<std::string, Row> turn_rows_;
  std::map<uint64_t, Row> pins_;
  std::set<uint64_t> put_;
  std::set<uint64_t> flushed_;
  std::set<uint64_t> removed_;
  uint64_t next_turn_ = 0;
  FaultTally tally_;
  std::string damages_;  // to the files, to help find the cause of a failure
  std::vector<std::string> wrong_;
};

}  // namespace kvgate::store
