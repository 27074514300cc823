#include "gateway/prompt/rewrite/prompt_shape.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gateway/prompt/parse/canonical.h"

namespace kvgate::prompt::rewrite {

using parse::Identity;

namespace {

bool HasSlots(const DraftSegment& segment) { return segment.text && !segment.text->slots.empty(); }

// Returns the identity of a text that has slots: of its other lines, and of which slots it has.
Identity ConstantOf(const templates::TextState& text) {
  Identity constant;
  auto slot = text.slots.begin();
  for (uint32_t i = 0; i < text.lines.size(); ++i) {
    const bool is_slot = slot != text.slots.end() && slot->line == i;
    const uint64_t line = is_slot ? slot->slot : text.lines[i].hash;
    if (is_slot) ++slot;
    constant = parse::Chain(constant, {line, line});
  }
  return constant;
}

}  // namespace

std::shared_ptr<const templates::SlotSet> SlotsOf(const Draft& draft) {
  if (!draft.slots) return nullptr;
  std::unordered_set<uint64_t> ids;
  for (const DraftSegment& segment : draft.segments) {
    if (!segment.text) continue;
    for (const templates::SlotLine& slot : segment.text->slots) ids.insert(slot.slot);
  }
  templates::SlotSet::Slots slots;
  for (const auto& slot : draft.slots->slots()) {
    if (ids.contains(slot->id)) slots.push_back(slot);
  }
  return slots.empty() ? nullptr : std::make_shared<const templates::SlotSet>(std::move(slots));
}

Identity ShapeOf(const Draft& draft, const history::Recognition& found) {
  if (std::none_of(draft.segments.begin(), draft.segments.end(), HasSlots)) return found.shape;
  std::vector<Identity> tools;
  Identity system;
  for (const DraftSegment& segment : draft.segments) {
    if (segment.now == nullptr || segment.now->place.section == parse::Section::kMessages) continue;
    const Identity constant = HasSlots(segment) ? ConstantOf(*segment.text) : segment.now->stable;
    if (segment.now->place.section == parse::Section::kTools) {
      tools.push_back(constant);
    } else if (HasSlots(segment) || !segment.now->is_volatile) {
      system = parse::Chain(system, constant);
    }
  }
  std::sort(tools.begin(), tools.end());
  Identity shape = parse::HashBytes(draft.layout.model, parse::Domain::kConversation);
  for (const Identity& tool : tools) shape = parse::Chain(shape, tool, parse::Domain::kTools);
  return parse::Chain(shape, system, parse::Domain::kShape);
}

}  // namespace kvgate::prompt::rewrite
