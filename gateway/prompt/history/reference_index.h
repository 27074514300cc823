// ReferenceIndex finds the earlier request with which a request is compared that continues no
// branch: one of its own conversation, whose first turns were dropped, rewritten or summarised
// since, or one of another conversation of the same agent. The result explains a miss and is never
// sent again. Nothing is shared between tenants. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/lru_map.h"
#include "gateway/prompt/history/conversation_memory.h"

namespace kvgate::prompt::history {

// A request that may explain why a later one was not read from the cache.
struct Candidate {
  std::shared_ptr<const Branch> branch;
  bool is_own = false;  // of the conversation that the later request's caller has named
};

struct Reference {
  std::shared_ptr<const Branch> branch = nullptr;  // null: no such request is remembered
  // Turns can be compared too, because both requests tell the same conversation.
  bool same_conversation = false;
};
// Prefers a request that shares an assistant turn with `request`, then the one with the longest
// equal front, then the newest. Takes time with the segments of all candidates.
Reference ChooseReference(std::span<const Candidate> candidates, const SentRequest& request);

class ReferenceIndex {
 public:
  struct Options {
    size_t agents_max = 4'096;     // keys of tools and system prompts, about 200 bytes each
    size_t turns_max = 16'384;     // keys of assistant turns, about 100 bytes each
    size_t conversations_max = 4;  // the newest ones that are remembered under one key
  };
  ReferenceIndex() : ReferenceIndex(Options{}) {}
  explicit ReferenceIndex(const Options& options);

  // Remembers that `conversation` has sent `request` last. `tenant` is an identity of its name.
  void Remember(const parse::Identity& tenant, const parse::Identity& conversation,
                const SentRequest& request);

  struct FindArgs {
    const parse::Identity& tenant;
    const parse::Identity& conversation;  // of `request`; its own branches are candidates too
    bool is_named = false;                // its caller has named the conversation
    const SentRequest& request;
    const ConversationMemory& conversations;
  };
  // Returns the newest requests that may be compared with it, a bounded number of them. REQUIRES:
  // `request` itself is not remembered yet.
  std::vector<Candidate> Find(const FindArgs& args) const;

 private:
  using Conversations = std::vector<parse::Identity>;  // newest first
  using Map = LruMap<parse::Identity, Conversations>;
  Conversations Lookup(const FindArgs& args) const;
  void Put(Map& map, const parse::Identity& key, const parse::Identity& conversation) const;

  const size_t conversations_max_;
  mutable std::mutex mutex_;
  Map agents_;
  Map turns_;
};

}  // namespace kvgate::prompt::history
