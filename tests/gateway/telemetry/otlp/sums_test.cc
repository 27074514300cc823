#include "gateway/telemetry/otlp/sums.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::telemetry::otlp {
namespace {

using Json = nlohmann::json;

Span Answered(const std::string& model, bool is_local = false) {
  return {.id = "0123456789abcdef01234567",
          .duration_us = 1'500'000,
          .is_local = is_local,
          .operation = "chat",
          .provider = is_local ? "kvgate" : "openai",
          .model = model,
          .status = 200,
          .first_chunk_us = 500'000,
          .tpot_us = 100'000,
          .usage = ledger::reply::TokenUsage{.uncached_tokens = 30,
                                             .cache_read_tokens = 70,
                                             .cache_write_tokens = 5,
                                             .output_tokens = 11}};
}

std::map<std::string, Json> Written(const Sums& sums) {
  std::string text;
  dialect::form::JsonWriter json(text);
  json.BeginArray();
  sums.Write(2'000, json);
  json.EndArray();
  std::map<std::string, Json> found;
  for (const Json& metric : Json::parse(text)) {
    EXPECT_TRUE(found.emplace(metric["name"], metric).second) << metric["name"];
  }
  return found;
}

TEST(SumsTest, CountersAndHistogramsAreCumulative) {
  Sums sums(1'000);
  EXPECT_TRUE(sums.empty());
  sums.Add(Answered("gpt-x"));
  sums.Add(Answered("gpt-x"));
  EXPECT_FALSE(sums.empty());
  auto found = Written(sums);
  const Json input = found["gen_ai.client.inference.usage.input_tokens"]["sum"];
  EXPECT_EQ(input["aggregationTemporality"], 2);
  EXPECT_EQ(input["isMonotonic"], true);
  ASSERT_EQ(input["dataPoints"].size(), 1u);
  EXPECT_EQ(input["dataPoints"][0]["asInt"], "210");
  EXPECT_EQ(input["dataPoints"][0]["startTimeUnixNano"], "1000000");
  EXPECT_EQ(input["dataPoints"][0]["timeUnixNano"], "2000000");
  const Json duration = found["gen_ai.client.operation.duration"]["histogram"]["dataPoints"][0];
  EXPECT_EQ(duration["count"], "2");
  EXPECT_EQ(duration["sum"], 3.0);
  EXPECT_EQ(duration["bucketCounts"].size(), duration["explicitBounds"].size() + 1);
  EXPECT_EQ(duration["bucketCounts"][8], "2") << "1.28 < 1.5 <= 2.56";
  const Json tokens = found["gen_ai.client.token.usage"]["histogram"]["dataPoints"];
  ASSERT_EQ(tokens.size(), 2u) << "input and output";
  EXPECT_EQ(
      found["gen_ai.client.operation.time_per_output_chunk"]["histogram"]["dataPoints"][0]["sum"],
      0.2);
}

TEST(SumsTest, OnlyTheEngineIsAServer) {
  Sums sums(0);
  sums.Add(Answered("gpt-x"));
  EXPECT_TRUE(
      Written(sums)["gen_ai.server.time_to_first_token"]["histogram"]["dataPoints"].empty());
  sums.Add(Answered("tiny", /*is_local=*/true));
  EXPECT_EQ(Written(sums)["gen_ai.server.time_to_first_token"]["histogram"]["dataPoints"].size(),
            1u);
}

TEST(SumsTest, SeriesAreBoundedAndRefusedModelsAreNotNamed) {
  Sums sums(0);
  for (int i = 0; i < 1000; ++i) {
    Span refused = Answered("invented-" + std::to_string(i));
    refused.status = 404;
    refused.error_type = "404";
    refused.usage.reset();
    sums.Add(refused);
  }
  const auto points = [&] {
    return Written(sums)["gen_ai.client.operation.duration"]["histogram"]["dataPoints"];
  };
  EXPECT_EQ(points().size(), 1u);
  EXPECT_EQ(points()[0].dump().find("invented"), std::string::npos);
  for (int i = 0; i < 1000; ++i) sums.Add(Answered("model-" + std::to_string(i)));
  EXPECT_LE(points().size(), Sums::kSeriesMax);
  int64_t count = 0;
  for (const Json& point : points()) count += std::stoll(point["count"].get<std::string>());
  EXPECT_EQ(count, 2000);
}

}  // namespace
}  // namespace kvgate::telemetry::otlp
