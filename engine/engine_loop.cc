#include "engine/engine_loop.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <future>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "engine/kv_identity.h"
#include "engine/request_stats.h"

namespace kvgate::engine {

using schedule::Clock;
using schedule::Sequence;
using schedule::SequenceState;

namespace {

static_assert(kernels::kTopCountMax <= static_cast<int>(sample::kHeadTokensMax),
              "what a backend gives of a row is a head");

// The interval at which the engine checks whether a running load still pays.
constexpr std::chrono::microseconds kRestoreCheckInterval{1000};
// The same interval if all running sequences wait for copies from host memory, which take some ms.
constexpr std::chrono::microseconds kCopyCheckInterval{50};
// An idle engine wakes this often, because a pin may end.
constexpr std::chrono::microseconds kIdleInterval{60'000'000};
// Reads of the shared store that are under way at once, since each of them waits for the network.
constexpr int kSharedThreads = 4;

}  // namespace

uint32_t OwnerBlocksMax(const EngineOptions& options, uint32_t num_blocks) {
  if (options.tenant_kv_share >= 1) return 0;
  return std::max(1u, static_cast<uint32_t>(std::ceil(options.tenant_kv_share * num_blocks)));
}

EngineLoop::EngineLoop(const EngineOptions& options, EngineInfo info, Parts parts,
                       kernels::Backend& backend, const tokenizer::Tokenizer& tokenizer,
                       const Stores& stores)
    : options_(options),
      info_(WithFingerprints(std::move(info), *parts.model, tokenizer)),
      backend_(backend),
      tokenizer_(tokenizer),
      parts_(std::move(parts)),
      mailbox_(static_cast<size_t>(options.queue_max)),
      hasher_({.fingerprint = KvFingerprint(info_, *parts_.model, tokenizer),
               .seed = options.hash_seed,
               .hash_bits = options.hash_bits}),
      pinned_(hasher_),
      disk_(MakeTier(tier::StoreName::kDisk, stores.disk)),
      shared_(MakeTier(tier::StoreName::kShared, stores.shared)),
      finder_(stores.shared == nullptr
                  ? nullptr
                  : std::make_unique<tier::BlockFinder>(
                        tier::BlockFinder::Options{.fingerprint = info_.kv_fingerprint,
                                                   .is_driven = options.is_driven,
                                                   .on_answer =
                                                       [this](uint64_t ticket) {
                                                         mailbox_.Post([this, ticket] {
                                                           scheduler_.OnLookedUp(ticket);
                                                         });
                                                       }},
                        *stores.shared)),
      scheduler_(
          {.step = {.tokens_max = options.step_tokens_max,
                    .mixed_tokens_max = options.mixed_step_tokens_max,
                    .seconds_max = options.step_ms_max * 1e-3,
                    .short_prompt_tokens = options.short_prompt_tokens},
           .sequences_max = options.sequences_max,
           .tenant_kv_share = options.tenant_kv_share,
           .context_policy = options.context_policy_tokens > 0 ? options.context_policy
                                                               : schedule::ContextPolicy::kNone,
           .context_policy_tokens = options.context_policy_tokens},
          {.hasher = hasher_,
           .groups = parts_.groups,
           .stores = {.disk = disk_.get(), .shared = shared_.get(), .finder = finder_.get()},
           .backend = backend_,
           .costs = costs_}),
      writes_(parts_.groups, disk_.get(), options.write_admission.get()),
      shared_writes_(parts_.groups, shared_.get(), options.shared_write_admission.get()),
      runner_(info_, options.logit_head_tokens, *parts_.model, parts_.groups) {
  costs_.SetHostSpeed(parts_.warm_up.host_bytes_per_second);
  costs_.SetSlope(parts_.warm_up.seconds_per_position);
  if (parts_.warm_up.num_rows > 0) {
    costs_.ObserveStep(parts_.warm_up.num_rows, 0, parts_.warm_up.seconds);
  }
  PublishStats();
  if (options.is_driven) return;
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "kvgate-engine");
  const model::EmbeddingTable* const rows = parts_.model->rows_in_file();
  const bool is_watched = options.model_watch_interval.count() > 0;
  if (!is_watched || rows == nullptr || rows->file() == nullptr) return;
  try {
    watch_ = std::make_unique<ModelWatch>(
        *rows, ModelWatch::Options{.interval = options.model_watch_interval,
                                   .on_change = [this](const Error& cause) {
                                     mailbox_.Post([this, cause] { FailModel(cause); });
                                   }});
  } catch (...) {  // no thread may outlive the members it uses
    mailbox_.Post([this] { stopping_ = true; });
    thread_.join();
    throw;
  }
}

