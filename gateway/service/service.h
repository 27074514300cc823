// Service: the life of a request, without sockets. The HTTP server is a thin shell on it, and the
// in-process SDK calls the same functions.
//
// Thread-safe. The parts it is given outlive it; the local provider arrives when it has loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/ledger/ledger.h"
#include "gateway/metrics/gateway_metrics.h"
#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/reply_choice.h"
#include "gateway/protocol/reply_encoder.h"
#include "gateway/local/event_stream.h"
#include "gateway/local/local.h"
#include "gateway/access/access.h"
#include "gateway/session/answer_hook.h"
#include "gateway/service/conversations.h"
#include "gateway/service/local_record.h"
#include "gateway/service/notices.h"
#include "gateway/local/prefix_service.h"
#include "gateway/service/prompts.h"
#include "gateway/session/reasoning_memory.h"
#include "gateway/session/responses.h"
#include "gateway/service/warm_job.h"
#include "store/kv/kv_store.h"
#include "store/meta/turn_store.h"

namespace kvgate::service {

// Nothing is wrong with the request: there is no room for it, or nobody to take it, now.
bool IsOverload(const Error& error);

// A completion under way: bytes for the client as they become available. One thread at a time.
class Completion {
 public:
  struct Parts {
    std::unique_ptr<provider::EventStream> stream;
    std::unique_ptr<protocol::ReplyEncoder> encoder;
    bool streaming = false;
    int num_choices = 1;
    metrics::GatewayMetrics& metrics;
    std::unique_ptr<LocalRecord> record;
    std::vector<AnswerHook> hooks = {};  // in order; an error ends it, the rest is not called
    // The client is told that they have kept the answer: it fails where they do not come to an end.
    bool must_keep = false;
    // What of the request the prompt goes without, for a header: "image, web_search"; mostly empty.
    std::string left_out = {};
  };
  explicit Completion(Parts parts);
  // Stops the work when the answer is not complete.
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // Whether the answer goes out in pieces (SSE) or as one JSON body.
  bool streaming() const { return parts_.streaming; }
  const std::string& left_out() const { return parts_.left_out; }

  struct Output {
    std::string bytes;           // to be sent now; may be empty
    bool finished = false;       // nothing follows
    bool completed = false;      // call the hooks, then Next again, which has the rest
    std::optional<Error> error;  // nothing has been sent: answer with its status instead of bytes
  };
  // Never blocks. Not finished and no bytes: wait for the wake function. A stream begins with its
  // first event, so that an error which comes first still has a status of its own.
  Output Next();
  // The hooks of an answer that is complete, to be called once; they may wait for the disk, and
  // own what they use: it may never answer. EndHooks says how they ended, or that nobody waits.
  std::function<Result<void>()> TakeHooks();
  void EndHooks(const Result<void>& done);
  // Both, on this thread.
  void RunHooks() { EndHooks(TakeHooks()()); }
  // Asks for an early end, which comes as an error like any other.
  void Cancel() { parts_.stream->Cancel(); }
  // Of the prompt and the answer together, once it has finished; 0 before.
  uint64_t num_tokens() const { return num_tokens_; }
  // What keeps the stream alive while it is silent.
  std::string_view ping() const { return parts_.encoder->ping(); }
  // Begins a stream that has been silent for long; from then on an error is an event of it. What
  // to send first; may be empty.
  std::string Begin();

 private:
  void TakeEvents(Output& output);
  void Finish(protocol::FinishEvent& finish, Output& output);

  Parts parts_;
  bool started_ = false;
  protocol::PromptUsage usage_;  // as far as it is known
  uint64_t num_tokens_ = 0;
  std::vector<protocol::ReplyChoice> choices_;   // where hooks want to see them
  std::optional<protocol::FinishEvent> finish_;  // it has come, and waits for the hooks
};

class Service {
 public:
  struct Parts {
    metrics::Registry& registry;
    metrics::GatewayMetrics& metrics;
    store::KvStore* kv = nullptr;      // null: no disk tier, for the reason below
    store::PinBook* pins = nullptr;    // null where kv is
    uint64_t hash_seed = 0;            // the data directory's
    const Keyring* keyring = nullptr;  // likewise; null where kv is
    std::shared_ptr<tier::WriteAdmission> write_admission = {};  // the engine's, to be shown
    ledger::Ledger* ledger = nullptr;                            // null: requests are not recorded
    store::TurnStore* turns = nullptr;                           // null where kv is
    const store::MetaStore* meta = nullptr;                      // for what it says of itself
    Prompts* prompts = nullptr;  // null: nobody asks why a prefix was not cached
    std::string no_disk_reason = {};
    protocol::DecodeLimits limits = {};
    std::string system_fingerprint = {};
    bool has_local = true;  // a local model is there or being loaded; false: upstreams alone
  };
  explicit Service(Parts parts);

