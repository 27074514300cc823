#include "gateway/prompt/parse/volatile_text.h"

#include <algorithm>
#include <array>
#include <optional>

#include "gateway/prompt/parse/volatile_values.h"

namespace kvgate::prompt {
namespace {

struct Tag {
  std::string_view name;
  VolatileKind kind;
  bool own_lines = false;  // only where it begins and ends a line: elsewhere it may be prose
};
// Elements whose whole content is volatile, as agents write them.
constexpr std::array<Tag, 20> kTags = {{
    {"system-reminder", VolatileKind::kReminder},
    {"info-msg", VolatileKind::kReminder},
    {"total_tokens", VolatileKind::kCounter},
    {"tokens_left", VolatileKind::kCounter},
    {"token_usage", VolatileKind::kCounter},
    {"token_budget", VolatileKind::kCounter},
    {"git_status", VolatileKind::kGitStatus},
    {"gitStatus", VolatileKind::kGitStatus},
    {"files", VolatileKind::kFileList},
    {"directories", VolatileKind::kFileList},
    {"file_tree", VolatileKind::kFileList, true},
    {"directory_structure", VolatileKind::kFileList, true},
    {"env", VolatileKind::kEnvironment, true},
    {"environment_details", VolatileKind::kEnvironment, true},
    {"current_time", VolatileKind::kTime},
    {"current_date", VolatileKind::kTime},
    {"current_datetime", VolatileKind::kTime},
    {"timestamp", VolatileKind::kTime},
    {"request_id", VolatileKind::kRequestId},
    {"session_id", VolatileKind::kRequestId},
}};

struct Label {
  std::string_view text;
  VolatileKind kind;
};
// Beginnings of lines that hold one volatile value up to their end.
constexpr std::array<Label, 8> kLabels = {{
    {kBillingHeaderName, VolatileKind::kBillingHeader},
    {"USD budget:", VolatileKind::kBudget},
    {"Token usage:", VolatileKind::kCounter},
    {"Working directory:", VolatileKind::kCwd},
    {"Current working directory:", VolatileKind::kCwd},
    {"Primary working directory:", VolatileKind::kCwd},
    {"cwd:", VolatileKind::kCwd},
    {"CWD:", VolatileKind::kCwd},
}};

class Finder {
 public:
  explicit Finder(std::string_view text) : text_(text) {}

  std::vector<VolatileSpan> Run() {
    size_t at = 0;
    while (at < text_.size()) at = Line(at);
    return std::move(spans_);
  }

 private:
  size_t LineEnd(size_t from) const {
    const size_t end = text_.find('\n', from);
    return end == std::string_view::npos ? text_.size() : end;
  }
  // From the line at `begin` to where to go on: behind it, or behind a block that began on it.
  size_t Line(size_t begin) {
    size_t end = LineEnd(begin);
    size_t start = begin;
    while (start < end && (text_[start] == ' ' || text_[start] == '\t')) ++start;
    const std::string_view line = text_.substr(start, end - start);
    if (line.starts_with("gitStatus:") || line.starts_with("Git status:")) return GitStatus(start);
    const bool may_be_labelled = line.find(':') != std::string_view::npos;
    for (const Label& label : kLabels) {
      if (!may_be_labelled) break;
      const std::string_view plain = line.starts_with("- ") ? line.substr(2) : line;
      if (!plain.starts_with(label.text)) continue;
      Add({begin, TrimmedEnd(begin, end), label.kind, true, true});
      return end + 1;
    }
    const size_t first = spans_.size();
    size_t at = start;
    while (at < end) {
      const char c = text_[at];
      if (c == '<') {
        at = TagAt(at);
        if (at > end) end = LineEnd(at);
      } else if (IsDigit(c)) {
        at = ValueAt(at);
      } else {
        ++at;
      }
    }
    if (spans_.size() > first) WholeLines(begin, end, first);
    return end + 1;
  }

  size_t TrimmedEnd(size_t begin, size_t end) const {
    while (end > begin && (text_[end - 1] == '\r' || text_[end - 1] == ' ')) --end;
    return end;
  }

  void Add(const VolatileSpan& span) { spans_.push_back(span); }

  bool OnOwnLines(size_t begin, size_t end) const {
    while (begin > 0 && (text_[begin - 1] == ' ' || text_[begin - 1] == '\t')) --begin;
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\r')) ++end;
    return (begin == 0 || text_[begin - 1] == '\n') && (end == text_.size() || text_[end] == '\n');
  }

