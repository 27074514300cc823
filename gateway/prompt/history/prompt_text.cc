#include "gateway/prompt/history/prompt_text.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/lru_map.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::history {

namespace {

// A line in 64 tells as much as is asked: that most are the same.
constexpr size_t kSketchLines = 64;
// Texts whose masks each thread remembers: those that take longer to mask than to be found.
constexpr size_t kRememberedTexts = 64;
constexpr size_t kRememberedBytesMin = 200;
constexpr size_t kRememberedLinesMax = 2048;

// Calls `visit` with each line of a text in JSON's spelling.
template <typename Visit>
void EachLine(std::string_view json, const Visit& visit) {
  while (!json.empty()) {
    const size_t end = std::min(json.find("\\n"), json.size());
    visit(json.substr(0, end));
    json.remove_prefix(std::min(end + 2, json.size()));
  }
}

void Add(std::string_view json, PromptText& text) {
  EachLine(json, [&](std::string_view line) {
    text.masks.push_back(templates::HashOf(templates::MaskLine(line).text));
    for (size_t at = 0; at < line.size();) {
      const size_t word_end = std::min(line.find(' ', at), line.size());
      text.words.push_back(templates::HashOf(line.substr(at, word_end - at)));
      at = word_end + 1;
    }
  });
}

void Sort(PromptText& text) {
  std::sort(text.words.begin(), text.words.end());
  std::sort(text.masks.begin(), text.masks.end());
}

}  // namespace

PromptText SystemTextOf(std::string_view body, const parse::RequestLayout& layout) {
  PromptText text;
  std::string assembled;
  for (const parse::Segment& segment : layout.segments) {
    if (segment.place.section != parse::Section::kSystem) continue;
    Add(parse::BytesOf(body, segment, assembled), text);
  }
  Sort(text);
  return text;
}

PromptText SystemTextOf(const Branch& branch) {
  PromptText text;
  for (size_t i = 0; i < branch.request.segments.size(); ++i) {
    const SentSegment& segment = branch.request.segments[i];
    const CallerForm& form = branch.forms[i];
    const std::string* caller = form.caller ? form.caller.get() : segment.bytes.get();
    if (segment.place.section == parse::Section::kSystem && caller != nullptr) Add(*caller, text);
  }
  Sort(text);
  return text;
}

size_t NumCommon(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  size_t common = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i] == b[k]) ++common;
    const bool is_less = a[i] < b[k];
    if (a[i] <= b[k]) ++i;
    if (!is_less) ++k;
  }
  return common;
}

void AddMasks(std::string_view json, std::string_view tenant, std::vector<uint64_t>& masks) {
  json = json.substr(0, kMaskedBytes);
  const size_t num_before = masks.size();
  const auto read = [&] {
    EachLine(json, [&](std::string_view line) {
      masks.push_back(templates::HashOf(templates::MaskLine(line).text));
    });
  };
  if (json.size() < kRememberedBytesMin) return read();
  // A prompt is read again with each request of its conversation, and by each of an agent's.
  thread_local LruMap<parse::Identity, std::vector<uint64_t>> remembered(kRememberedTexts);
  const parse::Identity key = parse::Chain(parse::HashBytes(tenant, parse::Domain::kConversation),
                                           parse::HashBytes(json, parse::Domain::kConversation),
                                           parse::Domain::kConversation);
  if (const std::vector<uint64_t>* known = remembered.Find(key)) {
    masks.insert(masks.end(), known->begin(), known->end());
    return;
  }
  read();
  if (masks.size() - num_before > kRememberedLinesMax) return;
  remembered.FindOrAdd(key).assign(masks.begin() + static_cast<std::ptrdiff_t>(num_before),
                                   masks.end());
}

LineSketch SketchOf(std::vector<uint64_t> masks) {
  std::sort(masks.begin(), masks.end());
  masks.erase(std::unique(masks.begin(), masks.end()), masks.end());
  LineSketch sketch{.num_lines = static_cast<uint32_t>(masks.size()), .masks = std::move(masks)};
  if (sketch.masks.size() > kSketchLines) sketch.masks.resize(kSketchLines);
  sketch.masks.shrink_to_fit();
  return sketch;
}

size_t NumCommon(const LineSketch& a, const LineSketch& b) {
  const size_t common = NumCommon(a.masks, b.masks);
  if (common == 0) return 0;
  // Beyond the largest mask of a sketch that does not hold all of its text's lines, one of them may
  // be missing.
  uint64_t most = std::max(a.masks.back(), b.masks.back());
  if (a.num_lines > a.masks.size()) most = std::min(most, a.masks.back());
  if (b.num_lines > b.masks.size()) most = std::min(most, b.masks.back());
  const auto compared =
      static_cast<size_t>(std::upper_bound(a.masks.begin(), a.masks.end(), most) - a.masks.begin());
  return common * a.num_lines / compared;
}

}  // namespace kvgate::prompt::history
