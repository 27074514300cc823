#include "gateway/prompt/diagnose/segment_names.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gateway/prompt/parse/canonical.h"

namespace kvgate::prompt::diagnose {
namespace {

using parse::Content;

history::SentSegment Of(Content content, const std::string& bytes) {
  history::SentSegment segment;
  segment.content = content;
  segment.bytes = std::make_shared<const std::string>(bytes);
  segment.sent_raw = parse::HashBytes(bytes, parse::Domain::kRaw);
  return segment;
}

TEST(SegmentNamesTest, ToolsAreNamedInEachDialect) {
  const auto name = [](const char* bytes) { return ReadToolFacts(bytes, Content::kTool).name; };
  EXPECT_EQ(name(R"({"type":"function","function":{"description":"x","name":"get"}})"), "get");
  EXPECT_EQ(name(R"({"name":"g\u0065t","input_schema":{"name":"no"}})"), "get");
  EXPECT_EQ(name(R"({"type":"function","name":"get","parameters":{}})"), "get");
  EXPECT_EQ(name(R"({"type":"custom","custom":{"name":"shell"}})"), "shell");
  EXPECT_EQ(name(R"({"type":"web_search"})"), "web_search");
  const ToolFacts mcp =
      ReadToolFacts(R"({"type":"mcp","server_label":"github","server_url":"x"})", Content::kTool);
  EXPECT_EQ(mcp.name, "github");
  EXPECT_EQ(mcp.server, "github");
  EXPECT_EQ(name("no JSON"), "");
  EXPECT_EQ(name(R"({"name":)"), "");
}

TEST(SegmentNamesTest, AResultHasTheNameOfTheToolThatWasCalled) {
  SegmentNames names;
  for (int round = 0; round < 2; ++round) {  // the second one from memory
    const auto named = names.Of(
        {Of(Content::kTool, R"({"name":"mcp__gh__list"})"),
         Of(Content::kMessageHead,
            R"({"role":"assistant","tool_calls":[{"id":"c1","type":"function",)"
            R"("function":{"name":"mcp__gh__list","arguments":"{}"}}],"content":[]})"),
         Of(Content::kToolCall, R"({"type":"tool_use","id":"c2","name":"read","input":{}})"),
         Of(Content::kToolCall,
            R"({"type":"function_call","id":"fc_1","call_id":"c3","name":"a.b"})"),
         Of(Content::kToolResult, R"({"role":"tool","tool_call_id":"c1","content":"x"})"),
         Of(Content::kToolResult, R"({"type":"tool_result","tool_use_id":"c2","content":"x"})"),
         Of(Content::kToolResult, R"({"type":"function_call_output","call_id":"c3","output":"x"})"),
         Of(Content::kToolResult, R"({"type":"tool_result","tool_use_id":"none"})"),
         Of(Content::kText, R"({"type":"text","name":"no"})")});
    EXPECT_EQ(named[0].name, "mcp__gh__list");
    EXPECT_EQ(named[0].server, "gh");
    EXPECT_EQ(named[4].name, "mcp__gh__list");
    EXPECT_EQ(named[4].server, "gh");
    EXPECT_EQ(named[5].name, "read");
    EXPECT_EQ(named[5].server, "");
    EXPECT_EQ(named[6].name, "a.b");
    EXPECT_EQ(named[6].server, "a");
    EXPECT_EQ(named[7].name, "");
    EXPECT_EQ(named[8].name, "");
  }
}

TEST(SegmentNamesTest, MemoryIsBoundedAndBytesThatAreGoneHaveNoName) {
  SegmentNames names(8);
  for (int i = 0; i < 100; ++i) {
    const std::string name = "t" + std::to_string(i);
    EXPECT_EQ(names.Of({Of(Content::kTool, R"({"name":")" + name + R"("})")})[0].name, name);
  }
  history::SentSegment gone = Of(Content::kTool, R"({"name":"gone"})");
  gone.bytes = nullptr;
  EXPECT_EQ(names.Of({gone})[0].name, "");
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
