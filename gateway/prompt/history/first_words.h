// The first words of a conversation: what its first user turn says without the blocks in tags of
// their own that programs put behind it (reminders, notices). Such a block moves on with the newest
// turn, or is written anew, so that the first turn of a conversation's second request may lack it.
// Pure; any thread may call it.
#pragma once

#include <string_view>

#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::history {

// Returns the identity of the first words as they are spelled; zero if there are none, or if the
// request has more than one answer, and is recognised by those.
parse::Identity FirstWordsOf(std::string_view body, const parse::RequestLayout& layout);

}  // namespace kvgate::prompt::history
