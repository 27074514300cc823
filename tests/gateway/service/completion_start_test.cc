#include "gateway/service/completion_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/service/prepared_gateway.h"
#include "tests/wait_until.h"

namespace kvgate::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Place = CompletionStart::Place;
using dialect::form::Dialect;
using test::Gateway;
using test::KeptResponses;

constexpr std::string_view kChat =
    R"({"model":"local","messages":[{"role":"user","content":"hi"}]})";

Service::StartArgs Args(Dialect dialect, std::string_view body, std::string_view credential = {}) {
  return {.dialect = dialect,
          .body = body,
          .credential = credential,
          .request_id = "0123456789abcdef01234567",
          .wake = {}};
}

// Runs the start on this thread and returns the places that it went through.
std::vector<Place> Drive(CompletionStart& start) {
  std::vector<Place> places;
  while (start.next() != Place::kNone) {
    places.push_back(start.next());
    if (start.next() == Place::kStore) {
      start.StoreWork()();
      start.EndStore({});
    } else {
      start.Run();
    }
  }
  return places;
}

TEST(CompletionStartTest, AChatNeedsNeitherTheDiskNorACompiler) {
  Gateway gateway;
  CompletionStart start(gateway.service, Args(Dialect::kChatCompletions, kChat));
  EXPECT_THAT(Drive(start), ElementsAre(Place::kRequest, Place::kRequest));
  EXPECT_FALSE(start.keeps());
  EXPECT_TRUE(start.Take());
}

TEST(CompletionStartTest, AGrammarIsCompiledWhereItHoldsUpNobodyElse) {
  Gateway gateway;
  CompletionStart start(gateway.service,
                        Args(Dialect::kChatCompletions,
                             R"({"model":"local","messages":[{"role":"user","content":"hi"}],
               "response_format":{"type":"json_object"}})"));
  EXPECT_THAT(Drive(start), ElementsAre(Place::kRequest, Place::kCompile));
}

TEST(CompletionStartTest, AResponseThatGoesOnFromNothingNeedsTheDiskAtItsEndAlone) {
  KeptResponses kept;
  CompletionStart start(kept.gateway.service,
                        Args(Dialect::kResponses, R"({"model":"local","input":"hi"})"));
  EXPECT_THAT(Drive(start), ElementsAre(Place::kRequest, Place::kRequest));
  EXPECT_TRUE(start.keeps() || start.Take());
}

TEST(CompletionStartTest, WhatGoesOnFromAResponseIsLookedUpOnTheDisk) {
  KeptResponses kept;
  const auto first = kept.Ask(R"({"model":"local","input":"remember"})");
  ASSERT_TRUE(first) << first.error().ToString();
  const std::string body = fmt::format(
      R"({{"model":"local","input":"on","previous_response_id":{}}})", (*first)["id"].dump());
  CompletionStart start(kept.gateway.service, Args(Dialect::kResponses, body, kept.credential));
  EXPECT_THAT(Drive(start),
              ElementsAre(Place::kRequest, Place::kStore, Place::kRequest, Place::kRequest));
  EXPECT_TRUE(start.Take());
  EXPECT_THAT(kept.Prompt(), HasSubstr("remember"));
}

TEST(CompletionStartTest, ADiskThatDoesNotAnswerFailsWhatGoesOnFromIt) {
  KeptResponses kept;
  const auto first = kept.Ask(R"({"model":"local","input":"remember"})");
  ASSERT_TRUE(first);
  const std::string body = fmt::format(
      R"({{"model":"local","input":"on","previous_response_id":{}}})", (*first)["id"].dump());
  std::function<void()> late;
  {
    CompletionStart start(kept.gateway.service, Args(Dialect::kResponses, body, kept.credential));
    start.Run();
    ASSERT_EQ(start.next(), Place::kStore);
    late = start.StoreWork();
    start.EndStore(MakeError(ErrorCode::kUnavailable, "test", "the disk does not answer"));
    EXPECT_EQ(start.next(), Place::kNone);
    const auto completion = start.Take();
    ASSERT_FALSE(completion);
    EXPECT_EQ(completion.error().code, ErrorCode::kUnavailable);
  }
  late();  // the stuck thread returns after everyone else has gone
}