std::unique_ptr<tier::StoreTier> EngineLoop::MakeTier(tier::StoreName name,
                                                      store::kv::BlockStore* store) {
  if (store == nullptr) return nullptr;
  const bool is_disk = name == tier::StoreName::kDisk;
  tier::StoreTier::Options options{
      .store = name,
      .fingerprint = info_.kv_fingerprint,
      .groups = {},
      .write_bytes_max = options_.write_back_bytes_max,
      .load_threads = is_disk ? options_.io_threads : kSharedThreads,
      .is_driven = options_.is_driven,
      .on_completion = [this](tier::Completion completion) {
        mailbox_.Post([this, completion] { OnCompletion(completion); });
      }};
  for (const auto& group : parts_.groups.all()) {
    kernels::KvArena& arena = group->arena();
    options.groups.push_back({.arena = &arena, .shape_tag = ShapeTag(arena.shape())});
  }
  return std::make_unique<tier::StoreTier>(std::move(options), *store, backend_);
}

EngineLoop::~EngineLoop() {
  watch_.reset();
  mailbox_.Post([this] { stopping_ = true; });
  if (thread_.joinable()) thread_.join();
  matchers_.StopWorker();  // its answers are in the mailbox after this
  // These finish their jobs, whose completions are in the mailbox after this.
  disk_.reset();
  shared_.reset();
  finder_.reset();
  for (const Mailbox::Message& message : mailbox_.TakeAll({})) message();
  while (const Sequence* const left = scheduler_.Newest()) End(left->id, FinishReason::kCancelled);
  KVGATE_CHECK(writes_.empty() && shared_writes_.empty(), "a write back never completed");
}

Result<RequestId> EngineLoop::Submit(GenerationRequest request) {
  const auto refuse = [](std::string field, std::string detail) {
    return MakeError(ErrorCode::kInvalidArgument, "engine", std::move(detail), std::move(field));
  };
  KVGATE_CHECK(request.sink != nullptr, "a request without a sink");
  if (std::optional<Error> failure = Failure()) return *std::move(failure);
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  if (num_prompt == 0) return refuse("prompt", "the prompt has no tokens");
  for (const TokenId token : request.prompt) {
    if (token < 0 || token >= info_.model.vocab_size) {
      return refuse("prompt", fmt::format("token id {} is not in the vocabulary of {} tokens",
                                          token, info_.model.vocab_size));
    }
  }
  if (info_.tenant_tokens_max > 0 && num_prompt > info_.tenant_tokens_max) {
    return refuse("prompt", fmt::format("the prompt has {} tokens; one tenant's share of the KV "
                                        "memory holds {}",
                                        num_prompt, info_.tenant_tokens_max));
  }
  // A prompt that fills the whole context leaves no room for an output token.
  const int room = info_.context_tokens_max - (request.max_tokens > 0 ? 1 : 0);
  if (num_prompt > room) {
    return refuse("prompt",
                  fmt::format("the prompt has {} tokens; the context of {} tokens holds {} and an "
                              "answer",
                              num_prompt, info_.context_tokens_max, room));
  }
  if (request.grammar != nullptr && request.grammar->trie->vocab_size() > info_.model.vocab_size) {
    return refuse("grammar", "the grammar is for a larger vocabulary than the model's");
  }
  if (request.max_tokens < 0) return refuse("max_tokens", "max_tokens is negative");
  request.max_tokens = static_cast<int>(
      std::min<int64_t>(request.max_tokens, info_.context_tokens_max - num_prompt));

  auto sequence = std::make_shared<std::unique_ptr<Sequence>>(std::make_unique<Sequence>());
  Sequence& made = **sequence;
  made.id = RequestId{next_request_id_.fetch_add(1, std::memory_order_relaxed)};
  made.owner = std::make_unique<Generation>(request, tokenizer_, &matchers_);  // reads the prompt
  made.salt = std::move(request.cache_salt);
  made.tokens = std::move(request.prompt);
  made.num_prompt_tokens = static_cast<int>(num_prompt);
  made.num_stable_tokens = request.num_stable_tokens;
  made.submitted_at = Clock::now();
  const RequestId id = made.id;
  if (!mailbox_.TryPost([this, sequence] { OnSubmit(std::move(*sequence)); })) {
    return MakeError(ErrorCode::kOverloaded, "engine",
                     fmt::format("{} requests are waiting already", options_.queue_max));
  }
  return id;
}

