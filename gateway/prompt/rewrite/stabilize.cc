#include "gateway/prompt/rewrite/stabilize.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "gateway/prompt/history/held_text.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/parse/volatile_line.h"
#include "gateway/prompt/rewrite/carrier.h"
#include "gateway/prompt/rewrite/list_form.h"
#include "gateway/prompt/rewrite/tail.h"

namespace kvgate::prompt::rewrite {

using parse::PathOf;
using parse::Rule;
using parse::Span;
using parse::VolatileKind;
using parse::VolatileSpan;

namespace {

// Returns true if a line may move. A time alone on its line may refer to the text around it.
bool IsMoved(std::string_view text, const VolatileSpan& span) {
  const VolatileKind kind = span.kind;
  if (kind == VolatileKind::kTime &&
      !parse::HasLabelledValue(text.substr(span.begin, span.end - span.begin))) {
    return false;
  }
  return span.whole_lines && (kind == VolatileKind::kTime || kind == VolatileKind::kCwd ||
                              kind == VolatileKind::kGitStatus || kind == VolatileKind::kFileList ||
                              kind == VolatileKind::kEnvironment);
}

// Returns true if a value keeps its place and its first value.
bool IsHeld(const VolatileSpan& span, bool billing_stays) {
  switch (span.kind) {
    case VolatileKind::kBillingHeader:
      return !billing_stays;
    case VolatileKind::kEpoch:
    case VolatileKind::kUuid:
    case VolatileKind::kRequestId:
    case VolatileKind::kCounter:
    case VolatileKind::kBudget:
      return span.machine;
    default:
      return false;
  }
}

// Marks agent-written spans that fill their lines, such as a list of files between tags.
void WidenBlocks(std::string_view text, std::vector<VolatileSpan>& spans) {
  for (VolatileSpan& span : spans) {
    const bool begins = span.begin == 0 || text[span.begin - 1] == '\n';
    const bool ends = span.end == text.size() || text[span.end] == '\n';
    if (span.machine && begins && ends) span.whole_lines = true;
  }
}

using TextSpan = std::pair<size_t, size_t>;  // [begin, end) of a decoded text

// Finds the lines of one text that are volatile by their form, and the values that it holds.
class FormReader {
 public:
  FormReader() = default;
  FormReader(const DecodedText& decoded, const parse::Segment& segment, bool billing_stays) {
    if (!segment.has_volatile || segment.content == parse::Content::kTool) return;
    std::vector<VolatileSpan> spans = parse::FindVolatile(decoded.text);
    WidenBlocks(decoded.text, spans);
    for (const VolatileSpan& span : spans) {
      if (IsMoved(decoded.text, span)) {
        lines_.emplace_back(span.begin, span.end);
      } else if (IsHeld(span, billing_stays)) {
        values_.push_back({{span.begin, span.end}, span.kind});
        // A value without a label is held as its line only, because a person may have written it.
        const std::string_view value(decoded.text.data() + span.begin, span.end - span.begin);
        if (!span.whole_lines || !parse::HasLabelledValue(value)) continue;
      } else {
        left_.push_back({{span.begin, span.end}, span.kind});
        continue;
      }
      whole_.emplace_back(span.begin, span.end);
    }
  }

