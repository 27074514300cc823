// Notices limits a message to once per conversation instead of once per turn. Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "gateway/dialect/form/completion.h"

namespace kvgate::service {

class Notices {
 public:
  // The number of notices remembered; older ones may be repeated.
  static constexpr size_t kKnownMax = 4096;

  // Returns true the first time it is asked about `what` in this conversation. A tenant's
  // conversations are told apart by their first user turn.
  bool IsFirst(std::string_view tenant, const dialect::form::Prompt& prompt, std::string_view what);
  // The same for a caller that already has the first user turn.
  bool IsFirst(std::string_view tenant, std::string_view first_turn, std::string_view what);

 private:
  std::mutex mutex_;
  std::set<std::string> known_;
  std::deque<std::set<std::string>::const_iterator> order_;  // oldest first
};

}  // namespace kvgate::service
