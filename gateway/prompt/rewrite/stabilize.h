// The rules for volatile text, for callers that opt in. A turn that was sent before keeps the bytes
// it was sent with, although its caller now writes another time or counter into it. Lines of the
// system prompt that hold only volatile values move to the end of the newest text (`carrier`), and
// so do lines that are known to change (`templates`) and new lines of turns that keep their bytes.
// A line that is found to change within its conversation stays as first sent, and its new text
// follows. Agents write such lines into a conversation's first user texts too; there a person may
// have edited one, so it is known from its second change on. The contract:
//
//   - What a caller says reaches the provider in the request that says it: in its place, or as a
//     line of the request's end (`tail`). If nothing there can take the line, a value is held back
//     until something can, and said to be ("held_stale"); words go out in their place, the prefix
//     then breaks, and the record says at which path. A billing header, which nobody reads, is the
//     exception.
//   - What a caller no longer says is not sent, because a deletion is an edit. There are two
//     exceptions: an earlier value of a line, in front of its current value; and what agents move
//     or take back themselves (`ephemeral`): a reminder that stands elsewhere, a counter with a
//     newer one behind it, an empty block. A reminder that is gone stays gone, whoever took it out.
#pragma once

#include <string_view>

#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/rewrite/slot_reader.h"

namespace kvgate::prompt::rewrite {

// Pairs the turns with the branch's as PairWithBranch does, but also across volatile text. A
// reminder that has moved is put back, one that an earlier turn got from another is dropped, and
// lines with new values are noted as unsaid.
void AlignPastVolatile(Draft& draft, Learning& learning);

// Moves the volatile lines and values of tools, system prompt and first user texts, or holds them
// at the conversation's first, and collects what the request teaches. If `provider` is "anthropic",
// its billing header is left alone, because the provider looks for it.
void StabilizePrefix(Draft& draft, Learning& learning, std::string_view provider);

}  // namespace kvgate::prompt::rewrite
