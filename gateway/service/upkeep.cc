#include "gateway/local/maintenance.h"

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <utility>

#include <kvgate/log.h>
#include <kvgate/wall_clock.h>

namespace kvgate::service {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kBudgetKey = "write_budget";
// How long KV may take to the store before the pin is left under its old key until the next start.
constexpr std::chrono::seconds kStoreTimeout{10};

std::string NameOf(const store::Pin& pin) {
  if (pin.name.empty()) return ToHex(pin.leaf.hash);
  return pin.version.empty() ? pin.name : pin.name + " " + pin.version;
}

}  // namespace

void SaveWriteBudget(store::MetaStore& meta, const tier::WriteAdmissionState& state) {
  const std::string text = fmt::format("{} {} {} {}", state.left_bytes, state.spent_bytes,
                                       state.day_seconds, WallClock::NowUnix());
  if (const auto put = meta.Put(store::MetaTable::kDirectory, kBudgetKey, text); !put) {
    KVGATE_LOG(kDebug, "service", "the write budget is not saved: {}", put.error().ToString());
  }
}

void RestoreWriteBudget(store::MetaStore& meta, tier::WriteAdmission& admission) {
  const auto text = meta.Get(store::MetaTable::kDirectory, kBudgetKey);
  if (!text || !*text) return;
  std::istringstream stream(**text);
  tier::WriteAdmissionState state;
  int64_t saved_unix = 0;
  if (stream >> state.left_bytes >> state.spent_bytes >> state.day_seconds >> saved_unix) {
    admission.Restore(state, std::chrono::seconds(WallClock::NowUnix() - saved_unix));
  }
}

Upkeep::Upkeep(Parts parts) : parts_(std::move(parts)) {
  if (parts_.write_admission != nullptr) saved_ = parts_.write_admission->state();
  thread_ = std::thread([this] { Run(); });
}

Upkeep::~Upkeep() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  SaveBudget();
}

bool Upkeep::Sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, time, [this] { return stopping_; });
}

void Upkeep::Run() {
  store::PinBook* const pins = parts_.prefixes.parts().pins;
  if (pins != nullptr) {
    const std::vector<store::Pin> wanted = pins->List();
    // All of them first, so that what comes in early is not evicted by what comes in late.
    for (const store::Pin& pin : wanted) {
      if (IsOfThisModel(pin))
        parts_.engine.Protect(parts_.prefixes.ToProtection(pin, pin.priority));
    }
    for (const store::Pin& pin : wanted) BringIn(pin);
  }
  while (Sleep(parts_.period)) {
    SaveBudget();
    if (pins == nullptr) continue;
    const Result<uint64_t> dropped = pins->DropExpired();
    if (dropped && *dropped > 0) {
      KVGATE_LOG(kInfo, "service", "{} pins have expired", *dropped);
    }
  }
}

void Upkeep::SaveBudget() {
  if (parts_.meta == nullptr || parts_.write_admission == nullptr) return;
  const tier::WriteAdmissionState state = parts_.write_admission->state();
  // Time alone need not be saved: Restore counts what has passed.
  if (state.spent_bytes == saved_.spent_bytes) return;
  SaveWriteBudget(*parts_.meta, state);
  saved_ = state;
}

bool Upkeep::IsOfThisModel(const store::Pin& pin) const {
  const engine::EngineInfo& info = parts_.engine.info();
  return pin.leaf.fingerprint == info.kv_fingerprint || pin.model == info.model_fingerprint;
}

// More than half of the pool is not filled for requests that may not come. What is not on disk has
// to be computed in any case.
bool Upkeep::FitsMemory(const store::Pin& pin, const store::KvKey& leaf) {
  const uint64_t num_blocks = pin.tokens.size() / kernels::kKvBlockTokens;
  const bool stored = parts_.prefixes.parts().kv->Contains(leaf);
  if (stored && num_blocks_ + num_blocks > parts_.engine.info().num_kv_blocks / 2) return false;
  num_blocks_ += num_blocks;
  return true;
}

