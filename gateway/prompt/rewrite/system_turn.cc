#include "gateway/prompt/rewrite/system_turn.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "gateway/prompt/parse/canonical.h"

namespace kvgate::prompt::rewrite {

using dialect::form::Endpoint;
using ledger::SystemTurn;
using parse::Role;

namespace {

constexpr std::string_view kPlainBegin = R"({"role":"system","content":")";
constexpr std::string_view kClearAtBegin =
    R"({"role":"system","clear_at":"next_user_message","content":")";
constexpr uint32_t kBytesPerToken = 4;

// Returns the turn in JSON, around a text in JSON spelling.
std::string SpellingOf(const Draft& draft, const std::string& text) {
  switch (draft.system_turn) {
    case SystemTurn::kPlain:
      return std::string(kPlainBegin) + text + "\"}";
    case SystemTurn::kClearAt:
      return std::string(kClearAtBegin) + text + "\"}";
    case SystemTurn::kNone:
    case SystemTurn::kDeveloper:
      break;
  }
  if (draft.layout.endpoint == Endpoint::kResponses) {
    return R"({"type":"message","role":"developer","content":[{"type":"input_text","text":")" +
           text + "\"}]}";
  }
  return R"({"role":"developer","content":")" + text + "\"}";
}

bool IsClearAt(const history::SentSegment& sent) {
  return sent.bytes != nullptr && sent.bytes->starts_with(kClearAtBegin);
}

bool IsUserOrTool(Role role) { return role == Role::kUser || role == Role::kTool; }

}  // namespace

SystemTurn SystemTurnOf(const ledger::PriceRow* row, Endpoint endpoint) {
  if (row == nullptr) return SystemTurn::kNone;
  const bool is_openai = endpoint == Endpoint::kChatCompletions || endpoint == Endpoint::kResponses;
  const bool is_developer = row->system_turn == SystemTurn::kDeveloper;
  const bool fits = is_developer ? is_openai : endpoint == Endpoint::kMessages;
  return fits ? row->system_turn : SystemTurn::kNone;
}

SystemTurn LesserOf(SystemTurn a, SystemTurn b) {
  if ((a == SystemTurn::kDeveloper) != (b == SystemTurn::kDeveloper)) return SystemTurn::kNone;
  return std::min(a, b);
}

bool MayAddSystemTurn(const Draft& draft) {
  if (draft.system_turn == SystemTurn::kNone || draft.layout.segments.empty()) return false;
  const parse::Segment& last = draft.layout.segments.back();
  return draft.Allows(parse::Rule::kSystemTurn) &&
         last.place.section == parse::Section::kMessages && last.place.element >= 0 &&
         IsUserOrTool(last.role);
}

void AddSystemTurn(Draft& draft, std::vector<templates::CarriedLine> lines) {
  std::string text;
  for (const templates::CarriedLine& line : lines) text += (text.empty() ? "" : "\\n") + line.json;
  DraftSegment out;
  out.bytes = std::make_shared<const std::string>(SpellingOf(draft, text));
  out.rule = parse::Rule::kSystemTurn;
  out.carried = std::move(lines);
  const parse::Identity same = parse::HashBytes(*out.bytes, parse::Domain::kSame);
  const bool is_developer = draft.system_turn == SystemTurn::kDeveloper;
  parse::Place place = draft.layout.segments.back().place;
  place.block = -1;
  ++place.element;
  out.ours = std::make_shared<const history::SentSegment>(history::SentSegment{
      .place = place,
      .role = is_developer ? Role::kDeveloper : Role::kSystem,
      .source = parse::Source::kSystem,
      .content = parse::Content::kText,
      .same = same,
      .stable = same,
      .said = {},
      .sent_raw = {},
      .bytes = out.bytes,
      .breakpoint = {},
      .is_volatile = true,
      .is_ours = true,
      .num_tokens = static_cast<uint32_t>(out.bytes->size()) / kBytesPerToken + 1});
  draft.segments.push_back(std::move(out));
}

bool MaySendAgain(const Draft& draft, const history::SentSegment& sent) {
  if (!sent.bytes || !draft.Allows(parse::Rule::kSystemTurn)) return false;
  if (IsClearAt(sent)) return draft.system_turn == SystemTurn::kClearAt;
  if (sent.role == Role::kDeveloper) return draft.system_turn == SystemTurn::kDeveloper;
  return draft.system_turn == SystemTurn::kPlain || draft.system_turn == SystemTurn::kClearAt;
}

bool IsCleared(const Draft& draft, size_t index) {
  const DraftSegment& segment = draft.segments[index];
  if (segment.now != nullptr) return false;
  const history::SentSegment& sent = draft.Added(segment);
  if (!sent.is_ours || !IsClearAt(sent)) return false;
  return std::any_of(
      draft.segments.begin() + static_cast<std::ptrdiff_t>(index) + 1, draft.segments.end(),
      [&](const DraftSegment& later) {
        if (later.dropped) return false;
        return IsUserOrTool(later.now != nullptr ? later.now->role : draft.Added(later).role);
      });
}

bool HasSystemTurn(const Draft& draft) {
  return std::any_of(draft.segments.begin(), draft.segments.end(), [&](const DraftSegment& out) {
    return out.now == nullptr && draft.Added(out).is_ours;
  });
}

}  // namespace kvgate::prompt::rewrite
