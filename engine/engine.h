// Engine: the local inference engine as the gateway sees it: requests in through a bounded mailbox,
// tokens out through sinks. It knows token ids and prefixes, not HTTP.
//
// One thread (the engine's own) runs scheduler, pools, sampler and model; Submit, Cancel and Stats
// may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/text/grammar/mask/compiled_grammar.h"
#include "engine/text/grammar/mask/grammar_memory.h"
#include "engine/model/model.h"
#include "engine/sample/sampler.h"
#include "engine/schedule/context_policy.h"
#include "engine/tier/write_admission.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/backend.h"
#include "store/kv/kv_store.h"

namespace kvgate::engine {

struct EngineOptions {
  int context_tokens_max = 0;  // per sequence; 0: as many as the model knows and memory holds
  int step_tokens_max = 512;   // token budget of one step: prefill chunks fill what decode leaves
  int mixed_step_tokens_max = 256;  // the same while a sequence decodes: bounds its gaps
  int step_ms_max = 1000;  // of prefill in a step, as measured; a quarter while others wait for it
  int short_prompt_tokens = 1024;  // prompts with no more to prefill take the short lane
  int ttft_slo_ms = 0;             // refuse what cannot have its first token by then; 0: off
  double tenant_kv_share = 1.0;    // of the pool, for one tenant's running requests
  int sequences_max = 64;          // running at once
  int queue_max = 1024;            // accepted and not yet finished; beyond: kOverloaded
  // Memory of the KV block pools; kv/memory_split.h says how groups with a window share it.
  // 0, on a device with memory of its own: model::DevicePoolBytes of what is free beside the model.
  uint64_t kv_bytes = uint64_t{1} << 30;
  uint64_t host_bytes = 0;  // of the host arenas, the tier between pool and disk; the same shares
  kernels::DType kv_dtype = kernels::DType::kF16;
  // Of a row of logits, what comes to the host before somebody asks for all of it: the so many most
  // likely tokens, at most 256; 0: every row comes whole; negative: 0 where the backend's memory is
  // the host's, else 256. Tokens do not depend on it; log-probabilities by less than 1e-4.
  int logit_head_tokens = -1;
  // What a sequence whose KV grows beyond context_policy_tokens gives up; 0: it may keep it all.
  schedule::ContextPolicy context_policy = schedule::ContextPolicy::kNone;
  int context_policy_tokens = 0;
  uint64_t write_back_bytes_max = uint64_t{256} << 20;  // queued for disk; beyond: not written
  int io_threads = 2;                                   // load-back workers
  // The daily budget of write back; null: unlimited. Shared with who keeps its state and shows it.
  std::shared_ptr<tier::WriteAdmission> write_admission = {};
  // What grammars and masks may take; shared with who compiles them; null: the default's.
  std::shared_ptr<grammar::GrammarMemory> grammar_memory = {};
  // Between two looks at whether the model's file was written (model_watch.h); 0: none. No answer
  // depends on it.
  std::chrono::milliseconds model_watch_interval{1000};
  // For tests: no thread runs by itself. EngineLoop::Turn and tier::DiskTier's tasks are the
  // caller's, on one thread, whose time may be simulated (tier/clock.h).
  bool is_driven = false;
  uint64_t hash_seed = 0;  // of block hashes: the data directory's
  int hash_bits = 128;     // tests cut it to force collisions
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError };

// Why a stored prefix was computed anew; see schedule::GivenUpLoad.
struct GivenUpLoad {
  std::string_view reason;  // "not_worth_it", "late", "damaged"; empty: none was given up
  int num_tokens = 0;
  double load_seconds = 0;     // expected where it was never begun, else taken until then
  double compute_seconds = 0;  // expected
};

// What one request cost and where its prefix came from.
struct RequestStats {
  int num_prompt_tokens = 0;
  int num_cached_tokens = 0;    // = device + host + disk
  int num_device_tokens = 0;    // prefix tokens whose KV was in the block pool
  int num_host_tokens = 0;      // copied back from the host arena
  int num_disk_tokens = 0;      // restored from the store
  int num_computed_tokens = 0;  // prompt tokens prefilled
  int num_output_tokens = 0;
  double queue_seconds = 0;    // submit to first scheduling
  double restore_seconds = 0;  // waiting for the store
  GivenUpLoad given_up = {};
  double prefill_seconds = 0;  // first scheduling to first token, without the restore
  double ttft_seconds = 0;     // submit to first token
  double total_seconds = 0;
  uint64_t logits_hash = 0;  // XXH3 chained over the logits of all steps, where asked for
};

struct TokenEvent {
  TokenId token = 0;
  std::string text;  // what may be shown now: whole characters, no part of a stop string
  float logprob = 0;
  std::vector<sample::TokenLogprob> top_logprobs;
  int num_cached_tokens = 0;  // of the prompt, as in RequestStats
};

struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::string text;            // what was held back
  std::string stop_string;     // the one that matched, if any
  std::optional<Error> error;  // with kError
  RequestStats stats;
};

