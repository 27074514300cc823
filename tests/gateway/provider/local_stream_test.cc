#include "gateway/local/local_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/gateway/fakes.h"

namespace kvgate::provider {
namespace {

using std::chrono::milliseconds;
using testing::FakeEngine;
using testing::FakeTokenizer;

engine::GenerationRequest Request() {
  engine::GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 1'000'000;
  return request;
}

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

TEST(LocalStreamTest, DeltasThatNobodyTookMergeIntoOne) {
  FakeTokenizer tokenizer;
  FakeEngine engine({.pieces = {"a", "b", "c"}});
  std::atomic<int> num_wakes{0};
  const auto stream = StartLocalStream(
      Request(), {.engine = engine, .tokenizer = tokenizer, .wake = [&] { ++num_wakes; }});
  ASSERT_TRUE(stream);
  ASSERT_TRUE(Eventually([&] { return num_wakes.load() >= 2; }));
  const auto events = (*stream)->Take();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<protocol::BeginEvent>(events[0]));
  EXPECT_EQ(std::get<protocol::DeltaEvent>(events[1]).text, "abc");
  EXPECT_EQ(std::get<protocol::FinishEvent>(events[2]).stats.num_output_tokens, 3);
  EXPECT_TRUE((*stream)->Take().empty());
  // One for the first token, one for the end: an unread buffer is not announced again.
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
  EXPECT_TRUE(Eventually([&] { return engine.num_running() == 0; }));
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
  EXPECT_LE(std::get<protocol::DeltaEvent>(events[1]).text.size(), 51'000u);
  const auto& finish = std::get<protocol::FinishEvent>(events[2]);
  ASSERT_TRUE(finish.error);
  EXPECT_EQ(finish.error->code, ErrorCode::kOverloaded);
  EXPECT_TRUE(Eventually([&] { return engine.num_running() == 0; }));
}

TEST(LocalStreamTest, ACancelledStreamEndsWithThatError) {
  FakeTokenizer tokenizer;
  FakeEngine engine({.first_delay = milliseconds(60'000)});
  const auto stream = StartLocalStream(Request(), {.engine = engine, .tokenizer = tokenizer});
  ASSERT_TRUE(stream);
  (*stream)->Cancel();
  std::vector<protocol::CompletionEvent> events;
  ASSERT_TRUE(Eventually([&] {
    events = (*stream)->Take();
    return !events.empty();
  }));
  EXPECT_EQ(std::get<protocol::FinishEvent>(events.back()).error->code, ErrorCode::kCancelled);
}

TEST(LocalStreamTest, LogprobsAreSpelled) {
  FakeTokenizer tokenizer;
  FakeEngine engine({.pieces = {"hi"}});
  engine::GenerationRequest request = Request();
  request.sampling.num_logprobs = 2;
  const auto stream = StartLocalStream(
      std::move(request), {.engine = engine, .tokenizer = tokenizer, .logprobs = true});
  ASSERT_TRUE(stream);
  ASSERT_TRUE(Eventually([&] { return engine.num_running() == 0; }));
  const auto events = (*stream)->Take();
  const auto& tokens = std::get<protocol::DeltaEvent>(events.at(1)).tokens;
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
}  // namespace kvgate::provider
