#include "engine/model/quantize_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/modelfile/gguf.h"
#include "kernels/weight_format.h"
#include "tests/engine/model/made_model.h"

namespace kvgate::model {

using modelfile::GgufType;

namespace {

using kernels::DType;
using ::testing::HasSubstr;

std::vector<float> ReadMatrix(const modelfile::GgufTensor& tensor) {
  size_t count = 1;
  for (const int64_t d : tensor.dimensions) count *= static_cast<size_t>(d);
  std::vector<float> values(count);
  kernels::DequantizeValues(kernels::FindWeightFormat(tensor.type)->dtype, tensor.data.data(),
                            static_cast<int64_t>(count), values.data());
  return values;
}

class QuantizeModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeModel(Tiny("llama", DType::kF32), scratch_ / "f32.gguf").has_value());
  }

  TempFolder scratch_;
  std::unique_ptr<kernels::Backend> backend_ = MakeBackend();
};

TEST_F(QuantizeModelTest, MatricesAreRoundedAndTheRestStays) {
  const auto old_file = *modelfile::GgufFile::Open(scratch_ / "f32.gguf");
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                            DType::kQ5_0, DType::kQ5_1}) {
    const auto path = scratch_ / "q.gguf";
    const auto written = QuantizeModel(scratch_ / "f32.gguf", path, dtype);
    ASSERT_TRUE(written.has_value()) << written.error().ToString();
    const auto file = *modelfile::GgufFile::Open(path);
    ASSERT_EQ(file->tensors().size(), old_file->tensors().size());
    for (const modelfile::GgufTensor& tensor : file->tensors()) {
      const modelfile::GgufTensor& from = *old_file->FindTensor(tensor.name);
      ASSERT_EQ(tensor.dimensions, from.dimensions);
      const bool is_matrix = tensor.dimensions.size() == 2;
      EXPECT_EQ(tensor.type, is_matrix ? static_cast<uint32_t>(modelfile::GgufTypeOf(dtype)) : 0u);
      const std::vector<float> old_values = ReadMatrix(from);
      const std::vector<float> new_values = ReadMatrix(tensor);
      double error = 0;
      double norm = 0;
      for (size_t i = 0; i < old_values.size(); ++i) {
        error += std::pow(static_cast<double>(new_values[i]) - old_values[i], 2);
        norm += std::pow(static_cast<double>(old_values[i]), 2);
      }
      EXPECT_LE(std::sqrt(error), 0.11 * std::sqrt(norm)) << tensor.name;
    }
    EXPECT_EQ(file->GetString("general.name").value(), "llama-random-5");
    const LoadedModel loaded = LoadedModel::Open(path, *backend_);
    EXPECT_EQ(loaded.model->config().hidden_dim, 128);
  }
}

TEST_F(QuantizeModelTest, ExpertsAreRoundedAndTheirRoutersAndBiasesStay) {
  ASSERT_TRUE(MakeModel(Tiny("gpt-oss", DType::kF32), scratch_ / "e.gguf").has_value());
  const auto written = QuantizeModel(scratch_ / "e.gguf", scratch_ / "q.gguf", DType::kQ8_0);
  ASSERT_TRUE(written.has_value()) << written.error().ToString();
  const auto file = *modelfile::GgufFile::Open(scratch_ / "q.gguf");
  const auto type = [&](const char* name) {
    return static_cast<GgufType>(file->FindTensor(name)->type);
  };
  EXPECT_EQ(type("blk.0.ffn_down_exps.weight"), GgufType::kQ8_0);
  EXPECT_EQ(type("blk.0.attn_output.weight"), GgufType::kQ8_0);
  EXPECT_EQ(type("blk.0.ffn_down_exps.bias"), GgufType::kF32);
  EXPECT_EQ(type("blk.0.ffn_gate_inp.weight"), GgufType::kF32);
  EXPECT_EQ(LoadedModel::Open(scratch_ / "q.gguf", *backend_).model->config().architecture,
            "gpt-oss");
}

// Both paths use the same encoders, so a model made in a type equals one rounded to it later.
TEST_F(QuantizeModelTest, AModelMadeInATypeIsTheOneRoundedToIt) {
  ASSERT_TRUE(MakeModel(Tiny("llama", DType::kQ4_1), scratch_ / "made.gguf").has_value());
  ASSERT_TRUE(
      QuantizeModel(scratch_ / "f32.gguf", scratch_ / "rounded.gguf", DType::kQ4_1).has_value());
  EXPECT_EQ(LoadedModel::Open(scratch_ / "made.gguf", *backend_).model->fingerprint(),
            LoadedModel::Open(scratch_ / "rounded.gguf", *backend_).model->fingerprint());
}

TEST_F(QuantizeModelTest, WhatCannotBeDoneIsSaid) {
  const auto refused = [&](const std::string& in, const std::string& out, DType dtype,
                           std::string_view what) {
    const auto written = QuantizeModel(scratch_ / in, scratch_ / out, dtype);
    ASSERT_FALSE(written.has_value());
    EXPECT_THAT(written.error().detail, HasSubstr(std::string(what)));
  };
  refused("f32.gguf", "q.gguf", DType::kQ4_K, "type q4_k is not one of f16");
  refused("f32.gguf", "f32.gguf", DType::kQ8_0, "is the file to read");
  refused("none.gguf", "q.gguf", DType::kQ8_0, "none.gguf");
  ASSERT_TRUE(QuantizeModel(scratch_ / "f32.gguf", scratch_ / "q8.gguf", DType::kQ8_0).has_value());
  refused("q8.gguf", "q.gguf", DType::kQ4_0, "is Q8_0 already");
  MakeModelOptions odd = Tiny("llama", DType::kF32);
  odd.ffn_dim = 100;
  ASSERT_TRUE(MakeModel(odd, scratch_ / "odd.gguf").has_value());
  refused("odd.gguf", "q.gguf", DType::kQ8_0, "'blk.0.ffn_down.weight' has rows of 100");
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "q.gguf"));
}

}  // namespace
}  // namespace kvgate::model
