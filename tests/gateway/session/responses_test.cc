#include "gateway/session/responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/service/kept_responses.h"

namespace kvgate::session {
namespace {

using nlohmann::json;
using test::Body;
using test::KeptResponses;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string Previous(const json& response) {
  return R"(,"previous_response_id":")" + response["id"].get<std::string>() + "\"";
}

TEST(ResponsesTest, AResponseGoesOnFromTheOneBefore) {
  KeptResponses kept;
  const auto first = kept.Ask(Body(R"("one")", R"(,"instructions":"rules")"));
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_EQ((*first)["output"][0]["content"][0]["text"], "Hello world!");
  EXPECT_EQ((*first)["store"], true);
  EXPECT_EQ(kept.Prompt(), "system: rules\nuser: one\nassistant:");
  const auto second = kept.Ask(Body(R"("two")", Previous(*first)));
  ASSERT_TRUE(second) << second.error().ToString();
  // Instructions belong to one request alone.
  EXPECT_EQ(kept.Prompt(), "user: one\nassistant: Hello world!\nuser: two\nassistant:");
  EXPECT_EQ((*second)["previous_response_id"], (*first)["id"]);
  const auto branch = kept.Ask(Body(R"("other")", Previous(*first)));
  ASSERT_TRUE(branch);
  EXPECT_EQ(kept.Prompt(), "user: one\nassistant: Hello world!\nuser: other\nassistant:");
}

TEST(ResponsesTest, WhatWasKeptIsThereAfterARestart) {
  KeptResponses kept;
  const auto response = kept.Ask(Body(R"("one")"));
  ASSERT_TRUE(response);
  EXPECT_EQ(json::parse(kept.Restarted((*response)["id"].get<std::string>())), *response);
}

TEST(ResponsesTest, AnUnknownOneIsRefusedInTheWordsThatClientsKnow) {
  KeptResponses kept;
  for (const char* id : {"resp_1", "resp_kv000000000000000000000fff", "msg_1"}) {
    const auto refused =
        kept.Ask(Body(R"("x")", std::string(R"(,"previous_response_id":")") + id + "\""));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().field, "previous_response_id");
    EXPECT_EQ(refused.error().source, dialect::form::kPreviousResponseSource);
    EXPECT_THAT(refused.error().detail, HasSubstr(id));
  }
}

