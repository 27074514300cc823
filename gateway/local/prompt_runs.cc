#include "gateway/local/prompt_runs.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace kvgate::local {

using dialect::form::Message;

std::vector<std::string_view> SourcesOf(const std::vector<Message>& messages) {
  size_t num_answered = messages.size();
  while (num_answered > 0 && messages[num_answered - 1].role != "assistant") --num_answered;
  std::vector<std::string_view> sources;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    sources.push_back(role == "system" || role == "developer" ? "system"
                      : i < num_answered                      ? "history"
                      : role == "tool"                        ? "tool_results"
                                                              : "user");
  }
  return sources;
}

bool IsCut(const std::vector<Message>& messages, size_t index, std::span<const int32_t> cuts) {
  if (index + 1 >= messages.size()) return false;
  const int32_t here = messages[index].element;
  const int32_t next = messages[index + 1].element;
  const auto cut = std::lower_bound(cuts.begin(), cuts.end(), here);
  return here >= 0 && cut != cuts.end() && *cut < next;
}

void SplitTools(const chat::TokenizedChat& chat,
                std::vector<dialect::form::PromptSegment>& segments) {
  const auto num_tools = static_cast<int64_t>(chat.tools_end - chat.tools_begin);
  if (num_tools <= 0) return;
  auto left = static_cast<int64_t>(chat.tools_begin);
  for (auto segment = segments.begin(); segment != segments.end(); ++segment) {
    if (left >= segment->num_tokens) {
      left -= segment->num_tokens;
      continue;
    }
    const int64_t behind = segment->num_tokens - left - num_tools;
    if (behind < 0) return;
    dialect::form::PromptSegment part = *segment;
    part.num_tokens = behind;
    auto at = segment + 1;
    if (behind > 0) at = segments.insert(at, part);
    part.source = dialect::form::kToolsSource;
    part.num_tokens = num_tools;
    at = segments.insert(at, part);
    --at;
    at->num_tokens = left;
    if (left == 0) segments.erase(at);
    return;
  }
}

}  // namespace kvgate::local
