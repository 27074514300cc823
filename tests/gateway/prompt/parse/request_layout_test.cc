#include "gateway/prompt/parse/request_layout.h"

#include <gtest/gtest.h>

#include "gateway/prompt/parse/segment_memo.h"
#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt::parse {
namespace {

using dialect::form::Endpoint;

RequestLayout Read(Endpoint endpoint, std::string_view body) {
  SegmentMemo memo(1024);
  Result<RequestLayout> layout = ReadRequestLayout(endpoint, body, memo);
  EXPECT_TRUE(layout.has_value()) << (layout ? "" : layout.error().ToString());
  return layout ? *layout : RequestLayout{};
}

// Returns "path source text" for each segment.
std::vector<std::string> Lines(const RequestLayout& layout, std::string_view body) {
  std::vector<std::string> lines;
  for (const Segment& segment : layout.segments) {
    lines.push_back(PathOf(segment.place) + " " + std::string(SourceName(segment.source)) + " " +
                    std::string(segment.text.In(body)));
  }
  return lines;
}
using Strings = std::vector<std::string>;

TEST(RequestLayout, OfAKnownBodyIsReadIfLittleIsNew) {
  SegmentMemo memo(1024);
  const auto body_of = [](std::string_view newest) {
    std::string body = R"({"model":"m","messages":[)";
    for (int i = 0; i < 40; ++i) {
      body += R"({"role":"user","content":")" + std::string(1000, 'a' + i % 26) + R"("},)";
    }
    return body + R"({"role":"user","content":")" + std::string(newest) + R"("}]})";
  };
  const auto read = [&](const std::string& body) {
    return ReadKnownLayout(Endpoint::kChatCompletions, body, memo, 4096);
  };
  const std::string first = body_of("x");
  EXPECT_FALSE(read(first));
  ASSERT_TRUE(ReadRequestLayout(Endpoint::kChatCompletions, first, memo));
  const std::string next = body_of("something new");
  const auto known = read(next);
  ASSERT_TRUE(known);
  EXPECT_EQ(Lines(*known, next), Lines(Read(Endpoint::kChatCompletions, next), next));
  EXPECT_EQ(known->segments.back().same,
            Read(Endpoint::kChatCompletions, next).segments.back().same);
  EXPECT_FALSE(read(body_of(std::string(5000, 'n'))));
  EXPECT_FALSE(ReadKnownLayout(Endpoint::kEmbeddings, next, memo, 4096));
}

TEST(RequestLayout, OfMessagesInRenderOrder) {
  const std::string_view body =
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[)"
      R"({"type":"thinking","thinking":"t"},{"type":"text","text":"a"},)"
      R"({"type":"tool_use","id":"1","name":"f","input":{"text":"x"}}]},{"role":"user","content":[)"
      R"({"type":"tool_result","tool_use_id":"1","content":"r"},{"type":"text","text":"go"}]}],)"
      R"("system":[{"type":"text","text":"s"}],"model":"m\u0031","tools":[{"name":"f"}],"x":1})";
  const RequestLayout layout = Read(Endpoint::kMessages, body);
  EXPECT_EQ(Lines(layout, body),
            (Strings{"tools[0] tools ", "system[0] system \"s\"", "messages[0] history \"hi\"",
                     "messages[1] history ", "messages[1].content[0] history ",
                     "messages[1].content[1] history \"a\"", "messages[1].content[2] history ",
                     "messages[2] user ", "messages[2].content[0] tool_results \"r\"",
                     "messages[2].content[1] user \"go\""}));
  EXPECT_EQ(layout.model, "m1");
  EXPECT_EQ(layout.segments[3].content, Content::kMessageHead);
  EXPECT_EQ(layout.segments[4].content, Content::kThinking);
  EXPECT_EQ(layout.segments[6].content, Content::kToolCall);
  EXPECT_EQ(layout.segments[6].text, Span{});
  EXPECT_EQ(layout.tools.In(body), R"([{"name":"f"}])");
  ASSERT_NE(layout.Find("x"), nullptr);
  EXPECT_EQ(layout.Find("x")->member.In(body), "\"x\":1");
  EXPECT_EQ(layout.Find("y"), nullptr);
}

TEST(RequestLayout, OfChatCompletions) {
  const std::string_view body =
      R"({"messages":[{"role":"system","content":"s"},{"role":"developer","content":"d"},)"
      R"({"role":"user","content":[{"type":"text","text":"a"},)"
      R"({"type":"image_url","image_url":{}}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"r"},{"role":"system","content":"mid"}]})";
  const RequestLayout layout = Read(Endpoint::kChatCompletions, body);
  EXPECT_EQ(Lines(layout, body),
            (Strings{"messages[0] system \"s\"", "messages[1] system \"d\"", "messages[2] user ",
                     "messages[2].content[0] user \"a\"", "messages[2].content[1] media ",
                     "messages[3] history ", "messages[4] tool_results \"r\"",
                     "messages[5] system \"mid\""}));
  EXPECT_EQ(layout.segments[0].place.section, Section::kSystem);
  EXPECT_EQ(layout.segments[7].place.section, Section::kMessages);
  EXPECT_EQ(layout.segments[5].content, Content::kToolCall);
  EXPECT_EQ(layout.segments[6].role, Role::kTool);
}

TEST(RequestLayout, OfResponses) {
  const std::string_view body =
      R"({"instructions":"s","input":[{"role":"user",)"
      R"("content":[{"type":"input_text","text":"a"}]},)"
      R"({"type":"reasoning","encrypted_content":"e"},{"type":"function_call","arguments":"{}"},)"
      R"({"type":"function_call_output","output":"r"}]})";
  const RequestLayout layout = Read(Endpoint::kResponses, body);
  EXPECT_EQ(Lines(layout, body), (Strings{"instructions system \"s\"", "input[0] user ",
                                          "input[0].content[0] user \"a\"", "input[1] history ",
                                          "input[2] history ", "input[3] tool_results \"r\""}));
  EXPECT_EQ(layout.segments[3].content, Content::kThinking);
  EXPECT_EQ(layout.segments[4].content, Content::kToolCall);
  const std::string_view plain = R"({"input":"hello"})";
  EXPECT_EQ(Lines(Read(Endpoint::kResponses, plain), plain), Strings{"input user \"hello\""});
}

TEST(RequestLayout, SourcesAreRecognised) {
  const std::string_view body =
      R"({"messages":[{"role":"system","name":"example_user","content":"e"},)"
      R"({"role":"user","content":"This session is being continued from a previous conversation"},)"
      R"({"role":"user","content":"\n<document>x</document>"},)"
      R"({"role":"user","content":[{"type":"document","source":{}},)"
      R"({"type":"text","text":"y","kvgate_source":"retrieval"},{"type":"text","text":"q"}]}]})";
  EXPECT_EQ(Lines(Read(Endpoint::kChatCompletions, body), body),
            (Strings{"messages[0] examples \"e\"",
                     "messages[1] summary \"This session is being continued from a previous "
                     "conversation\"",
                     "messages[2] retrieval \"\\n<document>x</document>\"", "messages[3] user ",
                     "messages[3].content[0] retrieval ", "messages[3].content[1] retrieval \"y\"",
                     "messages[3].content[2] user \"q\""}));
}

TEST(RequestLayout, BlocksInTagsAtTheEndOfAMessageAreNotices) {
  const auto notices = [](const std::string& role, const std::string& blocks) {
    const std::string body =
        R"({"messages":[{"role":")" + role + R"(","content":[)" + blocks + "]}]}";
    std::string found;
    for (const Segment& segment : Read(Endpoint::kMessages, body).segments) {
      if (segment.is_notice) found += std::to_string(segment.place.block);
    }
    return found;
  };
  const std::string text = R"({"type":"text","text":"see <b>this</b>"})";
  const std::string tag = R"({"type":"text","text":"\n<a-notice at=\"1\">on</a-notice>"})";
  EXPECT_EQ(notices("user", text + "," + tag + "," + tag), "12");
  EXPECT_EQ(notices("user", text + "," + tag + "," + text), "") << "words follow it";
  EXPECT_EQ(notices("user", tag + "," + tag), "1") << "the first one is the message";
  EXPECT_EQ(notices("assistant", text + "," + tag), "");
}

