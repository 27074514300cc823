#include "gateway/ledger/segment/tool_server.h"

#include <cstddef>

namespace kvgate::ledger::segment {
namespace {

constexpr std::string_view kPrefix = "mcp__";
constexpr std::string_view kBetween = "__";

// What stands in front of the first `between`, if both sides have a name.
std::string_view FrontOf(std::string_view name, std::string_view between) {
  const size_t at = name.find(between, 1);
  if (at == std::string_view::npos || at + between.size() >= name.size()) return {};
  return name.substr(0, at);
}

}  // namespace

std::string_view ServerOf(std::string_view tool) {
  if (tool.starts_with(kPrefix)) return FrontOf(tool.substr(kPrefix.size()), kBetween);
  if (const std::string_view server = FrontOf(tool, kBetween); !server.empty()) return server;
  return FrontOf(tool, ".");
}

}  // namespace kvgate::ledger::segment
