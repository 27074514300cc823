// PromptText is what the system prompt of a request says, as a bag of words and as lines without
// their values: two prompts are compared by what they have in common. LineSketch says the same of
// the lines of any text in a few bytes that can be kept. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::history {

struct PromptText {
  std::vector<uint64_t> words;  // as JSON spells them; sorted
  std::vector<uint64_t> masks;  // identities of the masked lines; sorted
};
// The system prompt of a request, and that which a branch's caller has sent, as far as its bytes
// are known.
PromptText SystemTextOf(std::string_view body, const parse::RequestLayout& layout);
PromptText SystemTextOf(const Branch& branch);

// Returns the tools of a request or of what was sent, in any order: sorted, without their slots.
template <typename Segments>
std::vector<parse::Identity> ToolsOf(const Segments& segments) {
  std::vector<parse::Identity> tools;
  for (const auto& segment : segments) {
    if (segment.place.section == parse::Section::kTools) tools.push_back(segment.stable);
  }
  std::sort(tools.begin(), tools.end());
  return tools;
}

// Returns how many elements two sorted lists have in common.
size_t NumCommon(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b);

// Adds the identities of the masked lines of `json`, the inside of a JSON string, to `masks`. Lines
// behind the first kMaskedBytes are left out, because masking takes much longer than hashing. Each
// thread remembers those of the texts that a tenant has sent last.
inline constexpr size_t kMaskedBytes = size_t{64} << 10;
void AddMasks(std::string_view json, std::string_view tenant, std::vector<uint64_t>& masks);

// Returns the sketch of lines with these masks: the smallest ones, which are a fair sample.
LineSketch SketchOf(std::vector<uint64_t> masks);
// Returns about how many lines two texts have in common; exactly, if their sketches hold them all.
size_t NumCommon(const LineSketch& a, const LineSketch& b);

}  // namespace kvgate::prompt::history
