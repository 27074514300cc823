// Prompts decides what happens to the prompt of a request: its mode, the edits of the Optimizer,
// and what the ledger's record says about them. It serves upstreams and the local engine.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/reply/usage_reader.h"
#include "gateway/ledger/request_record.h"
#include "gateway/metrics/prompt_metrics.h"
#include "gateway/prompt/diagnose/slot_savings.h"
#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/service/branches/kept_branches.h"
#include "gateway/service/explicit_cache/explicit_caching.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::service {

// Returns the named rules as bits. Unknown names are skipped, because the configuration has already
// rejected them.
uint32_t RuleBits(const std::vector<std::string>& names);

// Returns true if the credential belongs to a person's subscription and not to an API account.
// Providers judge the requests of such clients as they stand, so nothing in them may be changed. It
// recognises Anthropic's OAuth tokens and beta header, and OpenAI's account header and JWTs.
bool IsSubscription(std::string_view credential, const upstream::wire::HeaderFields& fields);

// Returns the session that a request's headers name: kvgate's own, or else Codex's; empty if none.
std::string_view SessionOf(const upstream::wire::HeaderFields& fields);

// Accepts "chat_completions", "responses" and "messages", the endpoints whose prompts the gateway
// can parse. Returns nothing for other names.
std::optional<dialect::form::Endpoint> PromptEndpoint(std::string_view name);

// Describes the local engine as an upstream, with its mode. The rules that only make sense for a
// provider's cache are off: those of its breakpoints, keys, headers and bound thinking. So is the
// rule of a key's limit on answers, which the engine itself keeps.
config::UpstreamConfig LocalUpstream(const config::EngineConfig& engine);

class Prompts {
 public:
  // What prompts are kept in and counted by. All may be null, and must outlive it.
  struct Parts {
    branches::BranchStore* branches = nullptr;
    branches::SharedBranches* shared = nullptr;  // in front of `branches`
    metrics::PromptMetrics* metrics = nullptr;
    // Without `branches`, new conversations go out as received, because a restart would forget what
    // was changed in them.
    bool must_keep = false;
  };
  explicit Prompts(const prompt::Optimizer::Options& options) : Prompts(options, Parts{}) {}
  Prompts(const prompt::Optimizer::Options& options, const Parts& parts)
      : parts_(parts),
        kept_(parts.branches, parts.shared),
        optimizer_(WithPast(options, parts)),
        explicit_caching_(options.prices, parts.metrics) {}

  struct Args {
    std::string_view body;  // with its content-encoding removed
    // Of this body and endpoint, if it has been read already; null: it is read.
    const prompt::parse::RequestLayout* layout = nullptr;
    bool encoded = false;  // it has a content-encoding, kept unless a key's limit needs an edit
    dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
    std::string_view model = {};  // where the path names it and the body does not
    std::string_view tenant;
    const config::UpstreamConfig& upstream;
    std::string_view provider;
    const config::KeyConfig* key = nullptr;      // the caller's; null if the gateway has no keys
    const upstream::wire::HeaderFields& fields;  // the request's
    std::string_view credential;                 // as sent to the upstream
    bool is_recalled = false;                    // Prompt::recall of an earlier call has been run
    bool is_fixed = false;                       // nothing of this request may be changed
    // The upstream has refused what was added: see OptimizeArgs; no explicit cache is named either.
    bool no_system_turn = false;
    bool begins_anew = false;  // see OptimizeArgs
  };
  using Layout = std::shared_ptr<const prompt::parse::RequestLayout>;
  // The facts about a prompt that routing needs.
  struct Known {
    prompt::parse::Identity conversation;
    prompt::parse::Identity prefix;  // identity of model, tools and system
    int64_t num_tokens = 0;          // estimated
    int64_t num_prefix_tokens = 0;   // of tools and system
    bool thinks_hard = false;        // the caller asks for much reasoning
    bool has_output_limit = false;   // the caller limits the answer's length
    Layout layout;                   // null if it cannot be read
  };
  // Reads a prompt of which little is new; null for any other one, at little cost.
  Layout ReadKnown(dialect::form::Endpoint endpoint, std::string_view body,
                   std::string_view model = {});

  struct KnowArgs {
    std::string_view body;  // with its content-encoding removed
    Layout layout = {};     // of this body, if it has been read already; null: it is read
    dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
    std::string_view model = {};  // where the path names it and the body does not
    std::string_view tenant;
    const upstream::wire::HeaderFields& fields;
  };
  Known Recognize(const KnowArgs& args);

