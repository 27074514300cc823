#include "gateway/local/embeddings/embedding_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/gateway/local/embeddings/made_provider.h"

namespace kvgate::local::embeddings {
namespace {

using dialect::embeddings::EmbeddingInput;
using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;

class EmbeddingProviderTest : public ::testing::Test {
 protected:
  Error ErrorOf(const std::vector<EmbeddingInput>& inputs, EmbeddingProvider::Args args) {
    const EmbeddingProvider::Args all = {.inputs = inputs,
                                         .is_list = args.is_list,
                                         .dimensions = args.dimensions,
                                         .prompt_tokens_max = args.prompt_tokens_max};
    const auto run = provider().Start(all);
    return run ? MakeError(ErrorCode::kInternal, "test", "it was started") : run.error();
  }
  const EmbeddingProvider& provider() { return *made_.provider; }

  const std::vector<EmbeddingInput> none_ = {};
  MadeProvider made_;
};

TEST_F(EmbeddingProviderTest, TextsOfThisProcessBecomeVectorsOfLengthOne) {
  const auto vectors = provider().Embed({"baba bebe", "Baba  BEBE", "something else"}, "tenant");
  ASSERT_TRUE(vectors.has_value()) << vectors.error().ToString();
  EXPECT_EQ(vectors->dimensions, 64u);
  ASSERT_EQ(vectors->values.size(), 3 * 64u);
  const auto dot = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t i = 0; i < 64; ++i) {
      sum += static_cast<double>(vectors->values[a * 64 + i]) * vectors->values[b * 64 + i];
    }
    return sum;
  };
  EXPECT_NEAR(dot(0, 0), 1, 1e-6);
  EXPECT_NEAR(dot(0, 1), 1, 1e-6);  // the same words
  EXPECT_LT(dot(0, 2), 0.999);
  EXPECT_EQ(provider().Embed({}, "tenant")->values.size(), 0u);
}

TEST_F(EmbeddingProviderTest, ATextStandsBetweenTheSpecialTokensAndTokensAsTheyAre) {
  const auto tokens_of = [&](const EmbeddingInput& input) {
    const std::vector<EmbeddingInput> inputs = {input};
    return (*provider().Start({.inputs = inputs}))->num_tokens();
  };
  EXPECT_EQ(tokens_of("a"), 3u);
  EXPECT_EQ(tokens_of(Tokens{7}), 1u);
}

TEST_F(EmbeddingProviderTest, FewerDimensionsAreTheFirstOnesScaledAnew) {
  const auto whole = provider().Embed({"baba"}, "");
  const std::vector<EmbeddingInput> inputs = {"baba"};
  const auto run = provider().Start({.inputs = inputs, .dimensions = 5});
  ASSERT_TRUE(run.has_value());
  while (!(*run)->is_done()) std::this_thread::yield();
  const auto fewer = (*run)->Take();
  ASSERT_EQ(fewer->values.size(), 5u);
  double squares = 0;
  for (size_t i = 0; i < 5; ++i) squares += std::pow(whole->values[i], 2);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(fewer->values[i], whole->values[i] / std::sqrt(squares), 1e-6);
  }
}

TEST_F(EmbeddingProviderTest, RefusalsNameTheInput) {
  std::string longer;
  for (int i = 0; i < 63; ++i) longer += "a ";
  Error error = ErrorOf({"a", longer}, {.inputs = none_});
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.field, "input[1]");
  EXPECT_THAT(error.detail, HasSubstr("'input[1]' has 65 tokens; the model 'made' takes 64"));
  EXPECT_EQ(ErrorOf({longer}, {.inputs = none_, .is_list = false}).field, "input");
  error = ErrorOf({Tokens{1}, Tokens{511, 512}}, {.inputs = none_});
  EXPECT_EQ(error.field, "input[1]");
  EXPECT_THAT(error.detail, HasSubstr("the token 512"));
  error = ErrorOf({"a"}, {.inputs = none_, .dimensions = 65});
  EXPECT_EQ(error.field, "dimensions");
  EXPECT_THAT(error.detail, HasSubstr("'made' have 64"));
  EXPECT_THAT(ErrorOf({"a b c"}, {.inputs = none_, .prompt_tokens_max = 4}).detail, HasSubstr("4"));
}

TEST_F(EmbeddingProviderTest, TooManyTokensAreRefusedAsAWhole) {
  const MadeProvider small({.request_tokens_max = 10});
  const auto refused = small.provider->Embed({"a b c", "a b c d e f"}, "");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().detail, HasSubstr("more than 10 tokens"));
}

TEST_F(EmbeddingProviderTest, ARunThatIsDroppedGivesUpItsPlaceAndWakesNobody) {
  const std::vector<EmbeddingInput> inputs(200, std::string("baba bebe bibi"));
  for (int i = 0; i < 30; ++i) {
    auto alive = std::make_shared<int>(0);
    auto run = provider().Start({.inputs = inputs, .wake = [alive] { ++*alive; }});
    ASSERT_TRUE(run.has_value());
    run->reset();
    EXPECT_EQ(alive.use_count(), 1) << "the wake function is kept";
  }
  EXPECT_EQ(provider().embedder().Stats().num_waiting, 0u);
}

TEST_F(EmbeddingProviderTest, ServesEachOfItsNames) {
  EXPECT_EQ(provider().id(), "made");
  EXPECT_TRUE(provider().Serves("m.gguf"));
  EXPECT_TRUE(provider().Serves("local"));
  EXPECT_FALSE(provider().Serves(""));
  EXPECT_FALSE(provider().Serves("other"));
}

}  // namespace
}  // namespace kvgate::local::embeddings