// Where a request's tokens go. Called on the engine thread, in order; must not block. OnToken may
// throw std::bad_alloc, which ends the request with an error. OnFinish is called exactly once for
// every accepted request and is the last call; it may throw the same once it has the event.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void OnToken(TokenEvent event) = 0;
  virtual void OnFinish(FinishEvent event) = 0;
};

struct GenerationRequest {
  std::vector<TokenId> prompt;  // not empty; ids in [0, vocab_size)
  int max_tokens = 0;           // >= 0; 0 only prefills; bounded by the context
  sample::SamplingParams sampling;
  std::vector<std::string> stop_strings;  // <= 16, none empty
  bool ignore_end_of_generation = false;
  bool shows_control_tokens = false;  // their text is part of the answer, but for end tokens
  // What the output must be; null: anything. Its own end ends the output, whatever
  // ignore_end_of_generation says. As long as max_tokens are enough for some whole text, the output
  // is one, and then the reason is kStop: near them only tokens that lead to an end in time are
  // sampled.
  std::shared_ptr<const grammar::CompiledGrammar> grammar = {};
  bool hash_logits = false;
  std::string cache_salt;  // the tenant; prefixes are shared only within one
  // Leading prompt tokens that other requests will probably begin with (system, tools, history):
  // the blocks whose write back comes first when the write budget runs short.
  int num_stable_tokens = 0;
  std::shared_ptr<TokenSink> sink;
};

// How hard the pool and the host arena hold on to a prefix.
struct Protection {
  std::vector<TokenId> tokens;  // full blocks of it are protected
  std::string cache_salt;
  int priority = 0;  // 0: like any other; higher: evicted only after all that is lower
  // Takes the place of no protection that lasts as long, and gives way where there are many.
  bool is_hint = false;
  // The protection ends by itself then.
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
};

// The KV memory of one of the model's groups.
struct KvGroupInfo {
  int window = 0;  // 0: its layers see all positions
  int num_layers = 0;
  uint32_t num_blocks = 0;
  size_t block_bytes = 0;
};

struct EngineInfo {
  model::ModelConfig model;
  kernels::BackendInfo backend;
  size_t weight_bytes = 0;
  uint64_t activation_bytes = 0;
  uint64_t kv_bytes = 0;  // of the pools
  int context_tokens_max = 0;
  // Of a prompt, where one tenant has only a share of the KV memory; 0: the context's bound alone.
  int64_t tenant_tokens_max = 0;
  // Of group 0, which decides how many tokens fit; of a model without windows that is all.
  uint32_t num_kv_blocks = 0;
  size_t kv_block_bytes = 0;
  std::vector<KvGroupInfo> kv_groups;
  kernels::DType kv_dtype = kernels::DType::kF16;
  Fingerprint kv_fingerprint;     // of what it stores: model, numerics, KV dtype
  Fingerprint model_fingerprint;  // weights and tokenizer alone
};