TEST(RequestLayout, TagsAtTheEndOfAUsersStringAreItsNotice) {
  const auto notice = [](std::string_view role, std::string_view json) {
    const std::string body = R"({"messages":[{"role":")" + std::string(role) + R"(","content":")" +
                             std::string(json) + R"("}]})";
    return std::string(Read(Endpoint::kChatCompletions, body).segments.back().notice.In(body));
  };
  EXPECT_EQ(notice("user", R"(fix it\n\n<a-note>\nx: 1\n</a-note>\n)"),
            R"(\n\n<a-note>\nx: 1\n</a-note>\n)");
  EXPECT_EQ(notice("user", R"(a\u0020\"b\"\n<x>1</x>\n<y>2</y>)"), R"(\n<x>1</x>\n<y>2</y>)");
  EXPECT_EQ(notice("user", R"(fix it\n<x>1</x> \r\n \t)"), R"(\n<x>1</x> \r\n \t)");
  EXPECT_EQ(notice("user", R"(<note>all of it</note>)"), "");
  EXPECT_EQ(notice("user", R"(say <b>this</b>)"), "");
  EXPECT_EQ(notice("user", R"(fix it)"), "");
  EXPECT_EQ(notice("assistant", R"(done\n<x>1</x>)"), "");
  EXPECT_EQ(notice("user", "a\\n<x>" + std::string(kNoticeBytesMax, 'x') + "</x>"), "");
}

