// Spelling of cache breakpoints in a body. All functions are pure and may be called from any
// thread.
#pragma once

#include <string>
#include <string_view>

#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::parse {

// Returns "cache_control":{"type":"ephemeral"}; a TTL of the default five minutes is not written.
std::string BreakpointMember(const Breakpoint& breakpoint);
// Returns the caller's own spelling of a segment's breakpoint, without a comma.
std::string_view BreakpointText(std::string_view body, const Segment& segment);
Rule BreakpointRule(const Breakpoint& breakpoint);

// Extends the span of a member by the comma beside it.
Span WithComma(std::string_view body, Span member);
// Returns `text` as a JSON string with quotes.
std::string QuotedJson(std::string_view text);

}  // namespace kvgate::prompt::parse