void Upkeep::BringIn(const store::Pin& pin) {
  const store::PinBook& pins = *parts_.prefixes.parts().pins;
  const Fingerprint fingerprint = parts_.engine.info().kv_fingerprint;
  const auto keys =
      tier::PrefixKeys({.fingerprint = fingerprint, .seed = parts_.prefixes.parts().hash_seed},
                       parts_.prefixes.SaltOf(pin.tenant), pin.tokens);
  if (!IsOfThisModel(pin) || keys.empty()) {
    num_done_.fetch_add(1);
    return;
  }
  const store::KvKey leaf{.fingerprint = fingerprint, .hash = keys.back().hash};
  if (!FitsMemory(pin, leaf)) {
    KVGATE_LOG(kInfo, "service", "pinned prefix {} stays on disk: pinned ones fill half of memory",
               NameOf(pin));
    num_done_.fetch_add(1);
    return;
  }
  const Clock::time_point begin = Clock::now();
  while (pins.Find(pin.leaf.hash)) {  // until it is unpinned, or in
    const std::optional<engine::FinishEvent> finish = Prefill(pin);
    if (!finish) return;
    if (finish->reason == engine::FinishReason::kCancelled) continue;
    if (finish->error) {
      KVGATE_LOG(kWarning, "service", "pinned prefix {} is not brought in: {}", NameOf(pin),
                 finish->error->ToString());
      break;
    }
    FollowKey(pin, leaf);
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    KVGATE_LOG(kInfo, "service",
               "pinned prefix {} is in memory: {} tokens, {} from disk, {} computed, {:.1f} s",
               NameOf(pin), pin.tokens.size(), finish->stats.num_disk_tokens,
               finish->stats.num_computed_tokens, seconds.count());
    break;
  }
  num_done_.fetch_add(1);
}

// Waits for an idle engine, then for the end of the prefill; gives it up when a request comes.
// Nothing: the upkeep ends.
std::optional<engine::FinishEvent> Upkeep::Prefill(const store::Pin& pin) {
  const auto num_requests = [this] {
    const engine::EngineStats stats = parts_.engine.Stats();
    return stats.num_running + stats.num_waiting;
  };
  while (num_requests() > 0) {
    if (!Sleep(parts_.poll)) return std::nullopt;
  }
  const auto sink = std::make_shared<PrefillSink>(nullptr);
  engine::GenerationRequest request;
  request.prompt = pin.tokens;
  request.max_tokens = 0;
  request.cache_salt = parts_.prefixes.SaltOf(pin.tenant);
  request.num_stable_tokens = static_cast<int>(pin.tokens.size());
  request.sink = sink;
  const Result<RequestId> id = parts_.engine.Submit(std::move(request));
  if (!id) {
    return engine::FinishEvent{.reason = engine::FinishReason::kError,
                               .text = {},
                               .stop_string = {},
                               .error = id.error(),
                               .stats = {}};
  }
  bool going = true;
  while (!sink->finish()) {
    if (going && num_requests() > 1) parts_.engine.Cancel(*id);
    if (going && !Sleep(parts_.poll)) {
      going = false;
      parts_.engine.Cancel(*id);
    }
    if (!going) std::this_thread::sleep_for(parts_.poll);
  }
  return going ? sink->finish() : std::nullopt;
}

// The prefix has other keys than the pin where the numerics have changed: the pin moves to them as
// soon as they are stored, and the KV of the old ones may be evicted.
void Upkeep::FollowKey(const store::Pin& pin, const store::KvKey& leaf) {
  if (leaf == pin.leaf) return;
  const PrefixService::Parts& parts = parts_.prefixes.parts();
  const Clock::time_point deadline = Clock::now() + kStoreTimeout;
  while (!parts.kv->Contains(leaf)) {
    if (Clock::now() > deadline || !Sleep(parts_.poll)) return;
  }
  if (const auto moved = parts.pins->Rekey(pin.leaf.hash, leaf); !moved) {
    KVGATE_LOG(kWarning, "service", "pinned prefix {} keeps its old key: {}", NameOf(pin),
               moved.error().ToString());
  }
}

}  // namespace kvgate::service
