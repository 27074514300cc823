// The rules for volatile text, for callers that opt in. A turn that was sent before keeps the bytes
// it was sent with, although its caller now writes another time or counter into it. Lines of the
// system prompt that hold only volatile values move to the end of the newest text (`carrier`), and
// so do new lines of turns that keep their bytes. The contract:
//
//   - What a caller says reaches the provider in the request that says it: in its place, or as a
//     line of the newest text. If no text can take the line, it goes out in its place; the prefix
//     then breaks, and the record says at which path. A billing header, which nobody reads, is the
//     exception.
//   - What a caller no longer says is not sent, because a deletion is an edit. There are two
//     exceptions: an earlier value of a line, in front of its current value; and what agents move
//     or take back themselves (`ephemeral`): a reminder that stands elsewhere, a counter with a
//     newer one behind it, an empty block. A reminder that is gone stays gone, whoever took it out.
#pragma once

#include <string_view>

#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

// Pairs the turns with the branch's as PairWithBranch does, but also across volatile text. A
// reminder that has moved is put back, one that an earlier turn got from another is dropped, and
// lines with new values are noted as unsaid.
void AlignPastVolatile(Draft& draft);

// Moves the volatile values of the system prompt and tools, or holds them at the conversation's
// first. If `provider` is "anthropic", its billing header is left alone, because the provider looks
// for it.
void StabilizeSystem(Draft& draft, std::string_view provider);

}  // namespace kvgate::prompt::rewrite
