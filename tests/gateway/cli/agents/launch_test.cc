#include "gateway/cli/agents/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/base/temp_folder.h"

namespace kvgate::cli::agents {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const LaunchArgs kArgs = {.origin = "http://127.0.0.1:9", .overlay = "/tmp/o"};

TEST(LaunchTest, WithoutAKeyTheUsersCredentialsStay) {
  for (const Agent& agent : KnownAgents()) {
    const Launch launch = PlanLaunch(agent, kArgs).value();
    EXPECT_TRUE(launch.removed.empty()) << agent.name;
    for (const auto& [name, value] : launch.variables) {
      EXPECT_EQ(name.find("KEY"), std::string::npos) << agent.name;
      EXPECT_EQ(value.find("${"), std::string::npos) << agent.name;
    }
  }
}

TEST(LaunchTest, AKeyTakesTheirPlaceAndNeverStandsInAnArgument) {
  LaunchArgs args = kArgs;
  args.key = "sk-gateway";
  args.model = "local";
  for (const Agent& agent : KnownAgents()) {
    const Launch launch = PlanLaunch(agent, args).value();
    std::string given;
    for (const auto& [name, value] : launch.variables) given += value;
    for (const auto& [name, content] : launch.files) given += content;
    EXPECT_THAT(given, HasSubstr("sk-gateway")) << agent.name;
    for (const std::string& argument : launch.arguments) {
      EXPECT_EQ(argument.find("sk-gateway"), std::string::npos) << agent.name;
      EXPECT_EQ(argument.find("${"), std::string::npos) << agent.name;
    }
  }
  const Launch claude = PlanLaunch(*FindAgent("claude"), args).value();
  EXPECT_THAT(claude.removed, ElementsAre("ANTHROPIC_API_KEY"));
  EXPECT_THAT(claude.variables, Contains(Pair("ANTHROPIC_MODEL", "local")));
}

TEST(LaunchTest, ACopiedFileKeepsWhatIsTheUsers) {
  const TempFolder folder;
  const std::filesystem::path& home = folder.path();
  std::filesystem::create_directories(home / ".cline/data/settings");
  std::ofstream(home / ".cline/data/settings/providers.json")
      << R"({"mine": 1, "providers": {"anthropic": {"settings": {"apiKey": "sk-mine"}}}})";
  setenv("HOME", home.c_str(), 1);
  const Launch launch = PlanLaunch(*FindAgent("cline"), kArgs).value();
  ASSERT_EQ(launch.files.size(), 1u);
  const auto json = nlohmann::json::parse(launch.files[0].second);
  EXPECT_EQ(json["mine"], 1);
  EXPECT_EQ(json["providers"]["anthropic"]["settings"]["apiKey"], "sk-mine");
  EXPECT_EQ(json["providers"]["anthropic"]["settings"]["baseUrl"], "http://127.0.0.1:9/v1");
  EXPECT_EQ(InHome("~/a"), home / "a");
  EXPECT_EQ(InHome("/a"), "/a");
}

}  // namespace
}  // namespace kvgate::cli::agents
