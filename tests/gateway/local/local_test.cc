#include "gateway/local/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "tests/gateway/fakes.h"
#include "tests/wait_until.h"

namespace kvgate::local {
namespace {

using dialect::form::CompletionRequest;
using dialect::form::Dialect;
using dialect::form::Message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Fixture {
  explicit Fixture(test::Script script = {}, int64_t default_tokens = 0)
      : default_max_tokens(default_tokens), engine(std::move(script)) {}
  int64_t default_max_tokens;
  test::FakeTokenizer tokenizer;
  test::FakeEngine engine;
  LocalProvider provider{{.engine = engine,
                          .tokenizer = tokenizer,
                          .chat_format = std::make_unique<test::FakeChatFormat>(),
                          .names = {"m", "local"},
                          .default_max_tokens = default_max_tokens}};
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

dialect::form::FinishEvent WaitForFinish(EventStream& stream) {
  std::optional<dialect::form::FinishEvent> first;
  EXPECT_TRUE(test::WaitUntil(
      [&] {
        for (const auto& event : stream.Take()) {
          const auto* finish = std::get_if<dialect::form::FinishEvent>(&event);
          if (finish != nullptr && !first.has_value()) first = *finish;
        }
        return first.has_value();
      },
      "the stream ends"));
  return first.value();
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
  EXPECT_EQ(text.error().source, dialect::form::kContextLengthSource);
  EXPECT_THAT(text.error().detail, HasSubstr("your prompt resulted in 5000 tokens"));
  const auto chat = fixture.provider.Run({.request = Chat({{"user", large}}), .tenant = {}});
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().field, "messages");
  EXPECT_THAT(
      chat.error().detail,
      HasSubstr("This model's maximum context length is 4096 tokens. However, your messages "
                "resulted in 50"));
  CompletionRequest request = Chat({{"user", large}});
  request.dialect = Dialect::kMessages;
  const auto messages = fixture.provider.Run({.request = request, .tenant = {}});
  EXPECT_THAT(messages.error().detail,
              ::testing::MatchesRegex("prompt is too long: 50[0-9]* tokens > 4095 maximum"));
  request.dialect = Dialect::kResponses;
  const auto responses = fixture.provider.Run({.request = request, .tenant = {}});
  EXPECT_THAT(responses.error().detail, HasSubstr("exceeds the context window of this model"));
}

// A client compacts only on the words of its dialect, whichever bound was met.
TEST(LocalProviderTest, APromptBeyondATenantsShareIsToldSoInTheDialectsWords) {
  Fixture fixture;
  fixture.engine.mutable_info().tenant_tokens_max = 1024;
  const auto refusal = [&](Dialect dialect, size_t size) {
    CompletionRequest request = Chat({{"user", std::string(size, 'x')}});
    if (dialect == Dialect::kCompletions) request = Text(std::string(size, 'x'));
    request.dialect = dialect;
    const auto run = fixture.provider.Run({.request = request, .tenant = {}});
    EXPECT_FALSE(run);
    EXPECT_EQ(run.error().source, dialect::form::kContextLengthSource);
    return run.error().detail;
  };
  for (const size_t size : {size_t{2000}, size_t{5000}}) {  // within the context, and beyond
    EXPECT_THAT(refusal(Dialect::kMessages, size),
                ::testing::MatchesRegex("prompt is too long: [0-9]+ tokens > 1024 maximum"));
    EXPECT_THAT(refusal(Dialect::kChatCompletions, size), HasSubstr("length is 1024 tokens"));
    EXPECT_THAT(refusal(Dialect::kCompletions, size), HasSubstr("length is 1024 tokens"));
    EXPECT_THAT(refusal(Dialect::kResponses, size), HasSubstr("at most 1024 are possible"));
  }
  const CompletionRequest fits = Text(std::string(1024, 'x'));
  EXPECT_TRUE(fixture.provider.Run({.request = fits, .tenant = {}}));
  const CompletionRequest large = Text(std::string(1025, 'x'));
  EXPECT_EQ(fixture.provider.EncodePrefix(large).error().source,
            dialect::form::kContextLengthSource);
}

TEST(LocalProviderTest, AnswersAreBoundedByTheKeyTheServerAndTheContext) {
  Fixture fixture;
  const auto bound = [&](std::optional<int64_t> named, dialect::form::OutputLimit limit) {
    CompletionRequest request = Chat({{"user", "u"}});
    request.max_tokens = named;
    EXPECT_TRUE(fixture.provider.Run({.request = request, .tenant = {}, .output = limit}));
    return fixture.engine.last_request().max_tokens;
  };
  EXPECT_EQ(bound({}, {.fallback = 300, .most = 500}), 300);
  EXPECT_EQ(bound(100'000, {.fallback = 300, .most = 500}), 500);
  EXPECT_EQ(bound(7, {.fallback = 300, .most = 500}), 7);
  EXPECT_EQ(bound(0, {.fallback = 300, .most = 500}), 0);
  EXPECT_GT(bound({}, {}), 4000);
  Fixture server({}, 50);
  CompletionRequest request = Chat({{"user", "u"}});
  EXPECT_TRUE(server.provider.Run({.request = request, .tenant = {}}));
  EXPECT_EQ(server.engine.last_request().max_tokens, 50);
  request.max_tokens = 60;
  EXPECT_TRUE(server.provider.Run({.request = request, .tenant = {}}));
  EXPECT_EQ(server.engine.last_request().max_tokens, 60);
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

TEST(LocalProviderTest, TheSamplersArriveAtTheEngine) {
  Fixture fixture;
  CompletionRequest request = Text("x");
  request.typical_p = 0.9f;
  request.top_n_sigma = 1.5f;
  request.xtc_probability = 0.5f;
  request.xtc_threshold = 0.2f;
  request.repetition_penalty = 1.1f;
  request.repeat_last_n = 64;
  request.presence_penalty = 0.25f;
  request.frequency_penalty = 0.75f;
  request.logit_bias = {{.token = 255, .bias = -100}};
  ASSERT_TRUE(fixture.provider.Run({.request = request, .tenant = {}}));
  const sample::SamplingParams sent = fixture.engine.last_request().sampling;
  EXPECT_EQ(sent.typical_p, 0.9f);
  EXPECT_EQ(sent.top_n_sigma, 1.5f);
  EXPECT_EQ(sent.xtc_probability, 0.5f);
  EXPECT_EQ(sent.xtc_threshold, 0.2f);
  EXPECT_EQ(sent.adjustments.repetition_penalty, 1.1f);
  EXPECT_EQ(sent.adjustments.repetition_window, 64);
  EXPECT_EQ(sent.adjustments.presence_penalty, 0.25f);
  EXPECT_EQ(sent.adjustments.frequency_penalty, 0.75f);
  ASSERT_EQ(sent.adjustments.biases.size(), 1u);
  EXPECT_EQ(sent.adjustments.biases[0].token, 255);
  EXPECT_EQ(sent.adjustments.biases[0].bias, -100.0f);
}

TEST(LocalProviderTest, ABiasOfATokenBeyondTheVocabularyIsRefused) {
  Fixture fixture;
  CompletionRequest request = Text("x");
  request.logit_bias = {{.token = 256, .bias = 1}};
  const auto stream = fixture.provider.Run({.request = request, .tenant = {}});
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(stream.error().field, "logit_bias");
  EXPECT_THAT(stream.error().detail, HasSubstr("token id 256"));
  EXPECT_TRUE(fixture.engine.requests().empty());
}

TEST(LocalProviderTest, TheFormOfTheAnswerArrivesAtTheEngineAndItsFaultsAreNamed) {
  Fixture fixture;
  CompletionRequest request = Text("p");
  request.num_choices = 2;
  request.output = {.kind = dialect::form::OutputKind::kJsonSchema,
                    .text = R"({"type":"boolean"})",
                    .field = "response_format.json_schema.schema"};
  const auto run = fixture.provider.Run({.request = request, .tenant = "t"});
  ASSERT_TRUE(run) << run.error().ToString();
  WaitForFinish(**run);
  ASSERT_EQ(fixture.engine.requests().size(), 2u);
  EXPECT_NE(fixture.engine.requests()[0].grammar, nullptr);
  EXPECT_EQ(fixture.engine.requests()[0].grammar, fixture.engine.requests()[1].grammar);
  request.output.text = R"({"properties":{"x":{"foo":1}}})";
  const auto unsupported = fixture.provider.Run({.request = request, .tenant = "t"});
  ASSERT_FALSE(unsupported);
  EXPECT_EQ(unsupported.error().field, "response_format.json_schema.schema.properties.x.foo");
  EXPECT_EQ(unsupported.error().code, ErrorCode::kUnsupported);
  request.output = {
      .kind = dialect::form::OutputKind::kGbnf, .text = "root ::= x", .field = "grammar"};
  const auto bad = fixture.provider.Run({.request = request, .tenant = "t"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().field, "grammar");
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(bad.error().detail, HasSubstr("Invalid value for 'grammar': line 1, column 10"));
}

TEST(LocalProviderTest, EachChoiceIsARequestWithItsPromptAndItsSeed) {
  Fixture fixture;
  CompletionRequest request = Text("a");
  request.more_prompts = {std::string("bb"), std::vector<TokenId>{'c', 'c', 'c'}};
  request.num_choices = 2;
  request.seed = 7;
  const auto stream = fixture.provider.Run({.request = request, .tenant = {}});
  ASSERT_TRUE(stream);
  const auto sent = fixture.engine.requests();
  ASSERT_EQ(sent.size(), 6u);
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].prompt.size(), i / 2 + 1);
    EXPECT_EQ(sent[i].sampling.seed, 7 + i % 2);
  }
  EXPECT_THAT(fixture.provider.PromptTexts(request), ElementsAre("a", "bb", "ccc"));
  const auto finish = WaitForFinish(**stream);
  EXPECT_FALSE(finish.error);
  EXPECT_EQ(finish.stats.num_prompt_tokens, 1 + 2 + 3);
  EXPECT_EQ(finish.stats.num_output_tokens, 6 * 3);
  ASSERT_EQ(finish.stats.segments.size(), 1u);
  EXPECT_EQ(finish.stats.segments[0].num_tokens, 6);
}

TEST(LocalProviderTest, WithoutASeedEveryChoiceHasItsOwn) {
  Fixture fixture;
  CompletionRequest request = Text("a");
  request.more_prompts = {std::string("a")};
  request.num_choices = 2;
  ASSERT_TRUE(fixture.provider.Run({.request = request, .tenant = {}}));
  std::set<uint64_t> seeds;
  for (const auto& sent : fixture.engine.requests()) seeds.insert(sent.sampling.seed);
  EXPECT_EQ(seeds.size(), 4u);
}

TEST(LocalProviderTest, OfSeveralPromptsTheOneAtFaultIsNamedAndNothingRuns) {
  Fixture fixture;
  CompletionRequest request = Text("a");
  request.more_prompts = {std::string(5000, 'x')};
  const auto stream = fixture.provider.Run({.request = request, .tenant = {}});
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().field, "prompt[1]");
  EXPECT_TRUE(fixture.engine.requests().empty());
}

TEST(LocalProviderTest, ARefusalOfOneChoiceCancelsThoseBegun) {
  Fixture fixture({.piece_delay = std::chrono::milliseconds(1), .forever = true});
  fixture.engine.RefuseWith(MakeError(ErrorCode::kOverloaded, "engine", "full"), 2);
  CompletionRequest request = Text("a");
  request.max_tokens = 4000;
  request.num_choices = 3;
  const auto stream = fixture.provider.Run({.request = request, .tenant = {}});
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kOverloaded);
  EXPECT_TRUE(
      test::WaitUntil([&] { return fixture.engine.num_running() == 0; }, "the engine is idle"));
  EXPECT_EQ(fixture.engine.num_cancelled(), 2);
}

}  // namespace
}  // namespace kvgate::local
