// Plan: which cache markers, key and headers a request gets, by its provider's dated rules and what
// has been learnt of traffic like it. Knows no bytes: segments come as counts and flags.
//
// Online it cannot know the future. What bounds the regret: a shape of prefix (upstream, model,
// identity of tools and system) is written to a cache only while its expected reuse pays for that;
// a shape that was never seen is judged by what kind of request it is (an agent's, with tools or an
// assistant's turn, is expected to come again; a lone question is not until it has).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/prompt/parse/segment.h"
#include "gateway/upstream/dialect.h"

namespace kvgate::prompt {

// A segment as the planner sees it, in render order, with the bytes it will be sent with.
struct PlanSegment {
  Section section = Section::kMessages;
  Role role = Role::kNone;
  Content content = Content::kOther;
  uint32_t num_tokens = 0;
  bool is_volatile = false;  // changes from request to request
  bool markable = false;     // its bytes can hold a marker (an object; text that is not empty …)
  std::optional<Marker> marker = {};  // the caller's
  Identity prefix;                    // of all sent bytes up to its end, markers apart
};

struct PlanArgs {
  std::string_view tenant;
  std::string_view upstream;  // its name
  std::string_view provider;  // "anthropic", "openai", "deepseek", "xai" …
  std::string_view model;
  upstream::Endpoint endpoint = upstream::Endpoint::kOther;
  const ledger::PriceRow* row = nullptr;  // the model's; null: nothing is known
  bool ttl_supported = true;              // of the upstream; false: a ttl is taken off markers
  std::span<const PlanSegment> segments;
  std::optional<Marker> automatic = {};  // Anthropic's top-level cache_control
  bool caller_has_key = false;           // prompt_cache_key, x-grok-conv-id
  bool caller_has_options = false;       // prompt_cache_options, prompt_cache_retention
  Identity conversation;                 // what it belongs to
  Identity shape;                        // stable identity of model, tools and system
  bool first_of_conversation = true;
  int64_t now_us = 0;
};

struct PlannedMarker {
  size_t segment = 0;
  Marker marker;
};

struct Plan {
  // All markers that go out, the caller's own included, in order; what is not here goes out
  // without.
  std::vector<PlannedMarker> markers;
  std::optional<Marker> automatic;
  std::string prompt_cache_key;          // to be added; empty: none. At most 64 characters
  std::string conversation_id;           // the value of a header; empty: none
  std::string_view conversation_header;  // its name, of the row: "x-grok-conv-id"
  double expected_reuse = 0;             // of the prefix, in requests: what decided
  std::string_view reason;  // a literal, for `explain`: "below the minimum", "expected reuse"
                            // (is expected), "already cached", "reuse not expected" …
};

class Planner {
 public:
  struct Options {
    size_t conversations_max = 16'384;  // each about 1 KiB, 2 KiB at most
    size_t shapes_max = 4'096;          // each about 1 KiB
    // From sending a request to the first byte of its answer, when its entries can be read. Where
    // answers are known to have come sooner, they tell; too late costs a read, too early a write.
    int64_t readable_after_us = 3'000'000;
  };
  static std::unique_ptr<Planner> Make(const Options& options);
  virtual ~Planner() = default;

  // Thread-safe. Remembers the breakpoints that it sets: the next request of the conversation
  // builds on them. The caller's own markers are kept and counted; at most four in all go out, 1h
  // in front of 5m, an intermediate one before more than the rules' lookback has piled up.
  virtual Plan Make(const PlanArgs& args) = 0;
  // The same, and nothing is remembered of it.
  virtual Plan Preview(const PlanArgs& args) const = 0;

  struct Outcome {
    Identity conversation;
    Identity shape;
    int64_t cache_read_tokens = 0;
    int64_t cache_write_tokens = 0;
    int64_t input_tokens = 0;      // all of it
    int64_t estimated_tokens = 0;  // what the segments' estimates came to
    int64_t now_us = 0;
  };
  virtual void Learn(const Outcome& outcome) = 0;
  // An answer did not come, or was refused: what Make remembered of it does not hold.
  virtual void Forget(const Identity& conversation) = 0;
};

}  // namespace kvgate::prompt
