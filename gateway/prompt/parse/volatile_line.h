// Volatile line: a line, or what a tag holds on one, of nothing but values and the plain words that
// label them ("Today's date is 2026-11-22.", "Token usage: 41977/200000"). Two texts that differ in
// such values alone say the same of everything else, so one may stand for the other where the new
// lines are said elsewhere. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::prompt {

// The lines of `now` whose values are others than in `before`, as they stand there, with the tag
// around them where there is one. Nothing: the texts differ in other bytes too.
// `labelled`: a value alone on its line, which a person may have written, is no such value.
std::optional<std::vector<std::string>> ChangedLines(std::string_view before, std::string_view now,
                                                     bool labelled);

// Whether a value in `text` has a label or a tag: one alone on its line may be a person's.
bool HasLabelledValue(std::string_view text);

// Whether two lines or blocks say the same thing at two times: with other values, or one kind of
// block or of path under one label, whatever it holds.
bool AreOfOneSlot(std::string_view a, std::string_view b);

// Whether both are billing headers: names and values of machines, whichever they are.
bool AreBillingHeaders(std::string_view before, std::string_view now);

}  // namespace kvgate::prompt
