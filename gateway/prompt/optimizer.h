// The Optimizer takes a request through identity, prefix memory, the rules of its mode and the
// planner. It returns what to send instead of the body, and what is known about the request. One
// instance serves all upstreams and the local engine.
//
// Call Prepare, send the request, then call Finish or Abandon. Thread-safe. The time of Prepare
// follows what is new in the body, and it holds no lock while it compares bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/segment/record_segment.h"
#include "gateway/prompt/diagnose/attribution.h"
#include "gateway/prompt/diagnose/prefix_break.h"
#include "gateway/prompt/diagnose/slot_loss.h"
#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/history/past.h"
#include "gateway/prompt/history/restored_branch.h"
#include "gateway/prompt/history/tenant_memory.h"
#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/planner/plan.h"
#include "gateway/prompt/templates/templates.h"

namespace kvgate::prompt {

// The provider's name of the engine in this process. Its prefix cache keeps what it has read
// without being asked to, so nothing is planned for it.
inline constexpr std::string_view kLocalProvider = "local";

enum class Mode : uint8_t { kObserve, kPin, kStabilize };
std::string_view ModeName(Mode mode);
std::optional<Mode> ParseMode(std::string_view name);

struct OptimizeArgs {
  // As received, after any content-encoding was removed. Valid UTF-8, which the gateway refuses to
  // take else: a part of a turn that is not would be sent again in later ones.
  std::string_view body;
  // Of this body and endpoint, if it has been read already; null: it is read.
  const parse::RequestLayout* layout = nullptr;
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
  std::string_view model = {};  // where the path names it and the body does not
  std::string_view tenant;
  std::string_view session;  // x-kvgate-session, or the client's own header (session_id); or empty
  std::string_view upstream;
  std::string_view provider;
  Mode mode = Mode::kPin;
  uint32_t rules_off = 0;  // one bit per Rule
  // Edits that others order and that are made in every mode. They are sorted, and touch no value
  // that a rule of the optimizer edits.
  std::span<const parse::Edit> imposed = {};
  bool ttl_supported = true;
  bool has_conversation_header = false;  // the request carries x-grok-conv-id
  // Nothing of this request may be changed, whatever its conversation began with.
  bool is_fixed = false;
  // It gets no turn of the system's own and no beta header, because the upstream has refused it
  // with one.
  bool no_system_turn = false;
  // The gateway keeps this conversation itself, and has left out older turns since the request
  // before: it goes on from none, so that nothing can be lost of what it goes on from.
  bool begins_anew = false;
  // What Prepared::recall asked for has been restored, as far as it could be read.
  bool is_recalled = false;
  // The same for a dry run, which restores nothing; null: a dry run does not ask for it.
  const std::vector<std::shared_ptr<history::Branch>>* read = nullptr;
  int64_t now_us = 0;
};

struct Header {
  std::string name;
  std::string value;  // if the request has the header, an item that is added to its list
};

// Lines of slots whose present values a request could not say. The provider keeps earlier ones.
struct HeldStale {
  size_t num_lines = 0;
  int64_t seconds = 0;  // since a request was sent that said all of them
};

// The decisions about one request.
struct Prepared {
  std::optional<std::string> body;  // what to send; absent: the original bytes
  std::vector<Header> headers;      // to be added to the request
  std::vector<parse::Edit> edits;   // what was changed, in the order of the body
  Mode mode = Mode::kObserve;       // the mode that was applied
  std::string unreadable;           // why the body was not understood; empty: it was
  std::string model;                // that the body names
  history::ConversationKey conversation;
  bool first_of_conversation = true;
  planner::Plan plan;
  // If not empty, nothing was prepared: branches of this conversation are kept elsewhere. Restore
  // them and call Prepare again, with `is_recalled`.
  std::vector<parse::Identity> recall;
  std::vector<uint64_t> known;  // with `recall`: the tokens of those that are in memory
  // What was sent in this conversation before is not known any more, so it goes out as received.
  bool is_lost = false;
  history::Rewrite rewrite = history::Rewrite::kNone;
  std::optional<HeldStale> held_stale;
  // The turns of the system's own that the conversation may have, and if the body has one.
  ledger::SystemTurn system_turn = ledger::SystemTurn::kNone;
  bool has_system_turn = false;
  // Returns true if the upstream may refuse what the gateway has added, and take the rest.
  bool MayBeRefused() const {
    return has_system_turn || system_turn == ledger::SystemTurn::kClearAt;
  }
  // What has to be kept, so that a later process goes on from here; null: nothing.
  std::shared_ptr<const history::Branch> branch;
  std::shared_ptr<const history::Branch> before;  // the branch that it continues whole; may be null
  std::vector<parse::Identity> keys;              // under which the conversation is found
  // If `before` was restored: tokens of branches all of which it has, longest first, in whose place
  // this one goes on where one of them is kept.
  std::vector<uint64_t> instead;
  // In the place of `branch`, a lone question of a conversation with a name: nothing has to be kept
  // of it, but other gateways have to know it, or they take what goes on from it for another one's.
  std::shared_ptr<const history::Branch> lone;
  std::vector<std::string> notes;  // for `explain`: what was noticed but left alone, with its path
  struct State;                    // what Finish needs
  std::shared_ptr<State> state;
};

// The analysis of a request after its answer has ended.
struct Report {
  std::optional<diagnose::Attribution> attribution;
  // What the request would have used directly, by estimate; absent: as it was, or it is not known.
  std::optional<ledger::reply::TokenUsage> direct;
  std::vector<diagnose::SourceRun> runs;              // the same in the order of rendering
  std::vector<ledger::segment::RecordSegment> parts;  // the same, part by part
  bool is_counted = false;                            // it divides counted tokens, no estimates
  std::string prompt;                                 // see diagnose::PromptIdOf
  int64_t ttl_seconds = 0;  // the longest lifetime of its cache that it asked for, or has anyway
  diagnose::PrefixBreak prefix_break;
  // What was lost by lines that changed, in a mode in which they stay in their places; the request
  // that holds them.
  std::vector<diagnose::SlotLoss> slot_losses;
  std::shared_ptr<const history::Branch> branch;
};

class Optimizer {
 public:
  struct Options {
    const ledger::Prices& prices = ledger::Prices::Builtin();
    size_t memory_bytes = size_t{256} << 20;  // for sent bytes and their lists
    size_t memo_entries = size_t{1} << 18;
    templates::Templates::Options templates = {};
    bool keep_text = true;  // breaks may quote excerpts of the prompt
    // What is known of conversations that are not in memory; null: nothing can be. It must outlive
    // the optimizer.
    const history::Past* past = nullptr;
  };
  explicit Optimizer(const Options& options);
  Optimizer(const Options& options, std::unique_ptr<planner::Planner> planner);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Reads a body for whoever needs its layout before Prepare does. Fails as ReadRequestLayout does.
  // `model` is the path's, if that names it instead of the body.
  Result<parse::RequestLayout> ReadLayout(dialect::form::Endpoint endpoint, std::string_view body,
                                          std::string_view model = {});
  // The same for a body of which little is new; nullopt for any other one, at little cost.
  std::optional<parse::RequestLayout> ReadKnownLayout(dialect::form::Endpoint endpoint,
                                                      std::string_view body,
                                                      std::string_view model = {});
  Prepared Prepare(const OptimizeArgs& args);
  // Returns what Prepare would, but changes nothing (`kvgate explain`).
  Prepared DryRun(const OptimizeArgs& args) const;

