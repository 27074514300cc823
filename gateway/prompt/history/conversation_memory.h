// ConversationMemory: the branches of all conversations. Bounded in bytes: the conversation silent
// longest goes first, but of a tenant that has more than half, so that nobody can push out what
// others keep. Thread-safe; a lock is held for look-ups and pointers, never while bytes are looked
// at.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "gateway/ledger/usage.h"
#include "gateway/prompt/history/branch.h"

namespace kvgate::prompt {

class ConversationMemory {
 public:
  explicit ConversationMemory(size_t bytes_max) : bytes_max_(bytes_max) {}

  struct Line {
    Identity conversation;
    std::vector<std::shared_ptr<const Branch>> branches;  // the newest first
  };
  // What is known under the first of `keys` that is known at all; else an empty line of the first.
  // Its branches are left out where nobody will go on from one.
  Line Find(std::span<const Identity> keys, bool with_branches = true) const;

  struct Commit {
    Identity tenant = {};
    Identity conversation;
    std::span<const Identity> aliases;            // under which it is found as well
    std::shared_ptr<Branch> branch;               //
    std::shared_ptr<const Branch> replaced = {};  // the branch that it goes on from; or null
  };
  void Remember(const Commit& commit);
  // `branch` was not sent after all: `before` stands in its place again, if it is given.
  void Withdraw(const Identity& conversation, const std::shared_ptr<Branch>& branch,
                const std::shared_ptr<const Branch>& before);
  // The counts of its answer; only the first call counts.
  void Finish(const std::shared_ptr<Branch>& branch,
              const std::optional<ledger::TokenUsage>& usage);
  // The request with its counts as far as they are known: itself, or `copy` while its answer is
  // not there yet and counts may still come.
  const SentRequest& RequestOf(const std::shared_ptr<const Branch>& branch,
                               std::optional<SentRequest>& copy) const;

  size_t num_bytes() const;

 private:
  struct Conversation;
  using List = std::list<Conversation>;
  using Order = std::list<List::iterator>;
  struct Conversation {
    Identity tenant;
    Identity id;
    Order::iterator place = {};  // among its tenant's
    std::vector<std::shared_ptr<Branch>> branches;
    std::vector<Identity> aliases;
    size_t bytes = sizeof(Conversation);
  };
  // What is let go of when the lock is gone: a branch is many allocations.
  using Dropped = std::vector<std::shared_ptr<Branch>>;

  struct Tenant {
    Order conversations;  // the last used first
    size_t bytes = 0;
  };

  // `bytes` more or fewer of it.
  void Count(Conversation& conversation, int64_t bytes);
  List::iterator NextToGoLocked();
  void EraseLocked(List::iterator conversation, Dropped& dropped);

  const size_t bytes_max_;
  mutable std::mutex mutex_;
  List list_;  // the last used first
  std::unordered_map<Identity, Tenant> tenants_;
  Identity largest_;  // the last tenant that came to have more than half
  std::unordered_map<Identity, List::iterator> by_key_;
  size_t bytes_ = 0;
};

}  // namespace kvgate::prompt
