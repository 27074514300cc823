#include "gateway/prompt/rewrite/refused_turns.h"

#include "gateway/prompt/rewrite/system_turn.h"

namespace kvgate::prompt::rewrite {

using ledger::SystemTurn;

bool RefusedTurns::Note(std::string_view upstream, std::string_view model, SystemTurn left) {
  Key key(upstream, model);
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = left_.try_emplace(key, left);
  if (!is_new) {
    if (place->second == left) return false;
    place->second = LesserOf(place->second, left);
    return true;
  }
  order_.push_back(std::move(key));
  if (order_.size() > kModelsMax) {
    left_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

SystemTurn RefusedTurns::LeftOf(std::string_view upstream, std::string_view model,
                                SystemTurn turn) const {
  if (turn == SystemTurn::kNone) return turn;
  const std::lock_guard lock(mutex_);
  const auto found = left_.find({std::string(upstream), std::string(model)});
  return found == left_.end() ? turn : LesserOf(found->second, turn);
}

}  // namespace kvgate::prompt::rewrite
