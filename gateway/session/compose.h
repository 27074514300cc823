// Compose: from what a session has and what a request says to the prompt that is answered. Pure,
// but for the function that counts tokens; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/log/history.h"
#include "gateway/session/log/logged_turn.h"
#include "gateway/session/session_ask.h"
#include "gateway/session/transcript/request_body.h"
#include "gateway/session/window/window.h"

namespace kvgate::session {

// A prompt in its parts, in the order in which they stand.
struct Composed {
  transcript::Frame frame;
  std::vector<transcript::Message> kept;   // of what was left out
  std::vector<transcript::Message> old;    // turns before
  std::vector<transcript::Message> input;  // what is new
  log::History history;                    // of the branch that it goes on from
  memory::Entries memory = {};             // in front of all that is not `kept`
  // In front of what messages say, by their indices in `old` and `input` behind each other.
  std::vector<log::History::Note> notes = {};
  // What memory has to say from now on: the whole of it, once rounds are left out.
  memory::Entries memory_now = {};
};

// What a turn says of memory and of older turns, put into its prompt.
struct Addition {
  std::optional<memory::Shown> memory = {};
  std::optional<log::Recalled> recalled = {};
};
// `composed` is as ComposeTurns returned it. Where the input has no words of the user's, only the
// whole of a memory has a place.
void Add(const Addition& addition, Composed& composed);

// `stored` are the branch's turns; all of them if the request is a transcript. Fails with source
// kSessionSource (409) for a first message of something else, and with kInvalidArgument if nothing
// new is said.
Result<Composed> ComposeTurns(SessionAsk::Mode mode, const transcript::RequestBody& request,
                              std::span<const log::LoggedTurn> stored);

// Counts the tokens of a body's prompt; empty: they are estimated.
using CountTokens = std::function<Result<int64_t>(std::string_view body)>;

// A part of a prompt that a summary can stand for.
struct FoldPlan {
  // What will stand in the log, but for the summary; `tokens_after` is without one.
  log::Compaction event = {};
  std::string base_event = {};  // of the history that it was made for
  transcript::Frame frame = {};
  std::vector<transcript::Message> prompt = {};  // all messages
  size_t num_input = 0;                          // of those, the last ones, which are new
  std::vector<transcript::Message> folded = {};  // those that the summary will stand for
  std::vector<transcript::Message> tail = {};    // those behind them
  std::optional<memory::Shown> memory = {};      // what the event says; in front of the tail
  int64_t tokens_max = 0;                        // that the summary may have
  bool has_room = false;                         // it may grow for some turns more
};

struct WindowArgs {
  window::Settings settings = {};
  bool may_fold = false;   // a fold is planned where one is due; mode kSummary only
  bool is_forced = false;  // it is due whatever the prompt's length
  bool drops = false;      // rounds are left out whatever its length, if any may be
  int64_t context = 0;     // of the model, in tokens; 0: not known
  int64_t output_max = 0;  // tokens of its answer where the request sets no limit
  CountTokens count = {};
};

struct Windowed {
  std::string body = {};
  std::string compaction = "none";            // x-kvgate-compaction
  std::optional<log::Compaction> event = {};  // if something more was left out
  std::optional<FoldPlan> fold = {};          // if something should be folded
};
// Leaves out what does not fit, and writes the body. Fails with the dialect's own error if the
// newest round and what always stays do not fit by themselves.
Result<Windowed> ApplyWindow(const transcript::RequestBody& request, std::string_view body,
                             const Composed& composed, const WindowArgs& args);

}  // namespace kvgate::session
