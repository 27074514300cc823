// Shown: what prompts of a conversation say of its memory, and what the next one has to say.
//
// The memory stands in front of the first message that stays. While nothing before that is left
// out, a fact that comes or changes is said in front of the newest words instead, so that the
// prompt only grows at its end; once older turns are left out, the whole is said anew. A fact that
// was removed is no longer said anywhere: then the whole is said anew at once, and the prompt's
// cache is lost.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "gateway/session/memory/entry.h"

namespace kvgate::session::memory {

// What a turn of the log says of memory.
struct Shown {
  bool is_whole = false;  // all of it, in front of everything; else what has changed
  Entries entries = {};
  friend bool operator==(const Shown&, const Shown&) = default;
};

struct NextArgs {
  std::span<const Entry> shown = {};  // what the prompt says so far, changes included
  std::span<const Entry> now = {};    // what it is to say
  // The conversation begins, or older turns are left out, which are not read any more.
  bool begins_anew = false;
};
// What the next turn has to say; nullopt: nothing.
std::optional<Shown> NextOf(const NextArgs& args);

// The whole as text in marks; empty if there are no entries. The bytes depend on these alone.
std::string WholeText(std::span<const Entry> entries);
// The same for changes.
std::string ChangesText(std::span<const Entry> entries);

}  // namespace kvgate::session::memory
