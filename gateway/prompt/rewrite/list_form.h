// A message or field whose content is a string goes out as a list of blocks where it is to hold a
// breakpoint, which a string cannot. Providers render both alike. A notice at the end of a user's
// string (parse::Segment::notice), which its caller moves on or writes anew, becomes a block of its
// own behind the breakpoint, so that what is cached does not end with it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

// Returns true for a text that is a string and the whole content of its message or field.
bool IsString(const parse::Segment& segment);

struct ListForm {
  std::string bytes;           // without breakpoint and kvgate_source
  uint32_t breakpoint_at = 0;  // the offset in `bytes` at which the breakpoint is inserted
  // The insertions that make it of the caller's body, beside the segment's small changes, in order.
  std::vector<parse::Edit> edits;
  uint32_t breakpoint_in_edit = 0;  // the same offset in the second edit's bytes
};
// Returns the segment in that form, with its small changes. REQUIRES: IsString(*segment.now).
ListForm ListFormOf(const Draft& draft, const DraftSegment& segment);

// Returns the string form of `list`, the bytes of such a list with its breakpoint's offset.
std::string StringFormOf(dialect::form::Endpoint endpoint, std::string_view list,
                         uint32_t breakpoint_at);

// What a string is to the plan. A string and the list that it became are the same, and its words
// are the same with and without a notice.
struct PlannedString {
  parse::Identity words;    // up to the end of its text, or to its notice
  parse::Identity rest;     // of what stands behind them; zero if that is no more than the end
  bool has_notice = false;  // behind the words
};
// `text` and `notice` are spans of `bytes`, which are without breakpoint and kvgate_source.
PlannedString PlannedStringOf(std::string_view bytes, parse::Span text, parse::Span notice);

}  // namespace kvgate::prompt::rewrite