  // Call once, from the thread that loads.
  void SetLocal(std::unique_ptr<provider::LocalProvider> local);
  // From then on new completions are refused and /ready says no.
  void BeginDrain() { draining_.store(true); }
  // Nor without a local model that is there and can be used, where there is to be one.
  bool ready() const;
  // Whether the local model is loaded and answers to that name.
  bool ServesLocal(const std::string& model) const;
  bool has_local() const { return parts_.has_local; }

  struct StartArgs {
    protocol::Dialect dialect;
    std::string_view body;
    std::string_view credential;  // the caller's, as sent; empty: none
    std::string request_id;
    std::string tenant = {};  // in the ledger; empty: the credential's hash
    bool explain = false;
    bool any_model = false;  // a route has chosen the engine, whatever name the body has
    // Someone else can be asked: that this one has no room now is not recorded.
    bool has_next = false;
    int64_t prompt_tokens_max = 0;      // the caller's key's; 0: no limit
    protocol::OutputLimit output = {};  // the same
    std::function<void()> wake;         // on the engine thread, when Completion::Next has something
  };
  // Decodes, routes, renders, tokenizes and submits: takes time with a long body.
  Result<std::unique_ptr<Completion>> Start(const StartArgs& args);

  struct CountArgs {
    protocol::Dialect dialect;  // kMessages or kResponses
    std::string_view body;
    std::string_view credential;
  };
  // How many tokens the prompt of a body has, as that dialect says it.
  Result<std::string> CountTokens(const CountArgs& args);

  struct WarmArgs {
    std::string_view body;
    std::string_view credential;
    int64_t prompt_tokens_max = 0;    // as of StartArgs
    std::function<void()> wake = {};  // on the engine thread
  };
  // Decodes, routes, renders, tokenizes and submits.
  Result<std::unique_ptr<WarmJob>> StartWarm(const WarmArgs& args);

  PrefixService& prefixes() { return prefixes_; }
  Responses& responses() { return responses_; }
  Conversations& conversations() { return conversations_; }
  // JSON bodies. `may` tells which models the caller may use.
  std::string ListModels(const std::function<bool(std::string_view)>& may) const;
  Result<std::string> GetModel(std::string_view id) const;
  // Of everybody to an admin, else the caller's own sums alone.
  std::string Stats(const Caller& caller) const;
  // Records of the ledger that the caller may see, newest first; both texts as in a query, empty:
  // the default.
  struct ListRequestsArgs {
    std::string_view limit;
    std::string_view before;
  };
  Result<std::string> ListRequests(const Caller& caller, const ListRequestsArgs& args) const;
  Result<std::string> GetRequest(const Caller& caller, std::string_view id) const;
  // Prometheus text.
  std::string Metrics() const;
  // Stats and Metrics without asking the stores, which may wait for a disk: with what they said at
  // the last RefreshStores.
  std::string StatsAsKnown(const Caller& caller) const;
  std::string MetricsAsKnown() const { return parts_.registry.Text(); }
  void RefreshStores() const;
  // For numbers that another part keeps; before the first Metrics.
  void AddCollector(std::function<void(metrics::TextWriter&)> collect) {
    parts_.registry.AddCollector(std::move(collect));
  }

  metrics::GatewayMetrics& metrics() { return parts_.metrics; }
  // Whether that is not yet said of the tenant's conversation that begins with this turn.
  bool IsFirstNotice(std::string_view tenant, std::string_view first_turn, std::string_view what) {
    return notices_.IsFirst(tenant, first_turn, what);
  }

 private:
  friend class CompletionStart;
  // What the stores said of themselves last.
  struct StoreNumbers {
    store::KvStoreStats kv;
    size_t num_pins = 0;
    store::TurnStats turns;
  };
  StoreNumbers store_numbers() const;
  Result<const provider::LocalProvider*> Route(const std::string& model) const;
  Result<ledger::Ledger*> RequireLedger() const;
  void CollectEngine(metrics::TextWriter& writer) const;
  void CollectStore(metrics::TextWriter& writer) const;
  void CollectTurns(metrics::TextWriter& writer) const;

  const Parts parts_;
  PrefixService prefixes_;
  const ReasoningMemory reasoning_;
  Notices notices_;
  Responses responses_;
  Conversations conversations_;
  std::unique_ptr<provider::LocalProvider> local_;  // published by local_ready_
  std::atomic<bool> local_ready_{false};
  std::atomic<bool> draining_{false};
  mutable std::mutex numbers_mutex_;
  mutable StoreNumbers numbers_;
};

}  // namespace kvgate::service
