#include "gateway/session/summary/idle.h"

#include <utility>

namespace kvgate::session::summary {
namespace {

constexpr double kReturns = 0.5;  // of sessions that were left; two thirds and more were measured
constexpr double kQuestion = 400.0;  // tokens of the words that ask

}  // namespace

bool Pays(const IdlePrices& prices, const IdleGain& gain) {
  const auto before = static_cast<double>(gain.tokens_before);
  const double saved = kReturns * prices.write * (before - static_cast<double>(gain.tokens_after));
  const double cost =
      prices.read * before + kQuestion + prices.output * static_cast<double>(gain.summary_tokens);
  return saved > cost;
}

bool IdleSessions::Note(const Folds::Session& session, Due due) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found != sessions_.end()) {
    found->second = std::move(due);
    return false;
  }
  if (sessions_.size() >= kSessionsMax) return false;
  sessions_.emplace(session, std::move(due));
  return true;
}

IdleSessions::Due IdleSessions::Of(const Folds::Session& session) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? Due() : found->second;
}

void IdleSessions::Forget(const Folds::Session& session) {
  const std::lock_guard lock(mutex_);
  sessions_.erase(session);
}

size_t IdleSessions::size() const {
  const std::lock_guard lock(mutex_);
  return sessions_.size();
}

}  // namespace kvgate::session::summary
