// Notices: what is said once a conversation and not at each of its turns. Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "gateway/protocol/form/completion.h"

namespace kvgate::service {

class Notices {
 public:
  // Of so many notices; older ones may be said again.
  static constexpr size_t kKnownMax = 4096;

  // Whether nobody has asked that of this conversation yet. Conversations of a tenant are told
  // apart by their first turn of the user's.
  bool IsFirst(std::string_view tenant, const protocol::Prompt& prompt, std::string_view what);
  // The same where that turn is at hand.
  bool IsFirst(std::string_view tenant, std::string_view first_turn, std::string_view what);

 private:
  std::mutex mutex_;
  std::set<std::string> known_;
  std::deque<std::set<std::string>::const_iterator> order_;  // oldest first
};

}  // namespace kvgate::service
