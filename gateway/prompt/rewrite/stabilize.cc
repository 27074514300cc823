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

// Finds the lines of one text that are cut out, and the values that it holds.
class LineReader {
 public:
  LineReader(std::string_view body, const parse::Segment& segment, bool billing_stays)
      : body_(body), segment_(segment), billing_stays_(billing_stays) {}

  // Returns false if the text has nothing volatile that a rule handles.
  bool Read() {
    std::string text;
    if (segment_.text.empty() || !parse::DecodeString(segment_.text.In(body_), text, &offsets_)) {
      return false;
    }
    std::vector<VolatileSpan> spans = parse::FindVolatile(text);
    WidenBlocks(text, spans);
    for (const VolatileSpan& span : spans) {
      if (IsMoved(text, span)) {
        lines_.push_back(Line(text, span));
      } else if (IsHeld(span, billing_stays_)) {
        values_.push_back({RawOf(span.begin, span.end), span.kind});
      } else {
        left_.push_back(span.kind);
      }
    }
    return !lines_.empty() || !values_.empty();
  }

  struct MovedLine {
    Span cut;  // the line with one newline
    Span line;
  };
  struct Value {
    Span span;
    VolatileKind kind;
  };
  const std::vector<MovedLine>& lines() const { return lines_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<VolatileKind>& left() const { return left_; }

 private:
  Span RawOf(size_t begin, size_t end) const {
    return {segment_.text.begin + offsets_[begin], segment_.text.begin + offsets_[end]};
  }
  MovedLine Line(std::string_view text, const VolatileSpan& span) const {
    size_t begin = span.begin;
    size_t end = span.end;
    while (end < text.size() && (text[end] == '\r' || text[end] == ' ')) ++end;
    if (end < text.size() && text[end] == '\n') {
      ++end;
    } else if (begin > floor_ && text[begin - 1] == '\n') {
      --begin;
    }
    floor_ = end;
    return {RawOf(begin, end), RawOf(span.begin, span.end)};
  }

  std::string_view body_;
  const parse::Segment& segment_;
  bool billing_stays_;
  mutable size_t floor_ = 0;  // end of the line before, which has taken its newline
  std::vector<uint32_t> offsets_;
  std::vector<MovedLine> lines_;
  std::vector<Value> values_;
  std::vector<VolatileKind> left_;
};

class SystemLines {
 public:
  SystemLines(Draft& draft, bool billing_stays) : draft_(draft), billing_stays_(billing_stays) {}

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
      const bool is_system =
          out.now != nullptr && out.now->place.section == parse::Section::kSystem;
      if (!is_system || !out.now->has_volatile) continue;
      GoAsItCame(out);
    }
    draft_.notes.push_back(
        "system: no text of this request can take its new lines, they go out in "
        "their place, which breaks the prefix");
    draft_.lines_move = false;
    draft_.tail.clear();
    lines_.clear();
    Read();
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void Read() {
    for (DraftSegment& out : draft_.segments) {
      const bool is_system =
          out.now != nullptr && out.now->place.section == parse::Section::kSystem;
      if (is_system && out.now->has_volatile) Stabilize(out);
    }
  }

  void Stabilize(DraftSegment& out) {
    LineReader reader(draft_.body, *out.now, billing_stays_);
    const bool found = reader.Read();
    for (const VolatileKind kind : reader.left()) {
      draft_.notes.push_back(PathOf(out.now->place) + ": " +
                             std::string(parse::VolatileKindName(kind)) +
                             " beside other text, left as it is");
    }
    if (!found) return;
    const history::CallerForm* form = draft_.FormBefore(out);
    const bool is_all = out.now->is_volatile && reader.values().empty() && reader.left().empty();
    const bool moves = draft_.lines_move && (!is_all || reader.lines().empty());
    if (draft_.lines_move && !moves && !Drop(out)) return;
    for (const LineReader::MovedLine& line : reader.lines()) {
      if (draft_.lines_move) lines_.emplace_back(line.line.In(draft_.body));
      if (moves) {
        Change(out, {Rule::kVolatileMoved, line.cut, "", PathOf(out.now->place)});
      }
    }
    if (out.dropped) return;
    HoldValues(reader, form, out);
    parse::SortEdits(out.inner);
    PreferSent(out);
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
  void HoldValues(const LineReader& reader, const history::CallerForm* form, DraftSegment& out) {
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
    const auto hold = [&](VolatileKind kind, Span span) {
      const std::string_view own = span.In(draft_.body);
      const std::string* first = first_of(kind);
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
    for (const LineReader::Value& value : reader.values()) hold(value.kind, value.span);
    // Lines that cannot move keep their first value as well.
    if (draft_.lines_move || !draft_.Allows(Rule::kVolatileMoved)) return;
    for (const LineReader::MovedLine& line : reader.lines()) hold(VolatileKind::kTime, line.line);
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
    const std::string now = parse::ApplyEdits(draft_.body, out.inner, out.now->span);
    if (now == *before->bytes) return;
    const auto left = parse::CanonicalText(now, out.now->content, {});
    if (!left || left != parse::CanonicalText(*before->bytes, out.now->content, {})) return;
    out.inner.clear();
    out.bytes = before->bytes;
    out.rule = draft_.lines_move ? Rule::kVolatileMoved : Rule::kVolatileHeld;
  }

  Draft& draft_;
  const bool billing_stays_;
  std::vector<std::string> lines_;
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

void StabilizeSystem(Draft& draft, std::string_view provider) {
  HoldTools(draft);
  SystemLines system(draft, provider == "anthropic");
  system.Run();
  if (WriteTail(draft, system.lines())) return;
  system.RunInPlace();
  WriteTail(draft, system.lines());
}

}  // namespace kvgate::prompt::rewrite
