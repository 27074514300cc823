#include "gateway/prompt/tail.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "gateway/prompt/markers.h"
#include "gateway/prompt/outline.h"

namespace kvgate::prompt {
namespace {

bool IsTurnOfResults(const Draft& draft, int32_t element) {
  return std::any_of(draft.segments.begin(), draft.segments.end(), [&](const DraftSegment& out) {
    return out.now != nullptr && out.now->place.section == Section::kMessages &&
           out.now->place.element == element && out.now->content == Content::kToolResult;
  });
}

// Whether `line` is all of what stands between spaces, tags or ends of lines somewhere in `json`.
bool HasLine(std::string_view json, std::string_view line) {
  const auto begins = [&](size_t at) {
    if (at == 0 || json[at - 1] == '"' || json[at - 1] == '>' || json[at - 1] == ' ') return true;
    return at > 1 && json[at - 2] == '\\';
  };
  const auto ends = [&](size_t at) {
    return at == json.size() || json[at] == '"' || json[at] == '<' || json[at] == '\\';
  };
  for (size_t at = json.find(line); at != std::string_view::npos; at = json.find(line, at + 1)) {
    if (begins(at) && ends(at + line.size())) return true;
  }
  return false;
}

class TailWriter {
 public:
  explicit TailWriter(Draft& draft) : draft_(draft), target_(NewestUserText(draft)) {
    if (!draft.Allows(Rule::kVolatileMoved)) target_ = nullptr;
  }

  void Run(const std::vector<std::string>& moved) {
    const bool appends = target_ != nullptr && draft_.lines_move;
    for (const std::string& line : moved) {
      const bool is_known =
          std::find(draft_.tail.begin(), draft_.tail.end(), line) != draft_.tail.end();
      if (appends) {
        Say(line, is_known && IsSaid(line, false));
      } else if (draft_.lines_move && !is_known) {
        draft_.notes.push_back("system: a new line waits for the next text of a user");
      }
    }
    if (appends) draft_.tail = moved;
    for (DraftSegment& out : draft_.segments) {
      if (out.now == nullptr) continue;
      TakeOver(out);
      if (!out.unsaid.empty()) SayUnsaid(out);
    }
    if (added_.empty()) return;
    const uint32_t end = target_->now->text.end - 1;
    target_->inner.push_back(
        {Rule::kVolatileMoved, {end, end}, added_, PathOf(target_->now->place)});
  }

 private:
  void Say(const std::string& line, bool is_known) {
    if (is_known || std::find(said_.begin(), said_.end(), line) != said_.end()) return;
    added_ += added_.empty() ? "\\n\\n" : "\\n";
    added_ += line;
    said_.push_back(line);
  }

  // What goes out as before has to be said as before: the text that said it may be gone.
  void TakeOver(DraftSegment& out) const {
    const SentSegment* before = draft_.Before(out);
    if (before == nullptr || before->same != out.now->same || !out.unsaid.empty()) return;
    for (const std::string& line : draft_.FormBefore(out)->unsaid) {
      out.unsaid.push_back({.json = line, .is_news = false});
    }
  }

  void SayUnsaid(DraftSegment& out) {
    const bool in_turns = out.now->place.section == Section::kMessages;
    std::vector<std::string> missing;
    for (const UnsaidLine& line : out.unsaid) {
      if (!IsSaid(line.json, line.is_news)) missing.push_back(line.json);
    }
    if (target_ != nullptr) {
      for (const std::string& line : missing) Say(line, false);
    } else if (!missing.empty() && in_turns) {
      GoAsItCame(out);
    } else if (!missing.empty()) {
      draft_.notes.push_back(PathOf(out.now->place) +
                             ": a new value waits for the next text of a user");
    }
  }
  static void GoAsItCame(DraftSegment& out) {
    DraftSegment own;
    own.now = out.now;
    own.slot = out.slot;
    out = std::move(own);
  }

  // Whether some turn says it as it goes out; `in_new`: one that was not sent before.
  bool IsSaid(std::string_view line, bool in_new) const {
    for (auto out = draft_.segments.rbegin(); out != draft_.segments.rend(); ++out) {
      if (out->dropped || (in_new && out->before >= 0)) continue;
      const Segment* now = out->now;
      if (now != nullptr && now->place.section != Section::kMessages) break;
      if (HasLine(OutgoingOf(*out), line)) return true;
    }
    return false;
  }
  // As rules for equal values will leave it.
  std::string_view OutgoingOf(const DraftSegment& out) const {
    if (out.bytes) return *out.bytes;
    const SentSegment* before = draft_.Before(out);
    if (before != nullptr && before->bytes && before->same == out.now->same) return *before->bytes;
    return out.now->span.In(draft_.body);
  }

  Draft& draft_;
  DraftSegment* target_;
  std::string added_;
  std::vector<std::string> said_;
};

}  // namespace

DraftSegment* NewestUserText(Draft& draft) {
  for (auto out = draft.segments.rbegin(); out != draft.segments.rend(); ++out) {
    if (out->now == nullptr || out->dropped) continue;
    const Segment& segment = *out->now;
    if (segment.place.section != Section::kMessages) return nullptr;
    if (segment.role == Role::kSystem || segment.role == Role::kDeveloper) continue;
    if (segment.role != Role::kUser || out->before >= 0) return nullptr;
    if (IsTurnOfResults(draft, segment.place.element)) return nullptr;
    const bool is_text = segment.content == Content::kText && !segment.text.empty();
    if (is_text && !segment.is_volatile) return &*out;
  }
  return nullptr;
}

std::vector<UnsaidLine> UnsaidLines(const Draft& draft, const DraftSegment& segment,
                                    const std::vector<std::string>& changed) {
  std::vector<UnsaidLine> lines;
  for (const std::string& text : changed) {
    const std::string quoted = QuotedJson(text);
    lines.push_back({.json = quoted.substr(1, quoted.size() - 2), .is_news = true});
  }
  const CallerForm* form = draft.FormBefore(segment);
  if (form == nullptr) return lines;
  for (const std::string& line : form->unsaid) {
    if (HasLine(segment.now->span.In(draft.body), line)) lines.push_back({.json = line});
  }
  return lines;
}

void WriteTail(Draft& draft, const std::vector<std::string>& moved) {
  TailWriter(draft).Run(moved);
}

}  // namespace kvgate::prompt
