#include "gateway/prompt/templates/masked_line.h"

#include <algorithm>
#include <array>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/volatile_values.h"

namespace kvgate::prompt::templates {
namespace {

using parse::IsDigit;
using parse::IsLetter;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool InChunk(char c) {
  return IsDigit(c) || IsLetter(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// Words that are parts of times and dates.
bool IsTimeWord(std::string_view word) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"AM",       "PM",   "am",       "pm",      "UTC",       "GMT",      "CET",    "CEST",
       "EST",      "EDT",  "PST",      "PDT",     "January",   "February", "March",  "April",
       "June",     "July", "August",   "Jan",     "September", "October",  "Feb",    "Mar",
       "November", "Apr",  "December", "Jun",     "Jul",       "Aug",      "Sep",    "Oct",
       "Nov",      "Dec",  "Monday",   "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
       "Sunday",   "Mon",  "Tue",      "Wed",     "Thu",       "Fri",      "Sat",    "Sun"});
  return word.size() <= 9 && std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

// Separators within a run of values: "2025-06-03, 09:00", "[12/40]".
bool JoinsValues(std::string_view between) {
  return std::all_of(between.begin(), between.end(), [](char c) {
    return IsBlank(c) || c == ',' || c == '.' || c == ':' || c == ';' || c == '/' || c == '-' ||
           c == '+' || c == '(' || c == ')' || c == '[' || c == ']' || c == '|';
  });
}

class Masker {
 public:
  explicit Masker(std::string_view line) : line_(line) {}

  MaskedLine Run() {
    masked_.text.reserve(line_.size());
    size_t at = 0;
    while (at < line_.size()) {
      const size_t end = BeginsChunk(at) ? ChunkEnd(at) : at;
      if (end > at) {
        Chunk(line_.substr(at, end - at));
        at = end;
      } else if (const size_t close = QuotedEnd(at); close > at) {
        AddBetween(line_[at]);
        Value();
        AddBetween(line_[close]);
        at = close + 1;
      } else {
        AddBetween(line_[at++]);
      }
    }
    return std::move(masked_);
  }

 private:
  bool BeginsChunk(size_t at) const {
    if (InChunk(line_[at])) return true;
    // "/src", "~/src", "./src"
    const bool is_path = line_[at] == '/' || line_[at] == '~' || line_[at] == '.';
    if (!is_path || at + 1 == line_.size() || IsTagEnd(at)) return false;
    return line_[at + 1] == '/' || (line_[at] == '/' && InChunk(line_[at + 1]));
  }
  // The slash of "</tag>" is no path.
  bool IsTagEnd(size_t at) const { return at > 0 && line_[at - 1] == '<'; }

  size_t ChunkEnd(size_t at) const {
    size_t end = at + 1;
    while (end < line_.size()) {
      const char c = line_[end];
      if (InChunk(c)) {
        ++end;
        continue;
      }
      const char next = end + 1 < line_.size() ? line_[end + 1] : ' ';
      const bool joins = (c == '-' || c == '.' || c == '@' || c == '+' || c == '/' || c == '\\' ||
                          c == '~' || c == '%') &&
                         (InChunk(next) || next == '/' || next == '.');
      const bool colon =
          c == ':' && ((IsDigit(line_[end - 1]) && IsDigit(next)) || next == '/' || next == '\\');
      const bool is_close = c == '/' && next == '>';
      if ((!joins && !colon) || is_close) break;
      ++end;
    }
    return end;
  }

  // Returns the closing quote of a value behind ':' or '='; `at` itself if there is none.
  size_t QuotedEnd(size_t at) const {
    const char quote = line_[at];
    if (quote != '"' && quote != '\'') return at;
    size_t before = at;
    while (before > 0 && IsBlank(line_[before - 1])) --before;
    if (before == 0 || (line_[before - 1] != ':' && line_[before - 1] != '=')) return at;
    for (size_t end = at + 1; end < line_.size(); ++end) {
      if (line_[end] == '\\') {
        ++end;
      } else if (line_[end] == quote) {
        return end;
      }
    }
    return at;
  }

  void Chunk(std::string_view chunk) {
    const bool is_value = std::any_of(chunk.begin(), chunk.end(), [](char c) {
      return IsDigit(c) || c == '/' || c == '\\' || c == '@';
    });
    if (is_value || IsTimeWord(chunk)) {
      Value();
      return;
    }
    masked_.text += chunk;
    ++masked_.num_words;
    run_ = std::string::npos;
  }
  void Value() {
    masked_.has_value = true;
    if (run_ != std::string::npos && JoinsValues(std::string_view(masked_.text).substr(run_))) {
      masked_.text.resize(run_);  // it belongs to the run in front of it
      return;
    }
    masked_.text += kMark;
    run_ = masked_.text.size();
  }
  void AddBetween(char c) { masked_.text += c; }

  const std::string_view line_;
  MaskedLine masked_;
  size_t run_ = std::string::npos;  // behind the newest mark, while only separators follow it
};

}  // namespace

MaskedLine MaskLine(std::string_view line) {
  while (!line.empty() && IsBlank(line.front())) line.remove_prefix(1);
  while (!line.empty() && IsBlank(line.back())) line.remove_suffix(1);
  return Masker(line).Run();
}

uint64_t HashOf(std::string_view text) {
  const uint64_t hash = parse::HashBytes(text, parse::Domain::kStable).low;
  return hash == kAnyToken ? 1 : hash;
}

std::vector<uint64_t> TokensOf(std::string_view masked, size_t most) {
  std::vector<uint64_t> tokens;
  size_t at = 0;
  while (at < masked.size() && tokens.size() < most) {
    size_t end = at;
    while (end < masked.size() && !IsBlank(masked[end])) ++end;
    if (end > at) tokens.push_back(HashOf(masked.substr(at, end - at)));
    at = end + 1;
  }
  return tokens;
}

uint64_t HeadOf(const std::vector<uint64_t>& tokens) {
  if (tokens.size() < 2 || tokens[0] == kAnyToken || tokens[1] == kAnyToken) return 0;
  return tokens[0] * 0x9E3779B97F4A7C15U ^ tokens[1];
}

std::vector<uint64_t> CommonTokens(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  // common[i][j] is the length of the longest common list of a[i..] and b[j..].
  const size_t width = b.size() + 1;
  std::vector<uint16_t> common((a.size() + 1) * width);
  const auto equal = [&](size_t i, size_t j) { return a[i] == b[j] && a[i] != kAnyToken; };
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      common[i * width + j] =
          equal(i, j) ? static_cast<uint16_t>(common[(i + 1) * width + j + 1] + 1)
                      : std::max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  std::vector<uint64_t> tokens;
  const auto skip = [&] {
    if (tokens.empty() || tokens.back() != kAnyToken) tokens.push_back(kAnyToken);
  };
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (equal(i, j)) {
      tokens.push_back(a[i]);
      ++i;
      ++j;
      continue;
    }
    skip();
    if (common[(i + 1) * width + j] >= common[i * width + j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  if (i < a.size() || j < b.size()) skip();
  return tokens;
}

size_t NumConstant(const std::vector<uint64_t>& tokens) {
  return tokens.size() - static_cast<size_t>(std::count(tokens.begin(), tokens.end(), kAnyToken));
}

}  // namespace kvgate::prompt::templates