  struct Value {
    TextSpan span;
    VolatileKind kind;
  };
  const std::vector<TextSpan>& lines() const { return lines_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Value>& left() const { return left_; }
  // Lines, and values that fill theirs.
  const std::vector<TextSpan>& whole() const { return whole_; }

 private:
  std::vector<TextSpan> lines_;
  std::vector<Value> values_;
  std::vector<Value> left_;
  std::vector<TextSpan> whole_;
};

// Returns true if the value stands in a line that is a slot, which goes out as a whole.
bool InSlot(const templates::TextState& state, const FormReader::Value& value) {
  return std::any_of(state.slots.begin(), state.slots.end(), [&](const templates::SlotLine& slot) {
    const templates::TextLine& line = state.lines[slot.line];
    return line.begin <= value.span.first && value.span.second <= line.end;
  });
}

// A line that leaves its text, by one rule.
struct MovedLine {
  TextSpan span;
  Rule rule = Rule::kVolatileMoved;
};

// Returns the spans that are cut out of a text for `lines` to leave it: each with one newline, and
// with the white space that stands alone beside it. REQUIRES: the lines are sorted.
std::vector<TextSpan> CutsOf(std::string_view text, const std::vector<MovedLine>& lines) {
  std::vector<TextSpan> cuts;
  size_t floor = 0;  // the end of the cut in front, which has taken its newline
  for (const MovedLine& line : lines) {
    auto [begin, end] = line.span;
    const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
    size_t line_begin = begin;
    while (line_begin > floor && is_blank(text[line_begin - 1])) --line_begin;
    if (line_begin == floor || text[line_begin - 1] == '\n') begin = line_begin;
    while (end < text.size() && (text[end] == '\r' || text[end] == ' ')) ++end;
    if (end < text.size() && text[end] == '\n') {
      ++end;
    } else if (begin > floor && text[begin - 1] == '\n') {
      --begin;
    }
    floor = end;
    cuts.emplace_back(begin, end);
  }
  return cuts;
}

// Returns how many lines lie in the spans, which are sorted.
size_t NumLinesIn(const templates::TextLines& lines, const std::vector<MovedLine>& moved) {
  size_t count = 0;
  size_t at = 0;
  for (const MovedLine& line : moved) {
    while (at < lines.size() && lines[at].begin < line.span.first) ++at;
    for (; at < lines.size() && lines[at].end <= line.span.second; ++at) ++count;
  }
  return count;
}

bool IsOfPrefix(const DraftSegment& out) {
  return out.now != nullptr && out.now->place.section != parse::Section::kMessages;
}
bool IsTool(const DraftSegment& out) { return out.now->place.section == parse::Section::kTools; }
bool HasSlots(const DraftSegment& out) { return out.text && !out.text->slots.empty(); }

templates::Place PlaceOf(const DraftSegment& out) {
  if (IsTool(out)) return templates::Place::kTool;
  return IsOfPrefix(out) ? templates::Place::kSystem : templates::Place::kFirstUser;
}
Rule RuleOf(const DraftSegment& out) {
  const templates::Place place = PlaceOf(out);
  if (place == templates::Place::kTool) return Rule::kToolSlots;
  return place == templates::Place::kSystem ? Rule::kSystemSlots : Rule::kUserSlots;
}

// A longer text of a user is not read for lines that change.
constexpr size_t kUserTextBytesMax = size_t{256} << 10;

// Moves and holds the lines of tools, system prompt and first user texts.
class PrefixLines {
 public:
  PrefixLines(Draft& draft, Learning& learning, bool billing_stays)
      : draft_(draft),
        learning_(learning),
        billing_stays_(billing_stays),
        first_user_(FirstUserElement(draft.layout)) {}

  void Run() {
    if (!draft_.branch) {
      const Carrier carrier = NewestCarrier(draft_);
      draft_.lines_move = carrier.segment != nullptr && !carrier.is_result;
    }
    draft_.lines_move = draft_.lines_move && draft_.Allows(Rule::kVolatileMoved);
    Read();
  }

  // Sends all lines in their callers' places; those values are the held ones from then on.
  void RunInPlace() {
    for (DraftSegment& out : draft_.segments) {
      if (out.now == nullptr) continue;
      const bool has_slots = HasSlots(out) && (IsOfPrefix(out) || IsOfFirstUser(out));
      if (has_slots || (IsOfPrefix(out) && !IsTool(out) && out.now->has_volatile)) GoAsItCame(out);
    }
    first_user_.reset();
    draft_.notes.push_back(
        "system: no text of this request can take its new lines, they go out in "
        "their place, which breaks the prefix");
    draft_.lines_move = false;
    draft_.tail.clear();
    lines_ = {};
    const templates::Lesson lesson = std::move(learning_.lesson);
    Read();
    learning_.lesson = lesson;
  }
  const TailLines& lines() const { return lines_; }

 private:
  bool IsOfFirstUser(const DraftSegment& out) const {
    return out.now != nullptr && IsFirstUserText(*out.now, first_user_);
  }

  void Read() {
    uint32_t stake = 0;
    for (const DraftSegment& out : draft_.segments) {
      stake += IsOfPrefix(out) ? out.now->num_tokens : 0;
    }
    for (DraftSegment& out : draft_.segments) {
      if (!IsOfPrefix(out)) continue;
      if (!out.bytes) Stabilize(out, stake);  // else the rule for tools has held it
      stake -= out.now->num_tokens;
    }
    for (DraftSegment& out : draft_.segments) {
      if (IsOfFirstUser(out)) ReadUserText(out);
    }
  }

