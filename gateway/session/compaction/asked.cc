#include "gateway/session/compaction/asked.h"

#include <fmt/format.h>
#include <cstring>

#include <utility>
#include <vector>

#include "gateway/session/summary/summary_call.h"
#include "gateway/session/transcript/raw_object.h"
#include "gateway/session/transcript/request_body.h"

namespace kvgate::session::compaction {

using transcript::ElementsOf;
using transcript::Member;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session";
constexpr size_t kInstructionsMax = 16'384;     // characters
constexpr int64_t kThresholdDefault = 150'000;  // of compact_20260112
constexpr int64_t kThresholdMin = 50'000;
constexpr std::string_view kThresholdEdit = "compact_20260112";

Error Wrong(std::string field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(why), std::move(field));
}

bool IsTrigger(std::string_view item) {
  const std::optional<RawObject> object = RawObject::Read(item);
  return object && object->StringAt("type") == "compaction_trigger";
}

Result<std::string> ReadInstructions(const RawObject& object, const std::string& place) {
  const std::string_view value = object.At("instructions");
  if (!value.empty() && !value.starts_with('"')) {
    return Wrong(place + ".instructions",
                 fmt::format("Invalid value for '{}.instructions': it must be a string.", place));
  }
  std::string instructions = object.StringAt("instructions");
  if (instructions.size() > kInstructionsMax) {
    return Wrong(place + ".instructions",
                 fmt::format("Invalid value for '{}.instructions': it has {} bytes, and may have "
                             "{}.",
                             place, instructions.size(), kInstructionsMax));
  }
  return instructions;
}

bool IsTrue(std::string_view json) { return json == "true"; }

// --- Responses

Result<void> ReadManagement(std::string_view list, Asked& asked) {
  const std::string place = "context_management";
  if (list.empty()) return {};
  if (!list.starts_with('[')) {
    return Wrong(place, "Invalid value for 'context_management': it must be a list.");
  }
  for (const std::string_view element : ElementsOf(list)) {
    const std::optional<RawObject> edit = RawObject::Read(element);
    if (!edit || edit->StringAt("type") != "compaction") {
      return Wrong(place + ".type",
                   "Invalid value for 'context_management': the type of each of its elements must "
                   "be 'compaction'.");
    }
    const std::string_view tokens = edit->At("compact_threshold");
    const int64_t number = edit->IntegerAt("compact_threshold");
    if (!tokens.empty() && number <= 0) {
      return Wrong(place + ".compact_threshold",
                   "Invalid value for 'context_management.compact_threshold': it must be a "
                   "positive whole number.");
    }
    asked.threshold = {.tokens = number};
  }
  return {};
}

Result<Asked> ReadResponses(bool is_compact, const RawObject& body) {
  Asked asked{.surface = is_compact ? Surface::kCompact : Surface::kNone};
  const std::vector<std::string_view> items = ElementsOf(body.At("input"));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!IsTrigger(items[i])) continue;
    if (i + 1 != items.size()) {
      const std::string field = fmt::format("input[{}]", i);
      return Wrong(field, fmt::format("Invalid value for '{}': a compaction_trigger must be the "
                                      "last item of the input.",
                                      field));
    }
    if (!is_compact) asked.surface = Surface::kTrigger;
  }
  const std::string_view conversation = body.At("conversation");
  asked.is_chained = !conversation.empty() || !body.At("previous_response_id").empty();
  KVGATE_TRY_VOID(ReadManagement(body.At("context_management"), asked));
  if (asked.surface != Surface::kNone && !conversation.empty()) {
    return Wrong("conversation",
                 "A stored conversation is not compacted into an item; send what is to be "
                 "compacted as 'input', or 'previous_response_id'.");
  }
  return asked;
}

// --- Messages

// `name` is the provider's for the error.
Error Refused(std::string_view name, std::string field, std::string_view why) {
  return Wrong(std::move(field), fmt::format("{}: {}", name, why));
}

// A call at the end that has no result yet.
bool EndsWithCall(const RawObject& body) {
  const std::vector<std::string_view> messages = ElementsOf(body.At("messages"));
  if (messages.empty()) return false;
  const std::optional<RawObject> last = RawObject::Read(messages.back());
  if (!last || last->StringAt("role") != "assistant") return false;
  for (const std::string_view block : ElementsOf(last->At("content"))) {
    const std::optional<RawObject> object = RawObject::Read(block);
    if (object && object->StringAt("type") == "tool_use") return true;
  }
  return false;
}

Result<void> ReadSummarize(std::string_view value, const RawObject& body, Asked& asked) {
  constexpr std::string_view kField = "compaction";
  const std::optional<RawObject> object = RawObject::Read(value);
  if (!object || object->StringAt("type") != "summarize") {
    return Wrong("compaction.type", "Invalid value for 'compaction.type': it must be 'summarize'.");
  }
  KVGATE_TRY(asked.instructions, ReadInstructions(*object, std::string(kField)));
  const std::optional<RawObject> output = RawObject::Read(body.At("output_config"));
  const std::optional<RawObject> budget =
      output ? RawObject::Read(output->At("task_budget")) : std::nullopt;
  const auto refuse = [](std::string_view field, std::string_view why) {
    return Wrong(std::string(field),
                 fmt::format("'{}' cannot be sent with 'compaction': {}.", field, why));
  };
  if (!ElementsOf(body.At("stop_sequences")).empty()) {
    return refuse("stop_sequences", "the summary is written to its end");
  }
  if (output && !output->At("format").empty()) {
    return refuse("output_config.format", "the answer is a summary");
  }
  if (summary::ForcesCall(body))
    return refuse("tool_choice", "the model must not have to call a tool");
  if (budget && !budget->At("remaining").empty()) {
    return refuse("output_config.task_budget.remaining", "the summary has no part in it");
  }
  if (EndsWithCall(body)) {
    return Wrong("messages",
                 "The last message calls a tool; send its result before the conversation is "
                 "compacted.");
  }
  if (ElementsOf(body.At("messages")).empty()) {
    return Refused("compaction_nothing_to_summarize", "messages", "there are no messages.");
  }
  asked.surface = Surface::kSummarize;
  return {};
}

