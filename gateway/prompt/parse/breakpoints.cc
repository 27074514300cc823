#include "gateway/prompt/parse/breakpoints.h"

#include <array>

#include "gateway/prompt/skimmer.h"

namespace kvgate::prompt {

std::string MarkerMember(const Marker& marker) {
  if (marker.kind == MarkerKind::kBreakpoint) {
    return R"("prompt_cache_breakpoint":{"mode":"explicit"})";
  }
  return marker.ttl_seconds == 3600 ? R"("cache_control":{"type":"ephemeral","ttl":"1h"})"
                                    : R"("cache_control":{"type":"ephemeral"})";
}

std::string_view MarkerText(std::string_view body, const Segment& segment) {
  std::string_view text = segment.marker_span.In(body);
  while (!text.empty() && (text.front() == ',' || Skimmer::IsSpace(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ',' || Skimmer::IsSpace(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

Rule MarkerRule(const Marker& marker) {
  return marker.kind == MarkerKind::kBreakpoint ? Rule::kBreakpoints : Rule::kCacheControl;
}

Span WithComma(std::string_view body, Span member) {
  uint32_t begin = member.begin;
  while (begin > 0 && Skimmer::IsSpace(body[begin - 1])) --begin;
  if (begin > 0 && body[begin - 1] == ',') return {begin - 1, member.end};
  Skimmer behind(body, member.end);
  return behind.Take(',') ? Span{member.begin, behind.at()} : member;
}

std::string QuotedJson(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace kvgate::prompt
