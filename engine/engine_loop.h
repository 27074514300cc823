// EngineLoop: the engine thread. One turn: take messages, admit, plan a step, run the model, hand
// out tokens. Everything it owns is touched by this thread only; the rest of the process talks to
// it through the mailbox.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/kv/prefix_cache.h"
#include "engine/kv/window_cache.h"
#include "engine/mailbox.h"
#include "engine/model_watch.h"
#include "engine/protections.h"
#include "engine/sample/logit_row.h"
#include "engine/schedule/scheduler.h"
#include "engine/tier/disk_tier.h"

namespace kvgate::engine {

// What was timed before the first request: a forward pass, and copies from the host arena.
struct WarmUp {
  int num_rows = 0;
  double seconds = 0;
  double host_bytes_per_second = 0;  // 0: they cost next to nothing, or there is no host arena
};

class EngineLoop final : public Engine {
 public:
  struct KvParts {
    std::unique_ptr<kernels::KvArena> arena;
    std::unique_ptr<tier::HostTier> host;  // null: none
  };
  struct Parts {
    std::unique_ptr<model::Model> model;
    std::vector<KvParts> groups;  // as the model's kv_groups
    WarmUp warm_up;
  };
  EngineLoop(const EngineOptions& options, EngineInfo info, Parts parts, kernels::Backend& backend,
             const tokenizer::Tokenizer& tokenizer, store::KvStore* store);
  ~EngineLoop() override;

  Result<RequestId> Submit(GenerationRequest request) override;
  void Cancel(RequestId id) override;
  void Protect(Protection protection) override;
  bool Drain(std::chrono::milliseconds timeout) override;
  std::optional<Error> Failure() const override {
    return has_failed_.load(std::memory_order_acquire) ? failure_ : std::nullopt;
  }
  const EngineInfo& info() const override { return info_; }
  EngineStats Stats() const override;
  void CheckIntegrity() override;

 private:
  // What keeps the blocks of a group with a window.
  struct Window {
    Window(int window_tokens, const kv::BlockPool::Options& options)
        : window(window_tokens), pool(options), cache(pool) {}
    int window;
    kv::BlockPool pool;
    kv::WindowCache cache;
  };

  void Run();
  void RunStep(const std::vector<schedule::StepItem>& step);
  void ObserveStep(const std::vector<schedule::StepItem>& step, double seconds);
  void GatherStep(const std::vector<schedule::StepItem>& step);
  int LogitHeadTokens() const;
  Result<void> RunForward();
  sample::LogitRow StepLogits(size_t index);
  void AdvanceSequence(schedule::Sequence& sequence, sample::LogitRow& logits);
  void OnSubmit(std::unique_ptr<schedule::Sequence> sequence);
  void RefuseBySlo(std::unique_ptr<schedule::Sequence> sequence, double ttft_seconds);
  void Refuse(std::unique_ptr<schedule::Sequence> sequence, Error error);
  bool PursueMask(schedule::Sequence& sequence);
  void OnMask(RequestId id, const std::shared_ptr<grammar::Matcher>& matcher);
  void OnCancel(RequestId id);
  void OnProtect(const Protection& protection);
  void ApplyProtections();
  std::vector<std::unique_ptr<Window>> MakeWindows() const;
  std::unique_ptr<tier::DiskTier> MakeDiskTier(store::KvStore* store);
  schedule::Scheduler::Parts SchedulerParts();
  void EndExpiredProtections();
  void OnCompletion(const tier::Completion& completion);
  void End(RequestId id, FinishReason reason, std::optional<Error> error = std::nullopt);
  void FailModel(const Error& cause);
  void KeepWindows(schedule::Sequence& sequence);
  void WriteBack(schedule::Sequence& sequence);
  bool FitsWriting(const std::vector<tier::WriteItem>& items) const;
  RequestStats StatsOf(const schedule::Sequence& sequence) const;
  void SumWindowStats();
  void PublishStats();
  bool Idle() const;
  // Runs `body` on the engine thread and waits for it.
  void Call(std::function<void()> body);

  // Of masks, on the engine's thread, between two steps; some 4 ms.
  static constexpr uint64_t kMaskTurnWork = 60'000;

  const EngineOptions options_;
  const EngineInfo info_;
  const int logit_head_tokens_;  // 0: rows come whole
  kernels::Backend& backend_;
  const tokenizer::Tokenizer& tokenizer_;
  Parts parts_;
  Mailbox mailbox_;
  kv::BlockHasher hasher_;
  kv::BlockPool pool_;
  kv::PrefixCache cache_;
  Protections protections_;
  std::vector<std::unique_ptr<Window>> windows_;  // of groups 1, 2, ...
  schedule::CostModel costs_;
  std::unique_ptr<tier::DiskTier> tier_;
  grammar::MatcherPool matchers_{{.turn_work_max = kMaskTurnWork}};
  schedule::Scheduler scheduler_;

  // A write under way holds the chain up to its last block: parents too, see block_pool.h.
  struct Write {
    std::vector<kv::BlockRef> held;
    std::vector<kv::BlockRef> held_windows;
    std::vector<size_t> num_items;  // of each group
  };
  std::unordered_map<uint64_t, Write> writes_;  // by ticket
  uint64_t next_ticket_ = 1;
  std::vector<size_t> num_blocks_writing_;  // of each group

  // Of the current step; kept between steps for their memory.
  std::vector<TokenId> step_tokens_;
  std::vector<std::vector<kernels::SequenceRows>> step_rows_;  // of each group
  std::vector<model::StepGroup> step_groups_;
  std::vector<int> step_logit_rows_;
  std::vector<float> step_scales_;  // of each logit row
  model::LogitHeads step_heads_;
  std::vector<float> step_logits_;  // of all rows, or of the one that was fetched

  EngineStats stats_;  // the engine thread's own
  static constexpr size_t kNumStats = sizeof(EngineStats) / sizeof(uint64_t);
  std::array<std::atomic<uint64_t>, kNumStats> published_{};
  std::atomic<uint64_t> next_request_id_{1};
  std::optional<Error> failure_;  // written once, before has_failed_ is
  std::atomic<bool> has_failed_{false};
  bool stopping_ = false;
  std::thread thread_;                 // starts when the rest is there
  std::unique_ptr<ModelWatch> watch_;  // null: none; posts to the mailbox
};

}  // namespace kvgate::engine
