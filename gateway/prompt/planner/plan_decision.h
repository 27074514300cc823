// One decision of the planner: what a request tells by coming, what is expected of it, what goes
// out with it. Values in, values out; the planner holds the memory and the lock.
#pragma once

#include <cstdint>
#include <vector>

#include "gateway/prompt/planner/plan.h"
#include "gateway/prompt/planner/plan_memory.h"

namespace kvgate::prompt {

// What a request belongs to, in one tenant.
struct Scope {
  Identity target;  // upstream and model
  Identity shape;
  Identity group;  // all shapes of one kind of request
};
Scope ScopeOf(const PlanArgs& args);

// All that is known when a request is decided.
struct View {
  PlannedConversation conversation;
  ShapeMemory shape;
  GroupMemory group;
  double scale = 1;               // reported by estimated tokens
  std::vector<uint64_t> settled;  // volatile prefixes of the request before
};

struct Decision {
  Plan plan;
  SentPlan sent;
  std::vector<CacheEntry> entries;         // that it writes or refreshes
  std::vector<CacheEntry> shared_entries;  // of tools and system
};

// Whether there is anything to decide; REQUIREd of the functions below.
bool IsPlanned(const PlanArgs& args);
// The caller's own markers and nothing else.
Plan Unplanned(const PlanArgs& args);

// Notes the request in its memories, and chooses the conversation's key where it is time to.
void RecordArrival(const PlanArgs& args, const Scope& scope, int64_t readable_after_us, View& view);
// What goes out with it, and what the provider is believed to hold then.
Decision Decide(const PlanArgs& args, const View& view, int64_t readable_after_us);

}  // namespace kvgate::prompt