  struct FinishArgs {
    std::optional<ledger::reply::TokenUsage> usage;  // absent: not known
    std::string_view provider_reason;                // from its own diagnostics; may be empty
    std::string_view service_tier = {};  // as the answer names it; empty: the standard one
    std::span<const diagnose::CountedRun> counted = {};  // see diagnose::AttributeArgs::runs
    int64_t now_us = 0;
  };
  // Call it when the answer has ended.
  Report Finish(const Prepared& prepared, const FinishArgs& args);
  // Returns the elements of the list of messages behind which tokens should be counted for
  // FinishArgs::counted.
  static std::vector<int32_t> CutsOf(const Prepared& prepared);
  // Call it if no answer came, or an error: the request then does not count as sent.
  void Abandon(const Prepared& prepared);

  // Call it if the upstream refused a request that MayBeRefused, and took it without. From then on
  // it is sent no such turns for this model. Returns the sentence for the log; empty if it was
  // known.
  std::string NoteRefused(const Prepared& prepared);

  // Adds branches of an earlier process, or of this one before memory was full. `keys` are those
  // under which the conversation is found, its own first.
  struct Restored {
    std::string_view tenant;
    std::span<const parse::Identity> keys;
    std::span<const std::shared_ptr<history::Branch>> branches;  // newest first
  };
  void Restore(const Restored& restored);

  // The tools and system prompts of each tenant, as they were first sent.
  history::TenantMemory& tenants();
  // What has been learnt of each tenant's prompts. A store may take what changes, and restore it in
  // a later process.
  templates::Templates& templates();
  const templates::Templates& templates() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kvgate::prompt