  // A text that was sent before goes out in those bytes, whatever its slots say now; the history's
  // alignment has seen to that.
  void ReadUserText(DraftSegment& out) {
    if (out.now->text.size() > kUserTextBytesMax) return;
    const history::CallerForm* form = draft_.FormBefore(out);
    if (form == nullptr) return Stabilize(out, out.now->num_tokens);
    if (!out.text && draft_.Before(out)->same == out.now->same) out.text = form->text;
    const bool was_read = out.text || form->text;
    const bool is_settled = out.text && out.text->slots.empty();
    DecodedText decoded;
    if (!was_read || is_settled || !decoded.Read(draft_.body, out.now->text)) return;
    if (!out.text) out.text = ReadUserSlots(draft_, decoded, out, learning_);
    SaySlots(decoded, *out.text, out);
  }

  // A text without volatile lines that goes out as before needs no reading.
  bool IsSettled(const DraftSegment& out) const {
    const history::CallerForm* form = draft_.FormBefore(out);
    return form != nullptr && form->text && form->text->slots.empty() &&
           (!out.now->has_volatile || IsTool(out)) && draft_.Before(out)->same == out.now->same;
  }

  void Stabilize(DraftSegment& out, uint32_t stake) {
    if (IsSettled(out)) {
      out.text = draft_.FormBefore(out)->text;
      return;
    }
    const parse::Segment& now = *out.now;
    Span text = now.text;
    if (IsTool(out)) {
      text = parse::TextIn(now.span.In(draft_.body), now.content);
      if (!text.empty()) text = {now.span.begin + text.begin, now.span.begin + text.end};
    }
    DecodedText decoded;
    if (!decoded.Read(draft_.body, text)) return;
    // Values that a user's text holds by their form are the history alignment's.
    const FormReader reader =
        IsOfPrefix(out) ? FormReader(decoded, *out.now, billing_stays_) : FormReader();
    const std::shared_ptr<templates::TextState> state =
        IsOfPrefix(out) ? ReadSlots({.draft = draft_,
                                     .segment = out,
                                     .decoded = decoded,
                                     .place = PlaceOf(out),
                                     .rule = RuleOf(out),
                                     .by_form = reader.whole(),
                                     .may_move = draft_.lines_move,
                                     .stake_tokens = stake},
                                    learning_)
                        : ReadUserSlots(draft_, decoded, out, learning_);
    out.text = state;
    for (const FormReader::Value& value : reader.left()) {
      if (InSlot(*state, value)) continue;
      draft_.notes.push_back(PathOf(out.now->place) + ": " +
                             std::string(parse::VolatileKindName(value.kind)) +
                             " beside other text, left as it is");
    }
    if (reader.lines().empty() && reader.values().empty() && state->slots.empty()) return;
    MoveLines(decoded, reader, *state, out);
    if (out.dropped) return;
    HoldSlots(decoded, *state, out);
    HoldValues(decoded, reader, *state, out);
    parse::SortEdits(out.inner);
    PreferSent(out);
  }

  // Cuts out the lines that move. A text of nothing else is dropped as a whole, or keeps them.
  void MoveLines(const DecodedText& decoded, const FormReader& reader, templates::TextState& state,
                 DraftSegment& out) {
    if (!draft_.lines_move) return;
    std::vector<MovedLine> moved;
    for (const TextSpan& line : reader.lines()) moved.push_back({.span = line});
    for (const templates::SlotLine& slot : state.slots) {
      if (!slot.moved) continue;
      const templates::TextLine& line = state.lines[slot.line];
      moved.push_back({.span = {line.begin, line.end}, .rule = RuleOf(out)});
    }
    if (moved.empty()) return;
    std::sort(moved.begin(), moved.end(),
              [](const MovedLine& a, const MovedLine& b) { return a.span < b.span; });
    const bool is_all = NumLinesIn(state.lines, moved) == state.lines.size();
    if (is_all && !Drop(out)) {
      KeepSlots(decoded, state);
      return;
    }
    for (const auto& [begin, end] : reader.lines()) {
      lines_.moved.emplace_back(decoded.RawOf(begin, end).In(draft_.body));
    }
    if (is_all) {
      SaySlots(decoded, state, out);
      return;
    }
    const std::vector<TextSpan> cuts = CutsOf(decoded.text, moved);
    for (size_t i = 0; i < cuts.size(); ++i) {
      const Span span = decoded.RawOf(cuts[i].first, cuts[i].second);
      Change(out, {moved[i].rule, span, "", PathOf(out.now->place)});
    }
  }