void EngineLoop::Cancel(RequestId id) {
  mailbox_.Post([this, id] { OnCancel(id); });
}

void EngineLoop::Pin(PinnedPrefix pin) {
  auto shared = std::make_shared<PinnedPrefix>(std::move(pin));
  mailbox_.Post([this, shared] { OnPin(*shared); });
}

bool EngineLoop::Drain(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (true) {
    bool idle = false;
    Call([&] { idle = Idle(); });
    if (idle) break;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (shared_ != nullptr) (void)shared_->Flush();  // what it does not take is not kept there
  if (disk_ == nullptr) return true;
  if (const Result<void> flushed = disk_->Flush(); !flushed) {
    KVGATE_LOG(kWarning, "engine", "KV not flushed: {}", flushed.error().ToString());
    return false;
  }
  return true;
}

std::optional<std::vector<KvPlace>> EngineLoop::Locate(std::vector<BlockHash> blocks,
                                                       std::chrono::milliseconds timeout) {
  struct Question {
    std::vector<BlockHash> blocks;
    std::vector<KvPlace> places;
    std::promise<void> answered;
  };
  auto question = std::make_shared<Question>();
  question->places.resize(blocks.size(), KvPlace::kAbsent);
  question->blocks = std::move(blocks);
  std::future<void> answer = question->answered.get_future();
  const auto look_up = [this, question] {
    tier::FullGroup& group = parts_.groups.full();
    const tier::HostTier* const host = group.host();
    for (size_t i = 0; i < question->blocks.size(); ++i) {
      const BlockHash& block = question->blocks[i];
      if (host != nullptr && host->Contains(block)) question->places[i] = KvPlace::kHost;
      if (group.cache().Contains(block)) question->places[i] = KvPlace::kDevice;
    }
    question->answered.set_value();
  };
  if (options_.is_driven) look_up();
  if (!options_.is_driven) mailbox_.Post(look_up);
  if (answer.wait_for(timeout) != std::future_status::ready) return std::nullopt;
  return std::move(question->places);
}

void EngineLoop::CheckIntegrity() {
  Call([this] {
    for (const auto& group : parts_.groups.all()) {
      group->pool().CheckIntegrity();
      group->cache().CheckIntegrity();
      if (Idle()) KVGATE_CHECK(group->pool().num_used() == 0, "an idle engine holds blocks");
      if (group->host() != nullptr) group->host()->CheckIntegrity();
    }
  });
}

void EngineLoop::Call(std::function<void()> body) {
  if (options_.is_driven) return body();
  std::promise<void> done;
  mailbox_.Post([&] {
    try {
      body();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

bool EngineLoop::Idle() const {
  return scheduler_.num_running() == 0 && scheduler_.num_waiting() == 0 && writes_.empty() &&
         shared_writes_.empty() && !scheduler_.restoring();
}

void EngineLoop::Run() {
  std::chrono::microseconds wait{0};
  // A step may take a little longer than it was planned to.
  const std::chrono::milliseconds step_max(4 * options_.step_ms_max);
  ThreadActivity activity(
      {.pool = "engine", .patience = std::max(step_max, std::chrono::milliseconds(1'000))});
  activity_ = &activity;
  while (!stopping_) wait = Turn(wait);
  activity_ = nullptr;
}

std::chrono::microseconds EngineLoop::Turn(std::chrono::microseconds wait) {
  TakeMessages(wait);
  Admit();
  const std::vector<schedule::StepItem> step = PlanStep();
  has_stepped_ = !step.empty();
  if (has_stepped_) RunStep(step);
  PublishStats();
  if (std::exchange(has_shed_, false) || !step.empty()) return std::chrono::microseconds(0);
  if (scheduler_.copying()) return kCopyCheckInterval;
  // A load may fall behind at any moment; everything else starts with a message.
  return scheduler_.restoring() ? kRestoreCheckInterval : kIdleInterval;
}

// Runs the waiting messages. One that finds no memory is dropped: a submitted request handles that
// itself (OnSubmit), a pin is not set, and a late load goes on until the next turn.
void EngineLoop::TakeMessages(std::chrono::microseconds wait) {
  if (activity_ != nullptr) activity_->End();
  const std::vector<Mailbox::Message> messages = mailbox_.TakeAll(wait);
  if (activity_ != nullptr) activity_->Begin("a turn of the engine");
  matchers_.BeginTurn();
  for (const Mailbox::Message& message : messages) {
    try {
      message();
    } catch (const std::bad_alloc&) {
      ++stats_.num_out_of_memory;
    }
  }
  try {
    EndExpiredPins();
    scheduler_.GiveUpLateRestores(std::exchange(has_stepped_, false));
  } catch (const std::bad_alloc&) {
    ++stats_.num_out_of_memory;
  }
}

void EngineLoop::Admit() {
  try {
    scheduler_.AdmitWaiting();
  } catch (const std::bad_alloc&) {
    if (const std::optional<RequestId> id = scheduler_.admitting()) return Shed(*id);
    ShedNewest();
  }
}

std::vector<schedule::StepItem> EngineLoop::PlanStep() {
  try {
    return scheduler_.PlanStep();
  } catch (const std::bad_alloc&) {
    ShedNewest();
    return {};
  }
}

// Ends the newest sequence, so that those admitted before it go on.
void EngineLoop::ShedNewest() {
  if (const Sequence* const newest = scheduler_.Newest()) Shed(newest->id);
}

void EngineLoop::Shed(RequestId id) {
  ++stats_.num_out_of_memory;
  has_shed_ = true;  // another sequence may be able to run
  End(id, FinishReason::kError, OutOfMemory());
}

void EngineLoop::OnSubmit(std::unique_ptr<Sequence> sequence) {
  ++stats_.num_requests;
  if (failure_.has_value()) return Refuse(sequence, *failure_);
  Sequence& entered = *sequence;
  try {
    Enter(sequence);
  } catch (const std::bad_alloc&) {
    ++stats_.num_out_of_memory;
    return Refuse(sequence, OutOfMemory());
  }
  if (sequence == nullptr) BeginMask(entered);  // else it was refused
}

// Takes the sequence, unless it throws or the TTFT limit refuses it.
void EngineLoop::Enter(std::unique_ptr<Sequence>& sequence) {
  // A request that only warms a prefix waits for no token.
  if (options_.ttft_slo_ms > 0 && GenerationOf(*sequence).wants_output()) {
    const double seconds = scheduler_.EstimateTtftSeconds(*sequence);
    if (seconds * 1e3 > options_.ttft_slo_ms) return RefuseBySlo(sequence, seconds);
  }
  const auto num_prompt_tokens = static_cast<uint64_t>(sequence->num_prompt_tokens);
  scheduler_.Add(std::move(sequence));
  stats_.num_prompt_tokens += num_prompt_tokens;
}

// Starts the grammar mask that the first token needs. REQUIRES: the sequence waits.
void EngineLoop::BeginMask(Sequence& sequence) {
  const Generation& generation = GenerationOf(sequence);
  if (!generation.has_grammar() || !generation.wants_output()) return;
  const RequestId id = sequence.id;
  try {
    if (!PursueMask(sequence)) End(id, generation.finish_reason());
  } catch (const std::bad_alloc&) {
    Shed(id);
  }
}

// Returns false if the request is over. While the mask is being computed the sequence is in no
// step.
bool EngineLoop::PursueMask(Sequence& sequence) {
  Generation& generation = GenerationOf(sequence);
  const RequestId id = sequence.id;
  const bool is_there =
      generation.PursueMask([this, id](std::shared_ptr<grammar::mask::Matcher> matcher) {
        mailbox_.Post([this, id, matcher = std::move(matcher)] { OnMask(id, matcher); });
      });
  sequence.awaits_mask = !is_there;
  return !is_there || generation.Settle();
}

void EngineLoop::OnMask(RequestId id, const std::shared_ptr<grammar::mask::Matcher>& matcher) {
  matchers_.TakeBack(matcher);
  Sequence* const sequence = scheduler_.Find(id);
  if (sequence == nullptr) return;  // it was cancelled meanwhile
  sequence->awaits_mask = false;
  try {
    Generation& generation = GenerationOf(*sequence);
    if (!generation.Settle()) End(id, generation.finish_reason());
  } catch (const std::bad_alloc&) {
    Shed(id);
  }
}

// Refuses the request and says when to retry: once the work ahead of it is done. If its own prefill
// alone takes longer than the limit, retrying does not help, and the error says so.
void EngineLoop::RefuseBySlo(std::unique_ptr<Sequence>& sequence, double ttft_seconds) {
  const double slo_seconds = options_.ttft_slo_ms * 1e-3;
  const int num_cached = sequence->num_cached_at_arrival;
  const int num_own = sequence->num_tokens() - num_cached;
  const double own_seconds = costs_.PrefillSeconds(num_cached, num_own);
  const std::string why =
      own_seconds > slo_seconds
          ? fmt::format(
                "Its {} tokens that are not cached take about {:.3g} s alone, so that "
                "waiting does not help: shorten the prompt, warm it, or raise "
                "engine.ttft_slo_ms.",
                num_own, own_seconds)
          : "Try again later.";
  Error error = MakeError(
      ErrorCode::kRateLimited, "engine",
      fmt::format("The first token would come after about {:.3g} s; this server promises {:.3g} s "
                  "(engine.ttft_slo_ms). {}",
                  ttft_seconds, slo_seconds, why));
  error.retryable = true;
  error.retry_after_seconds = std::max(1, static_cast<int>(std::ceil(ttft_seconds - slo_seconds)));
  ++stats_.num_refused_by_slo;
  Refuse(sequence, std::move(error));
}

void EngineLoop::Refuse(std::unique_ptr<Sequence>& sequence, Error error) {
  mailbox_.ReleaseBounded();
  PublishStats();
  GenerationOf(*sequence).Finish(FinishReason::kError, StatsOf(*sequence), std::move(error));
}

void EngineLoop::OnCancel(RequestId id) {
  if (scheduler_.Find(id) == nullptr) return;  // it has ended by itself
  End(id, FinishReason::kCancelled);
}

void EngineLoop::OnPin(const PinnedPrefix& pin) {
  if (pinned_.Set(pin)) ApplyPins();
}

void EngineLoop::ApplyPins() {
  for (const auto& group : parts_.groups.all()) {
    kv::PriorityMap priorities = pinned_.Priorities(group->window());
    if (group->host() != nullptr) group->host()->SetPriorities(priorities);
    group->cache().SetPriorities(std::move(priorities));
  }
}

void EngineLoop::EndExpiredPins() {
  if (pinned_.EndExpired(Clock::now())) ApplyPins();
}

void EngineLoop::OnCompletion(const tier::Completion& completion) {
  const bool is_disk = completion.store == tier::StoreName::kDisk;
  switch (completion.kind) {
    case tier::Completion::Kind::kLoad:
      return scheduler_.OnRestored(completion);
    case tier::Completion::Kind::kWrite:
      return (is_disk ? writes_ : shared_writes_).OnCompletion(completion);
  }
}

void EngineLoop::WriteBack(Sequence& sequence) {
  if (failure_.has_value()) return;
  // At the end of the engine the tiers go before the sequences.
  if (disk_ != nullptr) writes_.Write(sequence);
  if (shared_ != nullptr && !finder_->is_paused()) shared_writes_.Write(sequence);
}

void EngineLoop::RunStep(const std::vector<schedule::StepItem>& step) {
  if (!ComputeStep(step)) return;
  ++stats_.num_steps;
  size_t logit_row = 0;
  for (const schedule::StepItem& item : step) {
    const RequestId id = item.sequence->id;
    try {
      TakeStep(item, logit_row);
    } catch (const std::bad_alloc&) {
      Shed(id);
    }
  }
}

// Returns false if the step does not count. Without memory the step's newest sequence ends and the
// others are computed anew, to the same bits. Sequences with a bounded context end too, because
// attention would add to their block_mass twice.
bool EngineLoop::ComputeStep(const std::vector<schedule::StepItem>& step) {
  try {
    runner_.Gather(step);
    const Clock::time_point began = Clock::now();
    const Result<void> computed = runner_.Run();
    if (!computed) {
      FailModel(computed.error());
      return false;
    }
    ObserveStep(step, Seconds(began, Clock::now()));
    return true;
  } catch (const std::bad_alloc&) {
    for (const schedule::StepItem& item : step) {
      const bool is_last = &item == &step.back();
      if (is_last || !item.sequence->block_mass.empty()) Shed(item.sequence->id);
    }
    return false;
  }
}

// Applies a step's results to one of its sequences.
void EngineLoop::TakeStep(const schedule::StepItem& item, size_t& logit_row) {
  const size_t row = logit_row;
  if (item.wants_logits) ++logit_row;
  scheduler_.OnComputed(item);
  KeepWindows(*item.sequence);
  if (!item.wants_logits) return;
  sample::LogitRow logits = runner_.Logits(row);
  AdvanceSequence(*item.sequence, logits);
}

// The cost model learns from steps of which at least three quarters are prefill.
void EngineLoop::ObserveStep(const std::vector<schedule::StepItem>& step, double seconds) {
  int num_rows = 0;
  int num_prefill = 0;
  double positions = 0;
  for (const schedule::StepItem& item : step) {
    num_rows += item.num_tokens;
    if (item.num_tokens < 2) continue;
    num_prefill += item.num_tokens;
    positions += item.num_tokens * (item.sequence->num_computed + item.num_tokens / 2.0);
  }
  if (num_prefill * 4 < num_rows * 3) return;
  costs_.ObserveStep(num_rows, positions / num_prefill, seconds);
}

void EngineLoop::AdvanceSequence(Sequence& sequence, sample::LogitRow& logits) {
  Generation& generation = GenerationOf(sequence);
  const bool is_first = generation.num_output_tokens() == 0;
  if (is_first) {
    sequence.first_token_at = Clock::now();
    const int num_cached = StatsOf(sequence).num_cached_tokens;
    generation.SetCachedTokens(num_cached);
    // A request that only warms a prefix is spared nothing.
    if (disk_ != nullptr && generation.wants_output()) {
      disk_->CountHit(sequence.keys, num_cached, costs_.PrefillSeconds(0, num_cached));
    }
  }
  if (!generation.wants_output()) return End(sequence.id, FinishReason::kLength);
  const std::optional<TokenId> token = generation.Advance(logits);
  if (!token.has_value()) return End(sequence.id, generation.finish_reason());
  if (generation.has_grammar() && !PursueMask(sequence)) {
    return End(sequence.id, generation.finish_reason());
  }
  sequence.tokens.push_back(*token);
  // A prefix worth keeping is written once the first token is out, not after a long answer.
  if (is_first) WriteBack(sequence);
}

// Blocks that slide out of a window are written first, because no sequence holds them afterwards.
void EngineLoop::KeepWindows(Sequence& sequence) {
  if (scheduler_.SlidesUnstored(sequence)) WriteBack(sequence);
  scheduler_.SlideWindows(sequence);
}

// Ends all requests for good. The stored KV stays valid, because the loaded model computed it; but
// a hit would have to be continued by steps that can no longer be computed.
void EngineLoop::FailModel(const Error& cause) {
  if (failure_.has_value()) return;
  KVGATE_LOG(kError, "engine",
             "THE MODEL FILE CHANGED WHILE IT IS SERVED: {}. No request is answered and no KV is "
             "stored from now on; restart to serve the file as it is now, and replace model files "
             "by rename",
             cause.detail);
  failure_ = MakeError(ErrorCode::kUnavailable, "engine",
                       "the model file changed on disk while it was being served; nothing more is "
                       "computed with it until kvgate is restarted");
  has_failed_.store(true, std::memory_order_release);
  while (const Sequence* const left = scheduler_.Newest()) {
    End(left->id, FinishReason::kError, failure_);
  }
}

void EngineLoop::End(RequestId id, FinishReason reason, std::optional<Error> error) {
  if (Sequence* sequence = scheduler_.Find(id); sequence->state == SequenceState::kRunning) {
    WriteBack(*sequence);
  }
  const std::unique_ptr<Sequence> sequence = scheduler_.Remove(id);
  Generation& generation = GenerationOf(*sequence);
  const RequestStats stats = StatsOf(*sequence);
  stats_.num_device_tokens += static_cast<uint64_t>(stats.num_device_tokens);
  stats_.num_host_tokens += static_cast<uint64_t>(stats.num_host_tokens);
  stats_.num_disk_tokens += static_cast<uint64_t>(stats.num_disk_tokens);
  stats_.num_shared_tokens += static_cast<uint64_t>(stats.num_shared_tokens);
  stats_.num_computed_tokens += static_cast<uint64_t>(stats.num_computed_tokens);
  stats_.num_output_tokens += static_cast<uint64_t>(generation.num_output_tokens());
  mailbox_.ReleaseBounded();
  // Published before the sink is called, so that whoever asks after the answer sees it counted.
  PublishStats();
  generation.Finish(reason, stats, std::move(error));
}

void EngineLoop::SumGroupStats() {
  tier::FullGroup& full = parts_.groups.full();
  stats_.num_blocks_free = full.pool().num_free();
  stats_.num_blocks_cached = full.pool().num_cached();
  stats_.num_blocks_used = full.pool().num_used();
  stats_.num_blocks_evicted = full.pool().num_evicted();
  if (const tier::HostTier* const host = full.host(); host != nullptr) {
    stats_.num_host_blocks = host->num_cached();
    stats_.num_host_blocks_max = host->num_blocks();
    stats_.num_host_blocks_evicted = host->num_evicted();
  }
  stats_.num_digest_mismatches = full.cache().num_digest_mismatches();
  stats_.num_window_blocks_free = stats_.num_window_blocks_cached = 0;
  stats_.num_window_blocks_used = stats_.num_window_blocks_evicted = 0;
  for (tier::WindowGroup* const window : parts_.groups.windows()) {
    stats_.num_window_blocks_free += window->pool().num_free();
    stats_.num_window_blocks_cached += window->pool().num_cached();
    stats_.num_window_blocks_used += window->pool().num_used();
    stats_.num_window_blocks_evicted += window->pool().num_evicted();
    stats_.num_digest_mismatches += window->cache().num_digest_mismatches();
  }
}

void EngineLoop::PublishStats() {
  stats_.num_running = scheduler_.num_running();
  stats_.num_waiting = scheduler_.num_waiting();
  stats_.num_preemptions = scheduler_.num_preemptions();
  stats_.num_single_flight = scheduler_.num_single_flight();
  stats_.num_restores_cut = scheduler_.restorer().num_cut();
  stats_.num_blocks_write_skipped = writes_.num_blocks_skipped();
  stats_.num_restores_skipped = scheduler_.restorer().num_skipped();
  stats_.prefill_tokens_per_second = static_cast<uint64_t>(costs_.prefill_tokens_per_second());
  SumGroupStats();
  if (disk_ != nullptr) {
    stats_.restore_bytes_per_second = static_cast<uint64_t>(disk_->load_speed().bytes_per_second);
    stats_.write_back_bytes_queued = disk_->write_bytes_queued();
    stats_.num_blocks_written = (stats_.moved = disk_->moved()).num_blocks_written;
  }
  if (shared_ != nullptr) {
    const double speed = shared_->load_speed().bytes_per_second;
    stats_.shared = {.restore_bytes_per_second = static_cast<uint64_t>(speed),
                     .write_bytes_queued = shared_->write_bytes_queued(),
                     .num_blocks_write_skipped = shared_writes_.num_blocks_skipped(),
                     .moved = shared_->moved()};
  }
  published_.Publish(stats_);
}

}  // namespace kvgate::engine
