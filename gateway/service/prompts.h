// Prompts: what happens to the prompt of a request: the mode that it gets, what the Optimizer makes
// of it, and what the ledger's record tells of that; for upstreams and, without a change to
// anything, for the local engine. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/config/config.h"
#include "gateway/ledger/request_record.h"
#include "gateway/ledger/usage_reader.h"
#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/segment_memo.h"
#include "gateway/service/output_cap.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::service {

// The names of rules as bits; a name that is none is left out (the configuration has checked them).
uint32_t RuleBits(const std::vector<std::string>& names);

// A credential of a person's subscription and not of an API account: what such a client sends is
// judged as it stands, so nothing of it may be changed. Anthropic's OAuth tokens and beta header,
// and OpenAI's account header and JWTs.
bool IsSubscription(std::string_view credential, const upstream::HeaderFields& fields);

// "chat_completions", "responses", "messages": those whose bodies have a prompt that is understood.
std::optional<upstream::Endpoint> PromptEndpoint(std::string_view name);

// The local engine in an upstream's place, for Prompts::Explain: it takes prompts as they come.
config::UpstreamConfig LocalUpstream();

class Prompts {
 public:
  explicit Prompts(const prompt::Optimizer::Options& options) : optimizer_(options) {}

  struct Args {
    std::string_view body;  // without its content-encoding
    bool encoded = false;   // it came in one and goes on in it: only a key's bound takes it off
    upstream::Endpoint endpoint = upstream::Endpoint::kOther;
    std::string_view tenant;
    const config::UpstreamConfig& upstream;
    std::string_view provider;
    const config::KeyConfig* key = nullptr;  // the caller's; null: there are none
    const upstream::HeaderFields& fields;    // of the request
    std::string_view credential;             // as it goes to the upstream
  };
  // What a route has to know of a prompt.
  struct Known {
    prompt::Identity conversation;
    prompt::Identity prefix;        // of model, tools and system
    int64_t num_tokens = 0;         // estimated
    int64_t num_prefix_tokens = 0;  // of tools and system
    bool thinks_hard = false;       // the caller asks for much reasoning
    bool has_output_limit = false;  // and bounds the answer
  };
  struct KnowArgs {
    std::string_view body;  // without its content-encoding
    upstream::Endpoint endpoint = upstream::Endpoint::kOther;
    std::string_view tenant;
    const upstream::HeaderFields& fields;
  };
  Known Recognize(const KnowArgs& args);

  struct Prompt {
    std::optional<std::string> body;  // to be sent; absent: what came
    std::vector<prompt::Header> headers;
    std::shared_ptr<upstream::ExchangePreparation> preparation;  // null: nothing is known of it
  };
  // Takes as long as what is new in the body. kInvalidArgument: the caller's key bounds answers,
  // and this one's cannot be bounded. REQUIRES: HasAnswer(endpoint).
  Result<Prompt> Prepare(const Args& args);
  // The same of a body that nobody can read, and that goes on as it is where it may.
  static Result<void> CheckUnread(const Args& args);
  // The same of a request that the local engine answers; nothing is changed.
  std::shared_ptr<upstream::ExchangePreparation> Watch(std::string_view body,
                                                       upstream::Endpoint endpoint,
                                                       std::string_view tenant);
  // What would be done, as JSON; nothing is remembered of it.
  std::string Explain(const Args& args) const;

  // The ledger's: what became of it, into its record.
  void Complete(ledger::RequestRecord& record, const ledger::ReplyFacts& facts,
                upstream::ExchangePreparation& preparation);

  // Of a prompt that Complete was called for: its tokens by source, in the order of rendering.
  static const std::vector<prompt::SourceRun>& RunsOf(
      const upstream::ExchangePreparation& preparation);

  prompt::TenantMemory& tenants() { return optimizer_.tenants(); }

 private:
  static constexpr size_t kMemoEntries = size_t{1} << 16;

  prompt::OptimizeArgs ArgsOf(const Args& args) const;
  // What makes the body keep the bound on answers that the caller's key has.
  static Result<std::vector<CapEdit>> CapOf(const Args& args, std::string_view body);
  static protocol::OutputLimit LimitOf(const Args& args);
  static std::string_view WhyFixed(const Args& args);

  prompt::SegmentMemo memo_{
      kMemoEntries};  // for Recognize, which looks before there is an upstream
  prompt::Optimizer optimizer_;
};

}  // namespace kvgate::service