TEST(CompletionStartTest, ACountSubmitsNothing) {
  Gateway gateway;
  CompletionStart start(gateway.service, Args(Dialect::kMessages, kChat),
                        CompletionStart::Use::kCount);
  Drive(start);
  const auto count = start.TakeCount();
  ASSERT_TRUE(count) << count.error().ToString();
  EXPECT_THAT(*count, HasSubstr("input_tokens"));
  EXPECT_TRUE(gateway.engine.requests().empty());
}

TEST(CompletionStartTest, HooksThatNobodyWaitsForFailWhatWasToBeStored) {
  KeptResponses kept;
  const auto started = kept.Start(R"({"model":"local","input":"hi"})");
  ASSERT_TRUE(started);
  Completion& completion = **started;
  Completion::Output output;
  ASSERT_TRUE(test::WaitUntil(
      [&] {
        output = completion.Next();
        return output.completed;
      },
      "the answer is complete"));
  const std::function<Result<void>()> late = completion.TakeHooks();
  completion.EndHooks(MakeError(ErrorCode::kUnavailable, "test", "the disk does not answer"));
  output = completion.Next();
  ASSERT_TRUE(output.error);
  EXPECT_EQ(output.error->code, ErrorCode::kUnavailable);
  EXPECT_TRUE(late());
}

using nlohmann::json;
using test::PreparedGateway;

// A conversation whose system prompt says another commit and time in each request.
class Conversation {
 public:
  explicit Conversation(Dialect dialect) : dialect_(dialect) {}

  std::string NextBody() {
    const std::string number = std::to_string(++num_requests_);
    const std::string system = "Be brief.\nYou work in a folder.\nCurrent time: 2026-11-25 15:0" +
                               number + ":00\nBe kind.";
    turns_.push_back({{"role", "user"}, {"content", "Question " + number}});
    if (dialect_ == Dialect::kResponses) {
      return json{{"model", "local"}, {"instructions", system}, {"input", turns_}}.dump();
    }
    json body{{"model", "local"}, {"max_tokens", 8}, {"messages", turns_}};
    if (dialect_ == Dialect::kMessages) {
      body["system"] = system;
    } else {
      body["messages"].insert(body["messages"].begin(),
                              json{{"role", "system"}, {"content", system}});
    }
    return body.dump();
  }
  void TakeAnswer() { turns_.push_back({{"role", "assistant"}, {"content", "Hello world!"}}); }

 private:
  const Dialect dialect_;
  json turns_ = json::array();
  int num_requests_ = 0;
};

constexpr Dialect kChats[] = {Dialect::kChatCompletions, Dialect::kMessages, Dialect::kResponses};

TEST(PreparedPromptTest, InStabilizeAPromptOnlyGrowsAtItsEndInEveryDialect) {
  for (const Dialect dialect : kChats) {
    PreparedGateway gateway("stabilize");
    Conversation conversation(dialect);
    std::string before;
    for (int turn = 1; turn <= 4; ++turn) {
      const auto answer = gateway.Ask(dialect, conversation.NextBody());
      ASSERT_FALSE(answer.error) << answer.error->ToString();
      EXPECT_TRUE(answer.prompt.starts_with(before)) << before << "\n---\n" << answer.prompt;
      EXPECT_THAT(answer.prompt, HasSubstr("15:0" + std::to_string(turn) + ":00"));
      const json record = gateway.RecordOf(answer);
      EXPECT_EQ(record["mode"], "stabilize");
      EXPECT_FALSE(record["edits"].empty());
      EXPECT_FALSE(record.contains("plan")) << record.dump();
      before = answer.prompt;
      conversation.TakeAnswer();
    }
  }
}

