// The Planner chooses the cache breakpoints, key and headers of a request by its provider's dated
// rules and by what it has learnt from similar traffic. It knows no bytes: segments come as counts
// and flags.
//
// It cannot know the future, so its regret is bounded as follows. A shape of prefix (upstream,
// model, identity of tools and system) is written to a cache only while its expected reuse pays for
// the write. A shape that was never seen is judged by its kind of request: an agent's (with tools
// or an assistant turn) is expected to come again, a lone question is not until it has. A
// conversation's prefix that came again unchanged and in time earns a write whatever was lost
// before; what has changed twice running is not written until it holds.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect/form/dialect.h"
#include "gateway/ledger/prices.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::planner {

// A segment in render order as the planner sees it, with the bytes that will be sent.
struct PlanSegment {
  parse::Section section = parse::Section::kMessages;
  parse::Role role = parse::Role::kNone;
  parse::Content content = parse::Content::kOther;
  uint32_t num_tokens = 0;
  bool is_volatile = false;  // changes from request to request
  bool is_summary = false;   // stands for turns that are left out
  bool markable = false;  // its bytes can hold a breakpoint (an object; text that is not empty …)
  std::optional<parse::Breakpoint> breakpoint = {};  // set by the caller
  parse::Identity prefix;       // of all sent bytes up to its end or notice, without breakpoints
  parse::Identity notice = {};  // with the notice behind its words, which may vanish; zero: none
};

struct PlanArgs {
  std::string_view tenant;
  std::string_view upstream;  // its name
  std::string_view provider;  // "anthropic", "openai", "deepseek", "xai" …
  std::string_view model;
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
  const ledger::PriceRow* row = nullptr;  // of the model; null: its rules are unknown
  bool ttl_supported = true;              // of the upstream; false: breakpoints lose their ttl
  std::span<const PlanSegment> segments;
  std::optional<parse::Breakpoint> automatic = {};  // Anthropic's top-level cache_control
  bool caller_has_key = false;                      // prompt_cache_key or x-grok-conv-id is present
  bool caller_has_options = false;  // prompt_cache_options or prompt_cache_retention is present
  parse::Identity conversation;     // the branch to which the request belongs
  parse::Identity shape;            // stable identity of model, tools and system
  bool first_of_conversation = true;
  int64_t now_us = 0;
};

struct PlannedBreakpoint {
  size_t segment = 0;
  parse::Breakpoint breakpoint;
};

struct Plan {
  uint64_t id = 0;  // named by its Outcome; 0: the planner remembers nothing of it
  // All breakpoints that go out, in order, including the caller's own; a breakpoint that is missing
  // here is removed.
  std::vector<PlannedBreakpoint> breakpoints;
  std::optional<parse::Breakpoint> automatic;
  std::string prompt_cache_key;          // to be added; empty: none. At most 64 characters
  std::string conversation_id;           // the value of a header; empty: none
  std::string_view conversation_header;  // the header's name, from the row: "x-grok-conv-id"
  double expected_reuse = 0;  // requests expected to read the prefix; the basis of the decision
  std::string_view reason;    // a literal, for `explain`: "below the minimum", "expected reuse",
                              // "already cached", "reuse not expected" …
};

class Planner {
 public:
  struct Options {
    size_t conversations_max = 16'384;  // each about 1.5 KiB, 4 KiB at most
    size_t shapes_max = 4'096;          // each about 1 KiB
    // Assumed time from sending a request to the first byte of its answer, after which its cache
    // entries can be read. An answer that has arrived sooner overrides it. Too long costs reads,
    // too short writes.
    int64_t readable_after_us = 3'000'000;
  };
  static std::unique_ptr<Planner> Make(const Options& options);
  virtual ~Planner() = default;

  // Thread-safe. Remembers the breakpoints that it sets, because the conversation's next request
  // builds on them. The caller's own breakpoints are kept and counted. At most the rules'
  // breakpoints_max go out in all, 1h in front of 5m, with an intermediate one before more blocks
  // than the rules' lookback have piled up.
  virtual Plan Make(const PlanArgs& args) = 0;
  // Returns the same plan as Make, but remembers nothing.
  virtual Plan Preview(const PlanArgs& args) const = 0;

  // Outcomes may arrive in another order than their requests.
  struct Outcome {
    parse::Identity conversation;
    uint64_t plan = 0;  // Plan::id
    parse::Identity shape;
    int64_t cache_read_tokens = 0;
    int64_t cache_write_tokens = 0;
    int64_t input_tokens = 0;      // all input tokens, cached or not
    int64_t estimated_tokens = 0;  // the sum of the segments' estimates
    int64_t now_us = 0;
  };
  virtual void Learn(const Outcome& outcome) = 0;
  // Takes back what Make remembered of a plan whose answer failed or was refused.
  virtual void Forget(const parse::Identity& conversation, uint64_t plan) = 0;
};

}  // namespace kvgate::prompt::planner
