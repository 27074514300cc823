// Decides if an earlier turn or a tool may keep the text that was sent for it although its caller
// writes another: one with other program-written values, or without ephemeral text that has left
// it. Anything else that is new is sent. Pure; may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/ephemeral.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::history {

struct HeldText {
  std::vector<std::string> changed;  // lines of `now` whose values `before` does not have
  std::vector<Ephemeral> left;       // text that only `before` has
};

// Compares `before` with `now` for the case that `before` is sent. The changed lines then have to
// be said elsewhere, and what has left must be text that may be sent again. Lines of a reminder may
// differ in any values, whatever their form. Both are JSON values without breakpoints. Returns
// nullopt if `now` has other new text, so that `before` cannot stand for it.
std::optional<HeldText> CompareHeld(std::string_view before, std::string_view now,
                                    parse::Content content);

}  // namespace kvgate::prompt::history
