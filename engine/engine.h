// Engine: the local inference engine as the gateway sees it. Requests come in through a bounded
// mailbox and tokens go out through sinks. It knows token ids and prefixes, not HTTP.
//
// One thread (the engine's own) runs the scheduler, pools, sampler and model; Submit, Cancel and
// Stats may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/model/model.h"
#include "engine/sample/sampler.h"
#include "engine/schedule/context_policy.h"
#include "engine/text/grammar/mask/compiled_grammar.h"
#include "engine/text/grammar/mask/grammar_memory.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/tier/moved_kv.h"
#include "engine/tier/write_admission.h"
#include "kernels/backend.h"
#include "store/kv/kv_store.h"

namespace kvgate::engine {

struct EngineOptions {
  // Limit per sequence; 0 means as many as the model supports and memory holds.
  int context_tokens_max = 0;
  int step_tokens_max = 512;  // token budget of one step: prefill chunks fill what decode leaves
  int mixed_step_tokens_max = 256;  // budget of a step in which a sequence decodes: bounds its ITL
  // Limit of a step's prefill time, as measured; a quarter of it while other requests wait.
  int step_ms_max = 1000;
  // Prompts with at most this many tokens left to prefill take the short lane.
  int short_prompt_tokens = 1024;
  int ttft_slo_ms = 0;  // a request whose TTFT would be longer is refused; 0 means no limit
  double tenant_kv_share = 1.0;  // share of the pool that one tenant's running requests may hold
  int sequences_max = 64;        // running at the same time
  int queue_max = 1024;  // accepted and not yet finished; beyond it Submit returns kOverloaded
  // Memory of the KV block pools; kv/memory_split.h says how groups with a window share it. On a
  // device with its own memory, 0 means model::DevicePoolBytes of the memory that is free beside
  // the model.
  uint64_t kv_bytes = uint64_t{1} << 30;
  // Memory of the host arenas, the tier between pool and disk; split between groups like the pool.
  uint64_t host_bytes = 0;
  kernels::DType kv_dtype = kernels::DType::kF16;
  // The number of most likely tokens of each logits row that are copied to the host before anybody
  // asks for the whole row, at most 256. 0 copies every row whole; a negative value means 0 if the
  // backend's memory is the host's, else 256. Sampled tokens do not depend on it; log-probabilities
  // change by less than 1e-4.
  int logit_head_tokens = -1;
  // The KV that a sequence drops when it grows beyond context_policy_tokens; 0 tokens means no
  // bound.
  schedule::ContextPolicy context_policy = schedule::ContextPolicy::kNone;
  int context_policy_tokens = 0;
  // Limit of the bytes queued for the disk; blocks beyond it are not written.
  uint64_t write_back_bytes_max = uint64_t{256} << 20;
  int io_threads = 2;  // load-back workers
  // The daily budget of write back; null means no limit. It is shared with the owner, which
  // persists and displays its state.
  std::shared_ptr<tier::WriteAdmission> write_admission = {};
  // The same for the store that gateways share.
  std::shared_ptr<tier::WriteAdmission> shared_write_admission = {};
  // The memory limit of grammars and masks, shared with the code that compiles them; null means the
  // default limit.
  std::shared_ptr<grammar::mask::GrammarMemory> grammar_memory = {};
  // The interval between two checks of whether the model's file was written (model_watch.h); 0
  // means no checks. No answer depends on it.
  std::chrono::milliseconds model_watch_interval{1000};
  // For tests: the engine starts no threads. The caller runs EngineLoop::Turn and the tasks of
  // tier::StoreTier on one thread, whose time may be simulated (base/clock.h).
  bool is_driven = false;
  uint64_t hash_seed = 0;  // seed of block hashes, from the data directory
  int hash_bits = 128;     // tests use fewer bits to force collisions
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError };

// The reason why a stored prefix was computed anew; see schedule::GivenUpLoad.
struct GivenUpLoad {
  std::string_view reason;  // "not_worth_it", "late", "damaged"; empty if no load was given up
  int num_tokens = 0;
  // Time spent until the load was given up; the expected time if it never began.
  double load_seconds = 0;
  double compute_seconds = 0;  // expected time to compute the tokens
};

// The cost of one request and the origin of its prefix.
struct RequestStats {
  int num_prompt_tokens = 0;
  int num_cached_tokens = 0;    // device + host + disk + shared
  int num_device_tokens = 0;    // prefix tokens whose KV was in the block pool
  int num_host_tokens = 0;      // copied back from the host arena
  int num_disk_tokens = 0;      // restored from the data directory
  int num_shared_tokens = 0;    // restored from the store that gateways share
  int num_computed_tokens = 0;  // prompt tokens prefilled
  int num_output_tokens = 0;
  double queue_seconds = 0;    // submit to first scheduling
  double restore_seconds = 0;  // waiting for the store
  GivenUpLoad given_up = {};
  double prefill_seconds = 0;  // first scheduling to first token, without the restore time
  double ttft_seconds = 0;     // submit to first token
  double total_seconds = 0;
  BlockHash last_stored_block = {};  // of its tokens that are on disk or on the way there; 0: none
  uint64_t logits_hash = 0;  // XXH3 chained over the logits of all steps; only with hash_logits
};

struct TokenEvent {
  TokenId token = 0;
  std::string text;  // text that may be shown so far: whole characters, no part of a stop string
  float logprob = 0;
  std::vector<sample::TokenLogprob> top_logprobs;
  int num_cached_tokens = 0;  // of the prompt, as in RequestStats
};

struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::string text;            // the rest of the text, which was held back
  std::string stop_string;     // the stop string that matched; empty if none did
  std::optional<Error> error;  // set if reason is kError
  RequestStats stats;
};

