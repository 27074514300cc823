// One suite for both kinds of client: what a gateway in this process and one at the other end of a
// wire answer is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/sdk/tiny_gateway.h"

namespace kvgate::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

enum class Kind { kEmbedded, kRemote };

class ConformanceTest : public testing::TestWithParam<Kind> {
 protected:
  static void SetUpTestSuite() { gateway_ = new TinyGateway; }
  static void TearDownTestSuite() {
    delete gateway_;
    gateway_ = nullptr;
  }
  void SetUp() override {
    if (GetParam() == Kind::kRemote) remote_ = gateway_->Remote();
  }

  Client& client() { return remote_ ? *remote_ : gateway_->embedded(); }
  static ChatRequest Ask(std::string text) {
    return {.messages = {Message::User(std::move(text))}, .max_tokens = 8, .temperature = 0};
  }
  // An answer that takes as long as it is let.
  static ChatRequest AskForMuch() {
    ChatRequest request = Ask("go on and on");
    request.max_tokens = 1900;
    request.more_json = R"({"ignore_eos":true})";
    return request;
  }

  static TinyGateway* gateway_;
  std::optional<Client> remote_;
};
TinyGateway* ConformanceTest::gateway_ = nullptr;

INSTANTIATE_TEST_SUITE_P(Clients, ConformanceTest, testing::Values(Kind::kEmbedded, Kind::kRemote),
                         [](const auto& kind) {
                           return kind.param == Kind::kEmbedded ? "Embedded" : "Remote";
                         });

// The events of an answer as text, without what belongs to one request alone.
std::string Told(Stream stream) {
  std::string told;
  for (const Event& event : stream) {
    told += std::to_string(static_cast<int>(event.kind)) + " ";
    if (event.kind == Event::Kind::kUsage) {
      told += std::to_string(event.usage.prompt_tokens) + " " +
              std::to_string(event.usage.cached_tokens) + " " +
              std::to_string(event.usage.output_tokens);
    } else if (event.kind != Event::Kind::kExplain) {
      told += event.text;
    }
    told += "\n";
  }
  const Result<void> status = stream.status();
  return told + (status ? "end" : status.error().ToString());
}

// One event may hold what two hold elsewhere, so texts are joined.
std::string Joined(Stream stream) {
  const Result<Reply> reply = stream.Collect();
  if (!reply) return reply.error().ToString();
  return reply->text + "|" + reply->finish_reason + "|" +
         std::to_string(reply->usage.prompt_tokens) + "|" +
         std::to_string(reply->usage.cached_tokens) + "|" +
         std::to_string(reply->usage.output_tokens);
}

TEST_P(ConformanceTest, AChatIsTheSameForBoth) {
  Joined(gateway_->embedded().Chat(Ask("What is a prefix?")));  // from then on it is cached
  EXPECT_EQ(Joined(client().Chat(Ask("What is a prefix?"))),
            Joined(gateway_->embedded().Chat(Ask("What is a prefix?"))));
  EXPECT_THAT(Told(client().Chat(Ask("What is a prefix?"))), HasSubstr("end"));
}

TEST_P(ConformanceTest, TheStreamTellsTextFinishAndUsage) {
  Stream stream = client().Chat(Ask("Hello"));
  bool has_text = false;
  bool has_finish = false;
  bool has_usage = false;
  for (const Event& event : stream) {
    has_text |= event.is_text();
    has_finish |= event.kind == Event::Kind::kFinish;
    if (event.kind == Event::Kind::kUsage) {
      has_usage = true;
      EXPECT_GT(event.usage.prompt_tokens, 0);
      EXPECT_GE(event.usage.cached_tokens, 0);
      EXPECT_GT(event.usage.output_tokens, 0);
    }
  }
  EXPECT_TRUE(stream.status()) << stream.status().error().ToString();
  EXPECT_TRUE(has_text && has_finish && has_usage);
  EXPECT_FALSE(stream.Header("x-kvgate-request-id").empty());
  EXPECT_FALSE(stream.Next().has_value());
}

