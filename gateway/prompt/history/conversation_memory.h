// ConversationMemory keeps the branches of all conversations, bounded in bytes. It evicts the
// longest silent conversation, but takes it from a tenant that holds more than half of the memory,
// if there is one, so that no tenant can push out the others. Thread-safe: the lock is held for
// look-ups and pointers, never while bytes are compared.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "gateway/ledger/reply/usage.h"
#include "gateway/prompt/history/branch.h"

namespace kvgate::prompt::history {

class ConversationMemory {
 public:
  explicit ConversationMemory(size_t bytes_max) : bytes_max_(bytes_max) {}

  using Branches = std::vector<std::shared_ptr<const Branch>>;
  // Returns the branches of all conversations known under any of the keys: those of the first key
  // first, and of one conversation the newest first.
  Branches Find(std::span<const parse::Identity> keys) const;

  struct Commit {
    parse::Identity tenant = {};
    parse::Identity conversation;
    // Other keys under which it can be found, as may other conversations. Those of its agent
    // (FirstTurn::kin) are the branch's, for as long as its first answer is to come.
    std::span<const parse::Identity> aliases;
    std::shared_ptr<Branch> branch;
    std::shared_ptr<const Branch> replaced = {};  // the branch that it continues whole; may be null
  };
  void Remember(const Commit& commit);
  // Adds branches that are not known, and lets the conversation be found under all of the keys.
  struct Restored {
    parse::Identity tenant = {};
    std::span<const parse::Identity> keys;              // its own first
    std::span<const std::shared_ptr<Branch>> branches;  // newest first
  };
  void Restore(const Restored& restored);
  // Removes a `branch` that was not sent after all; if `before` is given, it takes the place again.
  void Withdraw(const parse::Identity& conversation, const std::shared_ptr<Branch>& branch,
                const std::shared_ptr<const Branch>& before);
  // Stores the counts of the branch's answer; only the first call has an effect.
  void Finish(const std::shared_ptr<Branch>& branch,
              const std::optional<ledger::reply::TokenUsage>& usage);
  // Returns the branch's request with the counts known so far: the original once Finish has run,
  // else a snapshot in `copy`, because the counts may still change.
  const SentRequest& RequestOf(const std::shared_ptr<const Branch>& branch,
                               std::optional<SentRequest>& copy) const;

  size_t num_bytes() const;

 private:
  // A branch, or one that it went on from: a helper begins where its caller waits, and a client may
  // take turns back. Of these the newest are kept, and older ones at distances that double.
  struct Entry {
    std::shared_ptr<Branch> branch;
    uint64_t line = 0;  // equal for a branch and those that it went on from
    uint32_t age = 0;   // how often the line has gone on from it; 0: it is the newest
    size_t bytes = 0;   // that it adds to the others
  };
  struct Conversation;
  using List = std::list<Conversation>;
  using Order = std::list<List::iterator>;
  struct Conversation {
    parse::Identity tenant;
    parse::Identity id;
    Order::iterator place = {};   // in its tenant's list
    std::vector<Entry> branches;  // newest first
    uint64_t num_lines = 0;       // that have ever been begun
    std::vector<parse::Identity> aliases;
    size_t bytes = sizeof(Conversation);
  };
  // Branches that are released after the lock, because freeing one is many deallocations.
  using Dropped = std::vector<std::shared_ptr<Branch>>;

  struct Tenant {
    Order conversations;  // last used first
    size_t bytes = 0;
  };

  void AddLocked(Conversation& conversation, const Commit& commit, Dropped& dropped);
  // Lets the entries of a line grow older, and drops those of them that others stand for.
  void AgeLocked(Conversation& conversation, uint64_t line, Dropped& dropped);
  void DropLocked(Conversation& conversation, size_t index, Dropped& dropped);
  // The index of the branch that makes room for another one.
  static size_t NextToGo(const std::vector<Entry>& branches);
  void AddKinLocked(List::iterator conversation, const Branch& branch);
  void DropKinLocked(Conversation& conversation, const FirstTurn& turn);
  // Adds `bytes`, which may be negative, to the conversation's, the tenant's and the total size.
  void Count(Conversation& conversation, int64_t bytes);
  List::iterator NextToGoLocked();
  void EraseLocked(List::iterator conversation, Dropped& dropped);
  void AddAliasLocked(List::iterator conversation, const parse::Identity& alias);
  void DropAliasLocked(List::iterator conversation, const parse::Identity& alias);

  const size_t bytes_max_;
  mutable std::mutex mutex_;
  List list_;  // last used first
  std::unordered_map<parse::Identity, Tenant> tenants_;
  parse::Identity largest_;  // the last tenant that exceeded half of bytes_max_
  std::unordered_map<parse::Identity, List::iterator> by_id_;
  std::unordered_map<parse::Identity, std::vector<List::iterator>> by_alias_;  // newest first
  size_t bytes_ = 0;
};

// Adds the branches that are not among the others, known by their tokens.
void AddUnknown(const std::vector<std::shared_ptr<Branch>>& read,
                ConversationMemory::Branches& branches);

}  // namespace kvgate::prompt::history
