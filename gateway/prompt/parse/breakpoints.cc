#include "gateway/prompt/parse/breakpoints.h"

#include <array>

#include "base/json_escape.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::parse {

std::string BreakpointMember(const Breakpoint& breakpoint) {
  if (breakpoint.kind == BreakpointKind::kBreakpoint) {
    return R"("prompt_cache_breakpoint":{"mode":"explicit"})";
  }
  return breakpoint.ttl_seconds == 3600 ? R"("cache_control":{"type":"ephemeral","ttl":"1h"})"
                                        : R"("cache_control":{"type":"ephemeral"})";
}

std::string_view BreakpointText(std::string_view body, const Segment& segment) {
  std::string_view text = segment.breakpoint_span.In(body);
  while (!text.empty() && (text.front() == ',' || JsonScanner::IsSpace(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ',' || JsonScanner::IsSpace(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

Rule BreakpointRule(const Breakpoint& breakpoint) {
  return breakpoint.kind == BreakpointKind::kBreakpoint ? Rule::kBreakpoints : Rule::kCacheControl;
}

Span WithComma(std::string_view body, Span member) {
  uint32_t begin = member.begin;
  while (begin > 0 && JsonScanner::IsSpace(body[begin - 1])) --begin;
  if (begin > 0 && body[begin - 1] == ',') return {begin - 1, member.end};
  JsonScanner behind(body, member.end);
  return behind.Take(',') ? Span{member.begin, behind.at()} : member;
}

std::string QuotedJson(std::string_view text) {
  std::string out = "\"";
  AppendJsonEscaped(text, JsonShort::kNone, out);
  return out + '"';
}

}  // namespace kvgate::prompt::parse
