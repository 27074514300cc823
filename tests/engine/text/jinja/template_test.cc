#include "engine/text/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "tests/engine/model/test_paths.h"
#include "tests/engine/text/jinja/render.h"

namespace kvgate::jinja {

using value::Data;

namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Data ToData(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    Data::List list;
    for (const Json& item : json) list.push_back(ToData(item));
    return list;
  }
  Data::Dict dict;
  for (const auto& [key, value] : json.items()) dict.emplace_back(key, ToData(value));
  return json.is_null() ? Data() : Data(std::move(dict));
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// These tests render the reference templates and compare with the texts that Jinja2 itself
// produced.
class SharedTemplates : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = model::TestDataPath("templates");
    if (!std::filesystem::exists(folder_ / "conversations.json")) {
      GTEST_SKIP() << folder_ << " is not there (KVGATE_TEST_DATA)";
    }
    conversations_ = Json::parse(ReadFile(folder_ / "conversations.json"));
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() == ".jinja") paths_.push_back(entry.path());
    }
    std::sort(paths_.begin(), paths_.end());
  }

  Data::Dict Variables(const Json& conversation, bool add_generation_prompt) {
    return {{"messages", ToData(conversation["messages"])},
            {"tools", ToData(conversation["tools"])},
            {"documents", Data()},
            {"add_generation_prompt", add_generation_prompt},
            {"bos_token", "<s>"},
            {"eos_token", "</s>"}};
  }

  std::filesystem::path folder_;
  Json conversations_;
  std::vector<std::filesystem::path> paths_;
};

TEST_F(SharedTemplates, EveryCaseRendersExactlyOrFailsAsTheTemplateSays) {
  size_t num_cases = 0;
  for (const auto& path : paths_) {
    const std::string source = ReadFile(path);
    const Json expected = Json::parse(ReadFile(path.string() + ".json"));
    for (const Json& test : expected["cases"]) {
      ++num_cases;
      const std::string name = test["case"];
      const auto rendered =
          TryRender(source, Variables(conversations_[name], test["add_generation_prompt"]));
      if (test.contains("error")) {
        ASSERT_FALSE(rendered) << path << " " << name;
        EXPECT_EQ(rendered.error().kind, syntax::Failure::Kind::kRaised);
        EXPECT_EQ(rendered.error().message, test["error"].get<std::string>());
      } else {
        ASSERT_TRUE(rendered) << path << " " << name << ": " << rendered.error().ToString("");
        EXPECT_EQ(rendered->text, test["expected"].get<std::string>()) << path << " " << name;
      }
    }
  }
  EXPECT_GE(num_cases, paths_.size());
}

TEST(TemplateTest, FailuresSayLineAndColumn) {
  const auto unclosed = Template::Parse("a\n  {% if x %}");
  ASSERT_FALSE(unclosed);
  EXPECT_EQ(unclosed.error().kind, syntax::Failure::Kind::kSyntax);
  EXPECT_THAT(unclosed.error().ToString("chat.jinja"), HasSubstr("chat.jinja:2:13: "));
  EXPECT_EQ(Render("é\n{{ 'é' ~ x.y }}"), "ERROR:2:11: 'x' is undefined");
  EXPECT_EQ(Render("{{ 'a'|nosuch }}"), "ERROR:1:8: No filter named 'nosuch'.");
  EXPECT_EQ(Render("{{ raise_exception('no ' ~ 1) }}"), "ERROR:1:19: no 1");
}

TEST(TemplateTest, TheTimeIsTheOneGiven) {
  EXPECT_EQ(Render("{{ strftime_now('%d %b %Y, %A %H:%M:%S %f %%') }}"),
            "14 Mar 2026, Saturday 09:26:53 000000 %");
  EXPECT_FALSE(ParseTime("2026-02-30 00:00:00"));
  EXPECT_FALSE(ParseTime("2026-02-03 00:00:00 "));
  EXPECT_FALSE(ParseTime("2026-02-03"));
  EXPECT_FALSE(ParseTime("2026-02-03T"));
  EXPECT_FALSE(ParseTime("2026-02-03TT00:00:00"));
  std::optional<std::tm> spaced = ParseTime("2026-03-14 09:26:53");
  std::optional<std::tm> iso = ParseTime("2026-03-14T09:26:53");
  ASSERT_TRUE(spaced && iso);
  EXPECT_EQ(timegm(&*iso), timegm(&*spaced));
}

}  // namespace
}  // namespace kvgate::jinja
