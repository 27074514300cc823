// SummaryCall: the body of the request that asks a model for a session's summary, and its answer.
//
// Where it can, it is the last request, with its answer and one more message of the user's: same
// tools, tool_choice, effort and thinking, so that all but the new message is read from the cache.
// An answer whose calls have no results yet is left out: no provider takes it so, and it stays.
// Only what is no part of a prompt differs: how long the answer may be, where it stops, and that it
// comes whole. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/log/logged_turn.h"
#include "gateway/session/summary/summary_prompt.h"
#include "gateway/session/transcript/raw_object.h"
#include "gateway/session/transcript/request_body.h"

namespace kvgate::session::summary {

using transcript::Dialect;
using transcript::Frame;
using transcript::Message;

struct CallArgs {
  Dialect dialect = Dialect::kChatCompletions;
  std::string_view body;              // of the last request, as its caller wrote it
  const Frame& frame;                 // of its prompt
  std::span<const Message> messages;  // of its prompt, with its answer
  std::span<const Message> folded;    // those of them that the summary will stand for
  const SummaryPrompt& prompt;
  int64_t tokens_max = 0;       // that the summary may have
  std::string kept_from = {};   // the text of the first message that stays
  std::string_view model = {};  // another one that is to write; empty: the body's
  bool only_part = false;       // the whole has failed before
};
struct Call {
  std::string body = {};
  bool is_whole = true;  // false: only the folded part is sent
};
Call MakeCall(const CallArgs& args);
// True for the `tool_choice` of a body that makes the model call: a call comes instead of a
// summary.
bool ForcesCall(const transcript::RawObject& body);

// Reads a whole answer. Fails with kUnavailable if it is no complete one, calls a tool, or says
// nothing; the detail says which. `tokens_max` bounds the text.
Result<log::Summary> ReadAnswer(Dialect dialect, std::string_view body, int64_t tokens_max);

}  // namespace kvgate::session::summary
