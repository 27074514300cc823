#include "gateway/runtime/model_source.h"

#include <gtest/gtest.h>

#include <utility>

#include "engine/modelfile/hf_folder.h"
#include "engine/modelfile/model_file.h"

namespace kvgate::runtime {
namespace {

TEST(ModelSourceTest, ANamedModelIsThatFile) {
  config::Config config;
  config.engine.model = "/a/b.gguf";
  const auto source = ModelSource::Of(config);
  ASSERT_TRUE(source);
  EXPECT_FALSE(source->is_default());
  EXPECT_EQ(source->path(), "/a/b.gguf");
  EXPECT_EQ(source->label(), "/a/b.gguf");
}

TEST(ModelSourceTest, WithoutANameItIsTheOneThatKvgateBringsAlong) {
  auto made = ModelSource::Of({});
  ASSERT_TRUE(made) << made.error().ToString();
  const ModelSource source = std::move(*made);
  EXPECT_TRUE(source.is_default());
  EXPECT_NE(source.label().find("kvgate-default"), std::string::npos);
  EXPECT_EQ(source.label().find("/proc"), std::string::npos);
  const auto file = modelfile::OpenModelFile(source.path());
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ((*file)->GetString("general.name").value(), "kvgate-default");
}

}  // namespace
}  // namespace kvgate::runtime
