// Service is the life of a request, without sockets. The HTTP server is a thin shell on it, and the
// in-process SDK calls the same functions.
//
// Thread-safe. Its parts must outlive it; the local provider is set later, when the model has
// loaded.
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
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/access/access.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/reply/reply_choice.h"
#include "gateway/dialect/reply/reply_encoder.h"
#include "gateway/ledger/ledger.h"
#include "gateway/local/embeddings/published_provider.h"
#include "gateway/local/engine_metrics.h"
#include "gateway/local/event_stream.h"
#include "gateway/local/local.h"
#include "gateway/local/prefix_service.h"
#include "gateway/local/warm_job.h"
#include "gateway/metrics/gateway_metrics.h"
#include "gateway/service/local_record.h"
#include "gateway/service/notices.h"
#include "gateway/service/prompts.h"
#include "gateway/session/answer_hook.h"
#include "gateway/session/conversations.h"
#include "gateway/session/reasoning_memory.h"
#include "gateway/session/responses.h"
#include "store/kv/kv_store.h"
#include "store/meta/turn_store.h"
#include "store/shared/shared_block_store.h"

namespace kvgate::service {

// Returns true if the request is valid but there is no capacity for it at the moment.
bool IsOverload(const Error& error);

// A completion under way: bytes for the client as they become available. One thread may use it at a
// time.
class Completion {
 public:
  struct Parts {
    std::unique_ptr<local::EventStream> stream;
    std::unique_ptr<dialect::reply::ReplyEncoder> encoder;
    bool streaming = false;
    int num_choices = 1;
    metrics::GatewayMetrics& metrics;
    std::unique_ptr<LocalRecord> record;
    std::vector<session::AnswerHook> hooks = {};  // run in order, up to the first error
    // Set if the client is told that the hooks have kept the answer, which then fails if they fail.
    bool must_keep = false;
    // The parts of the request that the prompt leaves out, for a header: "image, web_search";
    // mostly empty.
    std::string left_out = {};
    // The turns that it leaves out, for a header: "done;before=900;after=500"; mostly empty.
    std::string compaction = {};
    // The turn of its session that it becomes; null: of none that is stored.
    std::shared_ptr<session::SessionTurn> session = {};
  };
  explicit Completion(Parts parts);
  // Stops the engine's work if the answer is not complete.
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // Returns true if the answer goes out in pieces (SSE), false if it is one JSON body.
  bool streaming() const { return parts_.streaming; }
  const std::string& left_out() const { return parts_.left_out; }
  const std::string& compaction() const { return parts_.compaction; }
  const std::shared_ptr<session::SessionTurn>& session() const { return parts_.session; }

  struct Output {
    std::string bytes;           // to send next; may be empty
    bool finished = false;       // no output follows
    bool completed = false;      // run the hooks, then call Next again for the rest
    std::optional<Error> error;  // no byte has been sent: answer with this error's status instead
  };
  // Never blocks. If it is not finished and has no bytes, wait for the wake function. A stream
  // begins with its first event, so that an error before it still has a status of its own.
  Output Next();
  // Returns the hooks of a complete answer, to be called once. They may wait for the disk, which
  // may never answer, so they own what they use. EndHooks reports their result, or that the caller
  // stopped waiting.
  std::function<Result<void>()> TakeHooks();
  void EndHooks(const Result<void>& done);
  // Runs the hooks on this thread.
  void RunHooks() { EndHooks(TakeHooks()()); }
  // Asks for an early end, which arrives as an error like any other.
  void Cancel() { parts_.stream->Cancel(); }
  // Returns the last block of its KV that is on disk, or on the way there; 0 until it has finished.
  BlockHash last_stored_block() const {
    return finish_ ? finish_->stats.last_stored_block : BlockHash();
  }
  // Returns the tokens of the prompt and the answer together; 0 until it has finished.
  uint64_t num_tokens() const { return num_tokens_; }
  // Returns the bytes that keep a silent stream alive.
  std::string_view ping() const { return parts_.encoder->ping(); }
  // Begins a stream that has been silent for long and returns the bytes to send first, possibly
  // none. Later errors are events of the stream.
  std::string Begin();

 private:
  void TakeEvents(Output& output);
  void Finish(dialect::form::FinishEvent& finish, Output& output);