TEST(ResponsesTest, AnotherTenantDoesNotSeeIt) {
  KeptResponses kept;
  const auto response = kept.Ask(Body(R"("one")"));
  ASSERT_TRUE(response);
  const std::string id = (*response)["id"];
  kept.credential = "Bearer other";
  EXPECT_FALSE(kept.Ask(Body(R"("two")", Previous(*response))));
  Responses& responses = kept.gateway.service.responses();
  EXPECT_EQ(responses.Get(local::TenantOf("Bearer other"), id).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(responses.Delete(local::TenantOf("Bearer other"), id));
  EXPECT_TRUE(responses.Get(kept.tenant, id));
}

TEST(ResponsesTest, WhatIsNotStoredIsNotFound) {
  KeptResponses kept;
  const auto response = kept.Ask(Body(R"("one")", R"(,"store":false)"));
  ASSERT_TRUE(response);
  EXPECT_EQ((*response)["store"], false);
  EXPECT_FALSE(kept.Ask(Body(R"("two")", Previous(*response))));
}

TEST(ResponsesTest, WhereTurnsAreSwitchedOffResponsesAreAnsweredAndSaySo) {
  KeptResponses kept({}, false);
  const auto response = kept.Ask(Body(R"("one")"));
  ASSERT_TRUE(response);
  EXPECT_EQ((*response)["store"], false);
  test::Gateway without;
  const auto started = without.service.Start({.dialect = dialect::form::Dialect::kResponses,
                                              .body = Body(R"("one")"),
                                              .credential = {},
                                              .request_id = "r",
                                              .wake = {}});
  ASSERT_TRUE(started);
  EXPECT_EQ((*KeptResponses::Finish(**started))["store"], false);
}

TEST(ResponsesTest, ADiskThatFailsFailsTheResponse) {
  KeptResponses kept;
  kept.meta.refuses = true;
  const auto failed = kept.Ask(Body(R"("one")"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  kept.meta.refuses = false;
  EXPECT_TRUE(kept.Ask(Body(R"("one")")));
}

TEST(ResponsesTest, AnInputThatCouldNotBeStoredIsRefusedBeforeItIsAnswered) {
  KeptResponses kept;
  const std::string large = "\"" + std::string(1 << 20, 'x') + "\"";
  const auto refused = kept.Ask(Body(large));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(refused.error().field, "input");
  EXPECT_EQ(kept.gateway.engine.requests().size(), 0u);
}

TEST(ResponsesTest, AnAnswerThatFailedIsNotGoneOnFrom) {
  test::Script script;
  script.error = MakeError(ErrorCode::kOverloaded, "engine", "no room");
  script.reason = engine::FinishReason::kError;
  KeptResponses kept(script);
  EXPECT_FALSE(kept.Ask(Body(R"("one")")));
  EXPECT_EQ(kept.turns->Stats().num_turns, 0u);
}

TEST(ResponsesTest, ADeletedOneIsGoneAndChainsOverItAreNot) {
  KeptResponses kept;
  const auto first = kept.Ask(Body(R"("one")"));
  const auto second = kept.Ask(Body(R"("two")", Previous(*first)));
  ASSERT_TRUE(second);
  Responses& responses = kept.gateway.service.responses();
  const std::string id = (*first)["id"];
  const auto deleted = responses.Delete(kept.tenant, id);
  ASSERT_TRUE(deleted);
  EXPECT_EQ(json::parse(*deleted), (json{{"id", id}, {"object", "response"}, {"deleted", true}}));
  EXPECT_EQ(responses.Get(kept.tenant, id).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(responses.Delete(kept.tenant, id).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(responses.Get(kept.tenant, (*second)["id"].get<std::string>()));
  EXPECT_FALSE(kept.Ask(Body(R"("three")", Previous(*second))));
}

TEST(ResponsesTest, TheInputIsListedWithIdsThatItsItemsKeep) {
  KeptResponses kept;
  const auto first =
      kept.Ask(Body(R"([{"role":"user","content":"a"},{"role":"user","content":"b"}])"));
  ASSERT_TRUE(first);
  Responses& responses = kept.gateway.service.responses();
  const auto page =
      responses.ListInput(kept.tenant, (*first)["id"].get<std::string>(), {.order = "asc"});
  ASSERT_TRUE(page);
  const json listed = json::parse(*page);
  ASSERT_EQ(listed["data"].size(), 2u);
  EXPECT_EQ(listed["data"][0]["content"][0]["text"], "a");
  const auto second = kept.Ask(Body(R"("c")", Previous(*first)));
  const auto all =
      responses.ListInput(kept.tenant, (*second)["id"].get<std::string>(), {.order = "asc"});
  EXPECT_EQ(json::parse(*all)["data"].size(), 4u);
  EXPECT_EQ(json::parse(*all)["data"][2]["id"], (*first)["output"][0]["id"]);
}

TEST(ResponsesTest, AReferenceIsTheItemThatItNames) {
  KeptResponses kept;
  const auto first = kept.Ask(Body(R"("one")"));
  ASSERT_TRUE(first);
  const std::string item = (*first)["output"][0]["id"];
  const auto second =
      kept.Ask(Body(R"([{"role":"user","content":"one"},{"type":"item_reference","id":")" + item +
                    R"("},{"role":"user","content":"two"}])"));
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_EQ(kept.Prompt(), "user: one\nassistant: Hello world!\nuser: two\nassistant:");
  const auto unknown = kept.Ask(Body(R"([{"type":"item_reference","id":"msg_9"}])"));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(unknown.error().field, "input[0].id");
}

TEST(ResponsesTest, WhatDoesNotFitIsLeftOutAtTheFrontWhereTheCallerAllowsIt) {
  KeptResponses kept;
  std::string input = "[";
  for (int i = 0; i < 30; ++i) {
    input += R"({"role":"user","content":")" + std::string(200, 'x') + R"("},)";
  }
  input += R"({"role":"user","content":"last"}])";
  const auto refused = kept.Ask(Body(input));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, dialect::form::kContextLengthSource);
  const auto answered = kept.Ask(Body(input, R"(,"truncation":"auto","instructions":"rules")"));
  ASSERT_TRUE(answered) << answered.error().ToString();
  EXPECT_TRUE(kept.Prompt().starts_with("system: rules\nuser: x"));
  EXPECT_THAT(kept.Prompt(), EndsWith("user: last\nassistant:"));
}

TEST(ResponsesTest, TokensAreCountedWithoutAnAnswer) {
  KeptResponses kept;
  const auto counted = kept.gateway.service.CountTokens(
      {.dialect = dialect::form::Dialect::kResponses, .body = Body(R"("hi")"), .credential = ""});
  ASSERT_TRUE(counted);
  EXPECT_EQ(json::parse(*counted),
            (json{{"object", "response.input_tokens"},
                  {"input_tokens", std::string("user: hi\nassistant:").size()}}));
}

TEST(ResponsesTest, OnlyOneInTheBackgroundCouldBeCancelled) {
  KeptResponses kept;
  const auto response = kept.Ask(Body(R"("one")"));
  Responses& responses = kept.gateway.service.responses();
  EXPECT_EQ(responses.Cancel(kept.tenant, (*response)["id"].get<std::string>()).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(responses.Cancel(kept.tenant, "resp_1").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvgate::session
