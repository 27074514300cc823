#include "gateway/session/summary/folds.h"

#include <algorithm>

#include "base/digest.h"

namespace kvgate::session::summary {
namespace {

// Turns that go by after the first failure; doubled with each further one, up to the second.
constexpr uint64_t kPauseTurns = 4;
constexpr uint64_t kPauseTurnsMax = 256;

}  // namespace

size_t Folds::HashOfSession::operator()(const Session& session) const {
  return static_cast<size_t>(SecretHash(session.tenant + '\n' + session.key));
}

void Folds::Ticket::End(Outcome outcome) {
  if (std::exchange(has_ended_, true)) return;
  folds_.End(*this, outcome);
}

bool Folds::IsDue(const Session& session, uint64_t depth) const {
  const std::lock_guard lock(mutex_);
  const Failures* const failures = failures_.Peek(session);
  return !running_.contains(session) && (failures == nullptr || depth >= failures->next_depth);
}

std::unique_ptr<Folds::Ticket> Folds::Begin(const Session& session, uint64_t depth,
                                            Trigger trigger) {
  const std::lock_guard lock(mutex_);
  const Failures* const failures = failures_.Find(session);
  const bool is_asked = trigger == Trigger::kClient;
  if (failures != nullptr && !is_asked && depth < failures->next_depth) return nullptr;
  if (!running_.try_emplace(session).second) return nullptr;
  auto ticket = std::make_unique<Ticket>(*this, session, depth, trigger);
  if (failures != nullptr) ticket->num_failures = failures->num;
  return ticket;
}

bool Folds::Await(const Session& session, std::function<void()> on_end) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(session);
  if (found == running_.end()) return false;
  found->second.push_back(std::move(on_end));
  return true;
}

void Folds::Fail(const Session& session, uint64_t depth) {
  Failures& failures = failures_.FindOrAdd(session);
  const uint64_t pause = std::min(kPauseTurnsMax, kPauseTurns << std::min(failures.num, 16U));
  failures.next_depth = depth + pause;
  ++failures.num;
}

void Folds::PutOff(const Session& session, uint64_t depth) {
  const std::lock_guard lock(mutex_);
  Fail(session, depth);
}

void Folds::End(const Ticket& ticket, Outcome outcome) {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(ticket.session_);
    waiting = std::move(found->second);
    running_.erase(found);
    if (outcome == Outcome::kFailed) {
      ++counts_.num_failed;
      Fail(ticket.session_, ticket.depth_);
    } else {
      if (outcome == Outcome::kStored) {
        ++counts_.num_stored;
        ++counts_.num_stored_by[static_cast<size_t>(ticket.trigger_)];
      } else {
        ++counts_.num_stale;
      }
      if (Failures* const failures = failures_.Find(ticket.session_)) *failures = {};
    }
  }
  for (const auto& wake : waiting) wake();
}

Folds::Counts Folds::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.num_running = running_.size();
  return counts;
}

}  // namespace kvgate::session::summary
