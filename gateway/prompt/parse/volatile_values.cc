#include "gateway/prompt/parse/volatile_values.h"

#include <algorithm>
#include <array>

namespace kvgate::prompt::parse {
namespace {

using ValueEnd = std::optional<size_t>;  // the end of a value

size_t Digits(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return end - at;
}

bool Is(std::string_view text, size_t at, char c) { return at < text.size() && text[at] == c; }

size_t PastOne(std::string_view text, size_t at, char c) { return at + (Is(text, at, c) ? 1 : 0); }

// Skips " UTC", "Z", "+02:00", "-0500" or nothing.
size_t PastZone(std::string_view text, size_t at) {
  if (Is(text, at, 'Z')) return at + 1;
  const size_t from = PastOne(text, at, ' ');
  for (const std::string_view zone : {"UTC", "GMT"}) {
    if (text.substr(from, 3) == zone) return from + 3;
  }
  if ((Is(text, from, '+') || Is(text, from, '-')) && Digits(text, from + 1) >= 2) {
    const size_t digits = Digits(text, from + 1);
    if (digits == 4) return from + 5;
    if (digits == 2 && Is(text, from + 3, ':') && Digits(text, from + 4) == 2) return from + 6;
  }
  return at;
}

// Reads "10:31:07.123 UTC" or "9:05 PM". A time without seconds and without a date needs AM or PM,
// because 3:45 may be any two numbers.
ValueEnd ClockTime(std::string_view text, size_t at, bool behind_date) {
  const size_t hours = Digits(text, at);
  if (hours < 1 || hours > 2 || !Is(text, at + hours, ':')) return std::nullopt;
  size_t end = at + hours + 1;
  if (Digits(text, end) != 2) return std::nullopt;
  end += 2;
  bool certain = behind_date;
  if (Is(text, end, ':') && Digits(text, end + 1) == 2) {
    end += 3;
    certain = true;
    if (Is(text, end, '.') && Digits(text, end + 1) > 0) end += 1 + Digits(text, end + 1);
  }
  const size_t half = PastOne(text, end, ' ');
  for (const std::string_view name : {"AM", "PM", "am", "pm"}) {
    if (text.substr(half, 2) != name || (half + 2 < text.size() && IsLetter(text[half + 2]))) {
      continue;
    }
    end = half + 2;
    certain = true;
    break;
  }
  if (!certain) return std::nullopt;
  return PastZone(text, end);
}

// Skips a clock time behind a date that ends at `end`, if one follows.
size_t PastClock(std::string_view text, size_t end) {
  for (const std::string_view joint : {"T", " ", ", ", " at ", ", at "}) {
    if (text.substr(end, joint.size()) != joint) continue;
    if (const ValueEnd clock = ClockTime(text, end + joint.size(), true)) return *clock;
  }
  return end;
}

// Reads "2026-11-22" or "2026/11/22", with or without a time.
ValueEnd IsoDate(std::string_view text, size_t at) {
  if (Digits(text, at) != 4 || (text.substr(at, 2) != "19" && text.substr(at, 2) != "20")) {
    return std::nullopt;
  }
  const size_t joint = at + 4;
  if (!Is(text, joint, '-') && !Is(text, joint, '/')) return std::nullopt;
  const size_t month = Digits(text, joint + 1);
  if (month < 1 || month > 2 || !Is(text, joint + 1 + month, text[joint])) return std::nullopt;
  const size_t day_at = joint + 2 + month;
  const size_t day = Digits(text, day_at);
  if (day < 1 || day > 2) return std::nullopt;
  return PastClock(text, day_at + day);
}

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                   "Friday", "Saturday", "Sunday"};

template <size_t kSize>
bool IsNameOf(const std::array<std::string_view, kSize>& names, std::string_view word) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return word == name || word == name.substr(0, 3);
  });
}

// Returns the beginning of the word in front of `end`; spaces and commas between them are skipped.
size_t WordBefore(std::string_view text, size_t end, size_t floor, size_t& word_end) {
  word_end = end;
  while (word_end > floor && (text[word_end - 1] == ' ' || text[word_end - 1] == ',')) --word_end;
  size_t begin = word_end;
  while (begin > floor && IsLetter(text[begin - 1])) --begin;
  return begin;
}

// Returns the beginning of a weekday in front of a date, else `begin`.
size_t WeekdayBefore(std::string_view text, size_t begin, size_t floor) {
  size_t word_end = 0;
  const size_t word = WordBefore(text, begin, floor, word_end);
  return IsNameOf(kDays, text.substr(word, word_end - word)) ? word : begin;
}

