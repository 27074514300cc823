#include "gateway/local/local_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/gateway/fakes.h"
#include "tests/wait_until.h"

namespace kvgate::local {
namespace {

using std::chrono::milliseconds;
using test::FakeEngine;
using test::FakeTokenizer;

engine::GenerationRequest Request() {
  engine::GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 1'000'000;
  return request;
}

TEST(LocalStreamTest, DeltasThatNobodyTookMergeIntoOne) {
  FakeTokenizer tokenizer;
  FakeEngine engine({.pieces = {"a", "b", "c"}});
  std::atomic<int> num_wakes{0};
  const auto stream = StartLocalStream(
      Request(), {.engine = engine, .tokenizer = tokenizer, .wake = [&] { ++num_wakes; }});
  ASSERT_TRUE(stream);
  ASSERT_TRUE(test::WaitUntil([&] { return num_wakes.load() >= 2; }, "two wakes"));
  const auto events = (*stream)->Take();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<dialect::form::BeginEvent>(events[0]));
  EXPECT_EQ(std::get<dialect::form::DeltaEvent>(events[1]).text, "abc");
  EXPECT_EQ(std::get<dialect::form::FinishEvent>(events[2]).stats.num_output_tokens, 3);
  EXPECT_TRUE((*stream)->Take().empty());
  // The stream wakes its reader for the first token and for the end: an unread buffer is not
  // announced again.
  EXPECT_EQ(num_wakes.load(), 2);
}

TEST(LocalStreamTest, DestructionCancelsAndSilencesTheWake) {
  FakeTokenizer tokenizer;
  FakeEngine engine({.pieces = {"x"}, .piece_delay = milliseconds(1), .forever = true});
  for (int round = 0; round < 20; ++round) {
    auto alive = std::make_unique<std::atomic<int>>(0);
    auto stream = StartLocalStream(Request(), {.engine = engine,
                                               .tokenizer = tokenizer,
                                               .wake = [counter = alive.get()] { ++*counter; }});
    ASSERT_TRUE(stream);
    std::this_thread::sleep_for(milliseconds(2));
    stream->reset();
    alive.reset();  // a wake after this would be a use after free
  }
  EXPECT_TRUE(test::WaitUntil([&] { return engine.num_running() == 0; }, "the engine is idle"));
  EXPECT_EQ(engine.num_cancelled(), 20);
}

TEST(LocalStreamTest, AnUnreadAnswerIsBoundedAndCancelled) {
  FakeTokenizer tokenizer;
  FakeEngine engine({.pieces = {std::string(1000, 'x')}, .forever = true});
  const auto stream = StartLocalStream(
      Request(), {.engine = engine, .tokenizer = tokenizer, .pending_bytes_max = 50'000});
  ASSERT_TRUE(stream);
  std::this_thread::sleep_for(milliseconds(50));
  const auto events = (*stream)->Take();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_LE(std::get<dialect::form::DeltaEvent>(events[1]).text.size(), 51'000u);
  const auto& finish = std::get<dialect::form::FinishEvent>(events[2]);
  ASSERT_TRUE(finish.error);
  EXPECT_EQ(finish.error->code, ErrorCode::kOverloaded);
  EXPECT_TRUE(test::WaitUntil([&] { return engine.num_running() == 0; }, "the engine is idle"));
}

TEST(LocalStreamTest, ACancelledStreamEndsWithThatError) {
  FakeTokenizer tokenizer;
  FakeEngine engine({.first_delay = milliseconds(60'000)});
  const auto stream = StartLocalStream(Request(), {.engine = engine, .tokenizer = tokenizer});
  ASSERT_TRUE(stream);
  (*stream)->Cancel();
  std::vector<dialect::form::CompletionEvent> events;
  ASSERT_TRUE(test::WaitUntil(
      [&] {
        events = (*stream)->Take();
        return !events.empty();
      },
      "the stream has events"));
  EXPECT_EQ(std::get<dialect::form::FinishEvent>(events.back()).error->code, ErrorCode::kCancelled);
}

TEST(LocalStreamTest, LogprobsAreSpelled) {
  FakeTokenizer tokenizer;
  FakeEngine engine({.pieces = {"hi"}});
  engine::GenerationRequest request = Request();
  request.sampling.num_logprobs = 2;
  const auto stream = StartLocalStream(
      std::move(request), {.engine = engine, .tokenizer = tokenizer, .logprobs = true});
  ASSERT_TRUE(stream);
  ASSERT_TRUE(test::WaitUntil([&] { return engine.num_running() == 0; }, "the engine is idle"));
  const auto events = (*stream)->Take();
  const auto& tokens = std::get<dialect::form::DeltaEvent>(events.at(1)).tokens;
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].token.bytes, "h");
  EXPECT_EQ(tokens[0].top[1].bytes, "b");
}

TEST(LocalStreamTest, ARefusalOfTheEngineIsReturned) {
  FakeTokenizer tokenizer;
  FakeEngine engine({});
  engine.RefuseWith(MakeError(ErrorCode::kOverloaded, "engine", "full"));
  EXPECT_FALSE(StartLocalStream(Request(), {.engine = engine, .tokenizer = tokenizer}));
}

}  // namespace
}  // namespace kvgate::local
