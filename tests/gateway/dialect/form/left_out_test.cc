#include "gateway/dialect/form/left_out.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvgate::dialect::form {
namespace {

TEST(LeftOutTest, NamesFitIntoAHeaderAndStandThereOnce) {
  std::vector<std::string> left_out;
  for (const std::string_view what : {"image", "web_search", "image", "a\r\nb: c", ""}) {
    AddLeftOut(what, left_out);
  }
  EXPECT_EQ(left_out, (std::vector<std::string>{"image", "web_search", "other"}));
  for (int i = 0; i < 100; ++i) AddLeftOut("tool_" + std::to_string(i), left_out);
  EXPECT_EQ(left_out.size(), kLeftOutMax);
  EXPECT_FALSE(IsLeftOutName(std::string(65, 'a')));
}

TEST(LeftOutTest, APlaceholderSaysWhatStoodThereOnOneLine) {
  const std::string text =
      PlaceholderOf({.what = "file", .type = "application/pdf", .name = "a\n\"b\".pdf"});
  EXPECT_EQ(text.find("[file left out: \"ab.pdf\" (application/pdf). "), 0u) << text;
  EXPECT_EQ(PlaceholderOf({.what = "image"}).find("[image left out. "), 0u);
  EXPECT_LT(PlaceholderOf({.what = "file", .name = std::string(10'000, 'x')}).size(), 300u);
  EXPECT_EQ(MediaTypeOfUrl("data:image/png;base64,AA=="), "image/png");
  EXPECT_EQ(MediaTypeOfUrl("https://x/y.png"), "");
}

TEST(LeftOutTest, OnlyTheFirstLineIsABillingHeader) {
  EXPECT_EQ(WithoutBillingHeader("x-anthropic-billing-header: a; cch=1;"), "");
  EXPECT_EQ(WithoutBillingHeader("x-anthropic-billing-header: a;\n\nrules\nmore"), "rules\nmore");
  EXPECT_EQ(WithoutBillingHeader("rules\nx-anthropic-billing-header: a;"),
            "rules\nx-anthropic-billing-header: a;");
}

}  // namespace
}  // namespace kvgate::dialect::form