  // Slots that cannot move keep what stands in their places now.
  void KeepSlots(const DecodedText& decoded, templates::TextState& state) const {
    for (templates::SlotLine& slot : state.slots) {
      if (!std::exchange(slot.moved, false)) continue;
      slot.first = JsonOf(decoded, state, slot);
    }
  }
  std::string JsonOf(const DecodedText& decoded, const templates::TextState& state,
                     const templates::SlotLine& slot) const {
    const templates::TextLine& line = state.lines[slot.line];
    return std::string(decoded.RawOf(line.begin, line.end).In(draft_.body));
  }

  // Sends the first form of each slot that stays.
  void HoldSlots(const DecodedText& decoded, const templates::TextState& state, DraftSegment& out) {
    for (const templates::SlotLine& slot : state.slots) {
      if (slot.moved) continue;
      const templates::TextLine& line = state.lines[slot.line];
      const Span span = decoded.RawOf(line.begin, line.end);
      if (span.In(draft_.body) == slot.first) continue;
      Change(out, {RuleOf(out), span, slot.first, PathOf(out.now->place)});
    }
    SaySlots(decoded, state, out);
  }
  void SaySlots(const DecodedText& decoded, const templates::TextState& state,
                const DraftSegment& out) {
    for (const templates::SlotLine& slot : state.slots) {
      const std::string context = ContextOf(decoded, state, slot);
      SlotText said{.json = context + JsonOf(decoded, state, slot),
                    .slot = slot.slot,
                    .first = {},
                    .place = PlaceOf(out)};
      if (!slot.moved) said.first = context + slot.first;
      lines_.slots.push_back(std::move(said));
    }
  }
  // A short value, and a line that others say too, is said behind the line that it stands behind in
  // its own text.
  std::string ContextOf(const DecodedText& decoded, const templates::TextState& state,
                        const templates::SlotLine& slot) const {
    const templates::TextLine& own = state.lines[slot.line];
    if (own.stands_alone && !own.is_repeated) return "";
    const std::optional<size_t> context = state.lines.ContextOf(slot.line);
    const auto is_context = [&](const templates::SlotLine& it) { return it.line == context; };
    const bool changes = std::any_of(state.slots.begin(), state.slots.end(), is_context);
    if (!context || (changes && own.stands_alone)) return "";
    const templates::TextLine& line = state.lines[*context];
    return std::string(decoded.RawOf(line.begin, line.end).In(draft_.body)) + "\\n";
  }

  // Drops a block of nothing but moved lines as a whole, because providers refuse empty text.
  bool Drop(DraftSegment& out) {
    const auto stays = [](const DraftSegment& other) {
      return other.now != nullptr && !other.dropped && other.now->place.field == "system" &&
             !other.now->is_volatile;
    };
    const bool may = out.now->place.field == "system" && out.now->place.element >= 0 &&
                     std::any_of(draft_.segments.begin(), draft_.segments.end(), stays);
    if (!may) {
      draft_.notes.push_back(PathOf(out.now->place) + ": volatile as a whole, left as it is");
      return false;
    }
    out.dropped = true;
    out.rule = Rule::kVolatileMoved;
    return true;
  }

  void Change(DraftSegment& out, parse::Edit edit) { out.inner.push_back(std::move(edit)); }

