// SlotReader finds the learnt slots among the lines of one text of a request. A line that was a
// slot when its conversation last sent the text stays one, also with other values; a line that the
// conversation has not sent is one if the conversation began with its slot; and one that changes
// within the conversation becomes one here. What it sees is collected for the templates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/templates/templates.h"

namespace kvgate::prompt::rewrite {

// What the rules may ask of the templates, and what this request teaches them.
struct Learning {
  const templates::Templates& templates;
  templates::Templates::Scope scope;
  templates::Lesson lesson = {};
};

// A JSON string, decoded.
struct DecodedText {
  std::string text;
  std::vector<uint32_t> offsets;  // of each byte of the text, from the beginning of the JSON string
  uint32_t begin = 0;             // of the JSON string in what holds it
  // Returns false if `span` of `json` is no JSON string.
  bool Read(std::string_view json, parse::Span span);
  // Returns [first, last) of the text as a span of what holds it.
  parse::Span RawOf(size_t first, size_t last) const {
    return {begin + offsets[first], begin + offsets[last]};
  }
};

struct SlotReaderArgs {
  const Draft& draft;
  const DraftSegment& segment;
  const DecodedText& decoded;
  templates::Place place = templates::Place::kSystem;
  parse::Rule rule = parse::Rule::kSystemSlots;  // that switches the slots of this place off
  // Lines that are volatile by their form, as [begin, end) of the text; they are no slots.
  const std::vector<std::pair<size_t, size_t>>& by_form;
  bool may_move = true;       // else slots stay in their places
  uint32_t stake_tokens = 0;  // of the prefix that misses the cache if a line changes
};
// The texts of the user's first turn, in which agents write the state of their surroundings.
// Returns the index of its element in the list of turns; nullopt if there is none.
std::optional<int32_t> FirstUserElement(const parse::RequestLayout& layout);
bool IsFirstUserText(const parse::Segment& segment, std::optional<int32_t> first_user);

// Returns the text's lines, its slots among them. A slot that neither moves nor has been sent
// before goes out as it came.
std::shared_ptr<templates::TextState> ReadSlots(const SlotReaderArgs& args, Learning& learning);
// The same for a first text of the user. Lines that may be held by their form are no slots.
std::shared_ptr<templates::TextState> ReadUserSlots(const Draft& draft, const DecodedText& decoded,
                                                    const DraftSegment& segment,
                                                    Learning& learning);

}  // namespace kvgate::prompt::rewrite
