#include "gateway/session/retrieval/embedding_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvgate::session::retrieval {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(EmbeddingCallTest, TheBodyAsksForNumbers) {
  const std::vector<std::string> texts = {"a \"b\"", "c"};
  const auto body = nlohmann::json::parse(EmbeddingBody("m", texts));
  EXPECT_EQ(body["model"], "m");
  EXPECT_EQ(body["input"], nlohmann::json::array({"a \"b\"", "c"}));
  EXPECT_EQ(body["encoding_format"], "float");
}

TEST(EmbeddingCallTest, VectorsComeInTheOrderOfTheirIndices) {
  const auto read = ReadEmbeddings(
      R"({"data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[1,0]}]})", 2);
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ((*read)[0].bytes(), std::string("\x7f\0", 2));
  EXPECT_EQ((*read)[1].bytes(), std::string("\0\x7f", 2));
  // Some servers give none.
  EXPECT_TRUE(ReadEmbeddings(R"({"data":[{"embedding":[1,0]},{"embedding":[0,1]}]})", 2));
}

TEST(EmbeddingCallTest, AVectorOfZerosSaysNothing) {
  const auto read = ReadEmbeddings(R"({"data":[{"embedding":[0,0]},{"embedding":[0,1]}]})", 2);
  ASSERT_TRUE(read);
  EXPECT_FALSE((*read)[0].is_known());
  EXPECT_TRUE((*read)[1].is_known());
}

TEST(EmbeddingCallTest, WhatIsNotWholeIsAnError) {
  for (const char* answer :
       {"", "[]", R"({"data":1})", R"({"data":[]})", R"({"data":[{"embedding":[1]}]})",
        R"({"data":[{"embedding":[1]},{"embedding":"AA=="}]})",
        R"({"data":[{"embedding":[1]},{"embedding":[1,2]}]})",
        R"({"data":[{"embedding":[1]},{"embedding":["x"]}]})",
        R"({"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]})",
        R"({"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]})",
        R"({"data":[1,2]})"}) {
    const auto read = ReadEmbeddings(answer, 2);
    ASSERT_FALSE(read) << answer;
    EXPECT_THAT(read.error().detail, HasSubstr("the answer holds no vectors")) << answer;
  }
}

TEST(EmbeddingCallTest, OfLongWordsBothEndsAreAskedFor) {
  EXPECT_EQ(AskedOf("Which port?"), "Which port?");
  EXPECT_EQ(AskedOf(""), "");
  const std::string asked = AskedOf("Look at this: " + std::string(5000, 'x') + " Which port?");
  EXPECT_THAT(asked, StartsWith("Look at this: xx"));
  EXPECT_THAT(asked, EndsWith("xx Which port?"));
  EXPECT_LE(asked.size(), 1001u);
}

}  // namespace
}  // namespace kvgate::session::retrieval
