#include "engine/modelfile/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/model/capacity.h"
#include "engine/model/quantize_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/model/hf_fixture.h"
#include "tests/engine/model/model_runner.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::modelfile {

using model::LoadedModel;
using model::PlainShape;
using model::RawTensor;
using model::SplitHfFolder;
using model::WriteFile;
using model::WriteHfFolder;

namespace {

namespace fs = std::filesystem;
using kernels::DType;
using nlohmann::json;
using ::testing::HasSubstr;

const PlainShape kLlama = {
    .hidden = 64, .num_heads = 4, .head_dim = 16, .rotary_dim = 16, .ffn = 96};
const PlainShape kQwen = {.architecture = "qwen2",
                          .hidden = 64,
                          .num_heads = 4,
                          .head_dim = 16,
                          .rotary_dim = 16,
                          .ffn = 96,
                          .tied = true,
                          .theta = 1e6};

class HfFolderTest : public ::testing::Test {
 protected:
  // Writes m.gguf and the folder hf with the same weights.
  void Write(const PlainShape& shape, DType dtype = DType::kF32) {
    ASSERT_TRUE(model::PlainFile(shape).Write(scratch_ / "m.gguf", model::FillPlain).has_value());
    gguf_ = *GgufFile::Open(scratch_ / "m.gguf");
    tensors_ = model::HfTensors(shape, *gguf_, dtype);
    WriteHfFolder(folder_, shape, tensors_);
  }