std::optional<VolatileSpan> SpokenDate(std::string_view text, size_t at, size_t floor) {
  const size_t digits = Digits(text, at);
  if (digits > 2) return std::nullopt;
  size_t word_end = 0;
  const size_t word = WordBefore(text, at, floor, word_end);
  size_t end = at + digits;
  size_t begin = at;
  if (IsNameOf(kMonths, text.substr(word, word_end - word)) && word_end < at) {
    begin = word;  // November 22, 2026; Nov 22 10:31:07 2026
    for (const std::string_view suffix : {"st", "nd", "rd", "th"}) {
      if (text.substr(end, 2) == suffix) end += 2;
    }
    end = PastClock(text, end);
    const size_t year = PastOne(text, PastOne(text, end, ','), ' ');
    if (year > end && Digits(text, year) == 4) end = year + 4;
  } else {  // 22 November 2026
    const size_t month = PastOne(text, end, ' ');
    size_t month_end = month;
    while (month_end < text.size() && IsLetter(text[month_end])) ++month_end;
    if (month == end || !IsNameOf(kMonths, text.substr(month, month_end - month)) ||
        !Is(text, month_end, ' ') || Digits(text, month_end + 1) != 4) {
      return std::nullopt;
    }
    end = month_end + 5;
  }
  return VolatileSpan{.begin = WeekdayBefore(text, begin, floor), .end = PastClock(text, end)};
}

bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsHexRun(std::string_view word) { return std::all_of(word.begin(), word.end(), IsHex); }

bool IsUuid(std::string_view word) {
  if (word.size() != 36) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? word[i] != '-' : !IsHex(word[i])) return false;
  }
  return true;
}

constexpr size_t kIdSize = 16;

bool IsRequestId(std::string_view word) {
  for (const std::string_view prefix :
       {"req_", "req-", "msg_", "resp_", "sess_", "session_", "trace_", "run_"}) {
    if (word.starts_with(prefix) && word.size() >= kIdSize) return true;
  }
  return word.size() >= kIdSize && IsHexRun(word) &&
         std::any_of(word.begin(), word.end(), IsLetter);
}

bool IsEpoch(std::string_view word) {
  if (word.size() != 10 && word.size() != 13) return false;
  return word[0] == '1' && word[1] >= '5' && std::all_of(word.begin(), word.end(), IsDigit);
}

std::optional<VolatileSpan> IdAround(std::string_view text, size_t at, size_t floor) {
  size_t begin = at;
  size_t end = at;
  while (begin > floor && InWord(text[begin - 1])) --begin;
  while (end < text.size() && InWord(text[end])) ++end;
  const std::string_view word = text.substr(begin, end - begin);
  VolatileSpan span{.begin = begin, .end = end};
  const bool decimal =
      (begin > 0 && text[begin - 1] == '.') || (Is(text, end, '.') && Digits(text, end + 1) > 0);
  if (IsUuid(word)) {
    span.kind = VolatileKind::kUuid;
  } else if (IsRequestId(word)) {
    span.kind = VolatileKind::kRequestId;
  } else if (IsEpoch(word) && !decimal) {
    span.kind = VolatileKind::kEpoch;
  } else {
    return std::nullopt;
  }
  return span;
}

// The bytes of the largest 64-bit number with commas; a longer list of numbers is no count.
constexpr size_t kCountBytesMax = 26;

// "93,211 tokens left"
std::optional<VolatileSpan> TokensLeft(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == ',')) {
    if (++end - at > kCountBytesMax) return std::nullopt;
  }
  for (const std::string_view words : {" tokens left", " tokens remaining"}) {
    if (text.substr(end, words.size()) != words) continue;
    return VolatileSpan{
        .begin = at, .end = end + words.size(), .kind = VolatileKind::kCounter, .machine = true};
  }
  return std::nullopt;
}

constexpr auto kPlainWords = std::to_array<std::string_view>({"a",
                                                              "and",
                                                              "as",
                                                              "at",
                                                              "conversation",
                                                              "correlation",
                                                              "current",
                                                              "currently",
                                                              "current_date",
                                                              "current_time",
                                                              "date",
                                                              "datetime",
                                                              "day",
                                                              "epoch",
                                                              "est",
                                                              "generated",
                                                              "gmt",
                                                              "id",
                                                              "is",
                                                              "it",
                                                              "last",
                                                              "local",
                                                              "now",
                                                              "of",
                                                              "on",
                                                              "pst",
                                                              "request",
                                                              "run",
                                                              "s",
                                                              "session",
                                                              "the",
                                                              "time",
                                                              "timestamp",
                                                              "timezone",
                                                              "today",
                                                              "todays",
                                                              "trace",
                                                              "unix",
                                                              "updated",
                                                              "utc",
                                                              "uuid",
                                                              "x"});

}  // namespace

bool IsPlainWord(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return std::find(kPlainWords.begin(), kPlainWords.end(), lower) != kPlainWords.end();
}

std::optional<VolatileSpan> VolatileValue(std::string_view text, size_t at, size_t floor) {
  const bool starts_word = at == floor || !(InWord(text[at - 1]) || text[at - 1] == '.');
  if (starts_word) {
    ValueEnd end = IsoDate(text, at);
    size_t begin = end ? WeekdayBefore(text, at, floor) : at;
    if (!end) end = ClockTime(text, at, false);
    if (end) return VolatileSpan{.begin = begin, .end = *end};
    if (const auto spoken = SpokenDate(text, at, floor)) return spoken;
    if (const auto counter = TokensLeft(text, at)) return counter;
  }
  return IdAround(text, at, floor);
}

}  // namespace kvgate::prompt::parse