  Parts parts_;
  bool started_ = false;
  dialect::form::PromptUsage usage_;  // as far as known
  uint64_t num_tokens_ = 0;
  std::vector<dialect::reply::ReplyChoice> choices_;  // filled only if there are hooks
  std::optional<dialect::form::FinishEvent> finish_;  // arrived, and waits for the hooks
};

class Service {
 public:
  struct Parts {
    metrics::Registry& registry;
    metrics::GatewayMetrics& metrics;
    store::kv::KvStore* kv = nullptr;      // null: no disk tier, because of no_disk_reason
    store::meta::PinBook* pins = nullptr;  // null if kv is
    uint64_t hash_seed = 0;                // the data directory's
    const Keyring* keyring = nullptr;      // the data directory's; null if kv is
    std::shared_ptr<tier::WriteAdmission> write_admission = {};  // the engine's, for statistics
    const store::shared::SharedBlockStore* shared = nullptr;     // null: gateways share nothing
    ledger::Ledger* ledger = nullptr;              // null if requests are not recorded
    store::meta::TurnStore* turns = nullptr;       // null if kv is
    session::Sessions* sessions = nullptr;         // of the same turns; null: none are configured
    const store::meta::MetaStore* meta = nullptr;  // for its statistics
    Prompts* prompts = nullptr;                    // null if prompts are not tracked
    std::string no_disk_reason = {};
    dialect::form::DecodeLimits limits = {};
    std::string system_fingerprint = {};
    bool has_vllm_names = false;  // the metrics have the names of vLLM as well
    // Of a local model; null: none is configured.
    const local::embeddings::PublishedProvider* embeddings = nullptr;
    // Writes which configuration is in force, for an admin's Stats; may be empty.
    std::function<void(dialect::form::JsonWriter&)> write_config = {};
    bool has_local = true;  // a local model is loaded or loading; false if there are only upstreams
  };
  explicit Service(Parts parts);

  // Call it once, from the thread that loads the model.
  void SetLocal(std::unique_ptr<local::LocalProvider> local);
  enum class Drain : uint8_t { kServes, kRefuses };
  // Makes ready() false, and refuses new completions from now on, unless it still serves them.
  void BeginDrain(Drain how = Drain::kRefuses) {
    unready_.store(true);
    if (how == Drain::kRefuses) draining_.store(true);
  }
  // Returns false before and during a drain, and while a configured local model is not loaded or
  // has failed.
  bool ready() const;
  // Returns true if the local model is loaded and answers to that name.
  bool ServesLocal(const std::string& model) const;
  bool has_local() const { return parts_.has_local; }

  // How a prompt is prepared before it is rendered.
  struct PromptArgs {
    const config::UpstreamConfig& engine;        // as LocalUpstream
    const config::KeyConfig* key = nullptr;      // the caller's; null if the gateway has no keys
    const upstream::wire::HeaderFields& fields;  // the request's
    // Of the body, if it has been read already; null: it is read.
    const prompt::parse::RequestLayout* layout = nullptr;
  };
  struct StartArgs {
    dialect::form::Dialect dialect;
    // The dialect of the answer, if the body was translated for the engine; else the body's.
    std::optional<dialect::form::Dialect> answer_dialect = {};
    bool thoughts = true;  // the answer shows the model's reasoning
    std::string_view body;
    std::string_view credential;  // the caller's, as sent; empty: none
    std::string request_id;
    std::string tenant = {};        // the name in the ledger; empty: the credential's hash
    std::string_view purpose = {};  // of a request of the gateway's own; empty: it is a client's
    // The gateway's prompt that stands in the body; absent: none was named.
    std::optional<session::log::TurnPrompt> named_prompt = {};
    bool explain = false;
    bool any_model = false;  // a route has chosen the engine, whatever model the body names
    // Another target can be tried, so a refusal for lack of capacity is not recorded.
    bool has_next = false;
    int64_t prompt_tokens_max = 0;           // of the caller's key; 0 means no limit
    dialect::form::OutputLimit output = {};  // of the caller's key
    // All that it refers to stays valid as the body does; absent: the prompt is rendered as
    // received.
    std::optional<PromptArgs> prompt = {};
    std::function<void()> wake;  // called on the engine thread when Completion::Next has output
  };
  // Prepares the prompt, decodes, routes, renders, tokenizes and submits. Takes time with the
  // length of the body.
  Result<std::unique_ptr<Completion>> Start(const StartArgs& args);

