#include "gateway/local/shared_numbers.h"

#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

namespace kvgate::local {
namespace {

SharedNumbers Numbers() {
  SharedNumbers numbers;
  numbers.blocks = {.num_looked_up = 10, .num_found = 4, .num_reads = 3, .read_bytes = 300};
  numbers.client.num_calls = 7;
  numbers.client.num_failed = 2;
  numbers.client.endpoint = "127.0.0.1:6379";
  numbers.engine.restore_bytes_per_second = 99;
  return numbers;
}

TEST(SharedNumbersTest, TheJsonSaysWhatTheStoreDid) {
  std::string text;
  dialect::form::JsonWriter json(text);
  WriteShared(Numbers(), json);
  const auto read = nlohmann::json::parse(text);
  EXPECT_EQ(read["reachable"], true);
  EXPECT_EQ(read["endpoint"], "127.0.0.1:6379");
  EXPECT_EQ(read["found"], 4);
  EXPECT_EQ(read["read_bytes"], 300);
  EXPECT_EQ(read["restore_bytes_per_second"], 99);
}

TEST(SharedNumbersTest, AStoreThatFailedOrPausesIsNotUp) {
  for (const bool is_paused : {false, true}) {
    SharedNumbers numbers = Numbers();
    numbers.client.is_paused = is_paused;
    if (!is_paused) numbers.client.error = "no answer";
    std::string text;
    metrics::TextWriter writer(text);
    CollectShared(numbers, writer);
    EXPECT_NE(text.find("kvgate_shared_up 0\n"), std::string::npos) << text;
    EXPECT_NE(text.find("kvgate_shared_calls_total{result=\"ok\"} 5\n"), std::string::npos);
    EXPECT_NE(text.find("kvgate_shared_lookups_total{result=\"miss\"} 6\n"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvgate::local
