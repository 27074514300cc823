// ReasoningMemory keeps the reasoning that a model wrote before its answers, for agents that leave
// it out of what they send back. A turn that comes back without its reasoning gets it again, so
// that the prompt equals the one whose KV is cached.
//
// A turn is recognised by everything visible up to it: texts without whitespace, and tool arguments
// as parsed, independent of their order and spelling. If that was changed, it is recognised by its
// tool calls with their ids, unless turns that differ have the same ones: some models number their
// calls anew in each conversation, and no reasoning is better than that of another turn. Each
// answer with reasoning is kept as a turn of the turn store, within its bounds, retention and
// tenants; if that store is off, no reasoning is kept.
//
// Thread-safe.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "gateway/dialect/form/completion.h"
#include "store/meta/turn_store.h"

namespace kvgate::session {

class ReasoningMemory {
 public:
  // `turns` may be null, in which case no reasoning is kept or found. It must outlive this object.
  explicit ReasoningMemory(store::meta::TurnStore* turns) : turns_(turns) {}

  // One turn whose reasoning is to be looked up.
  struct Wanted {
    size_t message = 0;     // index of the message
    std::string name = {};  // derived from its tool calls; empty if it has none
    PrefixDigest chain = {};
  };
  struct Plan {
    PrefixDigest end = {};  // digest of all visible content up to the end: Keep's `before`
    std::vector<Wanted> wanted = {};
  };
  struct Found {
    size_t message = 0;
    std::string reasoning = {};
  };
  // Restore in three steps, of which only Find may wait for the disk. They fill in the reasoning of
  // assistant turns that have none.
  Plan MakePlan(const std::vector<dialect::form::Message>& messages) const;
  std::vector<Found> Find(std::string_view tenant, const std::vector<Wanted>& wanted) const;
  static void Apply(std::vector<Found> found, std::vector<dialect::form::Message>& messages);
  // Runs all three steps. Returns the digest of all visible content, which Keep needs to place the
  // answer.
  PrefixDigest Restore(std::string_view tenant,
                       std::vector<dialect::form::Message>& messages) const;

  struct KeepArgs {
    std::string tenant;
    std::string id;                       // unique within the tenant
    PrefixDigest before = {};             // from Restore
    dialect::form::Message message = {};  // the answer
  };
  // Answers without reasoning are not kept. A failure to store is logged and not returned.
  void Keep(const KeepArgs& args) const;

 private:
  bool enabled() const;
  std::optional<std::string> FindOne(std::string_view tenant, const Wanted& wanted) const;

  store::meta::TurnStore* const turns_;
  // Held by Keep from looking a name up until it is taken or marked as ambiguous.
  mutable std::mutex names_mutex_;
};

}  // namespace kvgate::session