// What is known of turns stands where they stand in the new body.
TEST(RequestLayout, ANoticeIsFoundInTurnsThatAreKnown) {
  SegmentMemo memo(1024);
  std::string turns;
  for (int i = 0; i < 20; ++i) {
    turns += R"({"role":"user","content":")" + std::string(1000, 'a') + R"(\n<n>1</n>"},)";
  }
  for (const std::string_view front : {"", R"("temperature":1,)"}) {
    const std::string body =
        "{" + std::string(front) + R"("messages":[)" + turns + R"({"role":"user","content":"x"}]})";
    const Result<RequestLayout> layout = ReadRequestLayout(Endpoint::kChatCompletions, body, memo);
    ASSERT_TRUE(layout.has_value());
    ASSERT_EQ(layout->segments.size(), 21U);
    EXPECT_EQ(layout->segments[7].notice.In(body), R"(\n<n>1</n>)");
    EXPECT_EQ(layout->segments[7].notice.end, layout->segments[7].text.end - 1);
  }
}

TEST(RequestLayout, BreakpointsAreLiftedWithOneComma) {
  for (const std::string_view block :
       {R"({"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}})",
        R"({"cache_control":{"type":"ephemeral","ttl":"1h"},"type":"text","text":"a"})",
        R"({"type":"text","cache_control":{"ttl":"1h","type":"ephemeral"},"text":"a"})",
        R"({"kvgate_source":"user","cache_control":{"ttl":"1h","type":"ephemeral"},)"
        R"("type":"text","text":"a"})"}) {
    const std::string body =
        R"({"system":[)" + std::string(block) +
        R"(,{"type":"text","text":"a"}],"cache_control":{"type":"ephemeral"}})";
    const RequestLayout layout = Read(Endpoint::kMessages, body);
    ASSERT_EQ(layout.segments.size(), 2U);
    EXPECT_EQ(layout.segments[0].breakpoint, (Breakpoint{BreakpointKind::kCacheControl, 3600}));
    EXPECT_EQ(layout.segments[0].raw, layout.segments[1].raw) << body;
    EXPECT_EQ(layout.segments[0].same, layout.segments[1].same);
    EXPECT_EQ(layout.automatic, (Breakpoint{BreakpointKind::kCacheControl, 300}));
  }
}