Result<void> ReadEdit(const RawObject& edit, Asked& asked) {
  const std::string place = "context_management.edits";
  if (edit.StringAt("type") != kThresholdEdit) return {};
  Threshold threshold{.tokens = kThresholdDefault,
                      .pauses = IsTrue(edit.At("pause_after_compaction"))};
  if (const std::string_view value = edit.At("trigger"); !value.empty()) {
    const std::optional<RawObject> trigger = RawObject::Read(value);
    if (!trigger || trigger->StringAt("type") != "input_tokens") {
      return Wrong(
          place + ".trigger.type",
          fmt::format("Invalid value for '{}.trigger.type': it must be 'input_tokens'.", place));
    }
    threshold.tokens = trigger->IntegerAt("value");
    if (threshold.tokens < kThresholdMin) {
      return Wrong(place + ".trigger.value",
                   fmt::format("Invalid value for '{}.trigger.value': it must be at least {}.",
                               place, kThresholdMin));
    }
  }
  KVGATE_TRY(threshold.instructions, ReadInstructions(edit, place));
  asked.threshold = std::move(threshold);
  return {};
}

Result<Asked> ReadMessagesBody(const RawObject& body) {
  Asked asked;
  if (const std::string_view value = body.At("compaction"); !value.empty()) {
    KVGATE_TRY_VOID(ReadSummarize(value, body, asked));
  }
  const std::optional<RawObject> management = RawObject::Read(body.At("context_management"));
  if (!management) return asked;
  const std::string_view edits = management->At("edits");
  KVGATE_TRY(asked.edits, ReadEdits(edits));
  for (const std::string_view element : ElementsOf(edits)) {
    const std::optional<RawObject> edit = RawObject::Read(element);
    if (edit) KVGATE_TRY_VOID(ReadEdit(*edit, asked));
  }
  return asked;
}

// --- A glance

// All that concerns compactions is named by a string that begins so. JSON in a string, as of a
// file's text, has a backslash in front of its quotes, which changes nothing here.
constexpr std::string_view kMarks[] = {"\"compaction", "\"context_"};
constexpr size_t kReach = 11;  // bytes that a place is known by

// Every request is looked at, so this takes sixteen places at a time: searching twice for a text
// takes more than twice as long.
using Places = uint8_t __attribute__((vector_size(16)));
constexpr size_t kPlaces = sizeof(Places);

Places At(const char* bytes) {
  Places places;
  std::memcpy(&places, bytes, sizeof(places));
  return places;
}

// True if one of the places may be the beginning of a mark: three of its bytes are.
bool MayBegin(const char* bytes) {
  const auto is = [&](size_t distance, char byte) {
    return static_cast<Places>(At(bytes + distance) == static_cast<uint8_t>(byte));
  };
  const Places quotes = is(0, '"');
  const Places found = quotes & ((is(4, 'p') & is(10, 'n')) | (is(6, 'x') & is(8, '_')));
  std::array<uint64_t, 2> halves = {};
  std::memcpy(halves.data(), &found, sizeof(found));
  return (halves[0] | halves[1]) != 0;
}

bool HasMark(std::string_view text) {
  return std::any_of(std::begin(kMarks), std::end(kMarks), [&](std::string_view mark) {
    return text.find(mark) != std::string_view::npos;
  });
}

}  // namespace

bool MayConcern(std::string_view body) {
  size_t at = 0;
  for (; at + kPlaces + kReach <= body.size(); at += kPlaces) {
    if (MayBegin(body.data() + at) && HasMark(body.substr(at, kPlaces + kReach))) return true;
  }
  return HasMark(body.substr(at));
}

Result<Asked> ReadAsked(Dialect dialect, bool is_compact, std::string_view body) {
  const std::optional<RawObject> object = RawObject::Read(body);
  if (!object) return Asked{};
  if (dialect == Dialect::kResponses) return ReadResponses(is_compact, *object);
  if (dialect == Dialect::kMessages) return ReadMessagesBody(*object);
  return Asked{};
}

std::string WithoutAsking(Dialect dialect, std::string_view body) {
  std::vector<Member> members = {{.name = "compaction"}, {.name = "context_management"}};
  const std::optional<RawObject> object = RawObject::Read(body);
  if (dialect == Dialect::kResponses && object) {
    std::vector<std::string_view> items = ElementsOf(object->At("input"));
    if (!items.empty() && IsTrigger(items.back())) {
      items.pop_back();
      std::string list = "[";
      for (const std::string_view item : items) {
        if (list.size() > 1) list += ',';
        list += item;
      }
      list += ']';
      members.push_back({.name = "input", .value = std::move(list)});
    }
  }
  return transcript::WithMembers(body, members);
}

}  // namespace kvgate::session::compaction
