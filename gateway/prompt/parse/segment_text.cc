#include "gateway/prompt/parse/segment_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "gateway/prompt/parse/element_reader.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt::parse {
namespace {

// Returns a tool's description; some dialects put it into its member "function".
Span DescriptionIn(std::string_view json, int depth) {
  Span found;
  JsonScanner scanner(json);
  scanner.Object([&](const JsonScanner::Name& member) {
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    const std::string_view name = member.span.In(json);
    if (name == "description" && value->In(json).starts_with('"')) found = *value;
    if (name == "function" && depth == 0 && found.empty()) {
      found = DescriptionIn(value->In(json), 1);
      if (!found.empty()) found = {value->begin + found.begin, value->begin + found.end};
    }
    return true;
  });
  return found;
}

}  // namespace

std::string_view BytesOf(std::string_view body, const Segment& segment, std::string& assembled) {
  // The brackets of the list of blocks are kept.
  const Span blocks =
      segment.blocks.empty() ? Span{} : Span{segment.blocks.begin + 1, segment.blocks.end - 1};
  std::array<Span, 3> cuts = {segment.breakpoint_span, segment.source_span, blocks};
  if (std::all_of(cuts.begin(), cuts.end(), [](const Span& cut) { return cut.empty(); })) {
    return segment.span.In(body);
  }
  std::sort(cuts.begin(), cuts.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  assembled.clear();
  uint32_t at = segment.span.begin;
  for (const Span& cut : cuts) {
    if (cut.empty()) continue;
    assembled.append(body, at, cut.begin - at);
    at = cut.end;
  }
  assembled.append(body, at, segment.span.end - at);
  return assembled;
}

Span TextIn(std::string_view bytes, Content content) {
  if (content == Content::kTool) return DescriptionIn(bytes, 0);
  if (bytes.starts_with('"')) return {0, static_cast<uint32_t>(bytes.size())};
  ReadObject object;
  JsonScanner scanner(bytes);
  return ReadElement(bytes, scanner, object, nullptr).empty() ? object.text : Span{};
}

Span NoticeIn(std::string_view body, Span text) {
  if (text.size() <= 2) return {};
  const std::string_view json = text.In(body);
  // Most texts end with no tag, and need not be decoded.
  std::string_view end = json.substr(1, json.size() - 2);
  while (end.ends_with("\\n") || end.ends_with("\\r") || end.ends_with("\\t") ||
         end.ends_with(' ')) {
    end.remove_suffix(end.ends_with(' ') ? 1 : 2);
  }
  std::string decoded;
  std::vector<uint32_t> offsets;
  if (!end.ends_with('>') || !DecodeString(json, decoded, &offsets)) return {};
  const size_t words = WithoutTaggedEnd(decoded).size();
  const size_t trimmed = decoded.find_last_not_of(" \t\r\n") + 1;
  if (words == 0 || words == trimmed || decoded.size() - words > kNoticeBytesMax) return {};
  return {text.begin + offsets[words], text.end - 1};
}

}  // namespace kvgate::prompt::parse
