// SummaryText: a summary as a part of a prompt. It is content of a user's message, in marks that
// say whose words it is, and stands in front of what the first message that stays says: a turn of
// its own would be two turns of the user's in a row, which some models' templates refuse. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/session/transcript/message.h"

namespace kvgate::session::summary {

using transcript::Dialect;
using transcript::Message;

// The summary in its marks. What closes them inside it is made harmless. The bytes depend on `text`
// alone.
std::string Marked(std::string_view text);

// Puts the marked summary in front of `messages`: into the first one if that is a user's, as a
// block of its own where the content is a list, else as a message of its own.
void PutInFront(Dialect dialect, std::string_view text, std::vector<Message>& messages);

// A text of `num_tokens` tokens as long as `tokens_max` allow, cut at the end of a line where there
// is one in its second half, else of a character. 0 tokens: their number is not known, and
// estimated.
std::string CutToTokens(std::string_view text, int64_t num_tokens, int64_t tokens_max);

}  // namespace kvgate::session::summary
