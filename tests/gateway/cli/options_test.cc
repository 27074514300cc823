#include "gateway/cli/options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "tests/base/temp_folder.h"

namespace kvgate::cli {
namespace {

Result<config::Config> Parse(const std::string& line) {
  CLI::App app;
  ConfigFlags flags;
  AddEngineFlags(app, flags);
  AddServerFlags(app, flags);
  app.parse(line);
  return ReadConfig(flags);
}

TEST(OptionsTest, FlagsSetTheConfiguration) {
  const auto config = Parse(
      "--model m.gguf --listen 127.0.0.1:0 --context 99 --threads 2 --kv-dtype f32 "
      "--kv-memory 2GiB --data-dir /d --no-disk --set limits.json_depth=20");
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->engine.model, "m.gguf");
  EXPECT_EQ(config->server.listen, "127.0.0.1:0");
  EXPECT_EQ(config->engine.context, 99);
  EXPECT_EQ(config->engine.kv_memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(config->store.data_dir, "/d");
  EXPECT_FALSE(config->store.disk);
  EXPECT_EQ(config->limits.json_depth, 20);
}

TEST(OptionsTest, FlagsOverrideTheFile) {
  const TempFolder folder;
  const std::string path = folder / "options.toml";
  std::ofstream(path) << "[engine]\ncontext = 5\nthreads = 3\n";
  const auto config = Parse("--config " + path + " --context 7");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->engine.context, 7);
  EXPECT_EQ(config->engine.threads, 3);
}

TEST(OptionsTest, BadValuesAreRefusedByName) {
  EXPECT_EQ(Parse("--context many").error().field, "engine.context");
  EXPECT_EQ(Parse("--set engine.kv_dtype=f8").error().field, "engine.kv_dtype");
  EXPECT_FALSE(Parse("--config /nonexistent.toml"));
  EXPECT_THROW((void)Parse("--set nonsense"), CLI::ParseError);
}

}  // namespace
}  // namespace kvgate::cli
