#include "gateway/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kvgate::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RegistryTest, TextIsThePrometheusFormat) {
  Registry registry;
  registry.AddCounter("kvgate_a_total", "A things.").Add(3);
  registry.AddGauge("kvgate_b", "B now.").Set(-2);
  Histogram& histogram = registry.AddHistogram("kvgate_c_seconds", "C.", {0.5, 1});
  histogram.Observe(0.5);
  histogram.Observe(0.75);
  histogram.Observe(7);
  EXPECT_EQ(registry.Text(),
            "# HELP kvgate_a_total A things.\n# TYPE kvgate_a_total counter\nkvgate_a_total 3\n"
            "# HELP kvgate_b B now.\n# TYPE kvgate_b gauge\nkvgate_b -2\n"
            "# HELP kvgate_c_seconds C.\n# TYPE kvgate_c_seconds histogram\n"
            "kvgate_c_seconds_bucket{le=\"0.5\"} 1\nkvgate_c_seconds_bucket{le=\"1\"} 2\n"
            "kvgate_c_seconds_bucket{le=\"+Inf\"} 3\nkvgate_c_seconds_sum 8.25\n"
            "kvgate_c_seconds_count 3\n");
}

TEST(RegistryTest, LabelValuesAreEscaped) {
  Registry registry;
  registry.AddCounterFamily("kvgate_x_total", "X.", {"route"}).With({"a\"b\\c\nd"}).Add();
  EXPECT_THAT(registry.Text(), HasSubstr("{route=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST(CounterFamilyTest, SeriesBeyondTheBoundCountAsOther) {
  Registry registry;
  CounterFamily& family = registry.AddCounterFamily("kvgate_x_total", "X.", {"k"}, 4);
  for (int i = 0; i < 100; ++i) family.With({std::to_string(i)}).Add();
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("{k=\"2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("{k=\"other\"} 97\n"));
  EXPECT_THAT(text, Not(HasSubstr("{k=\"3\"}")));
}

TEST(RegistryTest, NothingIsLostBetweenThreads) {
  Registry registry;
  Counter& counter = registry.AddCounter("kvgate_n_total", "N.");
  Histogram& histogram = registry.AddHistogram("kvgate_h_seconds", "H.", LatencyBounds());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        counter.Add();
        histogram.Observe(0.5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 40'000u);
  EXPECT_EQ(histogram.count(), 40'000u);
  EXPECT_EQ(histogram.sum(), 20'000.0);
}

}  // namespace
}  // namespace kvgate::metrics