// Receives a request's tokens. Called on the engine thread, in order; must not block. OnToken may
// throw std::bad_alloc, which ends the request with an error. OnFinish is called exactly once for
// every accepted request and is the last call; it may throw std::bad_alloc too, but only after it
// has stored the event.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void OnToken(TokenEvent event) = 0;
  virtual void OnFinish(FinishEvent event) = 0;
};

struct GenerationRequest {
  std::vector<TokenId> prompt;  // not empty; ids in [0, vocab_size)
  int max_tokens = 0;           // >= 0; 0 only prefills; cut to what the context leaves
  sample::SamplingParams sampling;
  std::vector<std::string> stop_strings;  // <= 16, none empty
  bool ignore_end_of_generation = false;
  // Control tokens appear as text in the answer, except end tokens.
  bool shows_control_tokens = false;
  // Constrains the output; null means no constraint. The output ends where the grammar does,
  // whatever ignore_end_of_generation says. If max_tokens are enough for some complete text, the
  // output is complete and the reason is kStop: close to the limit only tokens that can still reach
  // an end in time are sampled.
  std::shared_ptr<const grammar::mask::CompiledGrammar> grammar = {};
  bool hash_logits = false;
  // The tenant's salt; prefixes are shared only between requests with the same salt.
  std::string cache_salt;
  // Leading prompt tokens that other requests will probably share (system, tools, history). Their
  // blocks are written back first when the write budget runs short.
  int num_stable_tokens = 0;
  std::shared_ptr<TokenSink> sink;
};

// Where the KV of a block is in memory: the faster of the two places if it is in both.
enum class KvPlace : uint8_t { kAbsent, kHost, kDevice };

// Pins a prefix in the pool and the host arena: how firmly and for how long.
struct PinnedPrefix {
  std::vector<TokenId> tokens;  // only its full blocks are pinned
  std::string cache_salt;
  // 0 is the default of all blocks; a higher one is evicted only after all lower ones
  int priority = 0;
  // A hint does not replace a pin that lasts as long, and is ignored if there are many
  // already.
  bool is_hint = false;
  // The pin ends by itself at this time.
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
};

// The KV memory of one of the model's groups.
struct KvGroupInfo {
  int window = 0;  // in tokens; 0 means that its layers see all positions
  int num_layers = 0;
  uint32_t num_blocks = 0;
  size_t block_bytes = 0;
};

struct EngineInfo {
  model::ModelConfig model;
  kernels::BackendInfo backend;
  size_t weight_bytes = 0;
  uint64_t activation_bytes = 0;
  uint64_t kv_bytes = 0;  // total of the pools
  int context_tokens_max = 0;
  // The longest prompt if a tenant has only a share of the KV memory; 0 means only the context
  // limits it.
  int64_t tenant_tokens_max = 0;
  // Pool of group 0, which decides how many tokens fit. A model without windows has no other group.
  uint32_t num_kv_blocks = 0;
  size_t kv_block_bytes = 0;
  std::vector<KvGroupInfo> kv_groups;
  kernels::DType kv_dtype = kernels::DType::kF16;
  Fingerprint kv_fingerprint;     // identity of the stored KV: model, numerics, KV dtype
  Fingerprint model_fingerprint;  // identity of weights and tokenizer alone
};

