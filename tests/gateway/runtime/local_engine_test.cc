#include "gateway/runtime/local_engine.h"

#include <gtest/gtest.h>

#include <fstream>

#include "gateway/runtime/machine/device.h"
#include "tests/gateway/runtime/tiny_model.h"
#include "tests/store/store_fixture.h"

namespace kvgate::runtime {
namespace {

class LocalEngineTest : public testing::Test {
 protected:
  LocalEngineTest() { EXPECT_TRUE(machine::ResolveDevice(config_)); }
  Result<std::unique_ptr<local::LocalProvider>> Provide() {
    auto opened = LocalEngine::Open(config_, tier_, nullptr);
    EXPECT_TRUE(opened) << opened.error().ToString();
    engine_ = std::move(*opened);
    return engine_->MakeProvider(config_, nullptr);
  }

  TempFolder temporary_;
  config::Config config_ = test::TinyConfig(temporary_.path());
  DataTier tier_{.directory = nullptr, .reason = "a test"};
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(LocalEngineTest, TheNamedModelIsLoadedAndNamedAfterItself) {
  const auto provider = Provide();
  ASSERT_TRUE(provider) << provider.error().ToString();
  EXPECT_EQ(engine_->engine().info().model.context_length, 256);
  EXPECT_TRUE((*provider)->Serves("tiny"));
}

TEST_F(LocalEngineTest, AMissingModelIsNamed) {
  config_.engine.model = (temporary_.path() / "missing.gguf").string();
  const auto opened = LocalEngine::Open(config_, tier_, nullptr);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
  EXPECT_NE(opened.error().detail.find("missing.gguf"), std::string::npos);
}

TEST_F(LocalEngineTest, ADamagedModelIsRefused) {
  std::ofstream(config_.engine.model, std::ios::binary | std::ios::trunc) << "GGUF, and no more";
  EXPECT_FALSE(LocalEngine::Open(config_, tier_, nullptr));
}

TEST_F(LocalEngineTest, AChatTemplateIsAFileOrABuiltInFormat) {
  for (const char* name : {"chatml", "llama2", "llama3", "plain"}) {
    config_.engine.chat_template = name;
    EXPECT_TRUE(Provide()) << name;
  }
  const std::filesystem::path path = temporary_.path() / "template.jinja";
  std::ofstream(path) << "{% for message in messages %}{{ message.content }}{% endfor %}";
  config_.engine.chat_template = path.string();
  EXPECT_TRUE(Provide());
  std::ofstream(path) << "{% for %}";
  EXPECT_FALSE(Provide());
  config_.engine.chat_template = "no-such-thing";
  const auto refused = Provide();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_NE(refused.error().detail.find("engine.chat_template"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::runtime
