// The variables of a prompt, {{name}} in its text, and the values that a request gives them. The
// text keeps its bytes whatever the values are: they stand in a block of their own behind it. Pure;
// any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::session::prompts {

inline constexpr size_t kVariablesMax = 64;

// The names in double braces, in the order in which they first appear. A name has letters, digits
// and '_', begins with no digit, and may have spaces around it; other double braces are text.
std::vector<std::string> VariablesOf(std::string_view text);

// The values that a request gives, each as JSON: a string, a number or a boolean.
using Values = std::map<std::string, std::string, std::less<>>;
// Reads the header's value, a JSON object; none of an empty text. Fails with kInvalidArgument, with
// the header as its field.
Result<Values> ReadValues(std::string_view json);

// The values as one JSON object, in the order of the variables; empty if there are none. Fails with
// kInvalidArgument, with the header as its field, for a variable without a value and a value
// without its variable.
Result<std::string> ArrangeValues(const std::vector<std::string>& variables, const Values& values);

// The block of a prompt for values so arranged; empty if there are none.
std::string ValuesBlock(std::string_view arranged);

}  // namespace kvgate::session::prompts