TEST_P(ConformanceTest, APromptIsReadFromTheCacheTheSecondTime) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "again ";
  ChatRequest request = Ask(text);
  request.explain = true;
  ASSERT_TRUE(client().Chat(request).Collect());
  const Result<Reply> second = client().Chat(request).Collect();
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_GT(second->usage.cached_tokens, 64);
  EXPECT_EQ(second->explanation.Int("/cached_tokens"), second->usage.cached_tokens);
  EXPECT_EQ(second->explanation.String("/request_id"), second->request_id);
}

TEST_P(ConformanceTest, PlainTextIsOneCall) {
  const Result<std::string> text = client().Generate("Hi", {.max_tokens = 3});
  ASSERT_TRUE(text) << text.error().ToString();
  EXPECT_FALSE(text->empty());
}

TEST_P(ConformanceTest, AForcedToolIsCalledAndRunsInThisProgram) {
  ChatRequest request = Ask("What is the weather?");
  request.tool_choice = "weather";
  request.max_tokens = 200;
  Toolbox tools;
  int num_calls = 0;
  tools.Add({.name = "weather",
             .description = "The weather",
             .parameters = R"({"type":"object","properties":{"day":{"enum":["today"]}},)"
                           R"("required":["day"],"additionalProperties":false})"},
            [&](const Json& arguments) -> Result<std::string> {
              ++num_calls;
              EXPECT_EQ(arguments.String("/day"), "today");
              return std::string("rain");
            });
  const Result<Reply> reply = client().Run(request, tools, 2);
  ASSERT_TRUE(reply) << reply.error().ToString();
  EXPECT_EQ(num_calls, 1);  // the last answer need not call any more
  EXPECT_EQ(request.tool_choice, "weather");
  EXPECT_TRUE(reply->tool_calls.empty()) << reply->tool_calls.at(0).name;
  ASSERT_GE(request.messages.size(), 4u);
  EXPECT_EQ(request.messages[1].tool_calls.at(0).name, "weather");
  EXPECT_EQ(request.messages[2].text, "rain");
  EXPECT_EQ(request.messages[2].tool_call_id, request.messages[1].tool_calls.at(0).id);
  EXPECT_TRUE(request.tools.empty());
}

TEST_P(ConformanceTest, AnAnswerIsJsonOfItsSchema) {
  ChatRequest request = Ask("Say yes");
  request.max_tokens = 100;
  request.json_schema = R"({"type":"object","properties":{"ok":{"type":"boolean"}},)"
                        R"("required":["ok"],"additionalProperties":false})";
  const Result<Reply> reply = client().Chat(request).Collect();
  ASSERT_TRUE(reply) << reply.error().ToString();
  EXPECT_TRUE(Json(reply->text).At("/ok")) << reply->text;
}

TEST_P(ConformanceTest, ASessionRemembersForksAndEnds) {
  const std::string key = GetParam() == Kind::kEmbedded ? "one?key" : "other%key";
  Session session = client().Session(
      key, {.messages = {Message::System("Be short.")}, .max_tokens = 4, .temperature = 0});
  Result<Reply> first = session.Say("My name is Ada.").Collect();
  ASSERT_TRUE(first) << first.error().ToString();
  Result<Reply> second = session.Say("What is my name?").Collect();
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_GT(second->usage.prompt_tokens, first->usage.prompt_tokens + 4);
  Result<Json> history = session.History();
  ASSERT_TRUE(history) << history.error().ToString();
  EXPECT_EQ(history->Int("/turns"), 2) << history->text();
  Result<Session> fork = session.Fork(key + "-2");
  ASSERT_TRUE(fork) << fork.error().ToString();
  ASSERT_TRUE(fork->Say("Another thing.").Collect());
  EXPECT_EQ(session.History()->Int("/turns"), 2);
  EXPECT_EQ(fork->History()->Int("/turns"), 3);
  EXPECT_THAT(*session.Export(), HasSubstr("Ada"));
  ASSERT_TRUE(session.Remove());
  const Result<Json> gone = session.History();
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().status, Status::kNotFound);
  ASSERT_TRUE(fork->Remove());
}

