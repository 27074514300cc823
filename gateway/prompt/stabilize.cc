#include "gateway/prompt/stabilize.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "gateway/prompt/canonical.h"
#include "gateway/prompt/held_text.h"
#include "gateway/prompt/segment_text.h"
#include "gateway/prompt/skimmer.h"
#include "gateway/prompt/tail.h"
#include "gateway/prompt/volatile_line.h"

namespace kvgate::prompt {
namespace {

// Lines of it are read, so their present value has to reach the model.
bool IsMoved(const VolatileSpan& span) {
  const VolatileKind kind = span.kind;
  return span.whole_lines && (kind == VolatileKind::kTime || kind == VolatileKind::kCwd ||
                              kind == VolatileKind::kGitStatus || kind == VolatileKind::kFileList ||
                              kind == VolatileKind::kEnvironment);
}

// Nobody reads it, so any value does.
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

// A list of files stands between its tags on lines of its own.
void WidenBlocks(std::string_view text, std::vector<VolatileSpan>& spans) {
  for (VolatileSpan& span : spans) {
    const bool begins = span.begin == 0 || text[span.begin - 1] == '\n';
    const bool ends = span.end == text.size() || text[span.end] == '\n';
    if (span.machine && begins && ends) span.whole_lines = true;
  }
}

// What of one text is cut, and which values it holds.
class LineReader {
 public:
  LineReader(std::string_view body, const Segment& segment, bool billing_stays)
      : body_(body), segment_(segment), billing_stays_(billing_stays) {}

