#include "gateway/prompt/parse/json_scanner.h"

#include <gtest/gtest.h>

namespace kvgate::prompt::parse {
namespace {

TEST(JsonScanner, ValuesEndWhereTheyEnd) {
  for (const std::string_view value :
       {R"("a\"b\\")", R"({"a":[1,{"b":"]}"}]})", "-1.5e3", "true", "[]", "\"\""}) {
    const std::string text = "  " + std::string(value) + " ,";
    JsonScanner scanner(text);
    const auto span = scanner.Value();
    ASSERT_TRUE(span.has_value()) << value;
    EXPECT_EQ(span->In(text), value);
  }
  for (const std::string_view text : {"", "\"a", "\"a\\\"", "[1", "{\"a\":1", ","}) {
    EXPECT_FALSE(JsonScanner(text).Value().has_value()) << text;
  }
}

TEST(JsonScanner, ADecodedByteKnowsWhereItCameFrom) {
  const std::string_view json = R"("a\n\u00e9b")";
  std::string text;
  std::vector<uint32_t> offsets;
  ASSERT_TRUE(DecodeString(json, text, &offsets));
  EXPECT_EQ(text,
            "a\n\xC3\xA9"
            "b");
  EXPECT_EQ(offsets, (std::vector<uint32_t>{1, 2, 4, 4, 10, 11}));
}

TEST(JsonScanner, NamesAreComparedAsTheyRead) {
  EXPECT_TRUE(NameIs("model", "model"));
  EXPECT_TRUE(NameIs("m\\u006fdel", "model"));
  EXPECT_FALSE(NameIs("m\\u006edel", "model"));
}

}  // namespace
}  // namespace kvgate::prompt::parse
