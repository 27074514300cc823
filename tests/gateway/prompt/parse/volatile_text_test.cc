#include "gateway/prompt/parse/volatile_text.h"

#include <gtest/gtest.h>

namespace kvgate::prompt::parse {
namespace {

// Returns "kind:text" for each find.
std::vector<std::string> Finds(std::string_view text) {
  std::vector<std::string> finds;
  for (const VolatileSpan& span : FindVolatile(text)) {
    finds.push_back(std::string(VolatileKindName(span.kind)) + ":" +
                    std::string(text.substr(span.begin, span.end - span.begin)));
  }
  return finds;
}
std::string Left(std::string_view text) { return CutVolatile(text, FindVolatile(text)); }
using Strings = std::vector<std::string>;

TEST(VolatileText, DatesAndTimesAreFoundAsIsoAndSpoken) {
  for (const std::string_view time :
       {"2026-11-22", "2026/11/22 10:31", "2026-11-22T10:31:07.123Z", "2026-11-22 10:31:07+02:00",
        "10:31:07", "9:05 PM", "Sunday, November 22, 2026", "Thu Nov 20 2025", "22 November 2026",
        "November 22nd, 2026 at 10:31 AM", "Nov 22 10:31:07 2026"}) {
    const std::string text = "we met " + std::string(time) + " again";
    EXPECT_EQ(Finds(text), Strings{"time:" + std::string(time)}) << text;
  }
}

TEST(VolatileText, IdsAndStampsAreFound) {
  EXPECT_EQ(Finds("x 3f2504e0-4f89-11d3-9a0c-0305e82c3301 y"),
            Strings{"uuid:3f2504e0-4f89-11d3-9a0c-0305e82c3301"});
  EXPECT_EQ(Finds("see req_011CSHoEeqs5C35K2UUqR7Fy now"),
            Strings{"request_id:req_011CSHoEeqs5C35K2UUqR7Fy"});
  EXPECT_EQ(Finds("ran deadbeef01234567 now"), Strings{"request_id:deadbeef01234567"});
  EXPECT_EQ(Finds("ran 1790000000 now"), Strings{"epoch:1790000000"});
  EXPECT_EQ(Finds("ran 1790000000123 now"), Strings{"epoch:1790000000123"});
}

TEST(VolatileText, WhatAgentsWriteIsFoundWhole) {
  for (const auto& [text, kind] : std::vector<std::pair<std::string, std::string>>{
           {"x-anthropic-billing-header: cc_version=2.1.177.01c; cch=36ee5;", "billing_header"},
           {"<total_tokens>12345 tokens left</total_tokens>", "counter"},
           {"Token usage: 100/200000; 199900 remaining", "counter"},
           {"USD budget: $0.12/$5.00; $4.88 remaining", "budget"},
           {"<system-reminder>\nDo.\n</system-reminder>", "reminder"},
           {"Working directory: /src/app", "cwd"},
           {"Today's date: 2026-11-22", "time"},
           {"Today's date is Sunday, November 22, 2026.", "time"},
           {"  <current_time>10:31</current_time>", "time"},
           {"<env>\n  src/a.cc\n</env>", "environment"},
           {"<environment_details>\nopen: a.cc\n</environment_details>", "environment"},
           {"  <file_tree>\nsrc\n  </file_tree>", "file_list"},
           {"<directory_structure>\nsrc/\n</directory_structure>\r", "file_list"},
           {"<!-- run 3f2504e0-4f89-11d3-9a0c-0305e82c3301 -->", "uuid"},
           {"gitStatus: now\nCurrent branch: main\n\nStatus:\nM a.c\n\nRecent commits:\nabc x",
            "git_status"}}) {
    const std::vector<VolatileSpan> spans = FindVolatile("before\n" + text + "\nafter");
    ASSERT_GE(spans.size(), 1U) << text;
    EXPECT_EQ(VolatileKindName(spans[0].kind), kind) << text;
    EXPECT_TRUE(spans[0].machine) << text;
    EXPECT_EQ(Left("before\n" + text + "\n\nafter"), "before\nafter") << text;
  }
}

TEST(VolatileText, OrdinaryProseIsNotCut) {
  for (const std::string_view text :
       {"version 2.1.177 costs $0.12", "3 of 14 tests failed in 2.5 s",
        "for (i = 0; i < 1024; ++i)", "the ratio is 3:45", "see section 4.2.1",
        "the year 2026 was good", "port 8080", "0x1F", "sha a1b2c3d", "call me on 555 1234",
        "array[1234567]", "1234567890.5 metres", "a<files of b",
        "<system-reminder> that does not end", "the <env> tag\nends with </env>",
        "<env>\nA=1\n</env> is how", "- <file_tree> and </file_tree>"}) {
    EXPECT_EQ(Finds(text), Strings{}) << text;
  }
}

TEST(VolatileText, EachOpeningTagIsHeldAgainstTheNextClosingBehindIt) {
  EXPECT_EQ(Finds("<files>a</files> b <files>c</files> <files>d"),
            (Strings{"file_list:<files>a</files>", "file_list:<files>c</files>"}));
  // A tag that is no element leaves the closing to a later one.
  EXPECT_EQ(Finds("the <env> tag\n<env>\nA=1\n</env>  \n<env>\nB=2\n</env> is how\n<env>\n</env>"),
            (Strings{"environment:<env>\nA=1\n</env>", "environment:<env>\n</env>"}));
  EXPECT_EQ(Finds("</files><files><files>a</files><timestamp>x</timestamp>"),
            (Strings{"file_list:<files><files>a</files>", "time:<timestamp>x</timestamp>"}));
}

TEST(VolatileText, AValueBesideOtherTextIsNoWholeLine) {
  const auto spans = FindVolatile("The release of 2026-11-22 broke it.");
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_FALSE(spans[0].machine);
  EXPECT_FALSE(spans[0].whole_lines);
}

TEST(VolatileText, AGitStatusEndsWhereOtherTextBegins) {
  EXPECT_EQ(Left("a\n\ngitStatus: now\nCurrent branch: main\n\nStatus:\nM a.c\nM b.c\n\n"
                 "Recent commits:\nabc x\n\nBe kind."),
            "a\nBe kind.");
}

TEST(VolatileText, WhatDiffersInVolatileTextOnlyIsStable) {
  EXPECT_EQ(Left("do it\n\n<system-reminder>a</system-reminder>"), "do it");
  EXPECT_EQ(Left("do it"), "do it");
  EXPECT_EQ(Left("at 10:31:07 exactly"), Left("at 10:32:09 exactly"));
}

TEST(VolatileText, TaggedBlocksAtTheEndAreNotices) {
  EXPECT_EQ(WithoutTaggedEnd("fix it"), "fix it");
  EXPECT_EQ(WithoutTaggedEnd("fix it\n\n<a-notice>on</a-notice>\n"), "fix it");
  EXPECT_EQ(WithoutTaggedEnd("fix it\n<a at=\"1\">\non\n</a>\n\n<b_2>x</b_2>"), "fix it");
  EXPECT_EQ(WithoutTaggedEnd("<note>\nall of it\n</note>"), "");
  // The last tag of the name counts, and only one that begins a line.
  EXPECT_EQ(WithoutTaggedEnd("<b>old</b> text\n<b>new</b>"), "<b>old</b> text");
  EXPECT_EQ(WithoutTaggedEnd("say <b>this</b>"), "say <b>this</b>");
}

TEST(VolatileText, WhatIsNoTagStays) {
  for (const std::string_view text :
       {"", "a > b", "x</", "x</>", "x\n</a>", "x\n<ab>y</a>", "x\n<a>y</a b>", "<", ">", "</a>"}) {
    EXPECT_EQ(WithoutTaggedEnd(text), text) << text;
  }
}

TEST(VolatileText, ManyBlocksAreATextInTags) {
  std::string text = "words";
  for (int i = 0; i < 100; ++i) text += "\n<a>x</a>";
  EXPECT_GT(WithoutTaggedEnd(text).size(), 700U);
}

TEST(VolatileText, ATextOfBlocksInTagsIsANotice) {
  EXPECT_TRUE(IsTagged("<a-notice>\nPlan mode is on.\n</a-notice>\n\n<b>x</b>"));
  EXPECT_FALSE(IsTagged("see\n<a-notice>on</a-notice>"));
  EXPECT_FALSE(IsTagged(" \n"));
  EXPECT_FALSE(IsTagged("<a>" + std::string(kNoticeBytesMax, 'x') + "</a>")) << "a document";
}

}  // namespace
}  // namespace kvgate::prompt::parse