  // The n-th value of a kind keeps the first value of that rank, if the two differ in values only.
  void HoldValues(const DecodedText& decoded, const FormReader& reader,
                  const templates::TextState& state, DraftSegment& out) {
    const history::CallerForm* form = draft_.FormBefore(out);
    std::map<VolatileKind, size_t> seen;
    const auto first_of = [&](VolatileKind kind) -> const std::string* {
      const size_t rank = seen[kind]++;
      if (form == nullptr) return nullptr;
      size_t at = 0;
      for (const history::HeldValue& held : form->held) {
        if (held.kind == kind && at++ == rank) return &held.json;
      }
      return nullptr;
    };
    const auto hold = [&](const FormReader::Value& value) {
      const VolatileKind kind = value.kind;
      const Span span = decoded.RawOf(value.span.first, value.span.second);
      const std::string_view own = span.In(draft_.body);
      const std::string* first = first_of(kind);
      if (InSlot(state, value)) {
        out.held.push_back({kind, first == nullptr ? std::string(own) : *first});
        return;
      }
      if (first == nullptr || !DiffersInValues(kind, *first, own) ||
          !draft_.Allows(Rule::kVolatileHeld)) {
        out.held.push_back({kind, std::string(own)});
        return;
      }
      const bool is_news = IsNews(out, own);
      if (*first != own) Change(out, {Rule::kVolatileHeld, span, *first, PathOf(out.now->place)});
      // A first value that returns is said again too, because another one was said behind it.
      if (kind != VolatileKind::kBillingHeader && (*first != own || is_news)) {
        out.unsaid.push_back({.json = std::string(own), .is_news = is_news});
      }
      out.held.push_back({kind, *first});
    };
    for (const FormReader::Value& value : reader.values()) hold(value);
    // Lines that cannot move keep their first value as well.
    if (draft_.lines_move || !draft_.Allows(Rule::kVolatileMoved)) return;
    for (const TextSpan& line : reader.lines()) hold({line, VolatileKind::kTime});
  }
  static bool DiffersInValues(VolatileKind kind, std::string_view first, std::string_view own) {
    if (first == own) return true;
    std::string before;
    std::string now;
    if (!parse::DecodeString(Quotes(first), before) || !parse::DecodeString(Quotes(own), now))
      return false;
    if (kind == VolatileKind::kBillingHeader) return parse::AreBillingHeaders(before, now);
    return parse::ChangedLines(before, now, true).has_value();
  }
  static std::string Quotes(std::string_view json) { return "\"" + std::string(json) + "\""; }
  bool IsNews(const DraftSegment& out, std::string_view line) const {
    const std::string* caller = CallerBytes(*draft_.branch, out.before);
    return caller == nullptr || caller->find(line) == std::string::npos;
  }

  // Sends the earlier bytes if the remaining text is equal to them in another spelling.
  void PreferSent(DraftSegment& out) {
    const history::SentSegment* before = draft_.Before(out);
    if (before == nullptr || !before->bytes || out.now->source_span.size() > 0 ||
        out.now->breakpoint_span.size() > 0) {
      return;
    }
    const Rule rule = draft_.lines_move ? Rule::kVolatileMoved : Rule::kVolatileHeld;
    if (const history::CallerForm& form = *draft_.FormBefore(out); form.as_list) {
      if (!IsString(*out.now) || ListFormOf(draft_, out).bytes != *before->bytes) return;
      out.inner.clear();
      out.bytes = before->bytes;
      out.as_list = true;
      out.head_split = form.head_split;
      out.rule = rule;
      return;
    }
    const std::string now = parse::ApplyEdits(draft_.body, out.inner, out.now->span);
    if (now == *before->bytes) return;
    const auto left = parse::CanonicalText(now, out.now->content, {});
    if (!left || left != parse::CanonicalText(*before->bytes, out.now->content, {})) return;
    out.inner.clear();
    out.bytes = before->bytes;
    out.rule = rule;
  }

  Draft& draft_;
  Learning& learning_;
  const bool billing_stays_;
  std::optional<int32_t> first_user_;
  TailLines lines_;
};

// Tools keep their first bytes if only held values differ.
void HoldTools(Draft& draft) {
  for (DraftSegment& out : draft.segments) {
    if (out.now == nullptr || out.now->place.section != parse::Section::kTools) continue;
    const history::SentSegment* before = draft.Before(out);
    if (before == nullptr || before->same == out.now->same || before->stable != out.now->stable ||
        !before->bytes) {
      continue;
    }
    const std::string* caller = CallerBytes(*draft.branch, out.before);
    if (caller == nullptr) continue;
    std::string assembled;
    const std::optional<history::HeldText> held = history::CompareHeld(
        *caller, parse::BytesOf(draft.body, *out.now, assembled), parse::Content::kTool);
    if (!held || !held->left.empty()) continue;
    if (!draft.Allows(Rule::kVolatileHeld)) continue;
    out.bytes = before->bytes;
    out.rule = Rule::kVolatileHeld;
    out.unsaid = UnsaidLines(draft, out, held->changed);
  }
}

}  // namespace

void StabilizePrefix(Draft& draft, Learning& learning, std::string_view provider) {
  HoldTools(draft);
  PrefixLines prefix(draft, learning, provider == "anthropic");
  prefix.Run();
  if (WriteTail(draft, prefix.lines())) return;
  prefix.RunInPlace();
  WriteTail(draft, prefix.lines());
}

}  // namespace kvgate::prompt::rewrite
