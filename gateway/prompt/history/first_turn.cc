#include "gateway/prompt/history/first_turn.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gateway/prompt/history/prompt_text.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt::history {

using parse::Identity;

namespace {

// Notices at the end of a text that are longer than this count as words, so that a long text need
// not be decoded.
constexpr size_t kTaggedBytesMax = 8192;

// Returns `json`, the inside of a JSON string, without white space at its end.
std::string_view WithoutSpelledSpace(std::string_view json) {
  while (true) {
    const bool is_escape = json.ends_with("\\n") || json.ends_with("\\r") || json.ends_with("\\t");
    if (json.ends_with(' ')) {
      json.remove_suffix(1);
    } else if (is_escape && !json.substr(0, json.size() - 2).ends_with('\\')) {
      json.remove_suffix(2);
    } else {
      return json;
    }
  }
}

// Returns `json`, the inside of a JSON string, without the tagged blocks at its end.
std::string_view WordsIn(std::string_view json) {
  json = WithoutSpelledSpace(json);
  if (!json.ends_with('>') && !json.ends_with("\\u003e")) return json;
  // A space is no part of an escape sequence.
  size_t begin = json.size() - std::min(json.size(), kTaggedBytesMax);
  if (begin > 0) begin = std::min(json.find(' ', begin), json.size());
  std::string text;
  std::vector<uint32_t> offsets;
  if (!parse::DecodeString("\"" + std::string(json.substr(begin)) + "\"", text, &offsets)) {
    return json;
  }
  const size_t end = parse::WithoutTaggedEnd(text).size();
  if (end == text.size()) return json;
  return json.substr(0, begin + offsets[end] - 1);  // counted from the quote
}

// Returns the identity of the lines of a paragraph, without their values.
Identity ParagraphOf(std::string_view json, std::string_view tenant) {
  Identity paragraph;
  std::vector<uint64_t> masks;
  AddMasks(json, tenant, masks);
  for (const uint64_t mask : masks) {
    paragraph = parse::Chain(paragraph, {.low = mask, .high = 0});
  }
  return paragraph;
}
constexpr std::string_view kBlankLine = "\\n\\n";
Identity FirstParagraph(std::string_view json, std::string_view tenant) {
  return ParagraphOf(json.substr(0, json.find(kBlankLine)), tenant);
}
Identity LastParagraph(std::string_view json, std::string_view tenant) {
  const size_t at = json.rfind(kBlankLine);
  return ParagraphOf(at == json.npos ? json : json.substr(at + kBlankLine.size()), tenant);
}

}  // namespace

FirstTurn ReadFirstTurn(std::string_view body, const parse::RequestLayout& layout,
                        std::string_view tenant) {
  FirstTurn turn;
  Identity begins;
  Identity ends;
  std::vector<uint64_t> masks;
  size_t num_masked = 0;  // bytes
  int32_t first = -1;
  for (const parse::Segment& segment : layout.segments) {
    if (segment.place.section != parse::Section::kMessages) continue;
    if (segment.role == parse::Role::kAssistant) break;
    const bool is_words = segment.role == parse::Role::kUser &&
                          segment.content == parse::Content::kText && !segment.text.empty();
    if (!is_words) continue;
    std::string_view json = segment.text.In(body);
    json = json.substr(1, json.size() - 2);
    AddMasks(json.substr(0, kMaskedBytes - std::min(kMaskedBytes, num_masked)), tenant, masks);
    num_masked += json.size();
    if (first != -1 && segment.place.element != first) continue;
    first = segment.place.element;
    const std::string_view said = WordsIn(json);
    if (said.empty()) continue;
    if (turn.words == Identity{}) begins = FirstParagraph(said, tenant);
    ends = LastParagraph(said, tenant);
    turn.words = parse::Chain(turn.words, parse::HashBytes(said, parse::Domain::kConversation));
  }
  turn.users = SketchOf(std::move(masks));
  turn.ends = parse::Chain(begins, ends);
  return turn;
}

}  // namespace kvgate::prompt::history
