// Stabilize: the rules for volatile text, for callers that opt in. A turn that was sent before
// keeps the bytes it was sent with, although its caller now writes another time or counter into it.
// Lines of the system prompt that hold only volatile values move to the end of the newest text
// (`carrier`), and so do new lines of what keeps its bytes. The contract:
//
//   - What a caller says reaches the provider in the request that says it: in its place, or as a
//     line of the newest text. Where no text can take it, it goes out in its place: the prefix
//     breaks, and its record says where. A billing header, which nobody reads, is the exception.
//   - What a caller no longer says is not sent: a deletion is an edit. Exceptions are an earlier
//     value of a line that says another one now, in front of it; and what agents move or take back
//     by themselves (`ephemeral`): a reminder that stands elsewhere now, a counter with a newer one
//     behind it, an empty block. A reminder that is gone is gone, whoever took it out.
#pragma once

#include <string_view>

#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt {

// Pairs the turns with the branch's as PairWithBranch does, but past volatile text: a reminder that
// has moved is put back, what has come to an earlier turn from another is dropped, and of values
// that are new the lines are noted as unsaid.
void PairPastVolatile(Draft& draft);

// The system prompt's and the tools' volatile values: moved, or held at the conversation's first.
// `provider` "anthropic": its billing header stays as it is, the provider looks for it.
void StabilizeSystem(Draft& draft, std::string_view provider);

}  // namespace kvgate::prompt
