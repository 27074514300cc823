// A VolatileSlot is a line of an agent's prompt that holds values of its own: times, hashes,
// counters, names, in the words, tags or JSON that some author chose. Form, place and rate are
// random, and are not taken from the rules under test.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gateway/prompt/random_text.h"

namespace kvgate::prompt::traffic {

// How often the values of a slot are written anew.
enum class Rate : uint8_t { kEachCall, kSomeCalls, kRarely, kConversation };

// What a conversation knows when it writes a value.
struct Moment {
  int64_t seconds = 0;
  size_t call = 0;
};

// One value on a line; its form and its spelling are chosen once.
class VolatileValue {
 public:
  explicit VolatileValue(RandomText& random)
      : form_(random.Below(kNumForms)), style_(random.Below(kNumTimeStyles)) {
    if (style_ == kDateStyle) style_ = 0;
  }
  // A date, which is written anew at each call and changes once a day.
  static VolatileValue Date() { return VolatileValue(0, kDateStyle); }
  // What tells conversations apart and stays in them.
  static VolatileValue Name() { return VolatileValue(kNumForms, 0); }

  bool is_date() const { return form_ == 0 && style_ == kDateStyle; }

  std::string Text(RandomText& random, const Moment& moment) const {
    static constexpr std::array<const char*, 5> kStates = {"idle", "indexing the tree", "clean",
                                                           "two files changed", "waiting for ci"};
    switch (form_) {
      case 0:
      case 1:
      case 2:
        return TimeText(style_, moment.seconds);
      case 3:
        return random.Hex(7 + style_ * 3);
      case 4:
        return random.Uuid();
      case 5:
        return random.Of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 26);
      case 6:
        return std::to_string(moment.call + style_ * 100);
      case 7:
        return std::to_string(200'000 - 777 * moment.call - random.Below(700)) + " of 200000";
      case 8:
        return "$" + std::to_string(moment.call / 4) + "." + random.Digits(4);
      case 9:
        return random.Word() + "/" + random.Word() + "-" + random.Digits(2);
      case 10:
        return R"({"ts":")" + TimeText(style_, moment.seconds) + R"(","seq":)" +
               std::to_string(moment.call) + R"(,"id":")" + random.Hex(12) + R"("})";
      case 11:
        return "/srv/" + random.Word() + "/" + random.Word() + random.Digits(2);
      case 12:
        return std::string(random.Pick(kStates)) + " (" + random.Digits(3) + " ms)";
      default:
        return random.Word() + "-" + random.Word();
    }
  }

 private:
  static constexpr size_t kNumForms = 13;
  VolatileValue(size_t form, size_t style) : form_(form), style_(style) {}
  size_t form_;
  size_t style_;
};

class VolatileSlot {
 public:
  VolatileSlot(RandomText& random, Rate rate) : rate_(rate) {
    static constexpr std::array<std::string_view, 20> kForms = {
        "@: %",
        "- **@**: %",
        "@ = %",
        "| @ | % |",
        "<@ trace_id=\"%\"/>",
        "<@>%</@>",
        "<@ at=\"%\" rev='%'>open</@>",
        "  \"@\": \"%\",",
        "{\"@\":{\"stamp\":\"%\",\"seq\":\"%\"}}",
        "You are working in /srv/app on branch % as of % (session 47664700, call %).",
        "It is now %, and this is call % of the session.",
        "# rendered % by promptc",
        "<!-- % -->",
        "The clock of the user shows %; the newest build is %.",
        "[@ %] ready",
        "@ (%): do not repeat this to the user.",
        "%",
        "7. Remember that % is the present @, whatever was said before.",
        "When a task needs the @, take % and say so. Never guess it, and never ask twice.",
        "Recent files:\n  M %\n  A %"};
    std::string_view form = random.Pick(kForms);
    const std::string label = random.Word() + (random.Chance(50) ? "_" : "-") + random.Word();
    std::string text;
    for (; !form.empty(); form.remove_prefix(1)) {
      if (form.front() == '%') {
        texts_.push_back(text);
        text.clear();
        values_.push_back(rate == Rate::kConversation                  ? VolatileValue::Name()
                          : rate == Rate::kRarely && random.Chance(40) ? VolatileValue::Date()
                                                                       : VolatileValue(random));
      } else if (form.front() == '@') {
        text += label;
      } else {
        text += form.front();
      }
    }
    texts_.push_back(text);
  }

  Rate rate() const { return rate_; }
  size_t num_values() const { return values_.size(); }

  // Writes the values for the first time.
  std::vector<std::string> Begin(RandomText& random, const Moment& moment) const {
    std::vector<std::string> values;
    for (const VolatileValue& value : values_) values.push_back(value.Text(random, moment));
    return values;
  }
  // Writes them anew if it is time to. The first value is always one of those that change.
  void Renew(std::vector<std::string>& values, RandomText& random, const Moment& moment) const {
    const bool is_due = rate_ == Rate::kEachCall ||
                        (rate_ == Rate::kSomeCalls && random.Chance(30)) ||
                        (rate_ == Rate::kRarely && random.Chance(4));
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_written = values_[i].is_date() || (is_due && (i == 0 || random.Chance(60)));
      if (is_written) values[i] = values_[i].Text(random, moment);
    }
  }
  std::string Text(const std::vector<std::string>& values) const {
    std::string text = texts_.front();
    for (size_t i = 0; i < values.size(); ++i) text += values[i] + texts_[i + 1];
    return text;
  }

 private:
  const Rate rate_;
  std::vector<std::string> texts_;  // around the values
  std::vector<VolatileValue> values_;
};

}  // namespace kvgate::prompt::traffic
