// A TextState is what a conversation remembers about one text of its prompt: the lines as its
// caller last wrote them, and those among them that are slots. It stands beside the text that was
// sent, and is immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/prompt/templates/text_lines.h"

namespace kvgate::prompt::templates {

struct SlotLine {
  uint32_t line = 0;   // index into the lines
  uint64_t slot = 0;   // its id
  bool moved = false;  // it left its place; else `first` stands there
  std::string first;   // the form in which it was first sent, in JSON spelling without quotes
  friend bool operator==(const SlotLine&, const SlotLine&) = default;
};

struct TextState {
  TextLines lines;
  std::vector<SlotLine> slots;  // in the order of the lines
  size_t num_bytes() const {
    size_t bytes = sizeof(TextState) + lines.num_bytes() + slots.size() * sizeof(SlotLine);
    for (const SlotLine& slot : slots) bytes += slot.first.size();
    return bytes;
  }
};

// A line of a slot that was said behind the newest text of a request, in JSON spelling. `slot` is 0
// for a line that is volatile by its form.
struct CarriedLine {
  std::string json;
  uint64_t slot = 0;
  friend bool operator==(const CarriedLine&, const CarriedLine&) = default;
};

}  // namespace kvgate::prompt::templates
