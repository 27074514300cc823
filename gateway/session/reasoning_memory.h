// ReasoningMemory: what a model thought before it answered, kept for agents that leave it out of
// what they send back. A turn that comes back without its reasoning gets it again, so that the
// prompt is the one whose KV is cached.
//
// A turn is known by the ids of its calls, or by all that was visible up to it: texts without
// blanks, arguments as parsed, whatever their order and spelling. Kept are turns of the turn store
// (its bounds, retention and tenants; nothing where it is off), one for each answer that has
// reasoning.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>

#include "gateway/protocol/form/completion.h"
#include "store/meta/turn_store.h"

namespace kvgate::service {

class ReasoningMemory {
 public:
  // Null: nothing is kept or found. Outlives it.
  explicit ReasoningMemory(store::TurnStore* turns) : turns_(turns) {}

  // What is to be looked up for a list of messages.
  struct Wanted {
    size_t message = 0;     // its index
    std::string name = {};  // by its calls; empty: it has none
    PrefixDigest chain = {};
  };
  struct Plan {
    PrefixDigest end = {};  // what was visible up to the end: Keep's `before`
    std::vector<Wanted> wanted = {};
  };
  struct Found {
    size_t message = 0;
    std::string reasoning = {};
  };
  // Restore in three steps, of which Find alone may wait for the disk: turns of the assistant's
  // that have no reasoning get theirs.
  Plan MakePlan(const std::vector<protocol::Message>& messages) const;
  std::vector<Found> Find(std::string_view tenant, const std::vector<Wanted>& wanted) const;
  static void Apply(std::vector<Found> found, std::vector<protocol::Message>& messages);
  // All of them. What was visible up to the end, by which Keep knows where an answer stands.
  PrefixDigest Restore(std::string_view tenant, std::vector<protocol::Message>& messages) const;

  struct KeepArgs {
    std::string tenant;
    std::string id;                  // unique in the tenant
    PrefixDigest before = {};        // from Restore
    protocol::Message message = {};  // the answer
  };
  // An answer without reasoning is not kept; one that cannot be is logged.
  void Keep(const KeepArgs& args) const;

 private:
  bool enabled() const;

  store::TurnStore* const turns_;
};

}  // namespace kvgate::service
