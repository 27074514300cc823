#include "gateway/cli/agents/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/base/temp_folder.h"

namespace kvgate::cli::agents {
namespace {

namespace fs = std::filesystem;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Home {
  Home() {
    fs::create_directories(path / ".codex");
    setenv("HOME", path.c_str(), 1);
    std::ofstream(file) << "a = 1\n";
  }
  const TempFolder folder;
  const fs::path& path = folder.path();
  const fs::path file = path / ".codex/config.toml";
};

TEST(AgentSetupTest, WritesWhatItPlannedAndPutsBackWhatStoodThere) {
  const Home home;
  const AgentSetup setup = AgentSetup::Open(*FindAgent("codex")).value();
  const AgentSetup::Change change = setup.Plan("http://h:1").value();
  EXPECT_EQ(change.before, "a = 1\n");
  ASSERT_TRUE(setup.Write("http://h:1", change));
  EXPECT_EQ(ReadText(home.file), change.after);
  EXPECT_EQ(ReadText(setup.backup()), change.before);
  EXPECT_EQ(setup.written_origin(), "http://h:1");
  EXPECT_EQ(setup.Write("http://h:1", change).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(setup.Undo());
  EXPECT_EQ(ReadText(home.file), "a = 1\n");
  EXPECT_EQ(setup.written_origin(), "");
  EXPECT_EQ(setup.Undo().error().code, ErrorCode::kNotFound);
}

TEST(AgentSetupTest, AFileThatChangesMeanwhileIsNotOverwritten) {
  const Home home;
  const AgentSetup setup = AgentSetup::Open(*FindAgent("codex")).value();
  const AgentSetup::Change change = setup.Plan("http://h:1").value();
  std::ofstream(home.file) << "b = 2\n";
  EXPECT_EQ(setup.Write("http://h:1", change).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ReadText(home.file), "b = 2\n");
}

TEST(AgentSetupTest, ACrashInFrontOfTheFirstWriteOfAFileCanBeTakenBack) {
  const Home home;
  fs::remove(home.file);
  const AgentSetup setup = AgentSetup::Open(*FindAgent("codex")).value();
  ASSERT_TRUE(setup.Write("http://h:1", setup.Plan("http://h:1").value()));
  fs::remove(home.file);  // as if the last step had not come
  ASSERT_TRUE(setup.Undo());
  EXPECT_FALSE(fs::exists(home.file));
  EXPECT_EQ(setup.written_origin(), "");
}

TEST(AgentSetupTest, ACrashInFrontOfTheWriteCanBeTakenBack) {
  const Home home;
  const AgentSetup setup = AgentSetup::Open(*FindAgent("codex")).value();
  ASSERT_TRUE(setup.Write("http://h:1", setup.Plan("http://h:1").value()));
  std::ofstream(home.file) << "a = 1\n";  // as if the last step had not come
  ASSERT_TRUE(setup.Undo());
  EXPECT_EQ(ReadText(home.file), "a = 1\n");
  EXPECT_FALSE(fs::exists(setup.backup()));
}

TEST(AgentSetupTest, AnAgentWithoutAFileForItIsRefused) {
  EXPECT_EQ(AgentSetup::Open(*FindAgent("cline")).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvgate::cli::agents
