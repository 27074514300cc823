// A slot is a line of a prompt of which it is known that it changes within conversations. A SlotSet
// is the set that a conversation begins with and keeps; it finds the slots among a text's lines.
// Immutable; any thread may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/prompt/templates/text_lines.h"

namespace kvgate::prompt::templates {

// The part of a prompt in which a template holds.
enum class Place : uint8_t { kSystem, kTool, kFirstUser, kReminder };
inline constexpr size_t kNumPlaces = 4;
std::string_view PlaceName(Place place);  // "system"

// A line as it is looked for.
struct LineForm {
  Place place = Place::kSystem;
  uint64_t mask = 0;    // its key in its text
  uint64_t before = 0;  // the masks of the lines beside it
  uint64_t after = 0;
  uint32_t num_words = 0;
  std::vector<uint64_t> tokens;  // empty: only the key tells the line from others in its words
  friend bool operator==(const LineForm&, const LineForm&) = default;
};
LineForm FormOf(Place place, const TextLines& lines, size_t index, std::string_view text);

struct Slot {
  uint64_t id = 0;     // never 0
  LineForm form;       // with kAnyToken where its words have changed
  bool moves = false;  // else its first value stays in its place
  friend bool operator==(const Slot&, const Slot&) = default;
};

// Returns the id of the slot that a line becomes.
uint64_t SlotIdOf(const LineForm& line);

// Returns true if `line` is the slot with other values or words. A line of few words is known by a
// neighbour only, and one of other words by a neighbour or by its first words and most others.
bool IsOf(const LineForm& slot, const LineForm& line);

class SlotSet {
 public:
  using Slots = std::vector<std::shared_ptr<const Slot>>;
  SlotSet() = default;
  explicit SlotSet(Slots slots);

  // Returns the slot that line `index` of `text` is; null if it is none.
  std::shared_ptr<const Slot> Find(Place place, const TextLines& lines, size_t index,
                                   std::string_view text) const;
  // Returns the first slot of which `line` may be one.
  std::shared_ptr<const Slot> Find(const LineForm& line) const;
  const Slots& slots() const { return slots_; }

 private:
  using Index = std::unordered_multimap<uint64_t, uint32_t>;
  Slots slots_;
  Index by_mask_;
  Index by_hint_;  // neighbours and heads
};

}  // namespace kvgate::prompt::templates