TEST(PreparedPromptTest, InObserveAndPinThePromptIsTheCallers) {
  for (const char* mode : {"observe", "pin"}) {
    PreparedGateway gateway(mode);
    Conversation conversation(Dialect::kChatCompletions);
    const auto first = gateway.Ask(Dialect::kChatCompletions, conversation.NextBody());
    EXPECT_TRUE(first.prompt.starts_with("system: Be brief.\nYou work in a folder.\nCurrent time"));
    conversation.TakeAnswer();
    const auto second = gateway.Ask(Dialect::kChatCompletions, conversation.NextBody());
    EXPECT_FALSE(second.prompt.starts_with(first.prompt));
    const json record = gateway.RecordOf(second);
    EXPECT_EQ(record["mode"], mode);
    EXPECT_THAT(record["break"].dump(), HasSubstr("let the mode stabilize do it"));
  }
}

TEST(PreparedPromptTest, TheKeysModeAndRulesHoldForTheEngineToo) {
  config::KeyConfig key;
  key.mode = "stabilize";
  PreparedGateway gateway("observe");
  gateway.key = &key;
  const auto stabilized =
      gateway.Ask(Dialect::kMessages, Conversation(Dialect::kMessages).NextBody());
  EXPECT_EQ(gateway.RecordOf(stabilized)["mode"], "stabilize");
  EXPECT_THAT(stabilized.prompt, HasSubstr("You work in a folder.\nBe kind."));
  key.rules_off = {"volatile_moved"};
  Conversation other(Dialect::kMessages);
  gateway.Start();
  const auto left = gateway.Ask(Dialect::kMessages, other.NextBody());
  EXPECT_THAT(left.prompt, HasSubstr("folder.\nCurrent time: 2026-11-25 15:01:00\nBe kind."));
}

TEST(PreparedPromptTest, AfterARestartAConversationGoesOnFromWhatWasRendered) {
  for (const Dialect dialect : kChats) {
    PreparedGateway gateway("stabilize");
    Conversation conversation(dialect);
    std::string before;
    for (int turn = 1; turn <= 3; ++turn) {
      const auto answer = gateway.Ask(dialect, conversation.NextBody());
      ASSERT_FALSE(answer.error) << answer.error->ToString();
      EXPECT_TRUE(answer.prompt.starts_with(before)) << before << "\n---\n" << answer.prompt;
      before = answer.prompt;
      conversation.TakeAnswer();
      gateway.Start();
    }
  }
}

TEST(PreparedPromptTest, AConversationIsReadBeforeAndKeptWhileTheEngineWorks) {
  PreparedGateway gateway("stabilize");
  Conversation conversation(Dialect::kChatCompletions);
  const auto first = gateway.Ask(Dialect::kChatCompletions, conversation.NextBody());
  EXPECT_THAT(first.places, ElementsAre(Place::kRequest, Place::kRequest, Place::kStore));
  conversation.TakeAnswer();
  gateway.Start();
  const auto second = gateway.Ask(Dialect::kChatCompletions, conversation.NextBody());
  EXPECT_THAT(second.places, ElementsAre(Place::kRequest, Place::kStore, Place::kRequest,
                                         Place::kRequest, Place::kStore));
}

TEST(PreparedPromptTest, WhatIsKeptOfAResponseIsWhatItsClientSaid) {
  PreparedGateway gateway("stabilize");
  std::string before;
  std::string id;
  for (const char* minute : {"15:01", "15:02", "15:03"}) {
    const std::string instructions =
        std::string("Be brief.\nYou work in a folder.\nCurrent time: 2026-11-25 ") + minute +
        ":00\nBe kind.";
    json body{{"model", "local"}, {"input", "What now?"}, {"instructions", instructions}};
    if (!id.empty()) body["previous_response_id"] = id;
    const auto answer = gateway.Ask(Dialect::kResponses, body.dump());
    ASSERT_FALSE(answer.error) << answer.error->ToString();
    EXPECT_THAT(answer.prompt,
                HasSubstr(std::string("What now?\n\nCurrent time: 2026-11-25 ") + minute))
        << answer.prompt;
    EXPECT_TRUE(answer.prompt.starts_with(before)) << before << "\n---\n" << answer.prompt;
    before = answer.prompt;
    const json response = json::parse(answer.bytes);
    EXPECT_EQ(response["instructions"], instructions);
    id = response["id"];
    const std::string tenant = local::TenantOf("");
    EXPECT_EQ(json::parse(gateway.service().responses().Get(tenant, id).value())["instructions"],
              instructions);
    const json input = json::parse(gateway.service().responses().ListInput(tenant, id, {}).value());
    EXPECT_EQ(input["data"][0]["content"][0]["text"], "What now?") << input.dump();
    if (std::string(minute) == "15:02") gateway.Start();
  }
}

