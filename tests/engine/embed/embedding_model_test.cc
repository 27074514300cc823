// Encoders are compared with torch and with the forward pass of plain_encoder.h, decoders with that
// of plain_transformer.h.
#include "engine/embed/embedding_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/make_model.h"
#include "kernels/reference/reference_backend.h"
#include "tests/engine/embed/embedding_test_model.h"
#include "tests/engine/embed/torch_vectors.h"
#include "tests/engine/model/plain_transformer.h"

namespace kvgate::embed {
namespace {

using modelfile::GgufType;
using ::testing::HasSubstr;

class EmbeddingModelTest : public ::testing::Test {
 protected:
  std::shared_ptr<const modelfile::ModelFile> Encoder(const EncoderShape& shape) {
    return OpenFile(EncoderFile(shape), FillHashed, scratch_ / NextName());
  }
  std::unique_ptr<EmbeddingModel> Load(std::shared_ptr<const modelfile::ModelFile> file,
                                       const EmbeddingModelOptions& options = {}) {
    auto model = EmbeddingModel::Load(std::move(file), *backend_, options);
    EXPECT_TRUE(model.has_value()) << model.error().ToString();
    return *std::move(model);
  }
  // Returns the error of loading an encoder's file with other metadata or tensors.
  std::string LoadError(const modelfile::GgufWriter& writer) {
    const auto file = OpenFile(writer, FillHashed, scratch_ / NextName());
    const auto model = EmbeddingModel::Load(file, *backend_);
    return model ? "it was loaded" : model.error().detail;
  }
  std::string NextName() { return std::to_string(next_++) + ".gguf"; }

