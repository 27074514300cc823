// A WorkdayScript is what one agent of a team does in a working day: tasks of a
// user's, each some calls of tools with their results; pauses in between, lunch, and the end of the
// day. It says when, and how much is said, and nothing of how a conversation is sent or kept
// bounded: all ways are given the same scripts. All comes from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/random_text.h"

namespace kvgate::session::workday {

inline constexpr int64_t kSecond = 1'000'000;  // times are in microseconds
inline constexpr int64_t kMinute = 60 * kSecond;
inline constexpr int64_t kHour = 60 * kMinute;
inline constexpr int64_t kMorning = 1'795'597'200 * kSecond;  // 2026-11-25 09:00
inline constexpr int64_t kTokenBytes = 4;                     // as replay::CountTokens counts

// One request: what is new in it, and the answer to it.
struct Turn {
  int64_t pause_us = 0;         // since the answer before, or, for the first one, since the morning
  bool is_user = false;         // says it; else it is the result of the call before
  bool calls = false;           // the answer calls a tool
  bool is_after_lunch = false;  // the user, or the tool, was away before it
  int64_t said_tokens = 0;
  int64_t answer_tokens = 0;
  int64_t answer_us = 0;  // until the answer has ended
  uint64_t seed = 0;      // of its texts
};

struct WorkdayScript {
  std::string name;
  std::vector<Turn> turns = {};
  int64_t lunch_begin_us = 0;  // no turn is said from then on
  int64_t lunch_end_us = 0;    // until then
};

// Words from a seed, at little cost: a piece of a text that is made once.
inline std::string TextOf(uint64_t seed, int64_t tokens) {
  static const std::string pool = [] {
    prompt::traffic::RandomText random(1);
    std::string text;
    while (text.size() < size_t{1} << 20) text += random.Sentence(12) + " ";
    return text;
  }();
  std::string text = std::to_string(seed) + " ";
  const auto bytes = static_cast<size_t>(tokens * kTokenBytes);
  size_t at = seed * 2'654'435'761 % pool.size();
  while (text.size() < bytes) {
    text.append(pool, at, bytes - text.size());
    at = 0;
  }
  return text;
}

class WorkdayAuthor {
 public:
  explicit WorkdayAuthor(uint64_t seed) : random_(seed), seed_(seed) {}

  WorkdayScript Write(std::string name, int64_t hours) {
    WorkdayScript script{.name = std::move(name)};
    const int64_t evening = kMorning + hours * kHour;
    script.lunch_begin_us = kMorning + 3 * kHour + Between(0, 60) * kMinute;
    script.lunch_end_us = script.lunch_begin_us + Between(45, 75) * kMinute;
    int64_t now = kMorning + Between(0, 45 * 60) * kSecond;
    int64_t before = kMorning;  // when the answer before had ended
    while (now < evening) {
      for (int64_t left = Between(3, 22); left >= 0; --left) {
        const bool is_lunch = now >= script.lunch_begin_us && now < script.lunch_end_us;
        if (is_lunch) now = script.lunch_end_us + Between(0, 300) * kSecond;
        const bool is_first = before == kMorning || !script.turns.back().calls;
        script.turns.push_back(TurnOf(now - before, is_first, /*calls=*/left > 0));
        script.turns.back().is_after_lunch = is_lunch;
        before = now + script.turns.back().answer_us;
        now = before + Between(1, 40) * kSecond;
      }
      // A user comes back while the prefix is warm, or does something else first.
      now = before + (random_.Chance(40) ? Between(20, 240) : Between(300, 2'700)) * kSecond;
    }
    return script;
  }

 private:
  int64_t Between(int64_t least, int64_t most) {
    return static_cast<int64_t>(
        random_.Between(static_cast<size_t>(least), static_cast<size_t>(most)));
  }
  Turn TurnOf(int64_t pause_us, bool is_user, bool calls) {
    // Most results are short, and few are whole files.
    const int64_t result = random_.Chance(20) ? Between(3'000, 8'000) : Between(150, 2'500);
    return {.pause_us = pause_us,
            .is_user = is_user,
            .calls = calls,
            .said_tokens = is_user ? Between(30, 400) : result,
            .answer_tokens = calls ? Between(60, 500) : Between(150, 900),
            .answer_us = Between(3, 15) * kSecond,
            .seed = seed_ * 1'000'003 + ++num_turns_};
  }

  prompt::traffic::RandomText random_;
  const uint64_t seed_;
  uint64_t num_turns_ = 0;
};

}  // namespace kvgate::session::workday
