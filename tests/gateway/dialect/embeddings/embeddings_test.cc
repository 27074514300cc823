#include "gateway/dialect/embeddings/embeddings.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/base64.h"

namespace kvgate::dialect::embeddings {
namespace {

using Json = nlohmann::json;

std::string FieldAtFault(const std::string& body) {
  const auto decoded = DecodeEmbeddings(body, {});
  return decoded ? "" : decoded.error().field;
}

EmbeddingRequest Decode(const std::string& body) {
  const auto decoded = DecodeEmbeddings(body, {});
  EXPECT_TRUE(decoded.has_value()) << decoded.error().ToString();
  return decoded.value_or(EmbeddingRequest());
}

TEST(EmbeddingsTest, AnInputIsATextOrTokensOrAListOfEither) {
  using Tokens = std::vector<TokenId>;
  EmbeddingRequest request = Decode(R"({"model":"m","input":"a text"})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.inputs, std::vector<EmbeddingInput>{"a text"});
  EXPECT_FALSE(request.is_list);
  EXPECT_FALSE(request.is_base64);
  EXPECT_EQ(request.dimensions, 0);
  request = Decode(R"({"input":["a","b"],"encoding_format":"base64","dimensions":7,"user":"u"})");
  EXPECT_EQ(request.model, "");
  EXPECT_EQ(request.inputs, (std::vector<EmbeddingInput>{"a", "b"}));
  EXPECT_TRUE(request.is_list);
  EXPECT_TRUE(request.is_base64);
  EXPECT_EQ(request.dimensions, 7);
  request = Decode(R"({"input":[3,1,2],"encoding_format":"float"})");
  EXPECT_EQ(request.inputs, std::vector<EmbeddingInput>{Tokens({3, 1, 2})});
  EXPECT_FALSE(request.is_list);
  request = Decode(R"({"input":[[3],[1,2]]})");
  EXPECT_EQ(request.inputs, (std::vector<EmbeddingInput>{Tokens({3}), Tokens({1, 2})}));
  EXPECT_TRUE(request.is_list);
}

TEST(EmbeddingsTest, EveryBadFieldIsNamed) {
  EXPECT_EQ(FieldAtFault(R"({"model":"m"})"), "input");
  EXPECT_EQ(FieldAtFault(R"({"input":null})"), "input");
  EXPECT_EQ(FieldAtFault(R"({"input":7})"), "input");
  EXPECT_EQ(FieldAtFault(R"({"input":""})"), "input");
  EXPECT_EQ(FieldAtFault(R"({"input":[]})"), "input");
  EXPECT_EQ(FieldAtFault(R"({"input":["a",""]})"), "input[1]");
  EXPECT_EQ(FieldAtFault(R"({"input":["a",3]})"), "input[1]");
  EXPECT_EQ(FieldAtFault(R"({"input":[[1],"a"]})"), "input[1]");
  EXPECT_EQ(FieldAtFault(R"({"input":[[1],[]]})"), "input[1]");
  EXPECT_EQ(FieldAtFault(R"({"input":[1,-2]})"), "input[1]");
  EXPECT_EQ(FieldAtFault(R"({"input":[1,2.5]})"), "input[1]");
  EXPECT_EQ(FieldAtFault(R"({"input":[[1,"a"]]})"), "input[0][1]");
  EXPECT_EQ(FieldAtFault(R"({"input":{"text":"a"}})"), "input");
  EXPECT_EQ(FieldAtFault(R"({"input":"a","model":3})"), "model");
  EXPECT_EQ(FieldAtFault(R"({"input":"a","user":3})"), "user");
  EXPECT_EQ(FieldAtFault(R"({"input":"a","encoding_format":"int8"})"), "encoding_format");
  EXPECT_EQ(FieldAtFault(R"({"input":"a","dimensions":0})"), "dimensions");
  EXPECT_EQ(FieldAtFault(R"({"input":"a","dimensions":"64"})"), "dimensions");
  EXPECT_EQ(FieldAtFault(R"({"input":"a","input":"b"})"), "input");
  EXPECT_EQ(DecodeEmbeddings("[]", {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(EmbeddingInputPath(true, 3), "input[3]");
  EXPECT_EQ(EmbeddingInputPath(false, 0), "input");
}

TEST(EmbeddingsTest, ARequestHasAtMost2048Inputs) {
  Json body = {{"input", Json::array()}};
  for (size_t i = 0; i < kEmbeddingInputsMax; ++i) body["input"].push_back("a");
  EXPECT_EQ(Decode(body.dump()).inputs.size(), kEmbeddingInputsMax);
  body["input"].push_back("a");
  EXPECT_EQ(FieldAtFault(body.dump()), "input");
}

TEST(EmbeddingsTest, VectorsGoOutAsNumbersThatAreReadBackToTheBit) {
  const std::vector<float> vectors = {0.1f, -1e-8f, 0.33333334f, 1.0f, 0.0f, -0.7071068f};
  const Json answer = Json::parse(EncodeEmbeddings(
      {.model = "a \"model\"", .vectors = vectors, .dimensions = 3, .num_tokens = 12}));
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["model"], "a \"model\"");
  EXPECT_EQ(answer["usage"], Json({{"prompt_tokens", 12}, {"total_tokens", 12}}));
  ASSERT_EQ(answer["data"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Json& one = answer["data"][i];
    EXPECT_EQ(one["object"], "embedding");
    EXPECT_EQ(one["index"], i);
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(one["embedding"][j].get<float>(), vectors[i * 3 + j]);
    }
  }
}

TEST(EmbeddingsTest, OrAsBase64OfLittleEndianFloats) {
  const std::vector<float> vectors = {1.0f, -2.0f, 0.5f, 0.25f};
  const Json answer = Json::parse(EncodeEmbeddings(
      {.model = "m", .vectors = vectors, .dimensions = 2, .is_base64 = true, .num_tokens = 1}));
  EXPECT_EQ(answer["data"][0]["embedding"], "AACAPwAAAMA=");
  std::string bytes;
  DecodeBase64(answer["data"][1]["embedding"].get<std::string>(), bytes);
  ASSERT_EQ(bytes.size(), 8u);
  EXPECT_EQ(std::memcmp(bytes.data(), vectors.data() + 2, 8), 0);
}

}  // namespace
}  // namespace kvgate::dialect::embeddings
