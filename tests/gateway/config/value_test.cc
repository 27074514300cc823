#include "gateway/config/value.h"

#include <gtest/gtest.h>

#include <array>

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

}  // namespace
}  // namespace kvgate::config
