#include "gateway/prompt/diagnose/segment_difference.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/gateway/prompt/sent_request.h"

namespace kvgate::prompt::diagnose {

using history::SentRequest;
using parse::Section;

namespace {

using Json = nlohmann::ordered_json;

SegmentList In(const SentRequest& request, Section section) {
  SegmentList list;
  for (const history::SentSegment& segment : request.segments) {
    if (segment.place.section == section) list.push_back(&segment);
  }
  return list;
}

std::string Named(const std::optional<SegmentDifference>& found) {
  if (!found) return "none";
  return std::string(BreakCauseName(found->cause)) + " " + found->path + " " +
         std::to_string(found->index);
}

SentRequest WithTools(const std::string& names) {
  Json body = {{"model", "m"}, {"messages", Json::array()}};
  body["tools"] = Json::array();
  for (const char name : names) {
    body["tools"].push_back({{"name", std::string(1, static_cast<char>(std::tolower(name)))},
                             {"description", std::isupper(name) != 0 ? "another" : "one"}});
  }
  return SentAs(dialect::form::Endpoint::kMessages, body.dump());
}

// Compares tools. A letter is a tool; its capital is the same tool with another definition.
std::string Tools(const std::string& before, const std::string& now) {
  const SentRequest was = WithTools(before);
  const SentRequest is = WithTools(now);
  return Named(CompareTools(In(was, Section::kTools), In(is, Section::kTools)));
}

TEST(SegmentDifferenceTest, ToolsAreComparedAsSetsAndTheFirstDifferenceCounts) {
  EXPECT_EQ(Tools("abc", "abc"), "none");
  EXPECT_EQ(Tools("abc", "abxc"), "tool_added tools[2] 2");
  EXPECT_EQ(Tools("abc", "abcx"), "tool_added tools[3] 3");
  EXPECT_EQ(Tools("abc", "xabc"), "tool_added tools[0] 0") << "told as added, not as reordered";
  EXPECT_EQ(Tools("abc", "bc"), "tool_removed tools[0] 0");
  EXPECT_EQ(Tools("abc", "ab"), "tool_removed tools[2] 2");
  EXPECT_EQ(Tools("abc", "aBc"), "tool_changed tools[1].description 1");
  EXPECT_EQ(Tools("abc", "acb"), "tools_reordered tools[1] 1");
  EXPECT_EQ(Tools("abc", ""), "tool_removed tools[0] 0");
  EXPECT_EQ(Tools("", "a"), "tool_added tools[0] 0");
}

TEST(SegmentDifferenceTest, OfSeveralDifferencesTheFirstInTheListIsTold) {
  EXPECT_EQ(Tools("abcd", "badx"), "tools_reordered tools[0] 0");
  EXPECT_EQ(Tools("abcd", "Abx"), "tool_changed tools[0].description 0");
  EXPECT_EQ(Tools("abcd", "acBx"), "tools_reordered tools[1] 1");
  EXPECT_EQ(Tools("abcd", "axd"), "tool_added tools[1] 1") << "in place of one that is gone";
  EXPECT_EQ(Tools("aab", "aba"), "tools_reordered tools[1] 1") << "two of one name";
}

// Makes turns. A letter is a turn, a bracket a turn of several blocks: "a(bc)d".
SentRequest WithTurns(const std::string& turns) {
  Json body = {{"model", "m"}, {"messages", Json::array()}};
  Json* list = nullptr;
  const auto text = [](char letter) { return std::string(200, letter) + " and some more words"; };
  for (const char c : turns) {
    const char* role = body["messages"].size() % 2 == 0 ? "user" : "assistant";
    if (c == '(') {
      body["messages"].push_back({{"role", role}, {"content", Json::array()}});
      list = &body["messages"].back()["content"];
    } else if (c == ')') {
      list = nullptr;
    } else if (list != nullptr) {
      list->push_back({{"type", "text"}, {"text", text(c)}});
    } else {
      body["messages"].push_back({{"role", role}, {"content", text(c)}});
    }
  }
  return SentAs(dialect::form::Endpoint::kMessages, body.dump());
}

std::string Turns(const std::string& before, const std::string& now) {
  const SentRequest was = WithTurns(before);
  const SentRequest is = WithTurns(now);
  return Named(CompareTurns(In(was, Section::kMessages), In(is, Section::kMessages)));
}

TEST(SegmentDifferenceTest, TurnsThatComeBehindAreNoDifference) {
  EXPECT_EQ(Turns("abc", "abcde"), "none");
  EXPECT_EQ(Turns("a(bc)d", "a(bc)d(ef)"), "none");
}

TEST(SegmentDifferenceTest, EditsInsertionsAndMissingTurnsAreToldApart) {
  EXPECT_EQ(Turns("abcde", "abXdefg"), "history_edited messages[2].content 2");
  EXPECT_EQ(Turns("ab(cd)e", "ab(cX)efg"), "history_edited messages[2].content[1].text 4");
  EXPECT_EQ(Turns("abcde", "abXYcdefg"), "history_edited messages[2] 2");
  EXPECT_EQ(Turns("abcdef", "aefgh"), "history_truncated messages[1] 1");
  EXPECT_EQ(Turns("abcdef", "aXfgh"), "history_truncated messages[1] 1") << "one for four";
  EXPECT_EQ(Turns("abcdef", "abc"), "history_truncated messages[3] 3");
  EXPECT_EQ(Turns("abcdef", "abX"), "history_truncated messages[2] 2");
}

TEST(SegmentDifferenceTest, BlocksWithinATurnAreToldApartToo) {
  EXPECT_EQ(Turns("(abc)de", "(ac)defg"), "history_edited messages[0].content[1] 2");
  EXPECT_EQ(Turns("(abc)de", "(ab)defg"), "history_edited messages[0].content[2] 3");
  EXPECT_EQ(Turns("(abc)de", "(abXc)defg"), "history_edited messages[0].content[2] 3");
  EXPECT_EQ(Turns("(ab)de", "(abX)defg"), "history_edited messages[0].content[2] 3");
  EXPECT_EQ(Turns("(ab)d(ef)", "(ab)d(e)"), "history_edited messages[2].content[1] 6");
}

TEST(SegmentDifferenceTest, V5V9ABlockOfAnEarlierTurnInALaterOneHasMoved) {
  EXPECT_EQ(Turns("(ra)b(c)", "(a)b(c)d(er)"), "block_moved messages[0].content[0] 1");
  EXPECT_EQ(Turns("(a)b(cr)", "(a)b(c)d(er)"), "block_moved messages[2].content[1] 5");
  EXPECT_EQ(Turns("(ra)b(c)", "(ra)b(c)d(er)"), "none") << "said once more";
}

TEST(SegmentDifferenceTest, SystemBlocksThatComeAndGoAreToldByTheirPlace) {
  const auto system = [](const Json& value) {
    const Json body = {{"model", "m"}, {"system", value}, {"messages", Json::array()}};
    return SentAs(dialect::form::Endpoint::kMessages, body.dump());
  };
  const auto block = [](const std::string& text) { return Json{{"type", "text"}, {"text", text}}; };
  const auto told = [&](const Json& before, const Json& now) {
    const SentRequest was = system(before);
    const SentRequest is = system(now);
    return Named(CompareSystem(In(was, Section::kSystem), In(is, Section::kSystem)));
  };
  const Json a = block("one text of some length, with words enough for twelve tokens or so");
  const Json b = block("another text of some length, with words enough for twelve tokens as well");
  const Json x = block("something else");
  EXPECT_EQ(told(Json::array({a, b}), Json::array({a, b})), "none");
  EXPECT_EQ(told(Json::array({a, b}), Json::array({x, a, b})), "system_changed system[0] 0");
  EXPECT_EQ(told(Json::array({x, a, b}), Json::array({a, b})), "system_changed system[0] 0");
  EXPECT_EQ(told(Json::array({a, b}), Json::array({a, x})), "system_changed system[1].text 1");
  EXPECT_EQ(told(Json::array({a}), Json::array({a, b})), "system_changed system[1] 1");
  EXPECT_EQ(told("a", "b"), "system_changed system 0");
  EXPECT_EQ(told("a", Json::array({a})), "system_changed system 0");
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
