// RandomText makes words, sentences, ids and times out of one seed. Times come in the spellings of
// many locales, so that no list of forms covers them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>

namespace kvgate::prompt::traffic {

inline std::string TwoDigits(unsigned number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

// A point in time, taken apart.
struct CalendarTime {
  explicit CalendarTime(int64_t seconds) {
    using namespace std::chrono;  // NOLINT: its literals and calendar
    const sys_seconds time{std::chrono::seconds(seconds)};
    const sys_days midnight = floor<days>(time);
    const year_month_day date{midnight};
    year = static_cast<int>(date.year());
    month = static_cast<unsigned>(date.month());
    day = static_cast<unsigned>(date.day());
    weekday = std::chrono::weekday{midnight}.c_encoding();
    const auto in_day = static_cast<unsigned>((time - midnight).count());
    hour = in_day / 3600;
    minute = in_day / 60 % 60;
    second = in_day % 60;
  }
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  unsigned weekday = 0;  // 0: Sunday
  unsigned hour = 0;
  unsigned minute = 0;
  unsigned second = 0;

  std::string IsoDate() const {
    return std::to_string(year) + "-" + TwoDigits(month) + "-" + TwoDigits(day);
  }
  std::string Clock() const { return TwoDigits(hour) + ":" + TwoDigits(minute); }
  std::string ClockWithSeconds() const { return Clock() + ":" + TwoDigits(second); }
};

inline std::string SpelledNumber(unsigned number) {
  static constexpr std::array<const char*, 20> kSmall = {
      "zero",     "one",     "two",     "three",     "four",     "five",    "six",
      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static constexpr std::array<const char*, 6> kTens = {"",       "",      "twenty",
                                                       "thirty", "forty", "fifty"};
  if (number < 20) return kSmall[number];
  const std::string tens = kTens[number / 10 % 6];
  return number % 10 == 0 ? tens : tens + "-" + kSmall[number % 10];
}

inline constexpr size_t kNumTimeStyles = 14;
inline constexpr size_t kDateStyle = 13;  // the only one that changes once a day

// Returns a time as some locale, program or person spells it.
inline std::string TimeText(size_t style, int64_t seconds) {
  static constexpr std::array<const char*, 12> kMonths = {
      "January", "February", "March",     "April",   "May",      "June",
      "July",    "August",   "September", "October", "November", "December"};
  static constexpr std::array<const char*, 12> kMois = {
      "janvier", "février", "mars",      "avril",   "mai",      "juin",
      "juillet", "août",    "septembre", "octobre", "novembre", "décembre"};
  static constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                       "Thursday", "Friday", "Saturday"};
  static constexpr std::array<const char*, 7> kDias = {"domingo", "lunes",   "martes", "miércoles",
                                                       "jueves",  "viernes", "sábado"};
  const CalendarTime time(seconds);
  const std::string day = std::to_string(time.day);
  const std::string year = std::to_string(time.year);
  switch (style) {
    case 0:
      return time.IsoDate() + "T" + time.ClockWithSeconds() + "Z";
    case 1:
      return time.IsoDate() + " " + time.ClockWithSeconds();
    case 2:
      return day + "." + std::to_string(time.month) + "." + year + ", " + time.Clock() + " Uhr";
    case 3:
      return std::to_string(time.month) + "/" + day + "/" + year.substr(2) + ", " +
             std::to_string(time.hour % 12 == 0 ? 12 : time.hour % 12) + ":" +
             TwoDigits(time.minute) + (time.hour < 12 ? " AM" : " PM");
    case 4:
      return std::string(kDays[time.weekday]) + ", " + day + " " + kMonths[time.month - 1] + " " +
             year + " at " + time.Clock();
    case 5:
      return "le " + day + " " + kMois[time.month - 1] + " " + year + " à " +
             std::to_string(time.hour) + " h " + TwoDigits(time.minute);
    case 6:
      return year + "年" + std::to_string(time.month) + "月" + day + "日 " +
             std::to_string(time.hour) + "時" + std::to_string(time.minute) + "分";
    case 7:
      return SpelledNumber(time.minute) + " minutes past " + SpelledNumber(time.hour) +
             " on the day numbered " + SpelledNumber(time.day);
    case 8:
      return std::to_string(seconds);
    case 9:
      return std::to_string(seconds * 1000 + seconds * 37 % 1000);
    case 10:
      return std::string(kMonths[time.month - 1]).substr(0, 3) + " " + day + " " +
             time.ClockWithSeconds();
    case 11:
      return std::string(kDias[time.weekday]) + " " + day + ", " + time.ClockWithSeconds();
    case 12:
      return time.ClockWithSeconds();
    default:
      return time.IsoDate();
  }
}

class RandomText {
 public:
  explicit RandomText(uint64_t seed) : random_(seed) {}

  size_t Below(size_t bound) { return random_() % bound; }
  size_t Between(size_t least, size_t most) { return least + Below(most - least + 1); }
  bool Chance(size_t percent) { return Below(100) < percent; }
  template <typename List>
  auto& Pick(List& list) {
    return list[Below(std::size(list))];
  }

  std::string Of(std::string_view alphabet, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += alphabet[Below(alphabet.size())];
    return text;
  }
  std::string Digits(size_t count) { return Of("0123456789", count); }
  std::string Hex(size_t count) { return Of("0123456789abcdef", count); }
  std::string Uuid() {
    return Hex(8) + "-" + Hex(4) + "-4" + Hex(3) + "-a" + Hex(3) + "-" + Hex(12);
  }

  std::string Word() {
    static constexpr std::array<const char*, 96> kWords = {
        "answer", "ask",     "branch",  "brief",   "build",   "call",     "careful",  "change",
        "check",  "clear",   "code",    "command", "comment", "commit",   "compare",  "concise",
        "config", "current", "data",    "default", "delete",  "describe", "detail",   "document",
        "edit",   "error",   "every",   "example", "explain", "failing",  "feature",  "file",
        "find",   "first",   "fix",     "folder",  "follow",  "format",   "function", "given",
        "helper", "history", "import",  "input",   "issue",   "keep",     "large",    "library",
        "line",   "list",    "log",     "merge",   "message", "method",   "module",   "name",
        "never",  "note",    "number",  "open",    "option",  "order",    "output",   "package",
        "path",   "pattern", "plan",    "point",   "prefer",  "project",  "prompt",   "question",
        "quote",  "read",    "reason",  "report",  "request", "result",   "return",   "review",
        "rule",   "run",     "safe",    "search",  "section", "short",    "source",   "state",
        "step",   "string",  "suggest", "task",    "test",    "tool",     "user",     "write"};
    return kWords[Below(kWords.size())];
  }
  std::string Words(size_t count) {
    std::string text = Word();
    for (size_t i = 1; i < count; ++i) text += " " + Word();
    return text;
  }
  std::string Sentence(size_t count) {
    std::string text = Words(count);
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text + ".";
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace kvgate::prompt::traffic