// What the engine did with the store that gateways share.
struct SharedTierStats {
  uint64_t restore_bytes_per_second = 0;  // measured; 0 until the first measurement
  uint64_t write_bytes_queued = 0;
  uint64_t num_blocks_write_skipped = 0;  // because the queue was full
  tier::MovedKv moved = {};
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
  uint64_t num_shared_tokens = 0;
  uint64_t num_computed_tokens = 0;
  uint64_t num_output_tokens = 0;
  uint64_t num_blocks_free = 0;    // never used or evicted
  uint64_t num_blocks_cached = 0;  // evictable, hash kept
  uint64_t num_blocks_used = 0;    // referenced by running sequences or by copies
  uint64_t num_blocks_evicted = 0;
  // Totals of the groups with a window.
  uint64_t num_window_blocks_free = 0;
  uint64_t num_window_blocks_cached = 0;
  uint64_t num_window_blocks_used = 0;
  uint64_t num_window_blocks_evicted = 0;
  uint64_t num_digest_mismatches = 0;  // the hash matched but the digest did not: served as a miss
  uint64_t write_back_bytes_queued = 0;
  uint64_t num_blocks_written = 0;
  // Not written because the queue was full, the budget spent or the disk tier off.
  uint64_t num_blocks_write_skipped = 0;
  uint64_t num_host_blocks = 0;  // in the host arena, out of num_host_blocks_max
  uint64_t num_host_blocks_max = 0;
  uint64_t num_host_blocks_evicted = 0;
  uint64_t num_refused_by_slo = 0;
  uint64_t num_out_of_memory = 0;  // times that work was dropped because memory ran out
  uint64_t num_single_flight = 0;  // requests that waited for another one to compute their prefix
  uint64_t num_restores_cut = 0;   // loads given up because recomputing was quicker
  uint64_t num_restores_skipped = 0;  // disk hits recomputed from the start, for the same reason
  uint64_t prefill_tokens_per_second = 0;  // measured; 0 until the first measurement
  uint64_t restore_bytes_per_second = 0;   // measured; 0 until the first measurement
  tier::MovedKv moved = {};                // to the disk and back
  SharedTierStats shared = {};
};

// The error (kOverloaded) of a request that ran out of memory. Its detail is short if there is no
// memory for a whole sentence.
Error OutOfMemory() noexcept;

// The stores below an engine's memory; null means that there is none.
struct Stores {
  store::kv::KvStore* disk = nullptr;
  store::kv::BlockStore* shared = nullptr;  // what gateways share

  Stores() = default;
  Stores(std::nullptr_t) {}                                     // NOLINT: neither
  Stores(store::kv::KvStore* disk_store) : disk(disk_store) {}  // NOLINT: the disk alone
  Stores(store::kv::KvStore* disk_store, store::kv::BlockStore* shared_store)
      : disk(disk_store), shared(shared_store) {}
};

class Engine {
 public:
  // Backend, tokenizer and stores must outlive the engine. Fails with kInvalidArgument (field
  // "kv_memory") if the KV memory holds fewer than two blocks, or is more than the device has
  // beside the model.
  static Result<std::unique_ptr<Engine>> Open(const EngineOptions& options,
                                              std::shared_ptr<const modelfile::ModelFile> file,
                                              kernels::Backend& backend,
                                              const tokenizer::Tokenizer& tokenizer,
                                              const Stores& stores);
  // The same for a model that is already loaded with that backend.
  static Result<std::unique_ptr<Engine>> Open(const EngineOptions& options,
                                              std::unique_ptr<model::Model> model,
                                              kernels::Backend& backend,
                                              const tokenizer::Tokenizer& tokenizer,
                                              const Stores& stores);
  // Finishes every request with kCancelled, writes back what is queued, and joins the thread.
  virtual ~Engine() = default;

  // Fails with kInvalidArgument (field: "prompt", "max_tokens", "grammar") if the prompt is empty,
  // holds an unknown id or is longer than the context or the tenant's share, if max_tokens is
  // negative, or if the grammar is for a larger vocabulary; with kOverloaded if the mailbox is
  // full; or with Failure()'s error. The sink is not called in these cases. An accepted request
  // ends with FinishReason::kError and this error code: kRateLimited with retry_after_seconds if it
  // cannot meet ttft_slo_ms; kOverloaded if memory runs out, while the others go on;
  // kInvalidArgument if its grammar leaves no token (all are banned, or it is too ambiguous).
  virtual Result<RequestId> Submit(GenerationRequest request) = 0;
  // The request ends with kCancelled at the next step boundary. Unknown ids are ignored.
  virtual void Cancel(RequestId id) = 0;
  // Sets the priority of a prefix until the pin ends: of the blocks that are cached and of
  // those that are computed or restored later. Priority 0 ends the pin.
  virtual void Pin(PinnedPrefix pin) = 0;
  // Says where in memory these blocks of the engine's model are now, of the layers that see all
  // positions. The engine's thread looks them up between two steps; returns nothing if it does not
  // come to it within `timeout`.
  virtual std::optional<std::vector<KvPlace>> Locate(std::vector<BlockHash> /*blocks*/,
                                                     std::chrono::milliseconds /*timeout*/) {
    return std::nullopt;
  }
  // Waits until no request runs or waits and write back is on disk. Returns false if the timeout
  // passes first or the flush fails.
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;

  // Returns the error (kUnavailable) after which the engine never serves again: its model file is
  // no longer what was loaded. All running and waiting requests have ended with the same error. May
  // be called from any thread.
  virtual std::optional<Error> Failure() const { return std::nullopt; }

  virtual const EngineInfo& info() const = 0;
  virtual EngineStats Stats() const = 0;
  // Checks every reference count, list and index against the others; aborts on a difference.
  // For tests: runs on the engine thread between steps.
  virtual void CheckIntegrity() = 0;
};

}  // namespace kvgate::engine
