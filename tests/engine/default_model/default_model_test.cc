#include "engine/default_model/default_model.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/model/model_config.h"
#include "engine/modelfile/memory_file.h"
#include "engine/modelfile/hf_folder.h"
#include "engine/modelfile/model_file.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::default_model {
namespace {

TEST(DefaultModelTest, ItIsAModelThatChatsWithAContextOf8192) {
  const auto memory = modelfile::MemoryFile::Make("test", FileBytes());
  ASSERT_TRUE(memory) << memory.error().ToString();
  const auto file = modelfile::OpenModelFile(memory->path());
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ((*file)->GetString("general.name").value(), kName);
  EXPECT_EQ((*file)->GetString("general.license").value(), "Apache-2.0");
  const auto config = model::ReadModelConfig(**file);
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_GE(config->context_length, 8192);
  const auto tokenizer = tokenizer::Tokenizer::Load(**file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().ToString();
  EXPECT_TRUE((*tokenizer)->chat_template().has_value());
  EXPECT_TRUE((*tokenizer)->FindSpecial("<|im_end|>").has_value());
}

TEST(DefaultModelTest, ItIsSmallEnoughToBeBroughtAlong) {
  EXPECT_LE(FileBytes().size(), 6'000'000U);
}

}  // namespace
}  // namespace kvgate::default_model