struct EngineStats {
  uint64_t num_requests = 0;
  uint64_t num_running = 0;
  uint64_t num_waiting = 0;
  uint64_t num_preemptions = 0;
  uint64_t num_steps = 0;
  uint64_t num_prompt_tokens = 0;
  uint64_t num_device_tokens = 0;  // prompt tokens served from the pool
  uint64_t num_host_tokens = 0;
  uint64_t num_disk_tokens = 0;
  uint64_t num_computed_tokens = 0;
  uint64_t num_output_tokens = 0;
  uint64_t num_blocks_free = 0;    // never used or evicted
  uint64_t num_blocks_cached = 0;  // evictable, hash kept
  uint64_t num_blocks_used = 0;    // referenced by running sequences or copies
  uint64_t num_blocks_evicted = 0;
  // The same of the groups with a window, together.
  uint64_t num_window_blocks_free = 0;
  uint64_t num_window_blocks_cached = 0;
  uint64_t num_window_blocks_used = 0;
  uint64_t num_window_blocks_evicted = 0;
  uint64_t num_digest_mismatches = 0;  // hash matched, digest did not: served as a miss
  uint64_t write_back_bytes_queued = 0;
  uint64_t num_blocks_written = 0;
  uint64_t num_blocks_write_skipped = 0;  // queue full, budget spent or the disk tier off
  uint64_t num_host_blocks = 0;           // in the host arena, of num_host_blocks_max
  uint64_t num_host_blocks_max = 0;
  uint64_t num_refused_by_slo = 0;
  uint64_t num_out_of_memory = 0;     // times that something was given up for want of memory
  uint64_t num_single_flight = 0;     // requests that waited for another to compute their prefix
  uint64_t num_restores_cut = 0;      // loads given up because recomputing was quicker
  uint64_t num_restores_skipped = 0;  // disk hits recomputed from the start, for the same reason
  uint64_t prefill_tokens_per_second = 0;  // measured; 0: not yet
  uint64_t restore_bytes_per_second = 0;   // measured; 0: not yet
};

// What a request ends with for which there was no memory: kOverloaded. Its detail is short where
// there is no memory for a sentence.
Error OutOfMemory() noexcept;

class Engine {
 public:
  // `store` may be null: no disk tier. Backend, tokenizer and store must outlive the engine.
  // kInvalidArgument (field "kv_memory"): KV memory for not even two blocks, or more of it than the
  // device has beside the model.
  static Result<std::unique_ptr<Engine>> Open(const EngineOptions& options,
                                              std::shared_ptr<const model::ModelFile> file,
                                              kernels::Backend& backend,
                                              const tokenizer::Tokenizer& tokenizer,
                                              store::KvStore* store);
  // The same over a model that is loaded already, with that backend.
  static Result<std::unique_ptr<Engine>> Open(const EngineOptions& options,
                                              std::unique_ptr<model::Model> model,
                                              kernels::Backend& backend,
                                              const tokenizer::Tokenizer& tokenizer,
                                              store::KvStore* store);
  // Finishes every request with kCancelled, writes back what is queued, and joins the thread.
  virtual ~Engine() = default;

  // kInvalidArgument (field: "prompt", "max_tokens", "grammar"): the prompt is empty, holds an
  // unknown id or is longer than the context, or the grammar is for a larger vocabulary;
  // kOverloaded: the mailbox is full; Failure()'s error. Then the sink is never called.
  // A request that cannot meet ttft_slo_ms is accepted and then ends with kError: kRateLimited,
  // retry_after_seconds set. One for which there is no memory ends with kError: kOverloaded; the
  // others go on. One whose grammar leaves no token (all are banned, or it is too
  // ambiguous) ends with kError: kInvalidArgument.
  virtual Result<RequestId> Submit(GenerationRequest request) = 0;
  // The request ends with kCancelled at the next step boundary. Unknown ids are ignored.
  virtual void Cancel(RequestId id) = 0;
  // Sets the protection of what is cached of a prefix now, and of what is computed or restored of
  // it later, until it ends. Priority 0 ends it.
  virtual void Protect(Protection protection) = 0;
  // Waits until no request runs or waits, write back is on disk, or the deadline has passed.
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;

  // Why the engine serves nobody any more, and never will again: its model file is not what was
  // loaded (kUnavailable). All that ran and waited has ended with the same error. Any thread.
  virtual std::optional<Error> Failure() const { return std::nullopt; }

  virtual const EngineInfo& info() const = 0;
  virtual EngineStats Stats() const = 0;
  // Checks every reference count, list and index against the others; aborts on a difference.
  // For tests: runs on the engine thread between steps.
  virtual void CheckIntegrity() = 0;
};

}  // namespace kvgate::engine
