#include "gateway/service/completion_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gateway/service/kept_responses.h"
#include "tests/wait_until.h"

namespace kvgate::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Place = CompletionStart::Place;
using protocol::form::Dialect;
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

}  // namespace
}  // namespace kvgate::service
