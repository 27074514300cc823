#include "engine/model/model_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/engine/model/bad_model.h"
#include "tests/engine/model/model_runner.h"

namespace kvgate::model {

using modelfile::GgufWriter;

namespace {

using ::testing::HasSubstr;
using ModelWeightsTest = BadModelTest;

TEST_F(ModelWeightsTest, EveryMissingTensorIsNamed) {
  const PlainShape shape = {.architecture = "qwen2"};
  const TempFolder scratch;
  ASSERT_TRUE(PlainFile(shape).Write(scratch / "m.gguf", FillPlain).has_value());
  const auto file = modelfile::GgufFile::Open(scratch / "m.gguf");
  for (const modelfile::GgufTensor& tensor : (*file)->tensors()) {
    if (tensor.name == "output.weight") continue;  // an absent output.weight means tied embeddings
    const Error error = LoadChanged([&](auto& spec) { return spec.name != tensor.name; }, shape);
    EXPECT_EQ(error.code, ErrorCode::kDataLoss) << tensor.name;
    EXPECT_THAT(error.detail, HasSubstr("'" + tensor.name + "' is missing"));
  }
}

TEST_F(ModelWeightsTest, AWrongShapeIsNamedWithBothShapes) {
  const Error error = LoadChanged([](auto& spec) {
    if (spec.name == "blk.1.ffn_down.weight") spec.dimensions = {48, 80};
    return true;
  });
  EXPECT_EQ(error.code, ErrorCode::kDataLoss);
  EXPECT_THAT(error.detail, HasSubstr("'blk.1.ffn_down.weight' has shape [48, 80]"));
  EXPECT_THAT(error.detail, HasSubstr("[80, 48]"));
}

TEST_F(ModelWeightsTest, AWrongTypeIsNamed) {
  const Error norm = LoadChanged([](auto& spec) {
    if (spec.name == "blk.0.ffn_norm.weight") spec.type = modelfile::GgufType::kF16;
    return true;
  });
  EXPECT_EQ(norm.code, ErrorCode::kUnsupported);
  EXPECT_THAT(norm.detail, HasSubstr("'blk.0.ffn_norm.weight' has type F16"));
}

TEST_F(ModelWeightsTest, AnUnknownTensorTypeIsNamedWithThoseWeHave) {
  ASSERT_TRUE(PlainFile({}).Write(scratch_ / "m.gguf", FillPlain).has_value());
  std::ifstream in(scratch_ / "m.gguf", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::string name = "blk.1.attn_k.weight";
  const size_t type_at = bytes.find(name) + name.size() + 4 + 2 * 8;
  bytes[type_at] = 16;
  std::ofstream(scratch_ / "m.gguf", std::ios::binary) << bytes;
  auto file = modelfile::GgufFile::Open(scratch_ / "m.gguf");
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  const auto model =
      Model::Load(std::shared_ptr<const modelfile::GgufFile>(*std::move(file)), *backend_);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(model.error().detail, HasSubstr("'blk.1.attn_k.weight' has type IQ2_XXS"));
  EXPECT_THAT(model.error().detail,
              HasSubstr("F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K"));
}

TEST_F(ModelWeightsTest, AnExpertsTensorOfTheWrongShapeIsNamed) {
  const PlainShape mixtral = {.num_experts = 4, .num_used = 2};
  const auto changed = [&](const std::string& name, std::vector<int64_t> dimensions) {
    return LoadChanged(
        [&](GgufWriter::TensorSpec& spec) {
          if (spec.name == name) spec.dimensions = dimensions;
          return true;
        },
        mixtral);
  };
  const Error experts = changed("blk.1.ffn_up_exps.weight", {48, 80, 3});
  EXPECT_EQ(experts.code, ErrorCode::kDataLoss);
  EXPECT_THAT(experts.detail, HasSubstr("'blk.1.ffn_up_exps.weight' has shape [48, 80, 3]; "
                                        "expected is [48, 80, 4]"));
  EXPECT_THAT(changed("blk.0.ffn_gate_inp.weight", {48, 5}).detail,
              HasSubstr("'blk.0.ffn_gate_inp.weight' has shape [48, 5]; expected is [48, 4]"));
  PlainShape old = mixtral;
  old.one_tensor_each = true;
  const auto without = [](GgufWriter::TensorSpec& spec) {
    return spec.name != "blk.1.ffn_down.2.weight";
  };
  EXPECT_THAT(LoadChanged(without, old).detail,
              HasSubstr("tensor 'blk.1.ffn_down.2.weight' is missing"));
}

TEST_F(ModelWeightsTest, AFusedTensorOfTheWrongShapeIsNamed) {
  const auto change = [](GgufWriter::TensorSpec& spec) {
    if (spec.name == "blk.0.attn_qkv.weight") spec.dimensions = {48, 79};
    return true;
  };
  EXPECT_THAT(LoadChanged(change, {.architecture = "phi3"}).detail,
              HasSubstr("'blk.0.attn_qkv.weight' has shape [48, 79]; expected is [48, 80]"));
}

TEST_F(ModelWeightsTest, ATensorThatWouldBeIgnoredIsRefused) {
  GgufWriter writer = PlainFile({});
  writer.AddTensor(
      {.name = "blk.0.ffn_up.bias", .dimensions = {80}, .type = modelfile::GgufType::kF32});
  const Error error = LoadError(writer);
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.detail, HasSubstr("'blk.0.ffn_up.bias'"));
}

TEST(FingerprintTest, OneChangedBitOfAWeightOrOfTheShapeShows) {
  const TempFolder scratch;
  const auto backend = kernels::reference::MakeReferenceBackend();
  const auto fingerprint = [&](const PlainShape& shape, bool flip) {
    const auto fill = [flip](const GgufWriter::TensorSpec& spec, int64_t first_row,
                             std::span<std::byte> data) {
      FillPlain(spec, first_row, data);
      if (flip && spec.name == "blk.1.ffn_up.weight") data[1000] ^= std::byte{1};
    };
    EXPECT_TRUE(PlainFile(shape).Write(scratch / "m.gguf", fill).has_value());
    return LoadedModel::Open(scratch / "m.gguf", *backend).model->fingerprint();
  };
  const Fingerprint plain = fingerprint({}, false);
  EXPECT_EQ(fingerprint({}, false), plain);
  EXPECT_NE(fingerprint({}, true), plain);
  EXPECT_NE(fingerprint({.theta = 10001}, false), plain);
  EXPECT_NE(fingerprint({.eps = 1e-6f}, false), plain);
}

}  // namespace
}  // namespace kvgate::model
