// Segment text: the bytes of a segment without what is lifted out of it. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

// The bytes of `segment` without marker, kvgate_source and, of a message's head, its blocks; put
// together in `assembled` where they do not stand in one piece.
std::string_view BytesOf(std::string_view body, const Segment& segment, std::string& assembled);

}  // namespace kvgate::prompt