  // Returns the logits of a prefill and of two steps after it.
  std::vector<float> Logits(const fs::path& path) {
    const LoadedModel loaded = LoadedModel::Open(path, *backend_);
    model::SequenceRunner runner(*loaded.model, *backend_, {.kv_dtype = DType::kF32});
    std::vector<float> all;
    for (const std::vector<TokenId>& tokens :
         {std::vector<TokenId>{1, 5, 9, 2, 70, 33, 8, 96, 4, 11}, {3}, {60}}) {
      const std::vector<float> logits = runner.Last(tokens);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

  Error OpenError() const {
    const auto opened = OpenModelFile(folder_);
    if (opened.has_value()) return MakeError(ErrorCode::kInternal, "test", "it was opened");
    return opened.error();
  }
  // Returns the error's text after `change` to the config of a sound folder.
  std::string ErrorAfter(const std::function<void(json&)>& change) {
    json config = model::HfConfigJson(kLlama);
    change(config);
    WriteFile(folder_ / "config.json", config.dump());
    return OpenError().detail;
  }

  TempFolder scratch_;
  fs::path folder_ = scratch_ / "hf";
  std::unique_ptr<ModelFile> gguf_;
  std::vector<RawTensor> tensors_;
  std::unique_ptr<kernels::Backend> backend_ =
      *kernels::cpu::MakeCpuBackend({.num_threads = 1, .target = ""});
};

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

TEST_F(HfFolderTest, AQwenFolderGivesTheLogitsOfItsGgufFileBitForBit) {
  Write(kQwen);
  EXPECT_EQ(Logits(folder_), Logits(scratch_ / "m.gguf"));
}

TEST_F(HfFolderTest, TheKinAreServedFromTheirFoldersToo) {
  PlainShape qwen3 = kQwen;
  qwen3.architecture = "qwen3";
  PlainShape yarn = qwen3;
  yarn.rope_scaling = "yarn";
  yarn.rope_factor = 4;
  yarn.original_context = 64;
  PlainShape linear = kQwen;
  linear.rope_scaling = "linear";
  linear.rope_factor = 2;
  PlainShape moe = kQwen;
  moe.architecture = "qwen2moe";
  moe.num_experts = 5;
  moe.num_used = 2;
  moe.expert_ffn = 32;
  moe.shared_ffn = 48;
  moe.one_tensor_each = true;
  PlainShape moe3 = moe;
  moe3.architecture = "qwen3moe";
  moe3.shared_ffn = 0;
  for (const PlainShape& shape : {qwen3, yarn, linear, moe, moe3}) {
    Write(shape);
    EXPECT_EQ(Logits(folder_), Logits(scratch_ / "m.gguf")) << shape.architecture;
  }
}

TEST_F(HfFolderTest, TheKinOfLlamaAreTurnedByHalvesToo) {
  PlainShape llama3 = kLlama;
  llama3.rope_scaling = "llama3";
  llama3.theta = model::PlainLlama3::kTheta;
  PlainShape mistral = kLlama;
  mistral.window = 6;
  PlainShape mixtral = kLlama;
  mixtral.num_experts = 4;
  mixtral.num_used = 2;
  mixtral.one_tensor_each = true;
  const std::vector<float> plain = (Write(kLlama), Logits(folder_));
  for (const PlainShape& shape : {llama3, mistral, mixtral}) {
    Write(shape);
    const std::vector<float> logits = Logits(folder_);
    EXPECT_LE(Distance(logits, Logits(scratch_ / "m.gguf")), 1e-6) << model::HfClass(shape);
    EXPECT_GE(Distance(logits, plain), 1e-3) << model::HfClass(shape);  // the field has an effect
  }
}

// In the folder, rope rotates the two halves of a head, while the file's rows are permuted to
// rotate neighbours: the same sums in another order.
TEST_F(HfFolderTest, ALlamaFolderGivesTheLogitsOfItsGgufFile) {
  Write(kLlama);
  const std::vector<float> logits = Logits(folder_);
  EXPECT_LE(Distance(logits, Logits(scratch_ / "m.gguf")), 1e-6);
  // The logits differ from those of unpermuted rows.
  json config = model::HfConfigJson(kLlama);
  for (RawTensor& tensor : tensors_) {
    if (tensor.name.find("q_proj") != std::string::npos) {
      tensor.data = {gguf_->FindTensor("blk.0.attn_q.weight")->data.begin(),
                     gguf_->FindTensor("blk.0.attn_q.weight")->data.end()};
    }
  }
  WriteHfFolder(folder_, kLlama, tensors_);
  EXPECT_GE(Distance(logits, Logits(folder_)), 1e-2);
}

TEST_F(HfFolderTest, HalfPrecisionMatricesAreThoseOfTheQuantizedFile) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Write(kQwen, dtype);
    ASSERT_TRUE(
        model::QuantizeModel(scratch_ / "m.gguf", scratch_ / "half.gguf", dtype).has_value());
    EXPECT_EQ(Logits(folder_), Logits(scratch_ / "half.gguf"));
  }
}

TEST_F(HfFolderTest, VectorsOfHalfPrecisionAreReadAsTheirF32Values) {
  Write(kQwen);
  for (RawTensor& tensor : tensors_) {
    if (tensor.shape.size() != 1) continue;
    const auto count = static_cast<size_t>(tensor.shape[0]);
    std::vector<float> ones(count, 1.5f);  // exact in both dtypes
    tensor.dtype = tensor.name.find("bias") != std::string::npos ? "BF16" : "F16";
    const DType dtype = tensor.dtype == "F16" ? DType::kF16 : DType::kBF16;
    tensor.data.resize(2 * count);
    kernels::QuantizeValues(dtype, ones.data(), tensor.shape[0], tensor.data.data());
  }
  WriteHfFolder(folder_, kQwen, tensors_);
  const auto file = *OpenModelFile(folder_);
  for (const GgufTensor& tensor : file->tensors()) {
    if (tensor.dimensions.size() != 1) continue;
    ASSERT_EQ(tensor.type, static_cast<uint32_t>(GgufType::kF32));
    ASSERT_EQ(tensor.data.size(), static_cast<size_t>(tensor.dimensions[0]) * sizeof(float));
    float value = 0;
    std::memcpy(&value, tensor.data.data(), sizeof(value));
    EXPECT_EQ(value, 1.5f) << tensor.name;
  }
}

TEST_F(HfFolderTest, ShardsAreOneModelWithOneFingerprint) {
  Write(kLlama);
  const Fingerprint whole = LoadedModel::Open(folder_, *backend_).model->fingerprint();
  const size_t bytes = (*OpenModelFile(folder_))->total_bytes();
  SplitHfFolder(folder_, tensors_);
  EXPECT_EQ(LoadedModel::Open(folder_, *backend_).model->fingerprint(), whole);
  EXPECT_GT((*OpenModelFile(folder_))->total_bytes(), bytes);  // the second shard's header
}

// `quantize` makes the same tensors of a folder as of its GGUF file, with rows of q and k in the
// order of the GGUF file.
TEST_F(HfFolderTest, AFolderIsQuantizedToTheTensorsOfItsGgufFile) {
  for (const PlainShape& shape : {kLlama, kQwen}) {
    Write(shape);
    for (const DType dtype : {DType::kF16, DType::kQ8_0}) {
      ASSERT_TRUE(
          model::QuantizeModel(scratch_ / "m.gguf", scratch_ / "a.gguf", dtype).has_value());
      ASSERT_TRUE(model::QuantizeModel(folder_, scratch_ / "b.gguf", dtype).has_value());
      const auto expected = *GgufFile::Open(scratch_ / "a.gguf");
      const auto made = *GgufFile::Open(scratch_ / "b.gguf");
      ASSERT_EQ(made->tensors().size(), expected->tensors().size());
      for (const GgufTensor& tensor : expected->tensors()) {
        const GgufTensor* own = made->FindTensor(tensor.name);
        ASSERT_NE(own, nullptr) << tensor.name;
        EXPECT_EQ(own->dimensions, tensor.dimensions) << tensor.name;
        EXPECT_TRUE(
            std::equal(own->data.begin(), own->data.end(), tensor.data.begin(), tensor.data.end()))
            << tensor.name;
      }
      EXPECT_EQ(made->Find(kRopeHalvesKey), nullptr);
      EXPECT_EQ(Logits(scratch_ / "b.gguf"), Logits(scratch_ / "a.gguf"));
    }
  }
}

TEST_F(HfFolderTest, TheTextsOfTokenizerAndTemplatesArePassedOn) {
  Write(kLlama);
  const json config = {{"bos_token", "<s>"},
                       {"chat_template",
                        {{{"name", "default"}, {"template", "plain"}},
                         {{"name", "tool_use"}, {"template", "with tools"}}}}};
  WriteFile(folder_ / "tokenizer_config.json", config.dump());
  auto file = *OpenModelFile(folder_);
  EXPECT_EQ(file->GetString(kTokenizerJsonKey).value(), "{\"model\":{}}");
  EXPECT_EQ(file->GetString(kTokenizerConfigKey).value(), config.dump());
  EXPECT_EQ(file->GetString("tokenizer.chat_template.tool_use").value(), "with tools");
  EXPECT_EQ(file->Find("tokenizer.chat_template"), nullptr);
  EXPECT_EQ(file->GetString("general.name").value(), "hf");
  // Templates in separate files take precedence.
  WriteFile(folder_ / "chat_template.jinja", std::string("own"));
  fs::create_directory(folder_ / "additional_chat_templates");
  WriteFile(folder_ / "additional_chat_templates" / "tool_use.jinja", std::string("own tools"));
  file = *OpenModelFile(folder_);
  EXPECT_EQ(file->GetString("tokenizer.chat_template").value(), "own");
  EXPECT_EQ(file->GetString("tokenizer.chat_template.tool_use").value(), "own tools");
  WriteFile(folder_ / "tokenizer_config.json", std::string("["));
  EXPECT_THAT(OpenError().detail, HasSubstr("tokenizer_config.json: it is no JSON object"));
}

TEST_F(HfFolderTest, ADownloadCacheIsReadThroughItsLinksAndNamedByItsModel) {
  Write(kLlama);
  const fs::path snapshot = scratch_ / "models--owner--Model-1.5B/snapshots/0123abcd";
  fs::create_directories(snapshot);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    fs::create_symlink(entry.path(), snapshot / entry.path().filename());
  }
  const auto file = *OpenModelFile(snapshot / "");
  EXPECT_EQ(file->GetString("general.name").value(), "Model-1.5B");
  EXPECT_EQ(model::ReadCapacityShape(*file)->num_kv_heads, 2);
}