  struct Prompt {
    std::optional<std::string> body;  // the body to send; absent: the received one
    std::vector<prompt::Header> headers;
    std::shared_ptr<upstream::ExchangePreparation> preparation;  // null: not tracked
    // If not empty, nothing was prepared: run it where waiting for the disk is allowed, then call
    // Prepare again with `is_recalled`, whether it has ended or not. It owns what it uses.
    std::function<void()> recall;
    // What has to be on disk before the request goes out, or as long as it may wait for that.
    std::optional<branches::BranchStore::Write> write;
    // If the upstream refuses the request, it may take one prepared with `no_system_turn`.
    bool may_be_refused = false;  // with a 400
    bool names_cache = false;     // with a 400, a 403 or a 404
    // What the provider is to be asked beside the request, if that is answered.
    std::optional<explicit_cache::CacheOrder> order;
    bool holds = false;        // values of some lines are held back
    std::string conversation;  // its id, in hex
  };
  // Call it for what was refused, before it is prepared with `no_system_turn`.
  static void Withdraw(upstream::ExchangePreparation& refused);
  // Call it if the upstream has then taken it. Logs what no more request to it will have.
  void NoteRefused(const upstream::ExchangePreparation& refused);

  // Stores a write; waits for the disk.
  void Commit(const branches::BranchStore::Write& write) { parts_.branches->Commit(write); }
  // As BranchStore::GoOut.
  void GoOut(const branches::BranchStore::Write& write) { parts_.branches->GoOut(write); }
  // Takes time with what is new in the body. Returns kInvalidArgument if the caller's key limits
  // answers and this request cannot be limited. REQUIRES: HasAnswer(endpoint).
  Result<Prompt> Prepare(const Args& args);
  // The check for a body that cannot be read: it is refused if the key limits answers, else it goes
  // on unchanged.
  static Result<void> CheckUnread(const Args& args);
  // Returns the body that Prepare would make, without remembering the prompt; nullopt: as received.
  std::optional<std::string> Preview(const Args& args) const;
  // Returns as JSON what Prepare would do, without changing anything.
  std::string Explain(const Args& args) const { return Explain(args, nullptr); }
  // The same for a conversation of which only the disk may know. If `recall` is not empty, there is
  // no explanation yet: run it where waiting for the disk is allowed, then call Finish, whether it
  // has ended or not. It owns what it uses.
  class Explanation {
   public:
    std::string text;
    std::function<void()> recall;

   private:
    friend class Prompts;
    struct Read;
    std::shared_ptr<Read> read_;
  };
  Explanation BeginExplanation(const Args& args) const;
  std::string FinishExplanation(const Args& args, const Explanation& begun) const;

  // Returns as JSON the lines of the tenant's prompts that have been learnt to change.
  std::string ListTemplates(std::string_view tenant) const;

  // Writes into the ledger's record what became of the request.
  // `counted` holds the parts of a local prompt whose tokens are known; see PromptSegment.
  void Complete(ledger::RequestRecord& record, const ledger::reply::ReplyFacts& facts,
                upstream::ExchangePreparation& preparation,
                std::span<const dialect::form::PromptSegment> counted = {});
  // Returns the elements of the prompt's list of messages behind which its tokens should be
  // counted.
  static std::vector<int32_t> CutsOf(const upstream::ExchangePreparation& preparation);

  // Returns the tokens by source, in the order of rendering. REQUIRES: Complete was called for this
  // prompt.
  static const std::vector<prompt::diagnose::SourceRun>& RunsOf(
      const upstream::ExchangePreparation& preparation);

  // Writes an object: what the mode stabilize would have saved in requests of other modes; those of
  // one tenant if it is given.
  void WriteSavings(dialect::form::JsonWriter& json,
                    const std::optional<std::string>& tenant = std::nullopt) const;

  prompt::history::TenantMemory& tenants() { return optimizer_.tenants(); }
  prompt::templates::Templates& templates() { return optimizer_.templates(); }

 private:
  prompt::OptimizeArgs ArgsOf(const Args& args) const;
  using Branches = std::vector<std::shared_ptr<prompt::history::Branch>>;
  // `read` holds the branches that the disk has; null: it is not asked.
  std::string Explain(const Args& args, const Branches* read) const;
  std::string Explain(const Args& args, const prompt::OptimizeArgs& asked,
                      const prompt::Prepared& prepared) const;

  static prompt::Optimizer::Options WithPast(prompt::Optimizer::Options options,
                                             const Parts& parts);
  void Count(const prompt::Prepared& prepared);
  std::function<void()> RecallOf(const prompt::Prepared& prepared, std::string_view tenant);

  const Parts parts_;
  const branches::KeptBranches kept_;
  prompt::Optimizer optimizer_;
  explicit_cache::ExplicitCaching explicit_caching_;
  prompt::diagnose::SlotSavings savings_;
};

}  // namespace kvgate::service
