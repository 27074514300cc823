#include "gateway/dialect/form/json_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/utf8.h"

namespace kvgate::dialect::form {
namespace {

TEST(JsonWriterTest, WritesNestedValuesInOrder) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("a").Integer(-1).Key("b").BeginArray();
  json.Bool(true).Null().Unsigned(18446744073709551615ull).BeginObject().EndObject();
  json.EndArray().Key("c\"").Raw("[1]").Key("d").Number(0.1).EndObject();
  EXPECT_EQ(out, R"({"a":-1,"b":[true,null,18446744073709551615,{}],"c\"":[1],"d":0.1})");
}

TEST(JsonWriterTest, NumbersThatJsonLacksAreNull) {
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  json.Number(std::numeric_limits<double>::infinity());
  json.Number(std::numeric_limits<double>::quiet_NaN()).EndArray();
  EXPECT_EQ(out, "[null,null]");
}

TEST(JsonWriterTest, AnyBytesGiveValidJsonAndValidTextSurvives) {
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (size_t i = 0; i < random() % 20; ++i) bytes += static_cast<char>(random());
    std::string out;
    AppendJsonString(bytes, out);
    const auto parsed = nlohmann::json::parse(out, nullptr, false);
    ASSERT_TRUE(parsed.is_string());
    EXPECT_TRUE(IsValidUtf8(out));
    if (IsValidUtf8(bytes)) {
      EXPECT_EQ(parsed.get<std::string>(), bytes);
    }
  }
}

TEST(IsValidUtf8Test, KnowsTheEdges) {
  for (const char* good : {"", "a", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(IsValidUtf8(good)) << good;
  for (const char* bad : {"\x80", "\xC0\x80", "\xC3", "\xE0\x9F\xBF", "\xED\xA0\x80",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xFF"})
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
}

}  // namespace
}  // namespace kvgate::dialect::form
