#include "engine/sample/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace kvgate::sample {
namespace {

struct Found {
  size_t begin = 0;
  std::string stop;
};

// Finds by the definition: the first byte that completes a stop string; of several strings, the
// longest.
std::optional<Found> FindNaively(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<Found> found;
    for (const std::string& stop : stops) {
      if (stop.empty() || stop.size() > end) continue;
      if (text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (!found || stop.size() > found->stop.size()) {
        found = Found{.begin = end - stop.size(), .stop = stop};
      }
    }
    if (found) return found;
  }
  return std::nullopt;
}

// Returns the number of bytes at the end that begin a stop string; exactly those must be held back.
size_t CountHeldNaively(const std::vector<std::string>& stops, const std::string& text) {
  size_t held = 0;
  for (const std::string& stop : stops) {
    for (size_t length = 1; length < stop.size() && length <= text.size(); ++length) {
      if (text.ends_with(stop.substr(0, length))) held = std::max(held, length);
    }
  }
  return held;
}

std::string RandomString(std::mt19937_64& random, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + random() % 2));
  return text;
}

TEST(StopMatcherTest, AnySplitOfAnyTextGivesWhatTheDefinitionSaysAndHoldsBackNoMoreThanItMust) {
  std::mt19937_64 random(17);
  int num_stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = random() % 4; i > 0; --i) {
      stops.push_back(RandomString(random, random() % 8));
    }
    const std::string text = RandomString(random, random() % 40);
    const std::optional<Found> expected = FindNaively(stops, text);
    StopMatcher matcher(stops);
    std::string emitted;
    StopMatcher::Output output;
    for (size_t begin = 0; begin < text.size() && !output.stopped;) {
      const size_t length = std::min<size_t>(random() % 6, text.size() - begin);
      output = matcher.Push(text.substr(begin, length));
      begin += length;
      emitted += output.text;
      if (!output.stopped) {
        ASSERT_EQ(emitted.size() + CountHeldNaively(stops, text.substr(0, begin)), begin);
      }
    }
    ASSERT_EQ(output.stopped, expected.has_value());
    if (expected) {
      ++num_stopped;
      ASSERT_EQ(emitted, text.substr(0, expected->begin));
      ASSERT_EQ(output.matched, expected->stop);
      const StopMatcher::Output after = matcher.Push("more");
      EXPECT_TRUE(after.stopped);
      EXPECT_EQ(after.text + matcher.Finish(), "");
    } else {
      ASSERT_EQ(emitted + matcher.Finish(), text);
    }
  }
  EXPECT_GT(num_stopped, 1000);
}

TEST(StopMatcherTest, TextThatMightBecomeAStopIsHeldAndComesOutWhenItDoesNot) {
  StopMatcher matcher({"</end>"});
  EXPECT_EQ(matcher.Push("a</e").text, "a");
  EXPECT_EQ(matcher.Push("n").text, "");
  EXPECT_EQ(matcher.Push("</").text, "</en");
  EXPECT_EQ(matcher.Finish(), "</");
}

TEST(StopMatcherTest, HoldingMuchBackForLongStaysLinear) {
  // Each byte keeps 100,000 bytes held back: quadratic work would move 10^11 bytes.
  StopMatcher matcher({std::string(100000, 'a') + "b"});
  size_t num_emitted = 0;
  for (int i = 0; i < 1000000; ++i) num_emitted += matcher.Push("a").text.size();
  EXPECT_EQ(num_emitted, 900000u);
  EXPECT_EQ(matcher.Finish().size(), 100000u);
}

}  // namespace
}  // namespace kvgate::sample
