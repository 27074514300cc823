#include "gateway/dialect/form/left_out.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvgate::dialect::form {
namespace {

constexpr size_t kNameBytesMax = 64;
constexpr size_t kShownBytesMax = 120;  // of a medium's type and name each

// Returns the text as one line, without quotes and non-printable bytes.
std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (shown.size() == kShownBytesMax) break;
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"') shown += c;
  }
  return shown;
}

}  // namespace

bool IsLeftOutName(std::string_view what) {
  return !what.empty() && what.size() <= kNameBytesMax &&
         std::all_of(what.begin(), what.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

void AddLeftOut(std::string_view what, std::vector<std::string>& left_out) {
  const std::string_view name = IsLeftOutName(what) ? what : "other";
  if (left_out.size() >= kLeftOutMax ||
      std::find(left_out.begin(), left_out.end(), name) != left_out.end()) {
    return;
  }
  left_out.emplace_back(name);
}

bool IsProvidersItem(std::string_view type) {
  return type.ends_with("_call") || type.ends_with("_call_output") ||
         type == "tool_search_output" || type.starts_with("mcp_");
}

bool IsProvidersBlock(std::string_view type) {
  return type == "server_tool_use" || type == "mcp_tool_use" || type == "container_upload" ||
         (type.ends_with("_tool_result") && type != "tool_result");
}

bool IsCompaction(std::string_view type) {
  return type == "compaction" || type == "compaction_summary" || type == "context_compaction";
}

std::string PlaceholderOf(const Media& media) {
  std::string text = fmt::format("[{} left out", media.what);
  const std::string name = Shown(media.name);
  const std::string type = Shown(media.type);
  if (!name.empty()) text += fmt::format(": \"{}\"", name);
  if (!type.empty()) text += fmt::format(" ({})", type);
  return text + ". This model reads text only and cannot see what it holds.]";
}

std::string_view MediaTypeOfUrl(std::string_view url) {
  constexpr std::string_view kData = "data:";
  if (!url.starts_with(kData)) return {};
  url.remove_prefix(kData.size());
  return url.substr(0, std::min(url.find_first_of(";,"), kShownBytesMax));
}

std::string_view WithoutBillingHeader(std::string_view text) {
  if (!text.starts_with(kBillingHeaderName)) return text;
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return {};
  text.remove_prefix(end);
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text;
}

}  // namespace kvgate::dialect::form
