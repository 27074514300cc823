// FrontText: text of the gateway's in front of what a message says, as content of that message: a
// turn of its own would be two turns of one speaker in a row, which some models' templates refuse.
// Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/session/transcript/message.h"

namespace kvgate::session::transcript {

// A block of text as the dialect writes it in a list of contents, as JSON.
std::string TextBlock(Dialect dialect, std::string_view text);

// Puts `text` in front of the message's content: as a block of its own where the content is a list,
// in Chat Completions into the text, with an empty line between, because some servers know no
// lists. All else of the message stays as it is written. Returns false, and changes nothing, if the
// content is neither a text nor a list.
bool PutTextInFront(Dialect dialect, std::string_view text, Message& message);

// The same in front of all messages: into the first one if that is a user's, else as a message of
// its own.
void PutTextInFront(Dialect dialect, std::string_view text, std::vector<Message>& messages);

// The last message that the user says, in front of whose words text may stand; nullopt if there is
// none.
std::optional<size_t> NewestWords(std::span<const Message> messages);

// The text with `closing`, the beginning of a closing mark such as "</summary", made harmless
// wherever it stands in it.
std::string WithoutMark(std::string_view text, std::string_view closing);

}  // namespace kvgate::session::transcript