TEST(RequestLayout, WhatIsNotUnderstoodIsRefused) {
  SegmentMemo memo(1024);
  for (const std::string_view body :
       {"", "1", "[]", "{", "{}}", R"({"messages":[{"role":"user","content":"a]})",
        R"({"messages":[],"messages":[]})", R"({"messages":[],"mess\u0061ges":[]})",
        R"({"messages":[{"role":"user","role":"user"}]})", R"({"messages":[1]})",
        R"({"messages":[{"role":"user","content":["a"]}]})", R"({"tools":"x"})",
        R"({"messages":[{"role":"user","content":"\x"}]})", R"({"model":1})", R"({"x":tru})",
        R"({"messages":[{"content":tru}]})", R"({"messages":[}]})", R"({"a" 1})"}) {
    EXPECT_FALSE(ReadRequestLayout(Endpoint::kMessages, body, memo).has_value()) << body;
  }
  EXPECT_FALSE(ReadRequestLayout(Endpoint::kEmbeddings, "{}", memo).has_value());
}

TEST(RequestLayout, AMemoGivesWhatParsingGives) {
  const std::string_view body =
      R"({"messages":[{"role":"user","content":"at 10:31:07 go"},{"role":"user","content":" "}]})";
  SegmentMemo memo(1024);
  const Result<RequestLayout> first = ReadRequestLayout(Endpoint::kMessages, body, memo);
  const size_t known = memo.num_entries();
  const Result<RequestLayout> second = ReadRequestLayout(Endpoint::kMessages, body, memo);
  EXPECT_EQ(memo.num_entries(), known);
  ASSERT_TRUE(first && second);
  for (size_t i = 0; i < first->segments.size(); ++i) {
    EXPECT_EQ(first->segments[i].same, second->segments[i].same);
    EXPECT_EQ(first->segments[i].stable, second->segments[i].stable);
    EXPECT_EQ(first->segments[i].is_volatile, second->segments[i].is_volatile);
    EXPECT_EQ(first->segments[i].num_tokens, second->segments[i].num_tokens);
  }
}

// Expects the same segments as without a memo of the list's beginning.
void ExpectSameAsFresh(SegmentMemo& memo, const std::string& body) {
  const Result<RequestLayout> known = ReadRequestLayout(Endpoint::kChatCompletions, body, memo);
  const RequestLayout fresh = Read(Endpoint::kChatCompletions, body);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(Lines(*known, body), Lines(fresh, body));
  ASSERT_EQ(known->segments.size(), fresh.segments.size());
  for (size_t i = 0; i < fresh.segments.size(); ++i) {
    EXPECT_EQ(known->segments[i].raw, fresh.segments[i].raw);
    EXPECT_EQ(known->segments[i].same, fresh.segments[i].same);
    EXPECT_EQ(known->segments[i].span, fresh.segments[i].span);
    EXPECT_EQ(known->segments[i].element, fresh.segments[i].element);
    EXPECT_EQ(known->segments[i].blocks, fresh.segments[i].blocks);
    EXPECT_EQ(known->segments[i].breakpoint, fresh.segments[i].breakpoint);
    EXPECT_EQ(known->segments[i].place.section, fresh.segments[i].place.section);
  }
  EXPECT_EQ(known->messages, fresh.messages);
}

