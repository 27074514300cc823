#include "gateway/local/warm_job.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "kernels/backend.h"

namespace kvgate::local {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::kKvBlockTokens;

// The longest time between a block leaving the write queue and the store reporting it. A block that
// was refused (no budget, no room) never arrives.
constexpr std::chrono::milliseconds kQueueGrace{1000};

}  // namespace

WarmJob::WarmJob(Args args)
    : args_(std::move(args)),
      salt_(args_.prefixes.SaltOf(args_.tenant)),
      num_blocks_(args_.tokens.size() / kKvBlockTokens),
      sink_(std::make_shared<PrefillSink>(args_.wake)) {}

WarmJob::~WarmJob() {
  sink_->Detach();
  if (submitted_ && !sink_->finish()) args_.engine.Cancel(request_);
}

Result<std::unique_ptr<WarmJob>> WarmJob::Start(Args args) {
  std::unique_ptr<WarmJob> job(new WarmJob(std::move(args)));
  const PrefixService::Parts& parts = job->args_.prefixes.parts();
  if (job->num_blocks_ == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "service",
                     fmt::format("The prefix has {} tokens; one block of {} is the least that can "
                                 "be kept.",
                                 job->args_.tokens.size(), kKvBlockTokens));
  }
  if (job->args_.pin.pin && parts.pins == nullptr) {
    return MakeError(
        ErrorCode::kUnavailable, "service",
        fmt::format("Without the disk tier nothing can be pinned: {}", parts.no_disk_reason));
  }
  const auto keys = tier::PrefixKeys(
      {.fingerprint = job->args_.engine.info().kv_fingerprint, .seed = parts.hash_seed}, job->salt_,
      job->args_.tokens);
  job->leaf_ = {.fingerprint = job->args_.engine.info().kv_fingerprint, .hash = keys.back().hash};
  // The prefix is pinned before it is computed, so that memory and the write budget both admit it.
  if (job->args_.pin.pin) job->Pin(job->args_.pin.priority);
  KVGATE_TRY_VOID(job->Submit());
  return job;
}

Result<void> WarmJob::Submit() {
  engine::GenerationRequest request;
  request.prompt = args_.tokens;
  request.max_tokens = 0;
  request.cache_salt = salt_;
  // Other requests will begin with all of these tokens, so they are written back first.
  request.num_stable_tokens = static_cast<int>(args_.tokens.size());
  request.sink = sink_;
  KVGATE_TRY(request_, args_.engine.Submit(std::move(request)));
  submitted_ = true;
  return {};
}

std::vector<TokenId> WarmJob::WholeBlocks() const {
  std::vector<TokenId> blocks = args_.tokens;
  blocks.resize(num_blocks_ * kKvBlockTokens);
  return blocks;
}

void WarmJob::Pin(int priority) {
  args_.engine.Pin({.tokens = WholeBlocks(), .cache_salt = salt_, .priority = priority});
}

bool WarmJob::IsStored() const {
  const store::kv::KvStore* kv = args_.prefixes.parts().kv;
  return kv != nullptr && kv->Contains(leaf_);
}

bool WarmJob::Poll() {
  const std::optional<engine::FinishEvent> finish = sink_->finish();
  if (!finish) return false;
  if (finish->reason != engine::FinishReason::kLength &&
      finish->reason != engine::FinishReason::kStop) {
    return true;
  }
  if (args_.prefixes.parts().kv == nullptr || IsStored()) return true;
  const Clock::time_point now = Clock::now();
  if (prefilled_at_ == Clock::time_point{}) prefilled_at_ = now;
  const bool queued = args_.engine.Stats().write_back_bytes_queued > 0;
  return now - prefilled_at_ >
         (queued ? args_.store_timeout : std::min(args_.store_timeout, kQueueGrace));
}

Result<std::string> WarmJob::Finish() {
  const engine::FinishEvent finish = *sink_->finish();
  if (finish.reason == engine::FinishReason::kCancelled) {
    return MakeError(ErrorCode::kCancelled, "service", "The prefix was cancelled.");
  }
  if (finish.error) return *finish.error;
  // If the disk refuses, the result says "not stored"; the prefix is in memory all the same.
  const bool stored = IsStored() && args_.prefixes.parts().kv->Flush();
  if (args_.pin.pin) {
    const auto kept = args_.prefixes.KeepPin(leaf_, args_.tenant, WholeBlocks(), args_.pin);
    if (!kept) {
      Pin(0);
      return kept.error();
    }
  }
  std::string out;
  dialect::form::JsonWriter json(out);
  json.BeginObject().Key("id").String(ToHex(leaf_.hash)).Key("object").String("prefix");
  json.Key("tokens").Unsigned(args_.tokens.size()).Key("blocks").Unsigned(num_blocks_);
  json.Key("cached_tokens").Integer(finish.stats.num_cached_tokens);
  json.Key("computed_tokens").Integer(finish.stats.num_computed_tokens);
  json.Key("seconds").Number(finish.stats.total_seconds);
  json.Key("stored").Bool(stored).Key("pinned").Bool(args_.pin.pin);
  if (!args_.pin.name.empty()) json.Key("name").String(args_.pin.name);
  if (!args_.pin.version.empty()) json.Key("version").String(args_.pin.version);
  json.EndObject();
  return out;
}

}  // namespace kvgate::local
