// Optimizer: a forwarded request through identity, prefix memory, the rules of its mode, planner:
// what is to be sent instead of its body, and what is known of it. One for all upstreams.
//
// Prepare → (the request is sent) → Finish, or Abandon. Thread-safe; Prepare takes as long as what
// is new in the body, and holds no lock while it looks at bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/prompt/diagnose/attribution.h"
#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/planner/plan.h"
#include "gateway/prompt/prefix_break.h"
#include "gateway/prompt/history/tenant_memory.h"

namespace kvgate::prompt {

enum class Mode : uint8_t { kObserve, kPin, kStabilize };
std::string_view ModeName(Mode mode);
std::optional<Mode> ParseMode(std::string_view name);

struct OptimizeArgs {
  std::string_view body;  // as received, without a content-encoding
  upstream::Endpoint endpoint = upstream::Endpoint::kOther;
  std::string_view tenant;
  std::string_view session;  // x-kvgate-session, or the client's own header (session_id); or empty
  std::string_view upstream;
  std::string_view provider;
  Mode mode = Mode::kPin;
  uint32_t rules_off = 0;  // bit by Rule
  bool ttl_supported = true;
  bool has_conversation_header = false;  // x-grok-conv-id came with it
  int64_t now_us = 0;
};

struct Header {
  std::string name;
  std::string value;
};

// What has been decided of one request.
struct Prepared {
  std::optional<std::string> body;  // what to send; absent: the bytes as they came
  std::vector<Header> headers;      // to be added
  std::vector<Edit> edits;          // what was changed, in the order of the body
  Mode mode = Mode::kObserve;       // as applied
  std::string unreadable;           // why nothing was understood of the body; empty: it was
  ConversationKey conversation;
  bool first_of_conversation = true;
  Plan plan;
  std::vector<std::string> notes;  // for `explain`: what was seen and left alone, with its path
  struct State;                    // what Finish needs
  std::shared_ptr<State> state;
};

// What has been learnt when its answer has ended.
struct Report {
  std::optional<Attribution> attribution;
  std::vector<SourceRun> runs;  // where it is given
  PrefixBreak prefix_break;
};

class Optimizer {
 public:
  struct Options {
    const ledger::Prices& prices = ledger::Prices::Builtin();
    size_t memory_bytes = size_t{256} << 20;  // of sent bytes and their lists
    size_t memo_entries = size_t{1} << 18;
    bool keep_text = true;  // excerpts in breaks
  };
  explicit Optimizer(const Options& options);
  Optimizer(const Options& options, std::unique_ptr<Planner> planner);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  Prepared Prepare(const OptimizeArgs& args);
  // What Prepare would do, and nothing is remembered of it (`kvgate explain`).
  Prepared DryRun(const OptimizeArgs& args) const;

  struct FinishArgs {
    std::optional<ledger::TokenUsage> usage;  // absent: not known
    std::string_view provider_reason;         // of its own diagnostics; or empty
    int64_t now_us = 0;
  };
  // The answer has come to its end.
  Report Finish(const Prepared& prepared, const FinishArgs& args);
  // None came, or an error: what was sent is not to be counted on.
  void Abandon(const Prepared& prepared);

  // What tenants' prompts begin with, as it was sent first.
  TenantMemory& tenants();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kvgate::prompt
