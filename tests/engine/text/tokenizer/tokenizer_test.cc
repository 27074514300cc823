// These tests compare Encode with the reference's own ids for every text of the shared
// vocabularies.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/modelfile/gguf.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::tokenizer {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct Case {
  std::string text;
  std::vector<TokenId> ids;
};

std::vector<Case> ReadCases(const std::filesystem::path& model) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string texts = ReadFile(model.string() + ".inp");
  std::istringstream lines(ReadFile(model.string() + ".out"));
  std::vector<Case> cases;
  size_t begin = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = texts.find(separator, begin);
    if (end == std::string::npos) break;
    Case& added = cases.emplace_back();
    added.text = texts.substr(begin, end - begin);
    std::istringstream numbers(line);
    for (TokenId id; numbers >> id;) added.ids.push_back(id);
    begin = end + separator.size();
  }
  return cases;
}

class ReferenceVocabTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = model::TestDataPath(std::string("vocab/") + GetParam());
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << path_ << " is not there";
    auto file = modelfile::GgufFile::Open(path_);
    ASSERT_TRUE(file) << file.error().ToString();
    auto tokenizer = Tokenizer::Load(**file);
    ASSERT_TRUE(tokenizer) << tokenizer.error().ToString();
    tokenizer_ = std::move(*tokenizer);
  }
  std::filesystem::path path_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(ReferenceVocabTest, EncodesEveryTextToTheReferencesIdsAndBack) {
  const std::vector<Case> cases = ReadCases(path_);
  ASSERT_EQ(cases.size(), 46u);
  for (const Case& c : cases) {
    EXPECT_EQ(tokenizer_->Encode(c.text, {.add_special = false, .parse_special = false}), c.ids)
        << "\"" << c.text << "\"";
    EXPECT_EQ(tokenizer_->Decode(c.ids), c.text);
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, ReferenceVocabTest,
                         ::testing::Values("llama-spm.gguf", "phi-3.gguf", "gpt-2.gguf",
                                           "starcoder.gguf", "deepseek-coder.gguf"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           name.resize(name.find('.'));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ReferencePromptTest, EncodesThePromptsOfTheSmallRealModelAsTheReferenceDid) {
  const std::filesystem::path directory = model::TestDataPath("models");
  if (!std::filesystem::exists(directory)) GTEST_SKIP() << directory << " is not there";
  auto file = modelfile::GgufFile::Open(directory / "stories260K.gguf");
  ASSERT_TRUE(file) << file.error().ToString();
  auto tokenizer = Tokenizer::Load(**file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().ToString();
  const auto reference = nlohmann::json::parse(ReadFile(directory / "stories260K.reference.json"));
  ASSERT_FALSE(reference["prompts"].empty());
  for (const auto& prompt : reference["prompts"]) {
    const std::string text = prompt["prompt"];
    EXPECT_EQ((*tokenizer)->Encode(text, {.add_special = false, .parse_special = true}),
              prompt["tokens"].get<std::vector<TokenId>>())
        << text;
    EXPECT_EQ((*tokenizer)->Encode(text, {}),
              prompt["tokens_add_special"].get<std::vector<TokenId>>())
        << text;
    // A completion shows the generated tokens after the prompt, with nothing dropped.
    Detokenizer detokenizer(**tokenizer);
    std::string generated;
    for (const TokenId id : prompt["greedy_ids"].get<std::vector<TokenId>>()) {
      generated += detokenizer.Push(id);
    }
    EXPECT_EQ(generated + detokenizer.Finish(), prompt["greedy_text"].get<std::string>());
  }
}

}  // namespace
}  // namespace kvgate::tokenizer
