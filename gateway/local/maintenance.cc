#include "gateway/local/maintenance.h"

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_fence.h"

namespace kvgate::local {

using store::meta::Pin;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kBudgetKey = "write_budget";
// If KV takes longer than this to reach the store, the pin keeps its old key until the next start.
constexpr std::chrono::seconds kStoreTimeout{10};

std::string NameOf(const Pin& pin) {
  if (pin.name.empty()) return ToHex(pin.leaf.hash);
  return pin.version.empty() ? pin.name : pin.name + " " + pin.version;
}

}  // namespace

void SaveWriteBudget(store::meta::MetaStore& meta, const tier::WriteAdmissionState& state) {
  const std::string text = fmt::format("{} {} {} {}", state.left_bytes, state.spent_bytes,
                                       state.day_seconds, WallClock::NowUnix());
  if (const auto put = meta.Put(store::meta::MetaTable::kDirectory, kBudgetKey, text); !put) {
    KVGATE_LOG(kDebug, "service", "the write budget is not saved: {}", put.error().ToString());
  }
}

void RestoreWriteBudget(store::meta::MetaStore& meta, tier::WriteAdmission& admission) {
  const auto text = meta.Get(store::meta::MetaTable::kDirectory, kBudgetKey);
  if (!text || !*text) return;
  std::istringstream stream(**text);
  tier::WriteAdmissionState state;
  int64_t saved_unix = 0;
  if (stream >> state.left_bytes >> state.spent_bytes >> state.day_seconds >> saved_unix) {
    admission.Restore(state, std::chrono::seconds(WallClock::NowUnix() - saved_unix));
  }
}

Maintenance::Maintenance(Parts parts) : parts_(std::move(parts)) {
  if (parts_.write_admission != nullptr) saved_ = parts_.write_admission->state();
  thread_ = std::thread([this] { Run(); });
}

Maintenance::~Maintenance() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  (void)Attempt("service", "saving the write budget", [this] { SaveBudget(); });
}

bool Maintenance::Sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, time, [this] { return stopping_; });
}

bool Maintenance::WaitForWork() {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, parts_.period, [this] { return stopping_ || !queue_.empty(); });
  return !stopping_;
}

void Maintenance::BringInSoon(const BlockHash& id) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= store::meta::kPinsMax) return;
    queue_.push_back(id);
  }
  wake_.notify_all();
}

void Maintenance::Run() {
  (void)Attempt("service", "bringing in pinned prefixes", [this] { BringInAll(); });
  while (WaitForWork()) {
    (void)Attempt("service", "bringing in pinned prefixes", [this] { BringInQueued(); });
    (void)Attempt("service", "saving the write budget", [this] { SaveBudget(); });
    (void)Attempt("service", "dropping expired pins", [this] { DropExpiredPins(); });
  }
}

void Maintenance::BringInAll() {
  store::meta::PinBook* const pins = parts_.prefixes.parts().pins;
  if (pins == nullptr) return;
  const std::vector<Pin> wanted = pins->List();
  // All prefixes are pinned first, so that those loaded early are not evicted by later ones.
  for (const Pin& pin : wanted) {
    if (IsOfThisModel(pin)) parts_.engine.Pin(parts_.prefixes.ToPinnedPrefix(pin, pin.priority));
  }
  for (const Pin& pin : wanted) {
    // A pin for which memory ran out still counts as done.
    if (!Attempt("service", "bringing in a pinned prefix", [&] { BringIn(pin); })) ++num_done_;
  }
}

void Maintenance::BringInQueued() {
  std::vector<BlockHash> queued;
  {
    const std::lock_guard lock(mutex_);
    queued.swap(queue_);
  }
  for (const BlockHash& id : queued) {
    const std::optional<Pin> pin = parts_.prefixes.parts().pins->Find(id);
    if (!pin) continue;
    if (!Attempt("service", "bringing in a pinned prefix", [&] { BringIn(*pin); })) ++num_done_;
  }
}

void Maintenance::DropExpiredPins() {
  store::meta::PinBook* const pins = parts_.prefixes.parts().pins;
  if (pins == nullptr) return;
  const Result<uint64_t> dropped = pins->DropExpired();
  if (dropped && *dropped > 0) {
    KVGATE_LOG(kInfo, "service", "{} pins have expired", *dropped);
  }
}

void Maintenance::SaveBudget() {
  if (parts_.meta == nullptr || parts_.write_admission == nullptr) return;
  const tier::WriteAdmissionState state = parts_.write_admission->state();
  // The passage of time need not be saved, because Restore accounts for it.
  if (state.spent_bytes == saved_.spent_bytes) return;
  SaveWriteBudget(*parts_.meta, state);
  saved_ = state;
}

bool Maintenance::IsOfThisModel(const Pin& pin) const {
  const engine::EngineInfo& info = parts_.engine.info();
  return pin.leaf.fingerprint == info.kv_fingerprint || pin.model == info.model_fingerprint;
}

// Stored prefixes may fill half of the pool, since the requests for them may never come. A prefix
// that is not on disk is computed in any case.
bool Maintenance::FitsMemory(const Pin& pin, const store::kv::KvKey& leaf) {
  const uint64_t num_blocks = pin.tokens.size() / kernels::kKvBlockTokens;
  const bool stored = parts_.prefixes.parts().kv->Contains(leaf);
  if (counted_.contains(leaf.hash)) return true;
  if (stored && num_blocks_ + num_blocks > parts_.engine.info().num_kv_blocks / 2) return false;
  num_blocks_ += num_blocks;
  counted_.insert(leaf.hash);
  return true;
}

void Maintenance::BringIn(const Pin& pin) {
  const store::meta::PinBook& pins = *parts_.prefixes.parts().pins;
  const Fingerprint fingerprint = parts_.engine.info().kv_fingerprint;
  const auto keys =
      tier::PrefixKeys({.fingerprint = fingerprint, .seed = parts_.prefixes.parts().hash_seed},
                       parts_.prefixes.SaltOf(pin.tenant), pin.tokens);
  if (!IsOfThisModel(pin) || keys.empty()) {
    num_done_.fetch_add(1);
    return;
  }
  const store::kv::KvKey leaf{.fingerprint = fingerprint, .hash = keys.back().hash};
  if (!FitsMemory(pin, leaf)) {
    KVGATE_LOG(kInfo, "service", "pinned prefix {} stays on disk: pinned ones fill half of memory",
               NameOf(pin));
    num_done_.fetch_add(1);
    return;
  }
  const Clock::time_point begin = Clock::now();
  while (pins.Find(pin.leaf.hash)) {  // until it is unpinned or loaded
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

// Waits for an idle engine, then for the end of the prefill, which is cancelled when a request
// arrives. Returns nothing when the maintenance is stopping.
std::optional<engine::FinishEvent> Maintenance::Prefill(const Pin& pin) {
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

// If the numerics have changed, the prefix has other keys than its pin. The pin moves to them as
// soon as they are stored, and the KV under the old keys may then be evicted.
void Maintenance::FollowKey(const Pin& pin, const store::kv::KvKey& leaf) {
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

}  // namespace kvgate::local
