#include "gateway/session/retrieval/embedding_pace.h"

#include <algorithm>
#include <chrono>

namespace kvgate::session::retrieval {
namespace {

constexpr std::chrono::seconds kPause{10};
constexpr std::chrono::seconds kPauseMax{320};
constexpr uint32_t kDoublingsMax = 5;

}  // namespace

bool EmbeddingPace::IsPausedNow(std::string_view tenant, Use use) const {
  const State* const state = states_[static_cast<size_t>(use)].Peek(std::string(tenant));
  return state != nullptr && SteadyClock::now() < state->until;
}

std::unique_ptr<EmbeddingPace::Ticket> EmbeddingPace::Begin(std::string_view tenant,
                                                            std::string_view key) {
  const std::lock_guard lock(mutex_);
  if (IsPausedNow(tenant, Use::kPassages)) return nullptr;
  if (!running_.emplace(tenant, key).second) return nullptr;
  return std::make_unique<Ticket>(*this, tenant, key);
}

void EmbeddingPace::End(const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  running_.erase(ticket.name_);
}

bool EmbeddingPace::IsPaused(std::string_view tenant, Use use) const {
  const std::lock_guard lock(mutex_);
  return IsPausedNow(tenant, use);
}

void EmbeddingPace::Note(std::string_view tenant, Use use, bool is_made) {
  const std::lock_guard lock(mutex_);
  States& states = states_[static_cast<size_t>(use)];
  if (is_made) {
    if (State* const state = states.Find(std::string(tenant))) *state = {};
    return;
  }
  ++counts_.num_failed[static_cast<size_t>(use)];
  State& state = states.FindOrAdd(std::string(tenant));
  const uint32_t doublings = std::min(state.num_failures, kDoublingsMax);
  state.until = SteadyClock::now() + std::min(kPauseMax, kPause * (1 << doublings));
  ++state.num_failures;
}

EmbeddingPace::Counts EmbeddingPace::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace kvgate::session::retrieval
