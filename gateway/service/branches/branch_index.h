// BranchIndex knows in memory which branches a BranchStore has on disk: under which keys they are
// found, which bytes their rows refer to, and what has to go so that the store stays within its
// bounds. It reads and writes nothing: what has to be deleted or marked on disk is collected for
// TakeWrites. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/seal.h"
#include "gateway/prompt/parse/segment.h"
#include "store/meta/meta_store.h"

namespace kvgate::service::branches {

// Names in keys of rows are derived from secrets, so that the disk shows no tenant and no text.
inline constexpr size_t kBranchNameBytes = 16;
std::string BranchName(const Keyring& ring, std::string_view purpose, std::string_view of);
std::string BranchName(const Keyring& ring, std::string_view purpose,
                       const prompt::parse::Identity& of);

// A branch on disk.
struct StoredBranch {
  uint64_t number = 0;                        // names it; never used twice
  std::string tenant;                         // derived
  std::vector<prompt::parse::Identity> keys;  // of its conversation, its own first
  std::vector<prompt::parse::Identity> kin;   // of its agent, while its first answer is to come
  uint64_t token = 0;                         // of its last request
  uint64_t row_token = 0;  // of the one that the last row is of: later ones brought nothing new
  uint64_t first_row = 0;  // the rows [first_row, next_row) are there, or on their way
  uint64_t next_row = 0;
  int64_t time_us = 0;             // of the last row
  uint64_t bytes = 0;              // of its rows, without what they refer to
  std::set<std::string> contents;  // names of the bytes that its rows refer to
  bool respells = false;           // see BranchRowArgs
  bool needs_whole = false;        // the next row has to hold everything
  bool is_stored = false;          // the last row is on disk
  bool is_dropped = false;
};

// Keys of a branch's rows.
std::string BranchRowPrefix(const StoredBranch& branch);
std::string BranchRowKey(const StoredBranch& branch, uint64_t row);

class BranchIndex {
 public:
  struct Options {
    uint64_t bytes_max = 0;
    double tenant_share = 0.5;  // who has more of bytes_max makes room first
    size_t branches_max = 16;   // of a conversation
    size_t keys_max = 8;        // of a branch
    size_t found_max = 16;      // conversations under the same keys that Find returns
    size_t marks_max = 65'536;
  };
  BranchIndex(const Options& options, const Keyring& ring) : options_(options), ring_(ring) {}

  // --- Branches
  void Add(const std::shared_ptr<StoredBranch>& branch);
  // Returns the branch whose last request is that of the token; null if there is none.
  std::shared_ptr<StoredBranch> FindHead(uint64_t token) const;
  void MoveHead(const std::shared_ptr<StoredBranch>& branch, uint64_t token);
  // Lets the branch be found under the keys as well, of which the newest are kept, and under `kin`
  // instead of those of its agent before; returns true if one of `keys` is new.
  bool AddKeys(StoredBranch& branch, std::span<const prompt::parse::Identity> keys,
               std::vector<prompt::parse::Identity> kin = {});
  // Returns the branches of all conversations that are found under any of the keys, newest first;
  // of the newest ones if there are too many.
  std::vector<std::shared_ptr<StoredBranch>> Find(
      std::span<const prompt::parse::Identity> keys) const;
  // Notes that rows of `bytes` bytes were added at that time; a negative number takes away.
  void Count(StoredBranch& branch, int64_t bytes, int64_t time_us);
  // Deletes it on disk. `is_lost`: what its conversation has sent is not known any more.
  void Drop(const std::shared_ptr<StoredBranch>& branch, bool is_lost);
  // Drops branches older than that, and as many as are too many.
  void MakeRoom(int64_t oldest_us);
  // Deletes a row on disk.
  void Delete(std::string key);

  // --- Bytes that rows refer to, by tenant and derived name
  struct Content {
    std::string key;     // of its row
    uint64_t bytes = 0;  // of its row; 0: it is not on disk yet
    size_t num_references = 0;
  };
  // Makes the branch refer to the bytes, which are added if they are unknown.
  Content& Refer(StoredBranch& branch, const std::string& name);
  // Lets go of what the branch refers to beside `names`.
  void KeepOnly(StoredBranch& branch, const std::set<std::string>& names);
  const Content* FindContent(const std::string& tenant, const std::string& name) const;
  // Adds bytes found on disk.
  void AddContent(const std::string& tenant, const std::string& name, Content content);
  // Notes that they are on disk, in a row of that size.
  void Store(const std::string& tenant, const std::string& name, uint64_t bytes);
  // Deletes bytes to which nothing refers.
  void DropUnreferred();

  // --- Marks of conversations whose state is lost
  void Mark(const prompt::parse::Identity& conversation);
  void AddMark(std::string name);  // found on disk
  bool IsMarked(std::span<const prompt::parse::Identity> keys) const;

  // Returns what has to be written since the last call.
  std::vector<store::meta::MetaWrite> TakeWrites() { return std::exchange(writes_, {}); }
  size_t num_branches() const { return branches_.size(); }
  uint64_t num_bytes() const { return bytes_; }

 private:
  using ByTime = std::set<std::pair<int64_t, uint64_t>>;  // time, number
  struct Tenant {
    ByTime branches;
    uint64_t bytes = 0;
  };
  void CountBytes(const std::string& tenant, int64_t bytes);
  void Release(const std::string& tenant, const std::string& name);
  std::shared_ptr<StoredBranch> NextToGo() const;
  // Returns the branches of one conversation, newest first.
  std::vector<std::shared_ptr<StoredBranch>> BranchesOf(
      const prompt::parse::Identity& conversation) const;

  const Options options_;
  const Keyring& ring_;
  std::unordered_map<uint64_t, std::shared_ptr<StoredBranch>> branches_;  // by number
  std::unordered_map<uint64_t, std::shared_ptr<StoredBranch>> heads_;     // by token
  std::unordered_map<prompt::parse::Identity, std::vector<uint64_t>> by_key_;
  ByTime by_time_;
  std::map<std::string, Tenant> tenants_;
  std::map<std::pair<std::string, std::string>, Content> contents_;  // by tenant and name
  std::unordered_set<std::string> marks_;
  std::deque<std::string> marks_order_;  // oldest first
  std::string largest_;                  // the last tenant that came to hold more than its share
  uint64_t bytes_ = 0;
  std::vector<store::meta::MetaWrite> writes_;
};

}  // namespace kvgate::service::branches