  int next_ = 0;
  const TempFolder scratch_;
  std::unique_ptr<kernels::Backend> backend_ = CpuBackend();
};

TEST_F(EmbeddingModelTest, AnEncoderGivesTheVectorsOfTorch) {
  std::vector<TokenId> longer{2};
  for (TokenId token = 30; token < 59; ++token) longer.push_back(token);
  for (const TokenId token : {5, 6, 8, 9, 3}) longer.push_back(token);
  const std::vector<std::vector<TokenId>> texts = {{2, 7, 11, 59, 3}, longer};
  for (const int pooling : {1, 2}) {
    const auto model = Load(Encoder({.pooling = pooling}));
    const auto vectors = EmbedTogether(*model, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<float>& want = kTorchVectors[2 * i + static_cast<size_t>(pooling) - 1];
      for (size_t j = 0; j < want.size(); ++j) {
        ASSERT_NEAR(vectors[i][j], want[j], 2e-6) << "text " << i << " value " << j;
      }
    }
  }
}

TEST_F(EmbeddingModelTest, EncodersAreThoseOfTheirPapersForEveryPooling) {
  for (const bool is_nomic : {false, true}) {
    for (const int pooling : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << (is_nomic ? "nomic-bert" : "bert") << " " << pooling);
      const EncoderShape shape = {
          .is_nomic = is_nomic, .num_layers = 3, .context = 100, .pooling = pooling};
      const auto file = Encoder(shape);
      const PlainEncoder plain(shape, *file);
      const auto model = Load(file);
      for (const size_t length : {1, 2, 31, 32, 33, 100}) {
        const std::vector<TokenId> text = RandomText(length, shape.vocab, 1);
        const std::vector<double> want = PlainPool(plain.Run(text), pooling);
        EXPECT_GT(Cosine(EmbedTogether(*model, {text})[0], want), 1 - 1e-9) << length;
      }
    }
  }
}

// The bounds are a tenth of what rounding the weights may do: f16 has 11 bits, q8_0 8.
TEST_F(EmbeddingModelTest, RoundedWeightsGiveTheVectorsOfTheExactOnesAlmost) {
  const std::vector<TokenId> text = RandomText(60, 60, 2);
  const EncoderShape exact = {.num_layers = 4, .hidden = 64, .ffn = 128, .context = 64};
  const auto exact_file = Encoder(exact);
  const std::vector<double> want = PlainPool(PlainEncoder(exact, *exact_file).Run(text), 1);
  for (const auto& [type, cosine] :
       {std::pair{GgufType::kF32, 0.999999999}, std::pair{GgufType::kF16, 0.99999},
        std::pair{GgufType::kQ8_0, 0.999}}) {
    EncoderShape shape = exact;
    shape.type = type;
    const auto file = Encoder(shape);
    const std::vector<float> vector = EmbedTogether(*Load(file), {text})[0];
    EXPECT_GT(Cosine(vector, want), cosine) << static_cast<int>(type);
    RecordProperty("cosine_of_type_" + std::to_string(static_cast<int>(type)),
                   std::to_string(Cosine(vector, want)));
    // Computing with the rounded weights is as exact as with others.
    const std::vector<double> rounded = PlainPool(PlainEncoder(shape, *file).Run(text), 1);
    EXPECT_GT(Cosine(vector, rounded), 0.9999999) << static_cast<int>(type);
  }
}

TEST_F(EmbeddingModelTest, DecodersGiveTheirLastOrMeanRow) {
  const std::vector<model::PlainShape> shapes = {
      {.architecture = "llama"},
      {.architecture = "qwen2", .tied = true, .theta = 1e6},
      {.architecture = "qwen3", .head_dim = 16, .rotary_dim = 16, .tied = true},
      {.architecture = "gemma3", .num_layers = 7, .tied = true, .theta = 1e6, .window = 20},
      {.architecture = "llama", .window = 40},
      {.num_experts = 6, .num_used = 2}};
  for (const model::PlainShape& shape : shapes) {
    for (const int pooling : {1, 3}) {
      SCOPED_TRACE(testing::Message() << shape.architecture << " " << pooling);
      modelfile::GgufWriter writer = model::PlainFile(shape);
      writer.Add(shape.architecture + ".pooling_type", static_cast<uint32_t>(pooling));
      const auto file = OpenFile(writer, model::FillPlain, scratch_ / NextName());
      const model::PlainTransformer plain(shape, *file);
      const auto model = Load(file);
      for (const size_t length : {1, 33, 90}) {
        const std::vector<TokenId> text = RandomText(length, shape.vocab, 3);
        EXPECT_GT(Cosine(EmbedTogether(*model, {text})[0], PlainPool(plain.Rows(text), pooling)),
                  1 - 1e-8)
            << length;
      }
    }
  }
}

TEST_F(EmbeddingModelTest, ADecoderWhoseFileSaysSoSeesTheWholeText) {
  const model::PlainShape shape = {.architecture = "qwen2", .tied = true};
  modelfile::GgufWriter writer = model::PlainFile(shape);
  writer.Add("qwen2.pooling_type", uint32_t{2});
  writer.Add("qwen2.attention.causal", false);
  const auto model = Load(OpenFile(writer, model::FillPlain, scratch_ / NextName()));
  std::vector<TokenId> text = RandomText(40, shape.vocab, 4);
  const std::vector<float> before = EmbedTogether(*model, {text})[0];
  text.back() = (text.back() + 1) % shape.vocab;
  EXPECT_LT(Cosine(EmbedTogether(*model, {text})[0], before), 0.99999);  // the first row
}

TEST_F(EmbeddingModelTest, AVectorHasTheSameBitsInAnyCompanyAndWithAnyThreads) {
  for (const bool is_nomic : {false, true}) {
    const EncoderShape shape = {
        .is_nomic = is_nomic, .ffn = 64, .context = 100, .type = GgufType::kQ8_0};
    const auto file = Encoder(shape);
    const auto model = Load(file);
    std::vector<std::vector<TokenId>> texts;
    for (const size_t length : {1, 40, 32, 7, 33, 64, 2}) {
      texts.push_back(RandomText(length, shape.vocab, static_cast<unsigned>(length)));
    }
    const auto together = EmbedTogether(*model, texts);
    for (const int num_threads : {1, 3}) {
      const auto other_backend = CpuBackend(num_threads);
      auto other = *EmbeddingModel::Load(file, *other_backend);
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(EmbedTogether(*other, {texts[i]})[0], together[i]) << i;
      }
    }
  }
}

TEST_F(EmbeddingModelTest, VectorsHaveLengthOne) {
  const auto model = Load(Encoder({}));
  const std::vector<float> vector = EmbedTogether(*model, {RandomText(20, 60, 5)})[0];
  const double squares = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0);
  EXPECT_NEAR(squares, 1, 1e-6);
  std::vector<float> zeros(8);
  Normalize(zeros);
  EXPECT_EQ(zeros, std::vector<float>(8));
}

