// Stabilize: the rules for volatile text, for callers that opt in. A turn that was sent before
// keeps the bytes it was sent with, although its caller now writes another time or counter into it,
// and although a reminder has left it or come to it. Lines of the system prompt that hold only
// volatile values move to the end of the newest user text.
#pragma once

#include <string_view>

#include "gateway/prompt/draft.h"

namespace kvgate::prompt {

// Pairs the turns with the branch's as PairWithBranch does, but past volatile text: what has left
// an earlier turn is put back, what has come to one is dropped, what it says now is not sent.
void PairPastVolatile(Draft& draft);

// The system prompt's and the tools' volatile values: moved, or held at the conversation's first.
// `provider` "anthropic": its billing header stays as it is, the provider looks for it.
void StabilizeSystem(Draft& draft, std::string_view provider);

}  // namespace kvgate::prompt
