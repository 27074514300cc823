#include "gateway/dialect/reply/reply_encoder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::dialect::reply {
namespace {

TEST(WriteExplainTest, SaysWhereThePrefixCameFromAndWhatItCovered) {
  const form::CompletionStats stats{.num_prompt_tokens = 100,
                                    .num_cached_tokens = 64,
                                    .num_device_tokens = 32,
                                    .num_disk_tokens = 32,
                                    .num_shared_tokens = 64,
                                    .queue_seconds = 0.001,
                                    .ttft_seconds = 0.25,
                                    .total_seconds = 1.5,
                                    .logits_hash = 0xabc,
                                    .segments = {{.source = "system", .num_tokens = 50},
                                                 {.source = "history", .num_tokens = 30},
                                                 {.source = "user", .num_tokens = 20}}};
  std::string out;
  form::JsonWriter json(out);
  WriteExplain(stats, "req", json);
  const auto explain = nlohmann::json::parse(out);
  EXPECT_EQ(explain["request_id"], "req");
  EXPECT_EQ(explain["cached_tokens"], 64);
  EXPECT_EQ(explain["tiers"],
            nlohmann::json({{"device", 32}, {"host", 0}, {"disk", 32}, {"shared", 64}}));
  EXPECT_EQ(explain["ttft_ms"], 250);
  EXPECT_EQ(explain["timings"]["queue_ms"], 1);
  EXPECT_EQ(explain["timings"]["total_ms"], 1500);
  EXPECT_EQ(explain["logits_hash"], "0000000000000abc");
  EXPECT_EQ(explain["attribution"][0]["cached_tokens"], 50);
  EXPECT_EQ(explain["attribution"][1]["cached_tokens"], 14);
  EXPECT_EQ(explain["attribution"][2]["cached_tokens"], 0);
  EXPECT_TRUE(explain["restore_given_up"].is_null());
}

TEST(WriteExplainTest, SaysWhyStoredKvWasComputedAnew) {
  std::string out;
  form::JsonWriter json(out);
  WriteExplain({.given_up = {.reason = "late",
                             .num_tokens = 38'560,
                             .load_seconds = 0.141,
                             .compute_seconds = 2.79}},
               "req", json);
  const auto told = nlohmann::json::parse(out)["restore_given_up"];
  EXPECT_EQ(told["reason"], "late");
  EXPECT_EQ(told["tokens"], 38'560);
  EXPECT_DOUBLE_EQ(told["load_ms"].get<double>(), 141);
  EXPECT_DOUBLE_EQ(told["compute_ms"].get<double>(), 2790);
}

TEST(ReplyIdTest, NamesTheDialect) {
  ReplyOptions options;
  options.request_id = "7";
  EXPECT_EQ(ReplyId(options), "chatcmpl-7");
  options.dialect = form::Dialect::kCompletions;
  EXPECT_EQ(ReplyId(options), "cmpl-7");
}

}  // namespace
}  // namespace kvgate::dialect::reply
