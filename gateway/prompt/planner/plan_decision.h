// Makes one decision of the planner: what a request's arrival tells, what is expected of it, and
// what goes out with it. Values go in and come out; the planner holds the memory and the lock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gateway/prompt/planner/plan.h"
#include "gateway/prompt/planner/plan_memory.h"

namespace kvgate::prompt::planner {

// The identities under which a request is remembered. Shape and group include the tenant.
struct Scope {
  parse::Identity target;  // upstream and model
  parse::Identity shape;
  parse::Identity group;  // all shapes of one kind of request
};
Scope ScopeOf(const PlanArgs& args);

// A copy of everything known when a request is decided.
struct View {
  PlannedConversation conversation;
  ShapeMemory shape;
  GroupMemory group;
  double scale = 1;               // reported per estimated token
  std::vector<uint64_t> settled;  // volatile prefixes of the last request
};

struct Decision {
  Plan plan;
  std::optional<SentPlan> sent;            // set if an outcome is to be matched with it
  std::vector<CacheEntry> entries;         // written or refreshed by it
  std::vector<CacheEntry> shared_entries;  // those within tools and system
  size_t num_shared = 0;                   // segments of tools and system
  std::optional<size_t> end;     // the last segment that would come again if nothing changes
  std::optional<size_t> earned;  // the last segment of a write that only its stability pays for
};

// Returns true if there is anything to decide; the functions below, except Unplanned, REQUIRE it.
bool IsPlanned(const PlanArgs& args);
// Returns the caller's own breakpoints and nothing else.
Plan Unplanned(const PlanArgs& args);

// Notes the request in the view's memories, and chooses the conversation's key if it is due.
void RecordArrival(const PlanArgs& args, const Scope& scope, int64_t readable_after_us, View& view);
// Returns what goes out with the request, and what the provider is then believed to hold.
Decision Decide(const PlanArgs& args, const View& view, int64_t readable_after_us);

}  // namespace kvgate::prompt::planner
