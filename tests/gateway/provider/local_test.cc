#include "gateway/provider/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/gateway/fakes.h"

namespace kvgate::provider {
namespace {

using protocol::CompletionRequest;
using protocol::Dialect;
using protocol::Message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Fixture {
  explicit Fixture(testing::Script script = {}) : engine(std::move(script)) {}
  testing::FakeTokenizer tokenizer;
  testing::FakeEngine engine;
  LocalProvider provider{{.engine = engine,
                          .tokenizer = tokenizer,
                          .chat_format = std::make_unique<testing::FakeChatFormat>(),
                          .names = {"m", "local"}}};
};

CompletionRequest Chat(std::vector<Message> messages) {
  CompletionRequest request;
  request.prompt = std::move(messages);
  return request;
}

CompletionRequest Text(std::string text) {
  CompletionRequest request;
  request.dialect = Dialect::kCompletions;
  request.prompt = std::move(text);
  return request;
}

protocol::FinishEvent WaitForFinish(EventStream& stream) {
  while (true) {
    for (const auto& event : stream.Take()) {
      if (const auto* finish = std::get_if<protocol::FinishEvent>(&event)) return *finish;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(LocalProviderTest, AnswersToItsNames) {
  EXPECT_THAT(LocalModelNames("Llama", "/a/b.gguf"), ElementsAre("Llama", "b", "b.gguf", "local"));
  EXPECT_THAT(LocalModelNames("", "local.gguf"), ElementsAre("local", "local.gguf"));
  const Fixture fixture;
  EXPECT_TRUE(fixture.provider.Serves("local"));
  EXPECT_FALSE(fixture.provider.Serves("gpt-9"));
}

TEST(LocalProviderTest, AChatIsRenderedAndEndsWithTheFormatsMarks) {
  Fixture fixture;
  CompletionRequest request = Chat({{"system", "s"}, {"user", "u"}});
  request.stop = {"END"};
  const auto stream = fixture.provider.Run({.request = request, .tenant = "t"});
  ASSERT_TRUE(stream);
  const engine::GenerationRequest sent = fixture.engine.last_request();
  EXPECT_EQ(fixture.tokenizer.Decode(sent.prompt, false), "system: s\nuser: u\nassistant:");
  EXPECT_THAT(sent.stop_strings, ElementsAre("END", "\nuser:"));
  EXPECT_EQ(sent.cache_salt, "t");
  EXPECT_EQ(sent.max_tokens, 4096 - static_cast<int>(sent.prompt.size()));
  request.ignore_eos = true;
  const auto ignoring = fixture.provider.Run({.request = request, .tenant = {}});
  EXPECT_THAT(fixture.engine.last_request().stop_strings, ElementsAre("END"));
}

TEST(LocalProviderTest, LimitsComeFromTheRequestTheDialectAndTheContext) {
  Fixture fixture;
  CompletionRequest request = Text("hello");
  (void)fixture.provider.Run({.request = request, .tenant = {}});
  EXPECT_EQ(fixture.engine.last_request().max_tokens, 16);
  request.max_tokens = 1'000'000;
  (void)fixture.provider.Run({.request = request, .tenant = {}});
  EXPECT_EQ(fixture.engine.last_request().max_tokens, 4096 - 5);
}

TEST(LocalProviderTest, APromptThatFillsTheContextIsNamedByItsField) {
  Fixture fixture;
  const std::string large(5000, 'x');
  const auto text = fixture.provider.Run({.request = Text(large), .tenant = {}});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().field, "prompt");
  EXPECT_EQ(text.error().source, protocol::kContextLengthSource);
  EXPECT_THAT(text.error().detail, HasSubstr("4096 tokens, but the prompt has 5000"));
  const auto chat = fixture.provider.Run({.request = Chat({{"user", large}}), .tenant = {}});
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().field, "messages");
}

TEST(LocalProviderTest, AnUnsetSeedDiffersAndASetOneIsKept) {
  Fixture fixture;
  CompletionRequest request = Text("x");
  (void)fixture.provider.Run({.request = request, .tenant = {}});
  const uint64_t first = fixture.engine.last_request().sampling.seed;
  (void)fixture.provider.Run({.request = request, .tenant = {}});
  EXPECT_NE(fixture.engine.last_request().sampling.seed, first);
  request.seed = 42;
  (void)fixture.provider.Run({.request = request, .tenant = {}});
  EXPECT_EQ(fixture.engine.last_request().sampling.seed, 42u);
}

TEST(LocalProviderTest, SegmentsSplitThePromptBySource) {
  Fixture fixture;
  const auto stream = fixture.provider.Run(
      {.request = Chat({{"system", "s"}, {"user", "a"}, {"assistant", "b"}, {"user", "c"}}),
       .tenant = {}});
  ASSERT_TRUE(stream);
  const auto finish = WaitForFinish(**stream);
  const auto& segments = finish.stats.segments;
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].source, "system");
  EXPECT_EQ(segments[1].source, "history");
  EXPECT_EQ(segments[2].source, "user");
  EXPECT_EQ(segments[0].num_tokens + segments[1].num_tokens + segments[2].num_tokens,
            finish.stats.num_prompt_tokens);
}

}  // namespace
}  // namespace kvgate::provider
