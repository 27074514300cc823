// ReadTool: the tool by which a model reads what stubs stand for. It stands behind the caller's own
// tools, and the gateway itself answers its calls. Pure; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/session/log/logged_turn.h"
#include "gateway/session/transcript/message.h"

namespace kvgate::session::results {

using transcript::Dialect;
using transcript::Message;

inline constexpr std::string_view kReadTool = "kvgate_read_result";

// True if the list of tools has it.
bool HasReadTool(std::string_view tools);
// Returns the list of tools, which may be empty, with it at the end. As it is if it has it already,
// or is no list.
std::string WithReadTool(Dialect dialect, std::string_view tools);

// A call in an answer.
struct Call {
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // JSON, as the model wrote it
};
// All calls of tools that the caller or the gateway answers, in their order.
std::vector<Call> CallsOf(Dialect dialect, std::span<const Message> answer);

// What a call gets.
struct CallResult {
  std::string call_id = {};
  std::string text = {};
};
// The messages that say them behind the answer with the calls.
std::vector<Message> ToMessages(Dialect dialect, std::span<const CallResult> results);

// Returns the text of a kept result; nullopt if there is none of this id.
using FindText = std::function<std::optional<std::string>(std::string_view id)>;
// Answers a call: a part of a result from an offset on, or the places at which it has a text. What
// is wrong with a call is said to the model. The text has at most `bytes_max` bytes and a line.
std::string AnswerCall(std::string_view arguments, const FindText& find, size_t bytes_max);

}  // namespace kvgate::session::results
