// A volatile line, or the content of a tag on one, consists of values and plain words that label
// them ("Today's date is 2026-11-22.", "Token usage: 41977/200000"). Two texts that differ only in
// such values say the same otherwise, so one may stand for the other if the new lines are said
// elsewhere. Pure; any thread may call it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::prompt::parse {

// Returns the lines of `now` whose values differ from those in `before`, with the tag around them
// if there is one; nullopt if the texts differ in other bytes too. With `labelled`, a value alone
// on its line does not count as one, because a person may have written it.
std::optional<std::vector<std::string>> ChangedLines(std::string_view before, std::string_view now,
                                                     bool labelled);

// Returns true if a value in `text` has a label or a tag; one alone on its line may be a person's.
bool HasLabelledValue(std::string_view text);

// Returns true if two lines or blocks say the same thing at two times: they differ in values only,
// or are blocks or paths of one kind under one label, whatever they hold.
bool AreOfOneSlot(std::string_view a, std::string_view b);

// Returns true if both are billing headers, that is, consist of machine-written names and values.
bool AreBillingHeaders(std::string_view before, std::string_view now);

}  // namespace kvgate::prompt::parse
