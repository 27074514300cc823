// WarmJob brings a prefix into the cache: it is prefilled, written back and, if asked, pinned.
//
// One thread may use it at a time. Destroying it early cancels the prefill; what was computed stays
// cached.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "gateway/dialect/own/prefix_requests.h"
#include "gateway/local/prefill_sink.h"
#include "gateway/local/prefix_service.h"

namespace kvgate::local {

class WarmJob {
 public:
  struct Args {
    engine::Engine& engine;   // outlives the job
    PrefixService& prefixes;  // outlives the job
    std::vector<TokenId> tokens;
    std::string tenant;
    dialect::own::PinOptions pin;
    std::function<void()> wake = {};  // called on the engine thread when the prefill has ended
    // KV that is not on disk this long after the prefill is reported as not stored.
    std::chrono::milliseconds store_timeout{30'000};
  };
  // Returns kInvalidArgument if the prefix is shorter than one block, kUnavailable if it should be
  // pinned without a disk tier, and the errors of Engine::Submit.
  static Result<std::unique_ptr<WarmJob>> Start(Args args);
  ~WarmJob();
  WarmJob(const WarmJob&) = delete;
  WarmJob& operator=(const WarmJob&) = delete;

  uint64_t num_tokens() const { return args_.tokens.size(); }
  // Never blocks. Returns true when Finish can be called.
  bool Poll();
  // Pins and flushes, and returns what was done as JSON. Waits for the disk.
  Result<std::string> Finish();

 private:
  explicit WarmJob(Args args);
  Result<void> Submit();
  bool IsStored() const;
  std::vector<TokenId> WholeBlocks() const;
  void Pin(int priority);

  Args args_;
  std::string salt_;  // the tenant's
  size_t num_blocks_ = 0;
  store::kv::KvKey leaf_;
  std::shared_ptr<PrefillSink> sink_;
  RequestId request_;
  bool submitted_ = false;
  std::chrono::steady_clock::time_point prefilled_at_{};
};

}  // namespace kvgate::local
