// Stabilize: the rules for volatile text, for callers that opt in. A turn that was sent before
// keeps the bytes it was sent with, although its caller now writes another time or counter into it,
// and although a reminder has left it, or come to it from another turn. Lines of the system prompt
// that hold only volatile values move to the end of the newest user text, and so do lines of
// earlier turns whose values are new: what a caller writes anew in a turn reaches the provider in
// that request. In a turn of tool results what the system prompt and tools say of the moment waits
// for the next text of a user.
#pragma once

#include <string_view>

#include "gateway/prompt/draft.h"

namespace kvgate::prompt {

// Pairs the turns with the branch's as PairWithBranch does, but past volatile text: what has left
// an earlier turn is put back, what has come to one from another is dropped, and of values that are
// new the lines are noted as unsaid.
void PairPastVolatile(Draft& draft);

// The system prompt's and the tools' volatile values: moved, or held at the conversation's first.
// `provider` "anthropic": its billing header stays as it is, the provider looks for it.
void StabilizeSystem(Draft& draft, std::string_view provider);

}  // namespace kvgate::prompt
