#include "gateway/cli/agents/agent_table.h"

#include <gtest/gtest.h>

namespace kvgate::cli::agents {
namespace {

TEST(AgentTableTest, EachAgentIsFoundByItsNameAndItsCommands) {
  ASSERT_FALSE(KnownAgents().empty());
  for (const Agent& agent : KnownAgents()) {
    EXPECT_EQ(FindAgent(agent.name), &agent);
    ASSERT_FALSE(agent.commands.empty()) << agent.name;
    for (const std::string& command : agent.commands) {
      EXPECT_EQ(&AgentOfCommand(command), &agent);
      EXPECT_EQ(&AgentOfCommand("/usr/bin/" + command), &agent);
    }
    EXPECT_FALSE(agent.run.environment.empty() && agent.run.arguments.empty()) << agent.name;
  }
  EXPECT_EQ(FindAgent("nobody"), nullptr);
}

TEST(AgentTableTest, AnyOtherCommandGetsTheAddressesThatSdksRead) {
  const Agent& others = AgentOfCommand("python3");
  EXPECT_EQ(others.name, "");
  ASSERT_FALSE(others.run.environment.empty());
  EXPECT_EQ(others.run.environment[0].first, "OPENAI_BASE_URL");
}

TEST(AgentTableTest, PlacesAreFilledInTextsAndInNamesOfMembers) {
  const Places places = PlacesOf("http://h:1");
  EXPECT_EQ(Filled("a ${origin} b ${v1}${nothing} ${", places),
            "a http://h:1 b http://h:1/v1${nothing} ${");
  EXPECT_EQ(FilledJson({{"${origin}", {1, "${v1}"}}}, places).dump(),
            R"({"http://h:1":[1,"http://h:1/v1"]})");
  EXPECT_EQ(TextOf("x"), "x");
  EXPECT_EQ(TextOf({{"a", 1}}), R"({"a":1})");
}

}  // namespace
}  // namespace kvgate::cli::agents
