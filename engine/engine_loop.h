// EngineLoop: the engine thread. One turn takes messages, admits, plans a step, runs the model and
// hands out tokens. Everything it owns is touched by this thread only; the rest of the process
// talks to it through the mailbox.
//
// An allocation failure (std::bad_alloc) is caught at four places, each of which knows the request
// that is concerned: a message, admission, planning and computing a step, and one sequence's
// handling of its logits. That request ends with OutOfMemory and the others go on. Ending a
// sequence after the exception takes no memory.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/thread_activity.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/mailbox.h"
#include "engine/model_watch.h"
#include "engine/pinned_prefixes.h"
#include "engine/published_stats.h"
#include "engine/sample/logit_row.h"
#include "engine/schedule/scheduler.h"
#include "engine/step_runner.h"
#include "engine/tier/kv_group.h"
#include "engine/tier/store_tiers.h"
#include "engine/write_backs.h"

namespace kvgate::engine {

// Measurements made before the first request: a forward pass, and copies from the host arena.
struct WarmUp {
  int num_rows = 0;
  double seconds = 0;
  double seconds_per_position = 0;   // added cost of a token over the one before it
  double host_bytes_per_second = 0;  // 0 if the cost is negligible or there is no host arena
};

// One tenant's limit of blocks in a pool; 0 means no limit. With a limit, a tenant's cached blocks
// count against it as well as those in use.
uint32_t OwnerBlocksMax(const EngineOptions& options, uint32_t num_blocks);

class EngineLoop final : public Engine {
 public:
  struct Parts {
    std::unique_ptr<model::Model> model;
    tier::KvGroups groups;
    WarmUp warm_up;
  };
  EngineLoop(const EngineOptions& options, EngineInfo info, Parts parts, kernels::Backend& backend,
             const tokenizer::Tokenizer& tokenizer, const Stores& stores);
  ~EngineLoop() override;

  Result<RequestId> Submit(GenerationRequest request) override;
  void Cancel(RequestId id) override;
  void Pin(PinnedPrefix pin) override;
  std::optional<std::vector<KvPlace>> Locate(std::vector<BlockHash> blocks,
                                             std::chrono::milliseconds timeout) override;
  bool Drain(std::chrono::milliseconds timeout) override;
  std::optional<Error> Failure() const override {
    return has_failed_.load(std::memory_order_acquire) ? failure_ : std::nullopt;
  }
  const EngineInfo& info() const override { return info_; }
  EngineStats Stats() const override { return published_.Read(); }
  void CheckIntegrity() override;

  // Runs one turn: messages, admission, a step. Returns how long the next turn may wait for a
  // message. Only the engine's thread calls it, or the caller that drives the engine
  // (EngineOptions::is_driven).
  std::chrono::microseconds Turn(std::chrono::microseconds wait);
  // Null if there is no disk tier.
  tier::StoreTier* disk_tier() { return disk_.get(); }

 private:
  void Run();
  void TakeMessages(std::chrono::microseconds wait);
  void Admit();
  std::vector<schedule::StepItem> PlanStep();
  void RunStep(const std::vector<schedule::StepItem>& step);
  bool ComputeStep(const std::vector<schedule::StepItem>& step);
  void TakeStep(const schedule::StepItem& item, size_t& logit_row);
  void ShedNewest();
  void Shed(RequestId id);
  void ObserveStep(const std::vector<schedule::StepItem>& step, double seconds);
  void AdvanceSequence(schedule::Sequence& sequence, sample::LogitRow& logits);
  void OnSubmit(std::unique_ptr<schedule::Sequence> sequence);
  void Enter(std::unique_ptr<schedule::Sequence>& sequence);
  void RefuseBySlo(std::unique_ptr<schedule::Sequence>& sequence, double ttft_seconds);
  void Refuse(std::unique_ptr<schedule::Sequence>& sequence, Error error);
  void BeginMask(schedule::Sequence& sequence);
  bool PursueMask(schedule::Sequence& sequence);
  void OnMask(RequestId id, const std::shared_ptr<grammar::mask::Matcher>& matcher);
  void OnCancel(RequestId id);
  void OnPin(const PinnedPrefix& pin);
  void ApplyPins();
  std::unique_ptr<tier::StoreTier> MakeTier(tier::StoreName name, store::kv::BlockStore* store);
  void EndExpiredPins();
  void OnCompletion(const tier::Completion& completion);
  void End(RequestId id, FinishReason reason, std::optional<Error> error = std::nullopt);
  void FailModel(const Error& cause);
  void KeepWindows(schedule::Sequence& sequence);
  void WriteBack(schedule::Sequence& sequence);
  void SumGroupStats();
  void PublishStats();
  bool Idle() const;
  // Runs `body` on the engine thread and waits until it has run.
  void Call(std::function<void()> body);

  // The work limit of grammar masks on the engine's thread between two steps, about 4 ms.
  static constexpr uint64_t kMaskTurnWork = 60'000;

  const EngineOptions options_;
  const EngineInfo info_;
  kernels::Backend& backend_;
  const tokenizer::Tokenizer& tokenizer_;
  Parts parts_;
  Mailbox mailbox_;
  kv::BlockHasher hasher_;
  PinnedPrefixes pinned_;
  schedule::CostModel costs_;
  std::unique_ptr<tier::StoreTier> disk_;
  std::unique_ptr<tier::StoreTier> shared_;
  std::unique_ptr<tier::BlockFinder> finder_;  // null if shared_ is
  grammar::mask::MatcherPool matchers_{
      {.turn_work_max = kMaskTurnWork, .memory = options_.grammar_memory}};
  schedule::Scheduler scheduler_;

  WriteBacks writes_;         // to the disk
  WriteBacks shared_writes_;  // to the shared store

  StepRunner runner_;

  EngineStats stats_;  // touched by the engine thread only
  PublishedStats<EngineStats> published_;
  std::atomic<uint64_t> next_request_id_{1};
  std::optional<Error> failure_;  // written once, before has_failed_ is set
  std::atomic<bool> has_failed_{false};
  bool has_shed_ = false;               // in this turn
  bool has_stepped_ = false;            // in the last turn
  ThreadActivity* activity_ = nullptr;  // of the engine's thread; null if the engine is driven
  bool stopping_ = false;
  std::thread thread_;                 // declared late: it starts when the other members exist
  std::unique_ptr<ModelWatch> watch_;  // null if the file is not watched; posts to the mailbox
};

}  // namespace kvgate::engine
