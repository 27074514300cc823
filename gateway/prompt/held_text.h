// Held text: what an earlier turn or a tool may keep of the text that was sent for it, although its
// caller now writes another: values that programs write, and reminders that have left it. What is
// new in it beside such values goes out. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/segment.h"

namespace kvgate::prompt {

// The lines of `now` whose values are not in `before`, which still have to be said; both are JSON
// values without markers. Nothing: `now` has other new text, `before` cannot stand for it.
std::optional<std::vector<std::string>> NewLines(std::string_view before, std::string_view now,
                                                 Content content);

}  // namespace kvgate::prompt
