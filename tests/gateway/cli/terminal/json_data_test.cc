#include "gateway/cli/terminal/json_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::cli::terminal {
namespace {

using jinja::value::Data;

TEST(JsonDataTest, KeysKeepTheirOrderAndNumbersTheirKind) {
  const auto data = ParseJsonData(R"({"b":[1,-2,1.0,true,null],"a":{"x":"é"}})");
  ASSERT_TRUE(data);
  const auto& dict = std::get<Data::Dict>(data->value());
  ASSERT_EQ(dict.size(), 2u);
  EXPECT_EQ(dict[0].first, "b");
  const auto& list = std::get<Data::List>(dict[0].second.value());
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(std::get<int64_t>(list[0].value()), 1);
  EXPECT_EQ(std::get<int64_t>(list[1].value()), -2);
  EXPECT_EQ(std::get<double>(list[2].value()), 1.0);
  EXPECT_TRUE(std::get<bool>(list[3].value()));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(list[4].value()));
  EXPECT_EQ(dict[1].first, "a");
}

TEST(JsonDataTest, NumbersPast64BitsKeepTheirDigits) {
  for (const char* digits :
       {"18446744073709551615", "123456789012345678901234567890", "-9223372036854775809"}) {
    const auto data = ParseJsonData(digits);
    ASSERT_TRUE(data);
    EXPECT_EQ(std::get<Data::BigInteger>(data->value()).digits, digits);
  }
}

TEST(JsonDataTest, WhatIsNoJsonIsRefusedWithThePlace) {
  const auto bad = ParseJsonData("{\"a\":\n 1,}");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().detail, ::testing::HasSubstr("line 2, column 4"));
  const auto deep = ParseJsonData(std::string(100000, '['));
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().detail, ::testing::HasSubstr("nested"));
}

}  // namespace
}  // namespace kvgate::cli::terminal
