// History: what the log of one branch says about the next prompt: the frame, the messages that
// still stand in it, and those that were left out. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gateway/session/log/logged_turn.h"

namespace kvgate::session::log {

struct History {
  std::string head = {};           // the branch's newest entry; empty: it has none
  uint64_t num_head_messages = 0;  // that entry's
  Frame frame = {};
  std::string skeleton = {};            // of its newest request; empty: it is not known
  TurnPrompt prompt = {};               // in front of the frame's system
  std::vector<Message> kept = {};       // of what was left out, these stand in front
  std::optional<Summary> summary = {};  // of what was left out, behind `kept`
  std::vector<Message> messages = {};   // what was said since
  uint64_t num_left_out = 0;            // messages before those, since the branch began
  memory::Entries memory = {};          // stands in front of all messages that stay
  memory::Entries memory_shown = {};    // with the changes that `notes` say
  // Text of the gateway's in front of what a message says.
  struct Note {
    size_t message = 0;         // an index of `messages`
    std::string changes = {};   // of memory
    std::string recalled = {};  // of older turns
    std::string text() const;   // both
  };
  std::vector<Note> notes = {};
  std::vector<std::string> recalled = {};  // ids of passages that notes say
  // The newest event that counts has this entry; empty: there is none.
  std::string event = {};
  bool is_event_new = false;  // no turn has been made since it
  int64_t tokens_before = 0;  // as it says
  int64_t tokens_after = 0;
  bool is_compacted() const { return !event.empty(); }
  uint64_t depth = 0;
  // Of the newest turn whose provider said how many tokens its prompt had; zeros: none has.
  int64_t prompt_tokens = 0;
  uint64_t prompt_bytes = 0;

  // The place in the log of messages[index], or behind all of them. REQUIRES: index <=
  // messages.size(), and the branch has a turn.
  struct Place {
    std::string turn;
    uint64_t message = 0;
  };
  Place PlaceOf(size_t index) const;

 private:
  friend History HistoryOf(std::span<const LoggedTurn> turns);
  struct Run {
    std::string turn;
    size_t begin = 0;    // index of its first message here
    uint64_t first = 0;  // that message's number in its turn
  };
  std::vector<Run> runs_;
};

// What a turn's prompt says in front of its newest words, which are the `message`-th.
History::Note NoteOf(const std::optional<memory::Shown>& memory,
                     const std::optional<Recalled>& recalled, size_t message);

// `turns` are a branch in order, from the first one that the newest of its events that counts
// refers to, or from an earlier one.
History HistoryOf(std::span<const LoggedTurn> turns);

// The branch as a caller has it that keeps its own transcript: all messages, and after how many of
// them each turn ends. REQUIRES: `turns` begin with the branch.
struct Transcript {
  std::vector<Message> messages;
  std::vector<size_t> ends;
};
Transcript TranscriptOf(std::span<const LoggedTurn> turns);

}  // namespace kvgate::session::log
