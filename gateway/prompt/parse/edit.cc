#include "gateway/prompt/parse/edit.h"

#include <algorithm>
#include <array>

namespace kvgate::prompt::parse {

std::string_view RuleName(Rule rule) {
  static constexpr std::array<std::string_view, kNumRules> kNames = {
      "tools_order",      "first_seen_bytes", "newlines",        "cache_control",  "ttl_dropped",
      "prompt_cache_key", "breakpoints",      "conversation_id", "volatile_moved", "volatile_held",
      "reminder_kept",    "system_slots",     "tool_slots",      "source_field",   "output_cap",
      "thinking_removed", "user_slots",       "system_turn",
      "explicit_cache"};
  return kNames[static_cast<size_t>(rule)];
}

void SortEdits(std::vector<Edit>& edits) {
  std::stable_sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    if (a.span.begin != b.span.begin) return a.span.begin < b.span.begin;
    return a.span.empty() && !b.span.empty();
  });
}

std::string ApplyEdits(std::string_view body, const std::vector<Edit>& edits, Span part) {
  size_t size = part.size();
  for (const Edit& edit : edits) size += edit.bytes.size();
  std::string out;
  out.reserve(size);
  uint32_t at = part.begin;
  for (const Edit& edit : edits) {
    out.append(body, at, edit.span.begin - at);
    out.append(edit.bytes);
    at = edit.span.end;
  }
  out.append(body, at, part.end - at);
  return out;
}

}  // namespace kvgate::prompt::parse
