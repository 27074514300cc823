#include "gateway/local/merged_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace kvgate::local {
namespace {

using dialect::form::CompletionEvent;
using dialect::form::CompletionStats;
using dialect::form::DeltaEvent;
using dialect::form::FinishEvent;
using dialect::form::FinishReason;
using ::testing::ElementsAre;

// The events that one answer's stream yields, and what was done to it.
struct Answer {
  std::vector<CompletionEvent> events = {};
  int num_cancels = 0;
  bool is_destroyed = false;

  void Say(std::string text) { events.emplace_back(DeltaEvent{.text = std::move(text)}); }
  void End(FinishReason reason, CompletionStats stats = {}) {
    events.emplace_back(FinishEvent{.reason = reason, .stats = std::move(stats)});
  }
  void Fail(ErrorCode code) {
    events.emplace_back(FinishEvent{.error = MakeError(code, "test", "failed")});
  }
};

class AnswerStream final : public EventStream {
 public:
  explicit AnswerStream(Answer& answer) : answer_(answer) {}
  ~AnswerStream() override { answer_.is_destroyed = true; }
  std::vector<CompletionEvent> Take() override { return std::exchange(answer_.events, {}); }
  void Cancel() override { ++answer_.num_cancels; }

 private:
  Answer& answer_;
};

struct Fixture {
  Fixture(size_t num_choices, int num_answers) : answers(num_choices) {
    std::vector<std::unique_ptr<EventStream>> streams;
    for (Answer& answer : answers) streams.push_back(std::make_unique<AnswerStream>(answer));
    stream = MergeStreams(std::move(streams), num_answers);
  }

  std::vector<Answer> answers;
  std::unique_ptr<EventStream> stream;
};

// Spells events as "0:text", "1=length" for a delta that ends, "end=stop", "error".
std::vector<std::string> Spell(const std::vector<CompletionEvent>& events) {
  std::vector<std::string> spelled;
  for (const CompletionEvent& event : events) {
    const auto name = [](FinishReason reason) {
      return reason == FinishReason::kStop ? "=stop" : "=length";
    };
    if (const auto* finish = std::get_if<FinishEvent>(&event)) {
      spelled.push_back(finish->error ? "error" : std::string("end") + name(finish->reason));
      continue;
    }
    const auto& delta = std::get<DeltaEvent>(event);
    spelled.push_back(std::to_string(delta.choice) +
                      (delta.finish ? name(*delta.finish) : ":" + delta.text));
  }
  return spelled;
}

TEST(MergedStreamTest, EventsCarryTheirChoiceAndOneEndDoesNotEndTheOthers) {
  Fixture fixture(3, 3);
  EXPECT_TRUE(fixture.stream->Take().empty());
  fixture.answers[2].Say("c");
  fixture.answers[0].Say("a");
  fixture.answers[0].End(FinishReason::kLength);
  EXPECT_THAT(Spell(fixture.stream->Take()), ElementsAre("0:a", "0=length", "2:c"));
  fixture.answers[2].End(FinishReason::kStop);
  EXPECT_THAT(Spell(fixture.stream->Take()), ElementsAre("2=stop"));
  fixture.answers[1].Say("b");
  fixture.answers[1].End(FinishReason::kLength);
  EXPECT_THAT(Spell(fixture.stream->Take()), ElementsAre("1:b", "end=length"));
  EXPECT_TRUE(fixture.stream->Take().empty());
}

TEST(MergedStreamTest, AnErrorOfOneEndsAllAndIsTheLastEvent) {
  Fixture fixture(3, 3);
  fixture.answers[0].Say("a");
  fixture.answers[1].Fail(ErrorCode::kOverloaded);
  fixture.answers[2].Say("c");
  EXPECT_THAT(Spell(fixture.stream->Take()), ElementsAre("0:a", "error"));
  for (const Answer& answer : fixture.answers) EXPECT_TRUE(answer.is_destroyed);
  EXPECT_TRUE(fixture.stream->Take().empty());
  fixture.stream->Cancel();  // must be harmless
}

TEST(MergedStreamTest, CancelAndDestructionReachEveryChoiceThatHasNotEnded) {
  Fixture fixture(3, 1);
  fixture.answers[1].End(FinishReason::kStop);
  (void)fixture.stream->Take();
  fixture.stream->Cancel();
  EXPECT_EQ(fixture.answers[0].num_cancels, 1);
  EXPECT_EQ(fixture.answers[1].num_cancels, 0);
  EXPECT_EQ(fixture.answers[2].num_cancels, 1);
  fixture.answers[2].Fail(ErrorCode::kCancelled);
  const auto events = fixture.stream->Take();
  EXPECT_EQ(std::get<FinishEvent>(events.back()).error->code, ErrorCode::kCancelled);
  Fixture dropped(2, 2);
  dropped.stream.reset();
  for (const Answer& answer : dropped.answers) EXPECT_TRUE(answer.is_destroyed);
}

TEST(MergedStreamTest, APromptCountsOnceAndWhatWasCachedForItsFirstAnswer) {
  Fixture fixture(4, 2);
  for (size_t i = 0; i < 4; ++i) {
    const int prompt = i < 2 ? 100 : 1000;
    const auto cached = static_cast<int>(i) * 8;
    fixture.answers[i].End(FinishReason::kStop,
                           {.num_prompt_tokens = prompt,
                            .num_output_tokens = 1 << i,
                            .num_cached_tokens = cached,
                            .num_device_tokens = cached / 2,
                            .num_disk_tokens = cached / 2,
                            .ttft_seconds = 1.0 + static_cast<double>(i),
                            .total_seconds = i == 2 ? 9.0 : 5.0,
                            .segments = {{.source = "user", .num_tokens = prompt}}});
  }
  const auto events = fixture.stream->Take();
  const CompletionStats& stats = std::get<FinishEvent>(events.back()).stats;
  EXPECT_EQ(stats.num_prompt_tokens, 1100);
  EXPECT_EQ(stats.num_output_tokens, 15);
  EXPECT_EQ(stats.num_cached_tokens, 0 + 16);
  EXPECT_EQ(stats.num_device_tokens, 8);
  EXPECT_EQ(stats.num_disk_tokens, 8);
  EXPECT_EQ(stats.ttft_seconds, 1.0);
  EXPECT_EQ(stats.total_seconds, 9.0);
  ASSERT_EQ(stats.segments.size(), 1u);
  EXPECT_EQ(stats.segments[0].num_tokens, 1100);
}

}  // namespace
}  // namespace kvgate::local
