#include "gateway/ledger/segment/tool_server.h"

#include <gtest/gtest.h>

namespace kvgate::ledger::segment {
namespace {

TEST(ToolServerTest, TheServerStandsInFrontInTheFormsOfRealClients) {
  EXPECT_EQ(ServerOf("mcp__github__get_issue"), "github");
  EXPECT_EQ(ServerOf("mcp__my_server__a__b"), "my_server");
  EXPECT_EQ(ServerOf("github__get_issue"), "github");
  EXPECT_EQ(ServerOf("github.get_issue"), "github");
}

TEST(ToolServerTest, OtherNamesHaveNone) {
  for (const char* name :
       {"", "get_weather", "__init", "mcp__", "mcp__x", "a__", "a.", ".b", "_"}) {
    EXPECT_EQ(ServerOf(name), "") << name;
  }
}

}  // namespace
}  // namespace kvgate::ledger::segment
