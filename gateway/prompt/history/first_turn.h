// A FirstTurn is what is kept of a conversation's first turn while it has few answers or none, so
// that its next request is recognised also if it says something else in places: programs move
// their notices on with the newest turn, or write lines anew. It holds no text, and lives on disk
// as well as in memory. Pure; any thread may call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::history {

// The identities of a text's masked lines: of all, or of a fair sample of a long text's.
struct LineSketch {
  uint32_t num_lines = 0;       // different ones
  std::vector<uint64_t> masks;  // the smallest of their identities; sorted
  friend bool operator==(const LineSketch&, const LineSketch&) = default;
};

struct FirstTurn {
  // What the first user turn says without the blocks in tags of their own that programs put behind
  // it (reminders, notices), as it is spelled; zero if it says nothing else.
  parse::Identity words;
  // How it begins and ends, without those blocks: the masked lines of its first and last paragraph.
  // A person's words stand at one end of what programs add to them.
  parse::Identity ends;
  LineSketch users;  // the lines of the user's turns
  // Keys that all conversations of an agent begin with, until the first answer is known; see
  // Recognition::LookedUp.
  std::vector<parse::Identity> kin;
  size_t num_bytes() const {
    return sizeof(FirstTurn) + users.masks.size() * sizeof(uint64_t) +
           kin.size() * sizeof(parse::Identity);
  }
  friend bool operator==(const FirstTurn&, const FirstTurn&) = default;
};

// Reads the turns in front of the first answer; without `kin`. The cost follows their text up to
// kMaskedBytes (prompt_text.h).
FirstTurn ReadFirstTurn(std::string_view body, const parse::RequestLayout& layout,
                        std::string_view tenant = {});

}  // namespace kvgate::prompt::history