TEST_F(HfFolderTest, WhatMayLieBesideTheWeightsIsLeftAlone) {
  Write(kQwen);
  const std::vector<float> logits = Logits(folder_);
  tensors_.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {8}, std::vector<std::byte>(32)});
  tensors_.push_back({"lm_head.weight", "F32", {97, 64}, std::vector<std::byte>(97 * 64 * 4)});
  WriteHfFolder(folder_, kQwen, tensors_);
  WriteFile(folder_ / "consolidated.safetensors", std::string("not read"));
  EXPECT_EQ(Logits(folder_), logits);
}

TEST_F(HfFolderTest, AMissingFileIsNamed) {
  Write(kLlama);
  SplitHfFolder(folder_, tensors_);
  for (const std::string name : {"model-2-of-2.safetensors", "tokenizer.json", "config.json"}) {
    fs::remove(folder_ / name);
    const Error error = OpenError();
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_THAT(error.detail, HasSubstr("hf/" + name + " is missing"));
  }
  WriteHfFolder(folder_, kLlama, tensors_);
  for (const std::string name : {"model.safetensors", "model.safetensors.index.json"}) {
    fs::remove(folder_ / name);
  }
  EXPECT_THAT(OpenError().detail, HasSubstr("hf/model.safetensors is missing"));
  EXPECT_THAT(OpenError().detail, HasSubstr("and 0 other *.safetensors"));
  WriteFile(folder_ / "weights.safetensors", model::SafetensorsBytes(tensors_));
  EXPECT_TRUE(OpenModelFile(folder_).has_value());  // it is the only .safetensors file
  fs::remove_all(folder_);
  EXPECT_THAT(OpenError().detail, HasSubstr("hf"));
}

