// RefusedTurns knows which system turns an upstream has refused for a model, so that no other
// request is refused for them. It lives as long as the process. Bounded: of too many models, those
// that were refused first are tried again. Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/ledger/prices.h"

namespace kvgate::prompt::rewrite {

class RefusedTurns {
 public:
  static constexpr size_t kModelsMax = 1024;

  // Notes that the upstream takes no more than `left` for the model. Returns false if that was
  // known.
  bool Note(std::string_view upstream, std::string_view model, ledger::SystemTurn left);
  // Returns what is left of `turn`.
  ledger::SystemTurn LeftOf(std::string_view upstream, std::string_view model,
                            ledger::SystemTurn turn) const;

 private:
  using Key = std::pair<std::string, std::string>;
  mutable std::mutex mutex_;
  std::map<Key, ledger::SystemTurn> left_;
  std::deque<Key> order_;  // oldest first
};

}  // namespace kvgate::prompt::rewrite
