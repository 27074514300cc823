#include "gateway/prompt/parse/sources.h"

#include <algorithm>
#include <array>

namespace kvgate::prompt::parse {
namespace {

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool IsThinkingType(std::string_view type) {
  return IsOneOf(type, {"thinking", "redacted_thinking", "reasoning", "compaction"});
}
bool IsMedia(std::string_view type) {
  return IsOneOf(type, {"image", "image_url", "input_image", "input_audio", "audio", "file",
                        "input_file", "document", "video", "container_upload"});
}
bool IsResult(std::string_view type) {
  return type.ends_with("_output") || type.ends_with("tool_result");
}
bool IsCall(std::string_view type) { return type.ends_with("_call") || type.ends_with("tool_use"); }

// Returns the first raw bytes of a segment's text, without leading white space.
std::string_view Opening(std::string_view body, const Segment& segment) {
  if (segment.text.empty()) return {};
  std::string_view text = segment.text.In(body).substr(1);
  while (!text.empty()) {
    if (text[0] == ' ') {
      text.remove_prefix(1);
    } else if (text.starts_with("\\n") || text.starts_with("\\r") || text.starts_with("\\t")) {
      text.remove_prefix(2);
    } else {
      break;
    }
  }
  return text.substr(0, 240);
}

bool IsRetrieved(std::string_view opening) {
  for (const std::string_view tag :
       {"<document", "<context>", "<retrieved", "<search_result", "<sources>"}) {
    if (opening.starts_with(tag)) return true;
  }
  return false;
}

bool AnnouncesSummary(std::string_view opening) {
  // One of these words stands in each of the phrases; most texts hold neither.
  const bool may_announce = opening.find("ummary") != std::string_view::npos ||
                            opening.find("continued") != std::string_view::npos;
  if (!may_announce) return false;
  for (const std::string_view words :
       {"continued from a previous conversation", "ummary of the conversation", "<summary>",
        "onversation summary", "ummary of our conversation", "ummary of earlier"}) {
    if (opening.find(words) != std::string_view::npos) return true;
  }
  return false;
}

std::optional<Source> Named(const std::optional<std::string_view>& name) {
  if (!name) return std::nullopt;
  for (size_t i = 0; i < kNumSources; ++i) {
    if (SourceName(static_cast<Source>(i)) == *name) return static_cast<Source>(i);
  }
  return std::nullopt;
}

// Returns the source that a segment's own content tells; nullopt if its turn decides.
std::optional<Source> OwnSource(std::string_view body, const Found& found, bool may_summarise) {
  const Segment& segment = found.segment;
  if (const std::optional<Source> named = Named(found.source)) return named;
  if (IsOneOf(found.type, {"document", "search_result"})) return Source::kRetrieval;
  if (segment.content == Content::kToolResult) return Source::kToolResults;
  if (segment.content == Content::kMedia) return Source::kMedia;
  if (found.name.starts_with("example_")) return Source::kExamples;
  if (found.type == "compaction") return Source::kSummary;
  if (segment.content == Content::kText && segment.role != Role::kAssistant) {
    const std::string_view opening = Opening(body, segment);
    if (IsRetrieved(opening)) return Source::kRetrieval;
    if (may_summarise && AnnouncesSummary(opening)) return Source::kSummary;
  }
  return std::nullopt;
}

bool IsUserSpeaking(const Segment& segment) {
  const bool speaks = segment.content == Content::kText || segment.content == Content::kMedia;
  return segment.role == Role::kUser && speaks && !segment.is_volatile;
}

}  // namespace

std::string_view SourceName(Source source) {
  static constexpr std::array<std::string_view, kNumSources> kNames = {
      "tools",     "system",       "examples", "history", "summary",
      "retrieval", "tool_results", "media",    "user"};
  return kNames[static_cast<size_t>(source)];
}

namespace {

// A part of Gemini's has no type: one of its members says what it is.
Content ContentOfPart(const ReadObject& object) {
  const std::string_view part = object.part;
  if (part.starts_with("functionCall") || part == "function_call") return Content::kToolCall;
  if (part.starts_with("functionResponse") || part == "function_response") {
    return Content::kToolResult;
  }
  if (part.starts_with("executable")) return Content::kToolCall;
  if (part.starts_with("code")) return Content::kToolResult;
  if (!part.empty()) return Content::kMedia;
  if (object.is_thought) return Content::kThinking;
  return object.text.empty() ? Content::kOther : Content::kText;
}

}  // namespace

Role RoleOf(const Place& place, const ReadObject& object) {
  if (place.section == Section::kTools) return Role::kNone;
  if (object.role == "user") return Role::kUser;
  if (object.role == "assistant" || object.role == "model") return Role::kAssistant;
  if (object.role == "developer") return Role::kDeveloper;
  if (object.role == "tool" || object.role == "function" || IsResult(object.type)) {
    return Role::kTool;
  }
  if (object.role == "system" || place.section == Section::kSystem) return Role::kSystem;
  if (IsCall(object.type) || IsThinkingType(object.type)) return Role::kAssistant;
  return Role::kNone;
}

Content ContentOf(const Place& place, const ReadObject& object) {
  if (place.section == Section::kTools) return Content::kTool;
  if (IsThinkingType(object.type)) return Content::kThinking;
  if (IsMedia(object.type)) return Content::kMedia;
  if (IsResult(object.type) || object.role == "tool" || object.role == "function") {
    return Content::kToolResult;
  }
  if (IsCall(object.type) || object.has_tool_calls) return Content::kToolCall;
  if (place.block >= 0 && object.type.empty()) return ContentOfPart(object);
  const bool is_turn = !object.role.empty();
  const bool is_text = IsOneOf(object.type, {"text", "input_text", "output_text", "refusal"});
  if (is_text || (is_turn && !object.text.empty())) return Content::kText;
  return Content::kOther;
}

FrontTurns ReadFront(const SharedList<Found>& turns, size_t begin, size_t end) {
  FrontTurns front;
  for (size_t i = end; i-- > begin && front.last_user < 0;) {
    if (IsUserSpeaking(turns[i].segment)) front.last_user = turns[i].segment.place.element;
  }
  for (size_t i = begin; i < end && !front.has_user_text; ++i) {
    const Segment& segment = turns[i].segment;
    front.has_user_text = segment.role == Role::kUser && segment.content == Content::kText;
  }
  return front;
}

Source SourceOf(const Found& turn, int32_t last_user) {
  const Segment& segment = turn.segment;
  if (turn.own) return *turn.own;
  if (segment.role == Role::kSystem || segment.role == Role::kDeveloper) return Source::kSystem;
  if (segment.role == Role::kTool) return Source::kToolResults;
  const bool is_newest = segment.role == Role::kUser && segment.place.element >= last_user;
  return is_newest ? Source::kUser : Source::kHistory;
}

int32_t AssignSources(std::string_view body, const FrontTurns& front, std::vector<Found>& system,
                      std::vector<Found>& messages) {
  for (Found& found : system) {
    if (!found.is_read) found.own = OwnSource(body, found, true);
    found.is_read = true;
    found.segment.source = found.own.value_or(Source::kSystem);
  }
  int32_t last_user = front.last_user;
  bool first_user = !front.has_user_text;
  for (Found& found : messages) {
    const Segment& segment = found.segment;
    const bool is_system = segment.role == Role::kSystem || segment.role == Role::kDeveloper;
    found.own = OwnSource(body, found, is_system || first_user);
    found.is_read = true;
    if (segment.role == Role::kUser && segment.content == Content::kText) first_user = false;
    if (IsUserSpeaking(segment)) last_user = segment.place.element;
  }
  for (Found& found : messages) found.segment.source = SourceOf(found, last_user);
  return last_user;
}

}  // namespace kvgate::prompt::parse