TEST(RequestLayout, AListThatBeginsAsOneBeforeReadsAsIfItWereNew) {
  SegmentMemo memo(1024);
  std::string turns = R"({"role":"system","content":"s"},{"role":"developer","content":")" +
                      std::string(9000, 'x') + "\"}";
  for (int i = 0; i < 30; ++i) {
    turns += R"(,{"role":"user","content":[{"type":"text","text":"<document>a</document>"},)"
             R"({"type":"text","text":"q)" +
             std::to_string(i) +
             R"(","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"a"})";
    ExpectSameAsFresh(memo,
                      R"({"a":)" + std::to_string(i % 13) + R"(,"messages":[)" + turns + "]}");
    // The same turns come with another end, without the last breakpoint, and with broken ends,
    // which must fail.
    ExpectSameAsFresh(memo, R"({"messages":[)" + turns + R"(, {"role":"user","content":"z"} ]})");
    std::string unmarked = turns;
    const std::string_view breakpoint = R"(,"cache_control":{"type":"ephemeral"})";
    unmarked.erase(unmarked.rfind(breakpoint), breakpoint.size());
    ExpectSameAsFresh(memo, R"({"messages":[)" + unmarked + "]}");
    for (const std::string_view end : {"", ",", ",]}", "x]}", "]"}) {
      const std::string body = R"({"messages":[)" + turns + std::string(end);
      EXPECT_FALSE(ReadRequestLayout(Endpoint::kChatCompletions, body, memo).has_value()) << end;
    }
  }
}

TEST(RequestLayout, PartsAreBlocksWithGeminiAlone) {
  const std::string_view body =
      R"({"model":"m","messages":[{"role":"user","parts":[{"text":"p"}],"content":"hi"}]})";
  const RequestLayout layout = Read(Endpoint::kChatCompletions, body);
  ASSERT_EQ(layout.segments.size(), 1U);
  EXPECT_EQ(layout.segments[0].content, Content::kText);
  EXPECT_EQ(layout.segments[0].text.In(body), "\"hi\"");
}

TEST(RequestLayout, AModelInTheBodyCounts) {
  SegmentMemo memo(1024);
  const std::string_view body = R"({"model":"a","messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(ReadRequestLayout(Endpoint::kChatCompletions, body, memo, "a")->model, "a");
  EXPECT_EQ(ReadRequestLayout(Endpoint::kChatCompletions, body, memo, "b")->model, "a");
}

TEST(RequestLayout, OfGeminiInBothSpellings) {
  for (const std::string_view name : {"systemInstruction", "system_instruction"}) {
    const std::string body =
        R"({"contents":[{"role":"user","parts":[{"text":"hi"},{"inlineData":{"data":"AA=="}}]},)"
        R"({"role":"model","parts":[{"text":"hm","thought":true},{"text":"a"},)"
        R"({"functionCall":{"name":"f","args":{"text":"x"}},"thoughtSignature":"c2ln"}]},)"
        R"({"parts":[{"functionResponse":{"name":"f","response":{"output":"r"}}}]},)"
        R"({"parts":[{"text":"more"}]}],")" +
        std::string(name) +
        R"(":{"role":"user","parts":[{"text":"sys"}]},"tools":[{"functionDeclarations":[]}]})";
    SegmentMemo memo(1024);
    const auto layout = ReadRequestLayout(Endpoint::kGenerateContent, body, memo, "gemini-3");
    ASSERT_TRUE(layout) << layout.error().ToString();
    EXPECT_EQ(layout->model, "gemini-3");
    EXPECT_EQ(layout->segments.front().place.section, Section::kTools);
    std::vector<Content> contents;
    std::vector<Role> roles;
    for (const Segment& segment : layout->segments) {
      if (segment.place.block < 0) continue;
      contents.push_back(segment.content);
      roles.push_back(segment.role);
    }
    EXPECT_EQ(contents,
              (std::vector<Content>{Content::kText, Content::kText, Content::kMedia,
                                    Content::kThinking, Content::kText, Content::kToolCall,
                                    Content::kToolResult, Content::kText}));
    EXPECT_EQ(roles[0], Role::kSystem);
    EXPECT_EQ(roles[3], Role::kAssistant);
    const Strings lines = Lines(*layout, body);
    EXPECT_EQ(lines.back(), "contents[3].parts[0] user \"more\"");
    EXPECT_EQ(lines[2], std::string(name) + ".parts[0] system \"sys\"");
  }
}

}  // namespace
}  // namespace kvgate::prompt::parse
