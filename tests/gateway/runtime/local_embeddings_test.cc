#include "gateway/runtime/local_embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/make_model.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalEmbeddingsTest : public ::testing::Test {
 protected:
  std::string Make(const std::string& architecture, const std::string& name) {
    const auto path = scratch_ / (name + ".gguf");
    const auto made = model::MakeModel({.architecture = architecture,
                                        .num_layers = 1,
                                        .hidden_dim = 64,
                                        .num_heads = 2,
                                        .num_kv_heads = 2,
                                        .ffn_dim = 64,
                                        .vocab_size = 512,
                                        .context_length = 128,
                                        .name = "made-" + name},
                                       path);
    EXPECT_TRUE(made.has_value()) << made.error().ToString();
    return path.string();
  }
  const TempFolder scratch_;
};

TEST_F(LocalEmbeddingsTest, AModelThatMakesEmbeddingsIsNoEngineOfText) {
  config::EngineConfig engine;
  ASSERT_TRUE(SortModels(engine).has_value());
  EXPECT_FALSE(engine.is_embedding_only);
  engine.model = Make("llama", "chat");
  ASSERT_TRUE(SortModels(engine).has_value());
  EXPECT_FALSE(engine.is_embedding_only);
  EXPECT_EQ(engine.embedding_model, "");
  engine.model = "no such file";
  EXPECT_TRUE(SortModels(engine).has_value());  // whoever loads it says so
  const std::string embeds = Make("bert", "embeds");
  engine.model = embeds;
  ASSERT_TRUE(SortModels(engine).has_value());
  EXPECT_TRUE(engine.is_embedding_only);
  EXPECT_EQ(engine.model, "");
  EXPECT_EQ(engine.embedding_model, embeds);
  engine.model = embeds;
  const auto refused = SortModels(engine);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().field, "engine.model");
  EXPECT_THAT(refused.error().detail, HasSubstr("makes embeddings and no text"));
}

TEST_F(LocalEmbeddingsTest, AProviderHasTheNamesAndBoundsOfItsConfiguration) {
  config::EngineConfig engine;
  engine.embedding_model = Make("bert", "embeds");
  engine.embedding_context = 32;
  engine.embedding_threads = 1;
  EXPECT_THAT(DescribeEmbeddingModel(engine).value(),
              HasSubstr("embeds.gguf: bert, 1 layers, 64 dimensions (mean), context 128"));
  const auto provider = OpenEmbeddings(engine, /*beside_engine=*/true);
  ASSERT_TRUE(provider.has_value()) << provider.error().ToString();
  EXPECT_THAT((*provider)->names(), ElementsAre("made-embeds", "embeds", "embeds.gguf", "local"));
  EXPECT_EQ((*provider)->context_tokens(), 32);
  EXPECT_EQ((*provider)->embedder().info().backend.num_threads, 1);
  EXPECT_TRUE((*provider)->Embed({"a text"}, "").has_value());
}

TEST_F(LocalEmbeddingsTest, AModelThatGeneratesTextMakesNone) {
  config::EngineConfig engine;
  engine.embedding_model = Make("llama", "chat");
  const auto refused = OpenEmbeddings(engine, /*beside_engine=*/false);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().detail, HasSubstr("'llama.pooling_type' is missing"));
}

}  // namespace
}  // namespace kvgate::runtime