TEST_P(ConformanceTest, TokensAreCountedAsTheyAreUsed) {
  ChatRequest request = Ask("How many tokens are these?");
  const Result<int64_t> count = client().CountTokens(request);
  ASSERT_TRUE(count) << count.error().ToString();
  EXPECT_EQ(*count, client().Chat(request).Collect()->usage.prompt_tokens);
}

TEST_P(ConformanceTest, PrefixesAreWarmedAndPinned) {
  std::string text = GetParam() == Kind::kEmbedded ? "here " : "there ";
  for (int i = 0; i < 100; ++i) text += "warm ";
  const Result<Json> warmed = client().Warm(Ask(text));
  ASSERT_TRUE(warmed) << warmed.error().ToString();
  EXPECT_GT(warmed->Int("/tokens"), 64);
  const Result<Json> pinned = client().Pin("mine", Ask(text));
  ASSERT_TRUE(pinned) << pinned.error().ToString();
  EXPECT_TRUE(pinned->Bool("/pinned"));
  EXPECT_GT(client().Chat(Ask(text)).Collect()->usage.cached_tokens, 64);
}

TEST_P(ConformanceTest, TheNumbersOfTheGatewayAreThere) {
  const Result<Json> stats = client().Stats();
  ASSERT_TRUE(stats) << stats.error().ToString();
  const Result<Answer> models = client().Call("GET", "/v1/models");
  ASSERT_TRUE(models);
  EXPECT_EQ(models->http_status, 200);
  EXPECT_EQ(models->json().String("/data/0/id"), "tiny");
  // Paths are read as everywhere: /v1 may be missing.
  EXPECT_TRUE(client().Call("GET", "/models"));
}

// What both kinds of client say of a request that fails.
TEST_P(ConformanceTest, ErrorsHaveTheirStatusFieldAndCode) {
  ChatRequest unknown = Ask("Hi");
  unknown.model = "nobody's";
  Error error = client().Chat(unknown).Collect().error();
  EXPECT_EQ(error.status, Status::kNotFound);
  EXPECT_EQ(error.http_status, 404);
  EXPECT_EQ(error.code, "model_not_found");
  EXPECT_FALSE(error.request_id.empty());

  ChatRequest hot = Ask("Hi");
  hot.temperature = 77;
  error = client().Chat(hot).Collect().error();
  EXPECT_EQ(error.status, Status::kInvalidArgument);
  EXPECT_EQ(error.field, "temperature");

  std::string text;
  for (int i = 0; i < 5000; ++i) text += "long ";
  error = client().Chat(Ask(text)).Collect().error();
  EXPECT_EQ(error.status, Status::kContextExceeded);
  EXPECT_EQ(error.code, "context_length_exceeded");

  error = client().Call("GET", "/kvgate/v1/nothing").error();
  EXPECT_EQ(error.status, Status::kNotFound);
  error = client().Call("PUT", "/v1/models").error();
  EXPECT_EQ(error.status, Status::kInvalidArgument);
  EXPECT_EQ(error.http_status, 405);
  error = client().Call("POST", "/v1/chat/completions", "{").error();
  EXPECT_EQ(error.status, Status::kInvalidArgument);
  EXPECT_EQ(error.http_status, 400);
  error = client().Call("GET", "no path").error();
  EXPECT_EQ(error.field, "path");
  error = client().Call("GET", "/health", "", {.headers = {{"bad name", "x"}}}).error();
  EXPECT_EQ(error.field, "headers[0]");
  error = client().Call("GET", "/health", "", {.headers = {{"x", "a\r\nb: c"}}}).error();
  EXPECT_EQ(error.field, "headers[0]");

  Session session =
      client().Session("conflict", {.messages = {Message::System("A")}, .max_tokens = 2});
  ASSERT_TRUE(session.Say("Hi").Collect());
  session.base().messages[0].text = "B";
  error = session.Say("Hi").Collect().error();
  EXPECT_EQ(error.status, Status::kConflict);
  ASSERT_TRUE(session.Remove());
}