TEST(PreparedPromptTest, AnErrorNamesTheFieldOfTheCallersOwnBody) {
  const json good = {{"type", "function"}, {"function", {{"name", "good"}}}};
  const json bad = {{"type", "function"}, {"function", {{"name", "bad"}}}};
  const json worse = {{"type", "function"}, {"function", {{"name", "bad"}, {"parameters", 5}}}};
  const auto chat = [](json tools) {
    return json{{"model", "local"},
                {"tools", std::move(tools)},
                {"messages", {{{"role", "user"}, {"content", "hi"}}}}}
        .dump();
  };
  PreparedGateway gateway("pin");
  ASSERT_FALSE(gateway.Ask(Dialect::kChatCompletions, chat({good, bad})).error);
  const auto pinned = gateway.Ask(Dialect::kChatCompletions, chat({bad, good}));
  ASSERT_FALSE(pinned.error);
  EXPECT_EQ(gateway.RecordOf(pinned)["edits"][0]["rule"], "tools_order");
  const auto refused = gateway.Ask(Dialect::kChatCompletions, chat({worse, good}));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->field, "tools[0].function.parameters");
  EXPECT_EQ(gateway.RecordOf(refused)["outcome"], "refused");
}

TEST(PreparedPromptTest, WhatIsRefusedTeachesNothingThatIsRemembered) {
  PreparedGateway gateway("stabilize");
  Conversation conversation(Dialect::kChatCompletions);
  json body = json::parse(conversation.NextBody());
  body["temperature"] = "hot";
  ASSERT_TRUE(gateway.Ask(Dialect::kChatCompletions, body.dump()).error);
  body["temperature"] = 0;
  const auto answer = gateway.Ask(Dialect::kChatCompletions, body.dump());
  EXPECT_EQ(gateway.RecordOf(answer)["break"]["cause"], "first_seen");
}

TEST(PreparedPromptTest, TemplatesAreLearntFromWhatTheEngineIsAsked) {
  PreparedGateway gateway("stabilize");
  gateway.fields = {{"x-kvgate-session", "s"}};
  for (const char* time : {"10:31", "10:32"}) {
    const std::string system =
        std::string("Be brief.\nYou work here as of ") + time + ", in call 7.\nBe kind.";
    gateway.Ask(Dialect::kMessages, json{{"model", "local"},
                                         {"max_tokens", 8},
                                         {"system", system},
                                         {"messages", {{{"role", "user"}, {"content", "hi"}}}}}
                                        .dump());
  }
  EXPECT_THAT(gateway.prompts().ListTemplates("t"),
              HasSubstr(R"("line":"You work here as of <*>, in call <*>.")"));
  EXPECT_THAT(gateway.prompts().ListTemplates("u"), HasSubstr(R"("data":[])"));
}

TEST(PreparedPromptTest, WhatIsWarmedIsWhatAFirstRequestIsRenderedFrom) {
  PreparedGateway gateway("stabilize");
  const std::string body = Conversation(Dialect::kChatCompletions).NextBody();
  const std::string warmed = gateway.Warm(body);
  EXPECT_THAT(warmed, HasSubstr("You work in a folder.\nBe kind."));
  const auto first = gateway.Ask(Dialect::kChatCompletions, body);
  EXPECT_TRUE(first.prompt.starts_with(warmed)) << warmed << "\n---\n" << first.prompt;
}

}  // namespace
}  // namespace kvgate::service
