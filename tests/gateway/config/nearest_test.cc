#include "gateway/config/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace kvgate::config {
namespace {

constexpr std::array<std::string_view, 6> kKnown = {"serve", "stats",    "cache",
                                                    "chat",  "kv_dtype", "kv_memory"};

TEST(NearestTest, AMisspeltWordIsFound) {
  EXPECT_EQ(Nearest("serv", kKnown), "serve");
  EXPECT_EQ(Nearest("sevre", kKnown), "serve");
  EXPECT_EQ(Nearest("Stat", kKnown), "stats");
  EXPECT_EQ(Nearest("caceh", kKnown), "cache");
  EXPECT_EQ(Nearest("kvdtype", kKnown), "kv_dtype");
  EXPECT_EQ(Nearest("kv-dtype", kKnown), "kv_dtype");
  EXPECT_EQ(Nearest("kv_mem", kKnown), "kv_memory");
}

TEST(NearestTest, AnotherWordIsNot) {
  EXPECT_EQ(Nearest("frobnicate", kKnown), "");
  EXPECT_EQ(Nearest("", kKnown), "");
  EXPECT_EQ(Nearest(std::string(10'000, 's'), kKnown), "");
}

TEST(NearestTest, TheQuestionNamesIt) {
  EXPECT_EQ(DidYouMean("serv", kKnown), "; did you mean 'serve'?");
  EXPECT_EQ(DidYouMean("frobnicate", kKnown), "");
}

}  // namespace
}  // namespace kvgate::config
