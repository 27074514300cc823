#include "gateway/runtime/config_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/manual_clock.h"

namespace kvgate::runtime {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBegin = int64_t{1'700'000'000} * 1'000'000;  // 2023-11-14T22:13:20Z

std::string Stats(const ConfigStatus& status) {
  std::string text;
  dialect::form::JsonWriter json(text);
  status.WriteStats(json);
  return text;
}

std::string Metrics(const ConfigStatus& status) {
  std::string text;
  metrics::TextWriter writer(text);
  status.Collect(writer);
  return text;
}

TEST(ConfigStatusTest, AReloadThatFailsIsSaidAndChangesNoVersion) {
  test::ManualClock clock({}, kBegin);
  ConfigStatus status({}, "aaaa");
  EXPECT_EQ(Stats(status), R"({"version":"aaaa","loaded_at":"2023-11-14T22:13:20Z","reloads":0,)"
                           R"("failed_reloads":0,"error":null,"needs_start":""})");
  clock.Advance(std::chrono::seconds(10));
  status.OnFailedReload(MakeError(ErrorCode::kInvalidArgument, "config", "FILE:1: it is wrong"));
  EXPECT_EQ(Stats(status), R"({"version":"aaaa","loaded_at":"2023-11-14T22:13:20Z","reloads":0,)"
                           R"("failed_reloads":1,"error":"FILE:1: it is wrong","needs_start":""})");
  status.OnReload("bbbb", "[limits]");
  EXPECT_EQ(Stats(status), R"({"version":"bbbb","loaded_at":"2023-11-14T22:13:30Z","reloads":1,)"
                           R"("failed_reloads":1,"error":null,"needs_start":"[limits]"})");
}

TEST(ConfigStatusTest, TheMetricsHaveTheVersionInForceAlone) {
  ConfigStatus status({}, "aaaa");
  status.OnReload("bbbb", "");
  status.OnReload("cccc", "");
  status.OnFailedReload(MakeError(ErrorCode::kInvalidArgument, "config", "wrong"));
  const std::string text = Metrics(status);
  EXPECT_THAT(text, HasSubstr("\nkvgate_config_info{version=\"cccc\"} 1\n"));
  EXPECT_EQ(text.find("bbbb"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("\nkvgate_config_reloads_total{result=\"ok\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\nkvgate_config_reloads_total{result=\"failed\"} 1\n"));
}

}  // namespace
}  // namespace kvgate::runtime
