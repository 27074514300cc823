#include "gateway/cli/agents/config_edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::cli::agents {
namespace {

using ::testing::ElementsAre;

std::string Json(std::string_view text, std::vector<std::string> at, nlohmann::json to) {
  return ApplyEdits(text, ConfigFormat::kJson, {{std::move(at), std::move(to)}}).value();
}

TEST(ConfigEditTest, EverythingElseInAJsonFileStaysAsItWas) {
  const std::string text =
      "// mine\n{\n    \"b\": [1, {\"url\": \"}\\\"\"}], /* {why} */\n    \"env\": {\n"
      "        \"A\": \"1\"\n    },\n    \"a\": 1.50\n}\n";
  EXPECT_EQ(Json(text, {"env", "URL"}, "x"),
            "// mine\n{\n    \"b\": [1, {\"url\": \"}\\\"\"}], /* {why} */\n    \"env\": {\n"
            "        \"A\": \"1\",\n        \"URL\": \"x\"\n    },\n    \"a\": 1.50\n}\n");
  EXPECT_EQ(Json(text, {"a"}, 2).find("\"a\": 2\n"), Json(text, {"a"}, 2).find("\"a\""));
  EXPECT_EQ(Json(text, {"env", "A"}, "1"), text);
}

TEST(ConfigEditTest, WhatIsMissingOnTheWayIsMade) {
  EXPECT_EQ(Json("", {"a", "b"}, "x"), "{\n  \"a\": {\n    \"b\": \"x\"\n  }\n}\n");
  EXPECT_EQ(Json("{\"a\": {}}", {"a", "b"}, 1), "{\"a\": {\n    \"b\": 1\n  }}");
  const std::string made = Json("{\"c\":1}", {"a"}, {{"x", {{"y", "z"}}}});
  EXPECT_EQ(nlohmann::json::parse(made), nlohmann::json::parse(R"({"c":1,"a":{"x":{"y":"z"}}})"));
}

TEST(ConfigEditTest, WhatIsNoObjectIsRefused) {
  for (const std::string_view text : {"[1]", "{\"a\": 1,}", "{", "{\"a\": 1}"}) {
    const auto failed = ApplyEdits(text, ConfigFormat::kJson, {{{"a", "b"}, 1}});
    ASSERT_FALSE(failed) << text;
    EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ConfigEditTest, ATomlNameOfTheTopLevelIsSetInFrontOfTables) {
  const auto set = [](std::string_view text) {
    return ApplyEdits(text, ConfigFormat::kToml, {{{"url"}, "x"}}).value();
  };
  EXPECT_EQ(set(""), "url = \"x\"\n");
  EXPECT_EQ(set("a = 1\n[t]\nurl = 2\n"), "url = \"x\"\na = 1\n[t]\nurl = 2\n");
  EXPECT_EQ(set("a = 1\nurl=2 # old\n[t]\n"), "a = 1\nurl = \"x\"\n[t]\n");
  EXPECT_EQ(set("url_other = 2\n"), "url = \"x\"\nurl_other = 2\n");
}

TEST(ConfigEditTest, AYamlNameOfTheTopLevelIsReplacedOrAdded) {
  const auto set = [](std::string_view text) {
    return ApplyEdits(text, ConfigFormat::kYaml, {{{"URL"}, "x"}}).value();
  };
  EXPECT_EQ(set("a: 1\nb:\n  URL: 3"), "a: 1\nb:\n  URL: 3\nURL: \"x\"\n");
  EXPECT_EQ(set("URL: old\na: 1\n"), "URL: \"x\"\na: 1\n");
}

TEST(ConfigEditTest, ADiffShowsChangesAndWhatIsAroundThem) {
  EXPECT_THAT(DiffLines("a\nb\n", "a\nb\n"), ElementsAre());
  EXPECT_THAT(DiffLines("1\n2\n3\n4\nold\n6\n7\n8\n9\n", "1\n2\n3\n4\nnew\n6\n7\n8\n9\nend\n"),
              ElementsAre(" 3", " 4", "-old", "+new", " 6", " 7", " 8", " 9", "+end"));
  EXPECT_THAT(DiffLines("", "x"), ElementsAre("+x"));
}

}  // namespace
}  // namespace kvgate::cli::agents
