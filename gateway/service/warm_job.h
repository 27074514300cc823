// WarmJob: a prefix on its way into the cache: prefilled, written back, then pinned where asked.
//
// One thread at a time. Destroyed early it cancels the prefill; what was computed stays cached.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/engine.h"
#include "gateway/protocol/prefix_requests.h"
#include "gateway/service/prefill_sink.h"
#include "gateway/local/prefix_service.h"

namespace kvgate::service {

class WarmJob {
 public:
  struct Args {
    engine::Engine& engine;   // outlives the job
    PrefixService& prefixes;  // likewise
    std::vector<TokenId> tokens;
    std::string tenant;
    protocol::PinOptions pin;
    std::function<void()> wake = {};  // on the engine thread, when the prefill has ended
    // KV that is not on disk by then, after the prefill, is reported as not stored.
    std::chrono::milliseconds store_timeout{30'000};
  };
  // kInvalidArgument: shorter than one block; kUnavailable: to be pinned without a disk tier;
  // kOverloaded and others: Engine::Submit's.
  static Result<std::unique_ptr<WarmJob>> Start(Args args);
  ~WarmJob();
  WarmJob(const WarmJob&) = delete;
  WarmJob& operator=(const WarmJob&) = delete;

  // Of the prefix.
  uint64_t num_tokens() const { return args_.tokens.size(); }
  // Never blocks. True: call Finish.
  bool Poll();
  // Pins, flushes, and says what was done, in JSON. Waits for the disk.
  Result<std::string> Finish();

 private:
  explicit WarmJob(Args args);
  Result<void> Submit();
  bool IsStored() const;
  std::vector<TokenId> WholeBlocks() const;
  void Protect(int priority);

  Args args_;
  std::string salt_;  // the tenant's
  size_t num_blocks_ = 0;
  store::KvKey leaf_;
  std::shared_ptr<PrefillSink> sink_;
  RequestId request_;
  bool submitted_ = false;
  std::chrono::steady_clock::time_point prefilled_at_{};
};

}  // namespace kvgate::service
