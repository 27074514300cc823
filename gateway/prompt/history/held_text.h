// Held text: whether an earlier turn or a tool may keep the text that was sent for it, although its
// caller now writes another: with other values that programs write, or without what has left it.
// What is new beside such values goes out. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/ephemeral.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

struct HeldText {
  std::vector<std::string> changed;  // lines of `now` with values that `before` has not
  std::vector<Ephemeral> left;       // what stands in `before` alone
};

// What differs where `before` is sent for `now`: the lines that changed have to be said elsewhere,
// and what has left must be such that it may go out. Both are JSON values without markers. Nothing:
// `now` has other new text, `before` cannot stand for it.
std::optional<HeldText> CompareHeld(std::string_view before, std::string_view now, Content content);

}  // namespace kvgate::prompt