  // False: there is nothing volatile in it that a rule knows.
  bool Read() {
    std::string text;
    if (segment_.text.empty() || !DecodeString(segment_.text.In(body_), text, &offsets_)) {
      return false;
    }
    std::vector<VolatileSpan> spans = FindVolatile(text);
    WidenBlocks(text, spans);
    for (const VolatileSpan& span : spans) {
      if (IsMoved(span)) {
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
  const Segment& segment_;
  bool billing_stays_;
  mutable size_t floor_ = 0;  // the end of the line before, which has taken its newline
  std::vector<uint32_t> offsets_;
  std::vector<MovedLine> lines_;
  std::vector<Value> values_;
  std::vector<VolatileKind> left_;
};

class SystemLines {
 public:
  SystemLines(Draft& draft, bool billing_stays) : draft_(draft), billing_stays_(billing_stays) {}

  void Run() {
    if (!draft_.branch) draft_.lines_move = NewestUserText(draft_) != nullptr;
    draft_.lines_move = draft_.lines_move && draft_.Allows(Rule::kVolatileMoved);
    for (DraftSegment& out : draft_.segments) {
      const bool is_system = out.now != nullptr && out.now->place.section == Section::kSystem;
      if (is_system && out.now->has_volatile) Stabilize(out);
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void Stabilize(DraftSegment& out) {
    LineReader reader(draft_.body, *out.now, billing_stays_);
    const bool found = reader.Read();
    for (const VolatileKind kind : reader.left()) {
      draft_.notes.push_back(PathOf(out.now->place) + ": " + std::string(VolatileKindName(kind)) +
                             " beside other text, left as it is");
    }
    if (!found) return;
    const CallerForm* form = draft_.FormBefore(out);
    const bool is_all = out.now->is_volatile && reader.values().empty() && reader.left().empty();
    const bool moves = draft_.lines_move && (!is_all || reader.lines().empty());
    if (draft_.lines_move && !moves && !Drop(out)) return;
    for (const LineReader::MovedLine& line : reader.lines()) {
      lines_.emplace_back(line.line.In(draft_.body));
      if (moves) {
        Change(out, {Rule::kVolatileMoved, line.cut, "", PathOf(out.now->place)});
      }
    }
    if (out.dropped) return;
    HoldValues(reader, form, out);
    SortEdits(out.inner);
    PreferSent(out);
  }

  // A block of nothing but such lines: empty text is refused, so the whole of it leaves the list.
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

  void Change(DraftSegment& out, Edit edit) { out.inner.push_back(std::move(edit)); }

  // The n-th value of a kind keeps what the n-th of that kind was first, where nothing but values
  // are others in it.
  void HoldValues(const LineReader& reader, const CallerForm* form, DraftSegment& out) {
    std::map<VolatileKind, size_t> seen;
    const auto first_of = [&](VolatileKind kind, std::string_view own) {
      const size_t rank = seen[kind]++;
      if (form == nullptr) return std::string(own);
      size_t at = 0;
      for (const HeldValue& held : form->held) {
        if (held.kind == kind && at++ == rank) return held.json;
      }
      return std::string(own);
    };
    const auto hold = [&](VolatileKind kind, Span span, bool is_read) {
      const std::string_view own = span.In(draft_.body);
      std::string first = first_of(kind, own);
      if (!DiffersInValues(kind, first, own)) first = own;
      if (first != own && draft_.Allows(Rule::kVolatileHeld)) {
        Change(out, {Rule::kVolatileHeld, span, first, PathOf(out.now->place)});
        if (is_read) out.unsaid.push_back({.json = std::string(own), .is_news = IsNews(out, own)});
      }
      out.held.push_back({kind, std::move(first)});
    };
    for (const LineReader::Value& value : reader.values()) hold(value.kind, value.span, false);
    // Where lines cannot move, they keep their first value as well.
    if (draft_.lines_move || !draft_.Allows(Rule::kVolatileMoved)) return;
    for (const LineReader::MovedLine& line : reader.lines()) {
      hold(VolatileKind::kTime, line.line, true);
    }
  }
  static bool DiffersInValues(VolatileKind kind, std::string_view first, std::string_view own) {
    if (first == own) return true;
    std::string before;
    std::string now;
    if (!DecodeString(Quotes(first), before) || !DecodeString(Quotes(own), now)) return false;
    if (kind == VolatileKind::kBillingHeader) return AreBillingHeaders(before, now);
    return ChangedLines(before, now, false).has_value();
  }
  static std::string Quotes(std::string_view json) { return "\"" + std::string(json) + "\""; }
  bool IsNews(const DraftSegment& out, std::string_view line) const {
    const std::string* caller = CallerBytes(*draft_.branch, out.before);
    return caller == nullptr || caller->find(line) == std::string::npos;
  }

  // What was sent before, if what is left now is the same in another spelling.
  void PreferSent(DraftSegment& out) {
    const SentSegment* before = draft_.Before(out);
    if (before == nullptr || !before->bytes || out.now->source_span.size() > 0 ||
        out.now->marker_span.size() > 0) {
      return;
    }
    const std::string now = ApplyEdits(draft_.body, out.inner, out.now->span);
    if (now == *before->bytes) return;
    const auto left = CanonicalText(now, out.now->content, {});
    if (!left || left != CanonicalText(*before->bytes, out.now->content, {})) return;
    out.inner.clear();
    out.bytes = before->bytes;
    out.rule = draft_.lines_move ? Rule::kVolatileMoved : Rule::kVolatileHeld;
  }

  Draft& draft_;
  const bool billing_stays_;
  std::vector<std::string> lines_;
};

// Tools keep their first bytes where only held values differ.
void HoldTools(Draft& draft) {
  for (DraftSegment& out : draft.segments) {
    if (out.now == nullptr || out.now->place.section != Section::kTools) continue;
    const SentSegment* before = draft.Before(out);
    if (before == nullptr || before->same == out.now->same || before->stable != out.now->stable ||
        !before->bytes) {
      continue;
    }
    const std::string* caller = CallerBytes(*draft.branch, out.before);
    if (caller == nullptr) continue;
    std::string assembled;
    const std::optional<std::vector<std::string>> changed =
        NewLines(*caller, BytesOf(draft.body, *out.now, assembled), Content::kTool);
    if (!changed) continue;
    if (!draft.Allows(Rule::kVolatileHeld)) continue;
    out.bytes = before->bytes;
    out.rule = Rule::kVolatileHeld;
    out.unsaid = UnsaidLines(draft, out, *changed);
  }
}

}  // namespace

void StabilizeSystem(Draft& draft, std::string_view provider) {
  HoldTools(draft);
  SystemLines system(draft, provider == "anthropic");
  system.Run();
  WriteTail(draft, system.lines());
}

}  // namespace kvgate::prompt
