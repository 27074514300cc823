#include "gateway/metrics/answer_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace kvgate::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(AnswerMetricsTest, TheEnginesHistogramsAreThereFromTheStart) {
  Registry registry;
  AnswerMetrics metrics(registry);
  EXPECT_EQ(&metrics.Of("local"), &metrics.local());
  for (const char* name :
       {"kvgate_ttft_seconds", "kvgate_itl_seconds", "kvgate_tpot_seconds", "kvgate_queue_seconds",
        "kvgate_prefill_seconds", "kvgate_decode_seconds", "kvgate_completion_seconds",
        "kvgate_prompt_length_tokens"}) {
    EXPECT_THAT(registry.Text(), HasSubstr(std::string(name) + "_count{upstream=\"local\"} 0\n"));
  }
}

TEST(AnswerMetricsTest, EachUpstreamHasItsOwn) {
  Registry registry;
  AnswerMetrics metrics(registry);
  metrics.Of("main").ttft_seconds.Observe(0.25);
  EXPECT_EQ(&metrics.Of("main"), &metrics.Of("main"));
  EXPECT_THAT(registry.Text(), HasSubstr("kvgate_ttft_seconds_sum{upstream=\"main\"} 0.25\n"));
  EXPECT_THAT(registry.Text(), HasSubstr("kvgate_ttft_seconds_sum{upstream=\"local\"} 0\n"));
}

TEST(AnswerMetricsTest, UpstreamsBeyondTheBoundCountAsOther) {
  Registry registry;
  AnswerMetrics metrics(registry);
  for (int i = 0; i < 200; ++i) metrics.Of("u" + std::to_string(i)).queue_seconds.Observe(1);
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("kvgate_queue_seconds_count{upstream=\"u61\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_queue_seconds_count{upstream=\"other\"} 138\n"));
  EXPECT_THAT(text, Not(HasSubstr("u62")));
}

TEST(AnswerMetricsTest, ThreadsThatMeetANewUpstreamGetTheSameHistograms) {
  Registry registry;
  AnswerMetrics metrics(registry);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        metrics.Of("u" + std::to_string(i % 20)).queue_seconds.Observe(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(metrics.Of("u" + std::to_string(i)).queue_seconds.count(), 200u);
  }
}

}  // namespace
}  // namespace kvgate::metrics
