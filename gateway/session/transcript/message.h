// Message: one element of a request's list of messages or items, as the JSON that its dialect
// carries it in. It is kept and compared, never rewritten. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"

namespace kvgate::session::transcript {

using dialect::form::Dialect;

// Who speaks. Reasoning and calls are the assistant's, results of calls are kTool, also where their
// dialect puts them into a user's message.
enum class Kind : uint8_t { kSystem, kUser, kAssistant, kTool };

struct Message {
  Kind kind = Kind::kUser;
  std::string json = {};  // an object
  friend bool operator==(const Message&, const Message&) = default;
};

// Reads the elements of a JSON list. `field` names the list in errors, which are kInvalidArgument.
// REQUIRES: the dialect has messages, so not kCompletions.
Result<std::vector<Message>> ReadMessages(Dialect dialect, std::string_view list,
                                          std::string_view field);
// Writes them as a JSON list.
std::string ToList(std::span<const Message> messages);

// Returns true if both say the same: role, texts, calls and results. Clients leave thinking and
// empty fields out of what they send back, and write a text as a string or as a block.
bool SaysTheSame(const Message& a, const Message& b);
// The same for two systems or instructions, each a JSON string or list; empty if there is none.
bool IsSameText(std::string_view a, std::string_view b);

// Returns the number of leading messages that say the same in both.
size_t CommonMessages(std::span<const Message> a, std::span<const Message> b);

// Returns the indices at which rounds begin. A round is what the user said and everything up to
// what the user says next, after an answer: a call and its result are never in different rounds.
// The first one begins at 0.
std::vector<size_t> RoundsOf(std::span<const Message> messages);

}  // namespace kvgate::session::transcript
