// Markers: how cache markers are spelled in a body. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

// "cache_control":{"type":"ephemeral"}, without a ttl where it is the usual five minutes.
std::string MarkerMember(const Marker& marker);
// The caller's own spelling of a segment's marker, without a comma.
std::string_view MarkerText(std::string_view body, const Segment& segment);
Rule MarkerRule(const Marker& marker);

// The span of a member with the comma beside it.
Span WithComma(std::string_view body, Span member);
// A JSON string.
std::string QuotedJson(std::string_view text);

}  // namespace kvgate::prompt
