#include "gateway/config/value.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace kvgate::config {
namespace {

TEST(ValueTest, AFlagsTextIsWhatAFileWouldHold) {
  EXPECT_EQ(FromText("12"), Value(int64_t{12}));
  EXPECT_EQ(FromText("true"), Value(true));
  EXPECT_EQ(FromText("0.5"), Value(std::string("0.5")));
  EXPECT_EQ(FromText("12 GiB"), Value(std::string("12 GiB")));
}

TEST(ValueTest, WhatIsWrongIsSaidWithTheValueAndTheLimit) {
  int integer = 7;
  EXPECT_EQ(SetInteger(Value(int64_t{0}), 1, 256, integer), "must be between 1 and 256, not 0");
  EXPECT_EQ(SetInteger(Value(true), 1, 256, integer), "must be an integer, not a boolean");
  EXPECT_EQ(integer, 7);
  EXPECT_EQ(SetInteger(Value(int64_t{9}), 1, 256, integer), std::nullopt);
  EXPECT_EQ(integer, 9);
}

TEST(ValueTest, AMisspeltChoiceIsAskedBack) {
  constexpr std::array<std::string_view, 3> kChoices = {"f32", "f16", "q8_0"};
  std::string chosen;
  EXPECT_EQ(SetChoice(Value(std::string("fp16")), kChoices, chosen),
            "must be one of f32, f16, q8_0, not \"fp16\"; did you mean 'f16'?");
  EXPECT_EQ(SetChoice(Value(std::string("q8_0")), kChoices, chosen), std::nullopt);
  EXPECT_EQ(chosen, "q8_0");
}

TEST(ValueTest, SharesAscendFromAboveZeroToOne) {
  std::vector<double> shares = {7};
  EXPECT_EQ(SetShares(Value(std::vector<double>{0.5, 0.5}), shares),
            "must be ascending, above 0 and at most 1; 0.5 is not");
  EXPECT_NE(SetShares(Value(std::vector<double>{0, 1}), shares), std::nullopt);
  EXPECT_NE(SetShares(Value(std::vector<double>{1.5}), shares), std::nullopt);
  EXPECT_NE(SetShares(Value(std::vector<std::string>{"0.5"}), shares), std::nullopt);
  EXPECT_NE(SetShares(Value(true), shares), std::nullopt);
  EXPECT_EQ(shares, std::vector<double>{7});
  EXPECT_EQ(SetShares(Value(std::vector<double>{0.5, 1}), shares), std::nullopt);
  EXPECT_EQ(shares, (std::vector<double>{0.5, 1}));
  EXPECT_EQ(SetShares(FromText("0.25,0.75"), shares), std::nullopt);
  EXPECT_EQ(shares, (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(SetShares(FromText("1"), shares), std::nullopt);
  EXPECT_EQ(shares, std::vector<double>{1});
  EXPECT_EQ(SetShares(Value(std::vector<std::string>{}), shares), std::nullopt) << "none";
  EXPECT_TRUE(shares.empty());
}

TEST(ValueTest, AWebhookOnAnotherMachineIsHttps) {
  std::string url;
  EXPECT_EQ(SetWebhook(Value(std::string("http://hooks.example/a")), url),
            "must be https, because its host is another machine");
  EXPECT_EQ(SetWebhook(Value(std::string("https://hooks.example/a")), url), std::nullopt);
  EXPECT_EQ(SetWebhook(Value(std::string("http://127.0.0.1:9000/a")), url), std::nullopt);
  EXPECT_EQ(url, "http://127.0.0.1:9000/a");
  EXPECT_EQ(SetWebhook(Value(std::string()), url), std::nullopt);
  EXPECT_EQ(url, "");
}

}  // namespace
}  // namespace kvgate::config
