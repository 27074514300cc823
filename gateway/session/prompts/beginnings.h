// Beginnings: the versions with which conversations began that no session keeps, so that a roll-out
// moves none of them. Bounded, and in memory only: what is forgotten, and all of it after a
// restart, is drawn again. Thread-safe.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "base/lru_map.h"
#include "gateway/session/prompts/prompt_library.h"

namespace kvgate::session::prompts {

// What tells a conversation apart from others of its tenant.
struct Conversation {
  std::string_view tenant = {};
  std::string opening = {};  // how it begins
  // What only a conversation that has gone on has, beside its beginning: how it was answered first.
  // Empty: it begins now.
  std::string answered = {};
};

class Beginnings {
 public:
  static constexpr size_t kConversationsMax = 65'536;

  // Returns the version of the name that the conversation has: of one that goes on, that with which
  // it began, as long as the library has that. Null: there is no such name.
  const PromptVersion* Choose(const PromptLibrary& library, std::string_view name,
                              const Conversation& conversation);

 private:
  std::mutex mutex_;
  LruMap<std::string, std::string> versions_{2 * kConversationsMax};
};

}  // namespace kvgate::session::prompts
