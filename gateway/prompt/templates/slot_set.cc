#include "gateway/prompt/templates/slot_set.h"

#include <array>
#include <string>
#include <utility>

#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::templates {
namespace {

// Keys of one index for three kinds of hints.
uint64_t KeyBefore(uint64_t mask) { return mask * 0x9E3779B97F4A7C15U + 1; }
uint64_t KeyAfter(uint64_t mask) { return mask * 0x9E3779B97F4A7C15U + 2; }
uint64_t KeyHead(uint64_t head) { return head * 0x9E3779B97F4A7C15U + 3; }

}  // namespace

std::string_view PlaceName(Place place) {
  static constexpr std::array<std::string_view, kNumPlaces> kNames = {"system", "tool",
                                                                      "first_user", "reminder"};
  return kNames[static_cast<size_t>(place)];
}

LineForm FormOf(Place place, const TextLines& lines, size_t index, std::string_view text) {
  const TextLine& line = lines[index];
  std::vector<uint64_t> tokens;
  if (!line.is_repeated) tokens = TokensOf(MaskLine(line.In(text)).text);
  return {.place = place,
          .mask = lines.KeyOf(index),
          .before = lines.MaskBefore(index),
          .after = lines.MaskAfter(index),
          .num_words = line.num_words,
          .tokens = std::move(tokens)};
}

uint64_t SlotIdOf(const LineForm& line) {
  std::string key(PlaceName(line.place));
  key += std::to_string(line.mask);
  // A line of few words has its mask in several places.
  if (line.num_words < kTellingWords) key += "," + std::to_string(line.before);
  return HashOf(key);
}

bool IsOf(const LineForm& slot, const LineForm& line) {
  if (slot.place != line.place) return false;
  const int neighbours = (slot.before == line.before ? 1 : 0) + (slot.after == line.after ? 1 : 0);
  if (slot.mask == line.mask) return line.num_words >= kTellingWords || neighbours > 0;
  if (slot.tokens.empty() || line.tokens.empty()) return false;
  if (neighbours == 0) {
    const uint64_t head = HeadOf(slot.tokens);
    if (head == 0 || head != HeadOf(line.tokens)) return false;
  }
  const size_t constant = NumConstant(slot.tokens);
  const size_t common = NumConstant(CommonTokens(slot.tokens, line.tokens));
  if (neighbours == 2) return common * 3 >= constant;
  if (neighbours == 1) return common * 2 >= constant && common > 0;
  return common >= kTellingWords && common * 10 >= constant * 7;
}

SlotSet::SlotSet(Slots slots) : slots_(std::move(slots)) {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const LineForm& form = slots_[i]->form;
    by_mask_.emplace(form.mask, i);
    by_hint_.emplace(KeyBefore(form.before), i);
    by_hint_.emplace(KeyAfter(form.after), i);
    if (const uint64_t head = HeadOf(form.tokens); head != 0) by_hint_.emplace(KeyHead(head), i);
  }
}

std::shared_ptr<const Slot> SlotSet::Find(Place place, const TextLines& lines, size_t index,
                                          std::string_view text) const {
  const TextLine& line = lines[index];
  if (slots_.empty() || !line.may_change) return nullptr;
  // Few lines have a slot's mask, neighbour or head; the others are not read.
  if (!by_mask_.contains(lines.KeyOf(index)) &&
      !by_hint_.contains(KeyBefore(lines.MaskBefore(index))) &&
      !by_hint_.contains(KeyAfter(lines.MaskAfter(index))) &&
      !by_hint_.contains(KeyHead(line.head))) {
    return nullptr;
  }
  return Find(FormOf(place, lines, index, text));
}

std::shared_ptr<const Slot> SlotSet::Find(const LineForm& line) const {
  const auto find = [&](const Index& index, uint64_t key) -> std::shared_ptr<const Slot> {
    const auto [begin, end] = index.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      if (IsOf(slots_[it->second]->form, line)) return slots_[it->second];
    }
    return nullptr;
  };
  if (auto slot = find(by_mask_, line.mask)) return slot;
  if (auto slot = find(by_hint_, KeyBefore(line.before))) return slot;
  if (auto slot = find(by_hint_, KeyAfter(line.after))) return slot;
  const uint64_t head = HeadOf(line.tokens);
  return head == 0 ? nullptr : find(by_hint_, KeyHead(head));
}

}  // namespace kvgate::prompt::templates
