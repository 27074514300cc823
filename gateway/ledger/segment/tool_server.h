// Tells the MCP server that a tool comes from by the tool's name, in the forms that clients give to
// it. Pure; any thread may call it.
#pragma once

#include <string_view>

namespace kvgate::ledger::segment {

// Returns "github" for "mcp__github__get_issue", "github__get_issue" and "github.get_issue"; an
// empty view if the name has none of these forms.
std::string_view ServerOf(std::string_view tool);

}  // namespace kvgate::ledger::segment