TEST_P(ConformanceTest, AStopTokenEndsAnAnswerAtOnce) {
  std::stop_source stop;
  ChatRequest request = AskForMuch();
  request.options.stop = stop.get_token();
  Stream stream = client().Chat(request);
  ASSERT_TRUE(stream.Next()) << stream.status().error().ToString();
  steady_clock::time_point stopped;
  std::thread stopper([&] {
    stopped = steady_clock::now();
    stop.request_stop();
  });
  while (stream.Next()) {
  }
  const auto waited = steady_clock::now() - stopped;
  stopper.join();
  ASSERT_FALSE(stream.status());
  EXPECT_EQ(stream.status().error().status, Status::kCancelled);
  // 100 ms are promised; a busy machine has five times as much.
  EXPECT_LT(waited, milliseconds(500));
}

TEST_P(ConformanceTest, WhatWasStoppedBeforeDoesNotBegin) {
  std::stop_source stop;
  stop.request_stop();
  const Result<Answer> answer = client().Call("GET", "/v1/models", "", {.stop = stop.get_token()});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().status, Status::kCancelled);
}

TEST_P(ConformanceTest, ADeadlineEndsAnAnswer) {
  ChatRequest request = AskForMuch();
  request.options.timeout = milliseconds(60);
  const auto began = steady_clock::now();
  const Result<Reply> reply = client().Chat(request).Collect();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().status, Status::kDeadlineExceeded);
  EXPECT_GE(steady_clock::now() - began, milliseconds(55));
}

TEST_P(ConformanceTest, AStreamThatIsDroppedEndsItsAnswer) {
  { Stream dropped = client().Chat(AskForMuch()); }
  Stream begun = client().Chat(AskForMuch());
  EXPECT_TRUE(begun.Next());
  Stream moved = std::move(begun);
  EXPECT_TRUE(moved.Next());
}

// A coroutine that counts the events of a stream without a thread that waits.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Detached Count(Stream stream, std::promise<int>& counted) {
  int num_events = 0;
  while (const std::optional<Event> event = co_await stream.NextAsync()) ++num_events;
  counted.set_value(stream.status() ? num_events : -1);
}

TEST_P(ConformanceTest, CoroutinesAwaitEvents) {
  std::promise<int> counted;
  Count(client().Chat(Ask("Await this")), counted);
  EXPECT_GE(counted.get_future().get(), 3);
  std::promise<int> failed;
  ChatRequest unknown = Ask("Hi");
  unknown.model = "nobody's";
  Count(client().Chat(unknown), failed);
  EXPECT_EQ(failed.get_future().get(), -1);
}

TEST_P(ConformanceTest, ManyThreadsShareAClient) {
  constexpr int kThreads = 64;
  const std::string expected = client().Chat(Ask("All the same")).Collect()->text;
  std::atomic<int> num_equal{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      if (i % 4 == 0) {
        std::stop_source stop;
        ChatRequest request = AskForMuch();
        request.options.stop = stop.get_token();
        Stream stream = client().Chat(request);
        stop.request_stop();
        while (stream.Next()) {
        }
        if (!stream.status()) ++num_equal;
        return;
      }
      const Result<Reply> reply = client().Chat(Ask("All the same")).Collect();
      if (reply && reply->text == expected) ++num_equal;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_equal, kThreads);
}

}  // namespace
}  // namespace kvgate::test
