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
};

// `stored` are the branch's turns; all of them if the request is a transcript. Fails with source
// kSessionSource (409) for a first message of something else, and with kInvalidArgument if nothing
// new is said.
Result<Composed> ComposeTurns(SessionAsk::Mode mode, const transcript::RequestBody& request,
                              std::span<const log::LoggedTurn> stored);

// Counts the tokens of a body's prompt; empty: they are estimated.
using CountTokens = std::function<Result<int64_t>(std::string_view body)>;

struct WindowArgs {
  window::Settings settings = {};
  int64_t context = 0;     // of the model, in tokens; 0: not known
  int64_t output_max = 0;  // tokens of its answer where the request sets no limit
  CountTokens count = {};
};

struct Windowed {
  std::string body = {};
  std::string compaction = "none";            // x-kvgate-compaction
  std::optional<log::Compaction> event = {};  // if something more was left out
};
// Leaves out what does not fit, and writes the body. Fails with the dialect's own error if the
// newest round and what always stays do not fit by themselves.
Result<Windowed> ApplyWindow(const transcript::RequestBody& request, std::string_view body,
                             const Composed& composed, const WindowArgs& args);

}  // namespace kvgate::session
