// Edits of other programs' configuration files, as text: what is not edited stays as its owner
// wrote it, with its order, comments and spaces. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/cli/agents/agent_table.h"

namespace kvgate::cli::agents {

// Returns the text with every edit's value set; an empty text is an empty file. Fails with
// kInvalidArgument if the text is not of the format, or has another kind of value on an edit's way.
//
// JSON may have comments, but no commas behind a last member. TOML and YAML: one name of the top
// level, on a line of its own.
Result<std::string> ApplyEdits(std::string_view text, ConfigFormat format,
                               const std::vector<ConfigEdit>& edits);

// Returns what differs, as lines that begin with "-", "+" or, around them, a space. Empty if
// nothing does.
std::vector<std::string> DiffLines(std::string_view before, std::string_view after);

}  // namespace kvgate::cli::agents
