#include "gateway/proxy/handler/prompts/prompt_data.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/dialect/form/errors.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::proxy::handler::prompts {
namespace {

using Json = nlohmann::json;
using request::Route;

class PromptDataTest : public ::testing::Test {
 protected:
  Result<std::string> Answer(Route route, std::string name = {}, std::string version = {},
                             std::string body = {}) {
    const request::RoutePlace place{.route = route, .argument = name, .item = version};
    return AnswerPrompts(named.get(), {.place = place, .body = body});
  }
  Json Good(Route route, std::string name = {}, std::string version = {}, std::string body = {}) {
    const auto answer = Answer(route, name, version, body);
    EXPECT_TRUE(answer) << answer.error().ToString();
    return answer ? Json::parse(*answer) : Json();
  }
  int StatusOf(const Result<std::string>& answer) {
    return answer ? 200 : dialect::form::HttpStatus(answer.error());
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<session::prompts::NamedPrompts> named = *session::prompts::NamedPrompts::Open(
      &meta, {*session::prompts::MakeVersion({.name = "a", .version = "1"}, "Hi {{x}}", {})});
};

TEST_F(PromptDataTest, VersionsAreListedAndShown) {
  Good(Route::kPromptVersionPut, "a", "2", R"({"text":"two","share":0.25})");
  const Json list = Good(Route::kNamedPrompts)["data"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["name"], "a");
  EXPECT_EQ(list[0]["version"], "1");
  EXPECT_EQ(list[0]["share"], nullptr);
  EXPECT_EQ(list[0]["gets_rest"], true);
  EXPECT_EQ(list[0]["origin"], "config");
  EXPECT_EQ(list[0]["variables"], Json::parse(R"(["x"])"));
  EXPECT_FALSE(list[0].contains("text"));
  EXPECT_EQ(list[1]["share"], 0.25);
  EXPECT_EQ(list[1]["gets_rest"], false);
  EXPECT_EQ(list[1]["origin"], "api");
  EXPECT_GT(list[1]["created_us"].get<int64_t>(), 0);
  EXPECT_EQ(Good(Route::kNamedPrompt, "a")["data"], list);
  EXPECT_EQ(Good(Route::kPromptVersion, "a", "1")["text"], "Hi {{x}}");
}

TEST_F(PromptDataTest, AVersionIsSetOnceAndRemoved) {
  EXPECT_EQ(Good(Route::kPromptVersionPut, "b", "1", R"({"text":"one"})")["text"], "one");
  Good(Route::kPromptVersionPut, "b", "1", R"({"text":"one"})");
  EXPECT_EQ(StatusOf(Answer(Route::kPromptVersionPut, "b", "1", R"({"text":"two"})")), 409);
  EXPECT_EQ(Good(Route::kPromptVersionPut, "b", "1", R"({"share":0.5})")["share"], 0.5);
  EXPECT_EQ(Good(Route::kPromptVersionPut, "b", "1", R"({"share":null})")["share"], nullptr);
  EXPECT_EQ(Good(Route::kPromptVersionRemove, "b", "1")["removed"], 1);
  EXPECT_EQ(StatusOf(Answer(Route::kPromptVersionRemove, "b", "1")), 404);
  Good(Route::kPromptVersionPut, "b", "1", R"({"text":"another"})");
  Good(Route::kPromptVersionPut, "b", "2", R"({"text":"two"})");
  EXPECT_EQ(Good(Route::kNamedPromptRemove, "b")["removed"], 2);
}

TEST_F(PromptDataTest, WhatIsNotThereIsA404) {
  EXPECT_EQ(StatusOf(Answer(Route::kNamedPrompt, "z")), 404);
  EXPECT_EQ(StatusOf(Answer(Route::kPromptVersion, "a", "9")), 404);
  EXPECT_EQ(StatusOf(Answer(Route::kNamedPromptRemove, "z")), 404);
  EXPECT_EQ(StatusOf(Answer(Route::kNamedPromptRemove, "a")), 409) << "the configuration's";
}

TEST_F(PromptDataTest, BadInputIsNamed) {
  const auto field = [&](std::string body, std::string name = "b", std::string version = "1") {
    const auto answer = Answer(Route::kPromptVersionPut, name, version, body);
    EXPECT_EQ(StatusOf(answer), 400) << body;
    return answer ? "none" : answer.error().field;
  };
  EXPECT_EQ(field("[]"), "");
  EXPECT_EQ(field("{}"), "text");
  EXPECT_EQ(field(R"({"text":3})"), "text");
  EXPECT_EQ(field(R"({"text":""})"), "text");
  EXPECT_EQ(field(R"({"text":"x","share":"much"})"), "share");
  EXPECT_EQ(field(R"({"text":"x","share":1.5})"), "share");
  EXPECT_EQ(field(R"({"text":"x","shares":1})"), "shares");
  EXPECT_EQ(field(R"({"text":"x"})", "a b"), "name");
  EXPECT_EQ(field(R"({"text":"x"})", "b", "1@2"), "version");
  EXPECT_EQ(Good(Route::kNamedPrompts)["data"].size(), 1u);
}

TEST_F(PromptDataTest, AGatewayWithoutPromptsHasNone) {
  named.reset();
  EXPECT_EQ(Good(Route::kNamedPrompts)["data"].size(), 0u);
  EXPECT_EQ(StatusOf(Answer(Route::kPromptVersionPut, "a", "1", R"({"text":"x"})")), 404);
}

}  // namespace
}  // namespace kvgate::proxy::handler::prompts
