#include "gateway/prompt/parse/volatile_text.h"

#include <algorithm>
#include <array>
#include <optional>

#include "gateway/prompt/parse/volatile_values.h"

namespace kvgate::prompt::parse {
namespace {

struct Tag {
  std::string_view name;
  VolatileKind kind;
  bool own_lines = false;  // counts only if it fills its lines; elsewhere it may be prose
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
  // The next closing of a tag, as it was last found.
  struct Closing {
    bool is_known = false;
    size_t begin = 0;  // npos: none follows
    size_t end = 0;
    bool ends_line = false;  // nothing but white space follows on its line
  };

  size_t LineEnd(size_t from) const {
    const size_t end = text_.find('\n', from);
    return end == std::string_view::npos ? text_.size() : end;
  }
  // Reads the line at `begin`; returns the position behind it, or behind a block that begins on it.
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

  bool BeginsLine(size_t at) const {
    while (at > 0 && (text_[at - 1] == ' ' || text_[at - 1] == '\t')) --at;
    return at == 0 || text_[at - 1] == '\n';
  }
  bool EndsLine(size_t at) const {
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\r')) ++at;
    return at == text_.size() || text_[at] == '\n';
  }

  // Returns the end of the element at `at`, or the next byte if none begins there.
  size_t TagAt(size_t at) {
    const std::string_view rest = text_.substr(at + 1);
    for (size_t i = 0; i < kTags.size(); ++i) {
      const Tag& tag = kTags[i];
      if (!rest.starts_with(tag.name) || rest.substr(tag.name.size(), 1) != ">") continue;
      const Closing& closing = ClosingOf(i, at + tag.name.size());
      if (closing.begin == std::string_view::npos) continue;
      if (tag.own_lines && !(closing.ends_line && BeginsLine(at))) continue;
      Add({at, closing.end, tag.kind, true, false});
      return closing.end;
    }
    return at + 1;
  }

  // Returns the tag's first closing at or behind `from`. REQUIRES: `from` never decreases for a
  // tag; so each part of the text is searched once, however many opening tags it has.
  const Closing& ClosingOf(size_t tag, size_t from) {
    Closing& closing = closings_[tag];
    if (closing.is_known && closing.begin >= from) return closing;
    const std::string name = "</" + std::string(kTags[tag].name) + ">";
    closing = {.is_known = true, .begin = text_.find(name, from)};
    if (closing.begin == std::string_view::npos) return closing;
    closing.end = closing.begin + name.size();
    closing.ends_line = EndsLine(closing.end);
    return closing;
  }

  size_t ValueAt(size_t at) {
    const size_t floor = spans_.empty() ? 0 : spans_.back().end;
    const std::optional<VolatileSpan> value = VolatileValue(text_, at, floor);
    if (value) {
      Add(*value);
      return value->end;
    }
    // The rest of the word was looked at too: each word of a long chain is read once.
    while (at < text_.size() && InWord(text_[at])) ++at;
    return at;
  }

  // Adds the paragraphs that git status and similar commands print, from their heading on.
  size_t GitStatus(size_t begin) {
    static constexpr std::array<std::string_view, 6> kHeadings = {
        "Current branch:", "Main branch", "Git user:", "Status:", "Recent commits:", "gitStatus:"};
    size_t end = LineEnd(begin);
    size_t at = end + 1;
    bool in_list = false;  // within the lines of a status or of commits
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

  // Merges all spans from `first` on into one if only plain words stand beside them on their lines.
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
  std::array<Closing, kTags.size()> closings_;
};

// More blocks than this are a text that is written in tags.
constexpr int kTaggedBlocksMax = 8;

bool IsNameCharacter(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// Returns the name in the closing tag at the end of `text`; empty if there is none.
std::string_view NameOfLastTag(std::string_view text) {
  if (!text.ends_with('>')) return {};
  const size_t begin = text.rfind("</");
  if (begin == std::string_view::npos) return {};
  const std::string_view name = text.substr(begin + 2, text.size() - begin - 3);
  for (const char c : name) {
    if (!IsNameCharacter(c)) return {};
  }
  return name;
}

// Returns where the last tag of that name opens at the beginning of a line; npos if none does.
size_t LastOpening(std::string_view text, std::string_view name) {
  for (size_t at = text.rfind('<'); at != std::string_view::npos; at = text.rfind('<', at - 1)) {
    const std::string_view rest = text.substr(at + 1);
    const bool is_opening =
        rest.starts_with(name) && rest.size() > name.size() && !IsNameCharacter(rest[name.size()]);
    if (is_opening && (at == 0 || text[at - 1] == '\n')) return at;
    if (at == 0) break;
  }
  return std::string_view::npos;
}

std::string_view WithoutSpaceAtEnd(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

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

std::string_view WithoutTaggedEnd(std::string_view text) {
  text = WithoutSpaceAtEnd(text);
  for (int i = 0; i < kTaggedBlocksMax; ++i) {
    const std::string_view name = NameOfLastTag(text);
    if (name.empty()) break;
    const size_t begin = LastOpening(text, name);
    if (begin == std::string_view::npos) break;
    text = WithoutSpaceAtEnd(text.substr(0, begin));
  }
  return text;
}

bool IsTagged(std::string_view text) {
  return text.size() <= kNoticeBytesMax && text.find_first_not_of(" \t\r\n") != text.npos &&
         WithoutTaggedEnd(text).empty();
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

}  // namespace kvgate::prompt::parse
