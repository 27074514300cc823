// LoggedTurn: one entry of a session's log: what its caller said, what was answered, and what was
// left out of the prompt for it; or only an event, between two turns. It becomes the items of a
// stored turn and comes back from them, or is one line of an exported session (store/FORMAT.md).
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gateway/session/memory/shown.h"
#include "gateway/session/transcript/message.h"
#include "gateway/session/transcript/request_body.h"
#include "store/meta/turn_store.h"

namespace kvgate::session::log {

using transcript::Dialect;
using transcript::Frame;
using transcript::Message;

// What a model wrote of rounds that are left out. It is said as a part of the first message that
// stays (summary/summary_text.h).
struct Summary {
  std::string text = {};
  std::string model = {};                   // that wrote it
  std::string prompt = {};                  // by which it was asked: NAME@VERSION
  std::string request_id = {};              // of the call, as in the ledger
  store::meta::TurnTokens tokens = {};      // of the call; zeros: the provider did not say
  std::optional<int64_t> nanodollars = {};  // that the call cost; absent: not known
  friend bool operator==(const Summary&, const Summary&) = default;
};

// An event: from this turn on, older rounds are left out of the prompt. They stay in the log.
struct Compaction {
  // The first message that stays: the `from_message`-th of the turn `from_turn`, counted over its
  // input and its answer; the turn of the event itself if that is empty.
  std::string from_turn = {};
  uint64_t from_message = 0;
  std::vector<Message> kept = {};  // of what is left out, these stay in front
  uint64_t num_messages = 0;       // that were left out, since the session's first one
  int64_t tokens_before = 0;
  int64_t tokens_after = 0;
  // Of all that is left out, or of what was by an earlier event; absent: nothing was summarised.
  std::optional<Summary> summary = {};
  bool is_fold = false;  // this event made the summary
  friend bool operator==(const Compaction&, const Compaction&) = default;
};

// What was found of older turns and said again in front of a turn's newest words.
struct Recalled {
  std::string text = {};
  std::vector<std::string> passages = {};  // that it is of: TURN#NUMBER
  friend bool operator==(const Recalled&, const Recalled&) = default;
};

// A tool's result that a stub stands for in the turn's input (results/stub.h).
struct KeptResult {
  std::string id = {};
  std::string text = {};
  friend bool operator==(const KeptResult&, const KeptResult&) = default;
};

// The prompt of the gateway that stands in front of the system text, and its variables' values.
struct TurnPrompt {
  std::string name = {};  // empty: there is none
  std::string version = {};
  std::string values = {};  // a JSON object; empty: it has no variables
  bool is_none() const { return name.empty(); }
  friend bool operator==(const TurnPrompt&, const TurnPrompt&) = default;
};

struct LoggedTurn {
  std::string id = {};
  std::string parent = {};  // empty: it begins the session or a branch of it
  std::string model = {};
  uint64_t depth = 1;               // turns of its branch up to this one
  int64_t created_us = 0;           // the store sets it
  uint64_t prompt_bytes = 0;        // of the whole body that was answered
  std::optional<Frame> frame = {};  // absent: as in the turn before
  // Its request but for what stands here (transcript::SkeletonOf), so that a request can be made
  // that a cache takes for its continuation; absent: as in the turn before.
  std::optional<std::string> skeleton = {};
  std::optional<TurnPrompt> prompt = {};  // absent: as in the turn before
  std::vector<Message> input = {};
  std::vector<Message> answer = {};
  std::optional<Compaction> compaction = {};  // before this turn was answered
  std::optional<memory::Shown> memory = {};   // that its prompt says, and no turn before
  std::optional<Recalled> recalled = {};
  std::vector<KeptResult> results = {};  // that the model can read
  std::string attempt = {};              // as SessionAsk::attempt. Not exported
  std::string undoes = {};               // the entry whose event no longer counts; empty: none
  store::meta::TurnTokens tokens = {};   // zeros: the provider did not say
  BlockHash kv_block = {};  // the last block of its KV on this disk; 0: none. Not exported
  // The id of an item that no longer stands in what was said before (kept_turn.h). Not exported.
  std::string removes = {};
  // False for an entry that is only an event between two turns.
  bool is_turn() const { return !input.empty(); }
  friend bool operator==(const LoggedTurn&, const LoggedTurn&) = default;
};

// Names a dialect in the log: "chat", "messages", "responses".
std::string_view NameOf(Dialect dialect);
std::optional<Dialect> DialectNamed(std::string_view name);

// The items of a stored turn. Decoding fails with kDataLoss if they are not of that form.
std::vector<store::meta::TurnItem> ToItems(const LoggedTurn& turn);
Result<LoggedTurn> FromStored(Dialect dialect, const store::meta::Turn& stored);

// What a session says of an entry whose messages stand beside it: its depth, the size of its prompt
// and its event (kept_turn.h).
inline constexpr std::string_view kNoteRole = "session.note";
store::meta::TurnItem ToNote(const LoggedTurn& turn);
Result<void> ReadNote(Dialect dialect, std::string_view note, LoggedTurn& turn);

// One line of an exported session, without its line break. Reading fails with kInvalidArgument.
std::string ToLine(const LoggedTurn& turn);
Result<LoggedTurn> FromLine(Dialect dialect, std::string_view line);

}  // namespace kvgate::session::log
