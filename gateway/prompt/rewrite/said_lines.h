// SaidLines knows which lines the provider has: those in texts that go out again, and those that
// system turns say. A turn that is cleared (system_turn.h) still holds its lines, but says none.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/templates/slot_set.h"
#include "gateway/prompt/templates/text_state.h"

namespace kvgate::prompt::rewrite {

// A slot's line of this request. It has to be said unless it is the newest one of its slot.
struct SlotText {
  std::string json;
  uint64_t slot = 0;
  std::optional<std::string> first;  // what goes out in its place; nullopt: it has moved
  templates::Place place = templates::Place::kSystem;  // whose text said it
};
struct TailLines {
  std::vector<std::string> moved;  // lines volatile by their form that left the system prompt
  std::vector<SlotText> slots;
};

// Returns true if `line` stands somewhere in `json` as a whole between spaces, tags or line ends.
bool HasLine(std::string_view json, std::string_view line);
// Returns true if two lines in JSON spelling say the same thing at two times: they differ in values
// only.
bool AreOfOneSlotJson(std::string_view a, std::string_view b);

class SaidLines {
 public:
  // Both must outlive it.
  SaidLines(const Draft& draft, const TailLines& lines) : draft_(draft), lines_(lines) {}
  // Call it when a segment of the draft goes out otherwise than before.
  void Forget() { slots_.reset(); }

  // Returns true if an outgoing turn of a user, program or tool says the line; with `in_new`, only
  // turns that were not sent before count.
  bool IsSaid(std::string_view line, bool in_new) const;
  bool IsMovedSaid(const std::string& line) const;
  // Returns true if the provider's newest line of the slot is this one.
  bool IsSlotSaid(const SlotText& line) const { return SentOf(line) == line.json; }
  // Returns true if the provider has the line with other values, which it may keep for a while.
  bool HasEarlier(const templates::CarriedLine& line) const;
  // Returns the other segments' lines in bytes that go out again; null if there are none.
  const std::vector<templates::CarriedLine>* CarriedAgain(const DraftSegment& out) const;

  // Returns true if the system prompt says the line, or a user's first text.
  bool IsSystems(const templates::CarriedLine& line) const;
  bool IsUsers(const templates::CarriedLine& line) const;
  bool IsMoved(std::string_view line) const;

 private:
  // The newest line of a slot that goes out again.
  struct SaidSlot {
    templates::CarriedLine line;
    bool is_cleared = false;
  };
  const SlotText* SlotOf(const templates::CarriedLine& line) const;
  bool IsUnsaidIn(parse::Section section, std::string_view line) const;
  // Returns the newest line that goes out again and is `line` or says the same at another time. For
  // lines that are volatile by their form.
  std::optional<SaidSlot> NewestLike(const std::string& line) const;
  // Returns the line that the provider has of the slot at present; nullopt if it has none.
  std::optional<std::string> SentOf(const SlotText& line) const;
  const std::vector<SaidSlot>& SaidSlots() const;
  // Returns the bytes that the rules for equal values will choose.
  std::string_view OutgoingOf(const DraftSegment& out) const;

  const Draft& draft_;
  const TailLines& lines_;
  mutable std::optional<std::vector<SaidSlot>> slots_;  // while no segment is let go
};

}  // namespace kvgate::prompt::rewrite