TEST_F(EmbeddingModelTest, ATextLongerThanAStepHasAStepOfItsOwn) {
  const EncoderShape shape = {.context = 100};
  const auto file = Encoder(shape);
  const auto model = Load(file, {.step_tokens = 16});
  EXPECT_TRUE(model->Fits(0, 0, 100));
  EXPECT_FALSE(model->Fits(1, 10, 7));
  EXPECT_TRUE(model->Fits(1, 10, 6));
  EXPECT_FALSE(model->Fits(EmbeddingModel::kStepTextsMax, 0, 1));
  const std::vector<TokenId> text = RandomText(77, shape.vocab, 6);
  EXPECT_EQ(EmbedTogether(*model, {text}), EmbedTogether(*Load(file), {text}));
  const auto reference = kernels::reference::MakeReferenceBackend();
  const auto slow = *EmbeddingModel::Load(file, *reference, {.step_tokens = 16});
  EXPECT_GT(Cosine(EmbedTogether(*slow, {text})[0], EmbedTogether(*model, {text})[0]), 1 - 1e-6);
}

TEST_F(EmbeddingModelTest, TheContextIsTheFilesOrSmaller) {
  EXPECT_EQ(Load(Encoder({.context = 40}))->context_tokens(), 40);
  EXPECT_EQ(Load(Encoder({.context = 40}), {.context_tokens = 24})->context_tokens(), 24);
  EXPECT_EQ(Load(Encoder({.context = 40}), {.context_tokens = 90})->context_tokens(), 40);
}

TEST_F(EmbeddingModelTest, FilesThatMakeNoVectorOfATextAreRefusedByTheKey) {
  for (const auto& [pooling, what] :
       {std::pair{0, "0 (none"}, std::pair{4, "4 (rank"}, std::pair{5, "bert.pooling_type"}}) {
    EXPECT_THAT(LoadError(EncoderFile({.pooling = pooling})), HasSubstr(what));
  }
  const auto chat = OpenFile(model::PlainFile({}), model::FillPlain, scratch_ / NextName());
  EXPECT_THAT(EmbeddingModel::Load(chat, *backend_).error().detail,
              HasSubstr("'llama.pooling_type' is missing"));
  EXPECT_FALSE(model::MakesEmbeddings(*chat));
  const auto encoder = Encoder({});
  EXPECT_TRUE(model::MakesEmbeddings(*encoder));
  EXPECT_THAT(model::Model::Load(encoder, *backend_).error().detail,
              HasSubstr("makes embeddings and no text"));
}

TEST_F(EmbeddingModelTest, TensorsThatAreMissingOrNotReadAreRefusedByName) {
  modelfile::GgufWriter more = EncoderFile({});
  more.AddTensor({.name = "cls.weight", .dimensions = {32, 32}, .type = GgufType::kF32});
  EXPECT_THAT(LoadError(more), HasSubstr("'cls.weight'"));
  for (const std::string missing :
       {"position_embd.weight", "token_embd_norm.bias", "blk.1.attn_k.bias", "blk.0.ffn_up.bias",
        "blk.1.layer_output_norm.weight"}) {
    const modelfile::GgufWriter whole = EncoderFile({});
    modelfile::GgufWriter writer;
    for (const auto& [key, value] : whole.metadata()) writer.Add(key, value);
    for (const auto& spec : whole.tensors()) {
      if (spec.name != missing) writer.AddTensor(spec);
    }
    EXPECT_THAT(LoadError(writer), HasSubstr("'" + missing + "' is missing"));
  }
}

TEST_F(EmbeddingModelTest, MadeModelsOfEncodersAndOfDecodersWithAPoolingLoad) {
  for (const char* arch : {"bert", "nomic-bert", "qwen3"}) {
    const auto path = scratch_ / NextName();
    model::MakeModelOptions options = {.architecture = arch,
                                       .num_layers = 2,
                                       .hidden_dim = 64,
                                       .num_heads = 2,
                                       .num_kv_heads = 2,
                                       .ffn_dim = 96,
                                       .vocab_size = 512,
                                       .context_length = 128,
                                       .name = ""};
    if (options.architecture == "qwen3") options.pooling = model::Pooling::kLast;
    const auto made = model::MakeModel(options, path);
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    const auto model = Load(*modelfile::GgufFile::Open(path));
    const auto vectors = EmbedTogether(*model, {RandomText(20, 512, 7), RandomText(20, 512, 8)});
    EXPECT_LT(Cosine(vectors[0], vectors[1]), 0.999) << arch;
  }
}

}  // namespace
}  // namespace kvgate::embed
