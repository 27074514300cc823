// Returns a segment's bytes without the parts that are lifted out. Pure; any thread may call it.
#pragma once

#include <string>
#include <string_view>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::parse {

// Returns the bytes of `segment` without its breakpoint, kvgate_source and, for a message head, its
// blocks. They are put together in `assembled` if they are not contiguous.
std::string_view BytesOf(std::string_view body, const Segment& segment, std::string& assembled);

// Returns the JSON string in the bytes of a segment that is its text: of a tool its description, of
// any other value its only text; an empty span if there is none.
Span TextIn(std::string_view bytes, Content content);

// Returns the end of a JSON string, without its quote, that is white space and blocks in tags of
// any name (WithoutTaggedEnd in volatile_text.h) behind other text; empty if there are none, or if
// they are too long for a notice. `text` is the string in `body`, with its quotes.
Span NoticeIn(std::string_view body, Span text);

}  // namespace kvgate::prompt::parse