TEST_F(HfFolderTest, WhatIsWrongWithTheShardsIsNamed) {
  Write(kLlama);
  SplitHfFolder(folder_, tensors_);
  const auto write_index = [&](const std::string& text) {
    WriteFile(folder_ / "model.safetensors.index.json", text);
    return OpenError().detail;
  };
  EXPECT_THAT(write_index("{}"), HasSubstr("index.json: weight_map is missing"));
  EXPECT_THAT(write_index(R"({"weight_map":{}})"), HasSubstr("weight_map is empty"));
  EXPECT_THAT(write_index(R"({"weight_map":{"a":"../b"}})"),
              HasSubstr("'a' is not in a file of the folder"));
  EXPECT_THAT(write_index(R"({"weight_map":{"a":7}})"), HasSubstr("'a' is not in a file"));
  EXPECT_THAT(write_index(R"({"weight_map":{"a":"model-1-of-2.safetensors",
                              "lm_head.weight":"model-1-of-2.safetensors"}})"),
              HasSubstr("model-1-of-2.safetensors: tensor 'a' is missing, which "
                        "model.safetensors.index.json says is there"));
  // One tensor is in both shards.
  SplitHfFolder(folder_, tensors_);
  WriteFile(folder_ / "model-2-of-2.safetensors", model::SafetensorsBytes(tensors_));
  EXPECT_THAT(OpenError().detail, HasSubstr("is in model-1-of-2.safetensors as well"));
}

TEST_F(HfFolderTest, ATensorThatCannotBeUsedIsNamed) {
  Write(kLlama);
  const auto with = [&](RawTensor tensor) {
    std::vector<RawTensor> more = tensors_;
    more.push_back(std::move(tensor));
    WriteHfFolder(folder_, kLlama, more);
    return OpenError();
  };
  const std::string name = "model.layers.0.mlp.up_proj";
  EXPECT_THAT(
      with({"model.layers.0.mlp.up_proj.weight_scale", "F32", {1}, std::vector<std::byte>(4)})
          .detail,
      HasSubstr("model.safetensors: tensor '" + name + ".weight_scale' is not one that"));
  const Error error = with({name + ".bias", "F8_E4M3", {4}, std::vector<std::byte>(4)});
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.detail, HasSubstr("has dtype F8_E4M3; supported are F32, F16 and BF16"));
  EXPECT_THAT(with({name + ".bias", "F32", {}, std::vector<std::byte>(4)}).detail,
              HasSubstr("no shape that a weight has"));
  std::erase_if(tensors_, [](const RawTensor& tensor) { return tensor.name == "lm_head.weight"; });
  WriteHfFolder(folder_, kLlama, tensors_);
  EXPECT_THAT(OpenError().detail, HasSubstr("'lm_head.weight' is missing"));
}

TEST_F(HfFolderTest, WhatTheConfigSaysWrongIsNamedWithItsPath) {
  Write(kLlama);
  EXPECT_THAT(ErrorAfter([](json& config) { config.erase("hidden_size"); }),
              HasSubstr("hf/config.json: hidden_size is missing"));
  EXPECT_THAT(ErrorAfter([](json& config) { config["architectures"] = {"BertModel"}; }),
              HasSubstr("hf/config.json: architectures is [\"BertModel\"]"));
}

}  // namespace
}  // namespace kvgate::modelfile
