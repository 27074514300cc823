#include "engine/generation.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <utility>

#include "base/utf8.h"
#include "engine/text/grammar/compiler.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::engine {
namespace {

constexpr int kVocab = 257;  // BpeFixture without merges: the bytes, then <|end|>

// Returns logits that make a greedy sampler choose `token`.
std::vector<float> Choosing(TokenId token) {
  std::vector<float> logits(kVocab, 0.0f);
  logits[static_cast<size_t>(token)] = 1.0f;
  return logits;
}

GenerationRequest Greedy(std::shared_ptr<TokenSink> sink) {
  GenerationRequest request;
  request.prompt = {'p'};
  request.max_tokens = 1000;
  request.sampling.temperature = 0;
  request.sink = std::move(sink);
  return request;
}

std::string Repaired(std::string_view bytes) {
  std::string text;
  if (AppendValidUtf8(bytes, text) < bytes.size()) {
    text += kReplacementCharacter;
  }
  return text;
}

// Returns the text before the stop string that is completed first; of several that end there, the
// longest counts.
std::string CutNaively(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t length = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) length = std::max(length, stop.size());
    }
    if (length > 0) return text.substr(0, end - length);
  }
  return text;
}

TEST(GenerationTest, PiecesOfRandomByteTokensEndBetweenCharactersAndStopsAreFoundInAnyCut) {
  const auto tokenizer = tokenizer::BpeFixture({}).MustLoad();
  const std::vector<std::string> parts = {"é", "日", "👍", "a", "b", "\xF0\x9F", "\xE6", "\xFF"};
  std::mt19937_64 random(3);
  int num_stopped = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes;
    for (size_t i = 0; i < 20; ++i) bytes += parts[random() % parts.size()];
    std::vector<std::string> stops;
    for (size_t i = random() % 3; i > 0; --i) {
      std::string stop;
      // Stop strings are valid UTF-8, as JSON can carry it, including the replacement character.
      for (size_t j = 1 + random() % 3; j > 0; --j) stop += Repaired(parts[random() % 8]);
      stops.push_back(std::move(stop));
    }
    auto sink = std::make_shared<CollectingSink>();
    GenerationRequest request = Greedy(sink);
    request.stop_strings = stops;
    Generation generation(request, *tokenizer);
    bool going = true;
    for (size_t i = 0; i < bytes.size() && going; ++i) {
      going = generation.Advance(Choosing(static_cast<unsigned char>(bytes[i]))).has_value();
    }
    generation.Finish(generation.finish_reason(), {});
    for (const TokenEvent& event : sink->events()) {
      ASSERT_EQ(ValidUtf8Bytes(event.text), event.text.size());
    }
    const FinishEvent& finish = sink->WaitForFinish();
    ASSERT_EQ(ValidUtf8Bytes(finish.text), finish.text.size());
    const std::string whole = Repaired(bytes);
    ASSERT_EQ(sink->text(), CutNaively(whole, stops));
    ASSERT_EQ(finish.stop_string.empty(), sink->text() == whole);
    num_stopped += finish.stop_string.empty() ? 0 : 1;
  }
  EXPECT_GT(num_stopped, 100);
}

struct Written {
  std::string text;
  FinishEvent finish;
};

// Returns what a grammar lets a model write that prefers `liked` and then the lowest ids.
Written Write(const std::string& gbnf, char liked,
              const std::function<void(GenerationRequest&)>& set) {
  const auto tokenizer = tokenizer::BpeFixture({}).MustLoad();
  grammar::Compiler compiler(*tokenizer, {});
  grammar::mask::MatcherPool matchers;
  auto sink = std::make_shared<CollectingSink>();
  GenerationRequest request = Greedy(sink);
  request.grammar = *compiler.Compile({.kind = grammar::SourceKind::kGbnf, .text = gbnf});
  set(request);
  Generation generation(request, *tokenizer, &matchers);
  while (generation.Advance(Choosing(liked))) {
  }
  generation.Finish(generation.finish_reason(), {});
  return {.text = sink->text(), .finish = sink->WaitForFinish()};
}

TEST(GenerationTest, AGrammarDecidesWhatIsWrittenAndWhereItEnds) {
  const auto nothing = [](GenerationRequest&) {};
  const Written exact = Write("root ::= \"a\" [b-d] \"z\"", 'c', nothing);
  EXPECT_EQ(exact.text, "acz");
  EXPECT_EQ(exact.finish.reason, FinishReason::kStop);
  EXPECT_EQ(exact.finish.stats.num_output_tokens, 3);
  // The grammar's end ends the output even if the model's own end token is ignored.
  const Written ignoring = Write("root ::= \"ab\"", 'q', [](GenerationRequest& request) {
    request.ignore_end_of_generation = true;
  });
  EXPECT_EQ(ignoring.text, "ab");
}

TEST(GenerationTest, AGrammarIsWholeWhereTheTokensAreEnough) {
  const auto tokens = [](int count) {
    return [count](GenerationRequest& request) { request.max_tokens = count; };
  };
  const std::string list = "root ::= \"[\" \"x\"* \"]\"";
  const Written cut = Write(list, 'x', tokens(10));
  EXPECT_EQ(cut.text, "[xxxxxxxx]");
  EXPECT_EQ(cut.finish.reason, FinishReason::kStop);
  const Written exact = Write("root ::= \"abc\"", 'a', tokens(3));
  EXPECT_EQ(exact.finish.reason, FinishReason::kStop);
  const Written hopeless = Write("root ::= \"abcdef\"", 'a', tokens(3));
  EXPECT_EQ(hopeless.text, "abc");
  EXPECT_EQ(hopeless.finish.reason, FinishReason::kLength);
}

TEST(GenerationTest, WhereNoTokenIsLeftTheErrorSaysSo) {
  const Written banned = Write("root ::= \"ab\"", 'a', [](GenerationRequest& request) {
    request.sampling.adjustments.biases = {{'b', -100}};
  });
  EXPECT_EQ(banned.text, "a");
  EXPECT_EQ(banned.finish.reason, FinishReason::kError);
  ASSERT_TRUE(banned.finish.error);
  EXPECT_EQ(banned.finish.error->code, ErrorCode::kInvalidArgument);
}

TEST(GenerationTest, PenaltiesSeeThePromptAndTheOutput) {
  const auto tokenizer = tokenizer::BpeFixture({}).MustLoad();
  auto sink = std::make_shared<CollectingSink>();
  GenerationRequest request = Greedy(sink);
  request.sampling.adjustments.repetition_penalty = 4.0f;
  Generation generation(request, *tokenizer);
  std::vector<float> logits(kVocab, 0.0f);
  logits['p'] = 3.0f;
  logits['q'] = 2.0f;
  logits['r'] = 1.0f;
  std::string chosen;
  for (int i = 0; i < 3; ++i) chosen += static_cast<char>(*generation.Advance(logits));
  EXPECT_EQ(chosen, "qrp");
  generation.Finish(FinishReason::kLength, {});
}

}  // namespace
}  // namespace kvgate::engine