  struct CountArgs {
    dialect::form::Dialect dialect;  // kMessages or kResponses
    std::string_view body;
    std::string_view credential;
  };
  // Returns the number of tokens of a body's prompt, as a response of that dialect.
  Result<std::string> CountTokens(const CountArgs& args);

  struct WarmArgs {
    std::string_view body;
    std::string_view credential;
    int64_t prompt_tokens_max = 0;          // of the caller's key; 0 means no limit
    std::string tenant = {};                // as in StartArgs
    std::optional<PromptArgs> prompt = {};  // as in StartArgs
    std::function<void()> wake = {};        // called on the engine thread
  };
  // Decodes, routes, renders, tokenizes and submits. The prefix is that of a conversation that
  // begins now.
  Result<std::unique_ptr<local::WarmJob>> StartWarm(const WarmArgs& args);

  local::PrefixService& prefixes() { return prefixes_; }
  session::Responses& responses() { return responses_; }
  session::Conversations& conversations() { return conversations_; }
  // Returns JSON bodies. `may` tells which models the caller may use.
  std::string ListModels(const std::function<bool(std::string_view)>& may) const;
  Result<std::string> GetModel(std::string_view id) const;
  // Covers all tenants for an admin, and only the caller's own sums otherwise. Where no bytes are
  // queued for the disk and no records are unflushed, all KV that was computed before the call
  // outlives a crash: the queue is read before the store, because KV goes from one to the other.
  std::string Stats(const access::Caller& caller) const;
  // A query's parameters, in its order. One that is not known is an error that names it.
  using Query = std::vector<std::pair<std::string, std::string>>;
  // Returns the ledger's records that the caller may see and the query asks for, newest first.
  Result<std::string> ListRequests(const access::Caller& caller, const Query& query) const;
  Result<std::string> GetRequest(const access::Caller& caller, std::string_view id) const;
  // Fails with kUnavailable if requests are not recorded.
  Result<ledger::Ledger*> RequireLedger() const;
  // Prometheus text.
  std::string Metrics() const;
  // Stats and Metrics without asking the stores, which may wait for a disk: they use the numbers of
  // the last RefreshStores.
  std::string StatsAsKnown(const access::Caller& caller) const;
  std::string MetricsAsKnown() const { return parts_.registry.Text(); }
  void RefreshStores() const;
  struct EngineLoad {
    uint64_t num_running = 0;
    uint64_t num_waiting = 0;
    std::vector<local::TierFill> tiers = {};  // those that there are
  };
  // The engine's now, and the disk's as of the last RefreshStores.
  EngineLoad Load() const;
  // Writes the state of the upstreams, for Stats. Call it before the first Stats.
  void ReportUpstreams(std::function<void(dialect::form::JsonWriter&)> write) {
    write_upstreams_ = std::move(write);
  }
  // Adds numbers that another part keeps. Call it before the first Metrics.
  void AddCollector(std::function<void(metrics::TextWriter&)> collect) {
    parts_.registry.AddCollector(std::move(collect));
  }

  metrics::GatewayMetrics& metrics() { return parts_.metrics; }
  // Returns true the first time it is asked about `what` in the tenant's conversation that begins
  // with this turn.
  bool IsFirstNotice(std::string_view tenant, std::string_view first_turn, std::string_view what) {
    return notices_.IsFirst(tenant, first_turn, what);
  }

 private:
  friend class CompletionStart;
  // The stores' numbers at the last RefreshStores.
  struct StoreNumbers {
    store::kv::KvStoreStats kv;
    size_t num_pins = 0;
    store::meta::TurnStats turns;
    // What waited for the disk before the stores were asked; see Stats.
    uint64_t write_back_bytes_queued = 0;
  };
  StoreNumbers store_numbers() const;
  Result<const local::LocalProvider*> Route(const std::string& model) const;
  void Collect(metrics::TextWriter& writer) const;

  const Parts parts_;
  local::PrefixService prefixes_;
  const session::ReasoningMemory reasoning_;
  Notices notices_;
  session::Responses responses_;
  session::Conversations conversations_;
  std::unique_ptr<local::LocalProvider> local_;  // published by local_ready_
  std::atomic<bool> local_ready_{false};
  std::atomic<bool> unready_{false};
  std::atomic<bool> draining_{false};
  std::function<void(dialect::form::JsonWriter&)> write_upstreams_;  // may be empty
  mutable std::mutex numbers_mutex_;
  mutable StoreNumbers numbers_;
};

}  // namespace kvgate::service