  // Behind the element that begins at `at`, or one byte on.
  size_t TagAt(size_t at) {
    for (const Tag& tag : kTags) {
      const std::string_view rest = text_.substr(at + 1);
      if (!rest.starts_with(tag.name) || rest.substr(tag.name.size(), 1) != ">") continue;
      const std::string closing = "</" + std::string(tag.name) + ">";
      const size_t close = text_.find(closing, at + tag.name.size());
      if (close == std::string_view::npos) continue;
      const size_t end = close + closing.size();
      if (tag.own_lines && !OnOwnLines(at, end)) continue;
      Add({at, end, tag.kind, true, false});
      return end;
    }
    return at + 1;
  }

  size_t ValueAt(size_t at) {
    const size_t floor = spans_.empty() ? 0 : spans_.back().end;
    const std::optional<VolatileSpan> value = VolatileValue(text_, at, floor);
    if (value) {
      Add(*value);
      return value->end;
    }
    while (at < text_.size() && (IsDigit(text_[at]) || IsLetter(text_[at]))) ++at;
    return at;
  }

  // The paragraphs that git status and its kin print, from their heading on.
  size_t GitStatus(size_t begin) {
    static constexpr std::array<std::string_view, 6> kHeadings = {
        "Current branch:", "Main branch", "Git user:", "Status:", "Recent commits:", "gitStatus:"};
    size_t end = LineEnd(begin);
    size_t at = end + 1;
    bool in_list = false;  // the lines of a status or of commits
    while (at < text_.size()) {
      const size_t line_end = LineEnd(at);
      const std::string_view line = text_.substr(at, line_end - at);
      const bool heading = std::any_of(kHeadings.begin(), kHeadings.end(),
                                       [&](std::string_view h) { return line.starts_with(h); });
      const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
      if (!heading && !blank && !in_list) break;
      if (heading) in_list = line.starts_with("Status:") || line.starts_with("Recent commits:");
      if (blank) in_list = false;
      if (!blank) end = line_end;
      at = line_end + 1;
    }
    Add({begin, TrimmedEnd(begin, end), VolatileKind::kGitStatus, true, true});
    return end + 1;
  }

  // Makes one span of all from `first` on, if nothing else stands on their lines.
  void WholeLines(size_t begin, size_t end, size_t first) {
    size_t words = 0;
    size_t at = begin;
    for (size_t i = first; i <= spans_.size(); ++i) {
      const size_t until = i < spans_.size() ? spans_[i].begin : end;
      while (at < until) {
        if (IsDigit(text_[at]) || static_cast<unsigned char>(text_[at]) >= 0x80) return;
        size_t run = at;
        while (run < until && (IsLetter(text_[run]) || text_[run] == '_')) ++run;
        if (run > at && (++words > kPlainWordsMax || !IsPlainWord(text_.substr(at, run - at)))) {
          return;
        }
        at = run > at ? run : at + 1;
      }
      if (i < spans_.size()) at = spans_[i].end;
    }
    const VolatileSpan whole{begin, TrimmedEnd(begin, end), spans_[first].kind, true, true};
    spans_.resize(first);
    Add(whole);
  }

  std::string_view text_;
  std::vector<VolatileSpan> spans_;
};

}  // namespace

std::string_view VolatileKindName(VolatileKind kind) {
  static constexpr std::array<std::string_view, kNumVolatileKinds> kNames = {
      "time",       "epoch",     "uuid",        "request_id", "counter",        "budget",
      "git_status", "file_list", "environment", "cwd",        "billing_header", "reminder"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<VolatileSpan> FindVolatile(std::string_view text) { return Finder(text).Run(); }

bool BeginsWithAgentTag(std::string_view text) {
  return std::any_of(kTags.begin(), kTags.end(), [&](const Tag& tag) {
    if (tag.kind != VolatileKind::kReminder && tag.kind != VolatileKind::kCounter) return false;
    return text.starts_with("<" + std::string(tag.name) + ">");
  });
}

std::string CutVolatile(std::string_view text, const std::vector<VolatileSpan>& spans) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  std::string left;
  size_t at = 0;
  for (size_t i = 0; i <= spans.size(); ++i) {
    const size_t end = i < spans.size() ? spans[i].begin : text.size();
    std::string_view piece = text.substr(at, end - at);
    if (i > 0) {
      while (!piece.empty() && is_space(piece.front())) piece.remove_prefix(1);
    }
    if (i < spans.size()) {
      while (!piece.empty() && is_space(piece.back())) piece.remove_suffix(1);
      at = spans[i].end;
    }
    if (!piece.empty() && !left.empty() && i > 0) left += '\n';
    left += piece;
  }
  return left;
}

}  // namespace kvgate::prompt
