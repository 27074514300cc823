#include "gateway/proxy/request/query.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::proxy::request {
namespace {

TEST(QueryTest, TheValuesOfAQueryAreFoundAndDecoded) {
  constexpr std::string_view kTarget = "/kvgate/v1/requests?limit=5&before=a%2Fb&flag#part=2";
  EXPECT_EQ(QueryOf(kTarget), "limit=5&before=a%2Fb&flag");
  EXPECT_EQ(QueryValue(kTarget, "limit"), "5");
  EXPECT_EQ(QueryValue(kTarget, "before"), "a/b");
  EXPECT_EQ(QueryValue(kTarget, "flag"), "");
  EXPECT_EQ(QueryValue(kTarget, "imit"), "");
  EXPECT_EQ(QueryValue(kTarget, "part"), "");
  EXPECT_EQ(QueryValue("/kvgate/v1/requests", "limit"), "");
}

TEST(QueryTest, ParametersComeInTheirOrderDecoded) {
  EXPECT_EQ(ParametersOf("/x?b=1&a=%C3%A4&&c&b==2#d=3"),
            (QueryParameters{{"b", "1"}, {"a", "\xC3\xA4"}, {"c", ""}, {"b", "=2"}}));
  EXPECT_TRUE(ParametersOf("/x").empty());
  EXPECT_TRUE(ParametersOf("/x?").empty());
}

TEST(QueryTest, MalformedEscapesStayAsTheyAre) {
  EXPECT_EQ(PercentDecode("%2f%2F%41"), "//A");
  EXPECT_EQ(PercentDecode("%"), "%");
  EXPECT_EQ(PercentDecode("%2"), "%2");
  EXPECT_EQ(PercentDecode("%zz%2x"), "%zz%2x");
}

}  // namespace
}  // namespace kvgate::proxy::request
