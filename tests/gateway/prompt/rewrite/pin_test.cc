#include "gateway/prompt/rewrite/pin.h"

#include <gtest/gtest.h>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {

using parse::Rule;

namespace {

using namespace test;  // NOLINT: the helpers of these tests

constexpr std::string_view kToolA =
    R"({"name":"read","description":"Reads.","input_schema":{"type":"object","properties":)"
    R"({"p":{"type":"string"},"n":{"type":"integer","maximum":9007199254740993}}}})";
constexpr std::string_view kToolAOtherKeys =
    R"({"description":"Reads.","input_schema":{"properties":{"n":{"maximum":9007199254740993,)"
    R"("type":"integer"},"p":{"type":"string"}},"type":"object"},"name":"read"})";
constexpr std::string_view kToolB = R"({"name":"write","input_schema":{"type":"object"}})";
constexpr std::string_view kToolC = R"({"name":"grep","input_schema":{"type":"object"}})";

class Pinned : public ::testing::TestWithParam<Endpoint> {
 protected:
  Request Start() const {
    return {.endpoint = GetParam(),
            .tools = {std::string(kToolA), std::string(kToolB)},
            .system = "You are an agent.",
            .turns = {Turn("user", "fix the bug")}};
  }
  static void Answer(Request& request, const std::string& user) {
    request.turns.push_back(Turn("assistant", "I did."));
    request.turns.push_back(Turn("user", user));
  }
  // Sends both requests; the second one is the first, respelled and continued.
  void ExpectGoesOn(const Request& first, const Request& second, Rule rule) {
    const std::string before = caller_.Send(first);
    EXPECT_EQ(before, first.Body());
    const std::string after = caller_.Send(second);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_TRUE(MeansTheSame(after, second.Body()));
    EXPECT_TRUE(caller_.Used(rule));
    for (const parse::Edit& edit : caller_.last.edits) EXPECT_EQ(edit.rule, rule);
  }
  Caller caller_{Mode::kPin};
};

TEST_P(Pinned, ACleanCallersBytesAreIdentical) {
  Request request = Start();
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(caller_.Send(request), request.Body());
    EXPECT_TRUE(caller_.last.edits.empty());
    EXPECT_EQ(caller_.last.first_of_conversation, turn == 0);
    Answer(request, "and turn " + std::to_string(turn));
  }
}

TEST_P(Pinned, G1ReserialisedHistoryGoesOutInItsFirstBytes) {
  const Request first = Start();
  Request second = first;
  second.turns[0] = "{ \"content\" : \"fix\\u0020the bug\", \"role\" : \"user\" }";
  Answer(second, "go on");
  ExpectGoesOn(first, second, Rule::kFirstSeenBytes);
}

TEST_P(Pinned, G4ShuffledToolsGoOutInTheirFirstOrder) {
  const Request first = Start();
  Request second = first;
  std::swap(second.tools[0], second.tools[1]);
  Answer(second, "go on");
  ExpectGoesOn(first, second, Rule::kToolsOrder);
}

TEST_P(Pinned, G4ShuffledSchemaKeysGoOutInTheirFirstBytes) {
  const Request first = Start();
  Request second = first;
  second.tools[0] = kToolAOtherKeys;
  Answer(second, "go on");
  ExpectGoesOn(first, second, Rule::kFirstSeenBytes);
}

TEST_P(Pinned, G4BothAtOnce) {
  const Request first = Start();
  Request second = first;
  second.tools = {std::string(kToolB), std::string(kToolAOtherKeys)};
  Answer(second, "go on");
  ExpectGoesOn(first, second, Rule::kToolsOrder);
}

TEST_P(Pinned, G13AToolThatIsNewComesBehindTheKnownOnes) {
  Request request = Start();
  caller_.Send(request);
  Answer(request, "go on");
  request.tools = {std::string(kToolC), std::string(kToolB), std::string(kToolA)};
  const json sent = json::parse(caller_.Send(request));
  EXPECT_EQ(sent["tools"][0]["name"], "read");
  EXPECT_EQ(sent["tools"][1]["name"], "write");
  EXPECT_EQ(sent["tools"][2]["name"], "grep");
}

TEST_P(Pinned, V13AToolThatComesBackStandsInItsOldPlace) {
  Request request = Start();
  request.tools = {std::string(kToolA), std::string(kToolB), std::string(kToolC)};
  const std::string before = caller_.Send(request);
  Answer(request, "plan");
  request.tools = {std::string(kToolA), std::string(kToolC)};
  caller_.Send(request);
  Answer(request, "build");
  request.tools = {std::string(kToolC), std::string(kToolB), std::string(kToolA)};
  EXPECT_TRUE(GoesOn(before, caller_.Send(request)));
  // A tool that was never there before is put last, and stays there.
  const std::string other = R"({"name":"find","input_schema":{"type":"object"}})";
  request.tools = {other, std::string(kToolB)};
  Answer(request, "plan again");
  caller_.Send(request);
  request.tools = {other, std::string(kToolC), std::string(kToolB), std::string(kToolA)};
  Answer(request, "build again");
  const json sent = json::parse(caller_.Send(request));
  EXPECT_EQ(sent["tools"][3]["name"], "find");
  EXPECT_EQ(sent["tools"][1]["name"], "write");
}

TEST_P(Pinned, G13AnotherConversationOfTheTenantGetsItsToolsOrder) {
  Request request = Start();
  const std::string before = caller_.Send(request);
  request.turns = {Turn("user", "fix the bug, please")};
  std::swap(request.tools[0], request.tools[1]);
  const std::string after = caller_.Send(request);
  EXPECT_TRUE(caller_.last.first_of_conversation);
  const size_t end = before.find("fix the bug") + 11;
  EXPECT_EQ(after.substr(0, end), before.substr(0, end));
}

TEST_P(Pinned, NothingIsSharedBetweenTenants) {
  Request request = Start();
  caller_.Send(request);
  std::swap(request.tools[0], request.tools[1]);
  caller_.tenant = "another";
  EXPECT_EQ(caller_.Send(request), request.Body());
}

TEST_P(Pinned, NewlinesOfHistoryAndSystemAreFolded) {
  Request first = Start();
  first.system = "line\nline";
  first.turns[0] = Turn("user", "a\nb");
  Request second = first;
  second.system = "line\r\nline";
  second.turns[0] = Turn("user", "a\r\nb");
  Answer(second, "go on");
  ExpectGoesOn(first, second, Rule::kNewlines);
}

TEST_P(Pinned, ATextThatWasNotSentBeforeKeepsItsNewlines) {
  Request request = Start();
  request.turns[0] = Turn("user", "a\r\nb");
  EXPECT_EQ(caller_.Send(request), request.Body());
}

TEST_P(Pinned, AnEditedTurnGoesOutAsItCame) {
  Request request = Start();
  caller_.Send(request);
  Answer(request, "go on");
  caller_.Send(request);
  request.turns[0] = Turn("user", "fix the other bug");
  EXPECT_EQ(caller_.Send(request), request.Body());
}

TEST_P(Pinned, V1V3V14VolatileTextIsLeftAlone) {
  Request request = Start();
  request.system = "x-anthropic-billing-header: cch=1;\nToday's date: 2026-11-22\nBe brief.";
  caller_.Send(request);
  request.system = "x-anthropic-billing-header: cch=2;\nToday's date: 2026-11-23\nBe brief.";
  Answer(request, "go on");
  EXPECT_EQ(caller_.Send(request), request.Body());
}

TEST_P(Pinned, ARuleThatIsOffIsNotApplied) {
  caller_.rules_off = 1U << static_cast<uint32_t>(Rule::kToolsOrder);
  Request request = Start();
  caller_.Send(request);
  std::swap(request.tools[0], request.tools[1]);
  Answer(request, "go on");
  EXPECT_EQ(caller_.Send(request), request.Body());
}

TEST_P(Pinned, TwoToolsOfOneNameKeepTheirOrder) {
  Request request = Start();
  request.tools = {std::string(kToolA), std::string(kToolA)};
  EXPECT_EQ(caller_.Send(request), request.Body());
  EXPECT_FALSE(caller_.last.notes.empty());
}

INSTANTIATE_TEST_SUITE_P(Dialects, Pinned,
                         ::testing::Values(Endpoint::kMessages, Endpoint::kChatCompletions,
                                           Endpoint::kResponses),
                         DialectOf);

TEST(Pin, G14KeysOfCallsArgumentsGoOutInTheirFirstOrder) {
  Caller caller(Mode::kPin);
  Request request{.endpoint = Endpoint::kChatCompletions, .turns = {Turn("user", "look")}};
  const std::string head = R"({"role":"assistant","content":null,"tool_calls":[{"id":"call_1",)"
                           R"("type":"function","function":{"name":"f","arguments":)";
  const std::string result = R"({"role":"tool","tool_call_id":"call_1","content":"ok"})";
  request.turns.push_back(head + Quoted(R"({"a": 1, "b": 2})") + "}}]}");
  request.turns.push_back(result);
  const std::string before = caller.Send(request);
  request.turns[1] = head + Quoted(R"({"b":2,"a":1.0})") + "}}]}";
  request.turns.push_back(Turn("user", "more"));
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_TRUE(MeansTheSame(after, request.Body()));
}

TEST(Pin, G14KeysOfToolInputGoOutInTheirFirstOrder) {
  Caller caller(Mode::kPin, "anthropic");
  const auto call = [](std::string_view input) {
    return TurnOf("assistant", {R"({"type":"tool_use","id":"toolu_1","name":"f","input":)" +
                                std::string(input) + "}"});
  };
  Request request{.turns = {Turn("user", "look"), call(R"({"a":1,"b":[2]})"),
                            TurnOf("user", {R"({"type":"tool_result","tool_use_id":"toolu_1",)"
                                            R"("content":"ok"})"})}};
  const std::string before = caller.Send(request);
  request.turns[1] = call(R"({"b":[2],"a":1})");
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  EXPECT_TRUE(GoesOn(before, caller.Send(request)));
}

TEST(Pin, G7TheCallersRollingMarkerStandsWhereItHasItNow) {
  Caller caller(Mode::kPin, "anthropic");
  Request request{.system_blocks = {Block("Be brief.", kBreakpoint)},
                  .turns = {TurnOf("user", {Block("one", kBreakpoint)})}};
  const std::string before = caller.Send(request);
  EXPECT_EQ(before, request.Body());
  // The turn's keys come in another order, and the breakpoint has moved on.
  request.turns[0] = R"({"content":[{"text":"one","type":"text"}],"role":"user"})";
  request.turns.push_back(Turn("assistant", "yes"));
  request.turns.push_back(TurnOf("user", {Block("two", kBreakpoint)}));
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_TRUE(MeansTheSame(after, request.Body()));
}

TEST(Pin, G7AMarkerOnASplicedBlockStaysOnIt) {
  Caller caller(Mode::kPin, "anthropic");
  Request request{.turns = {TurnOf("user", {Block("one")})}};
  const std::string before = caller.Send(request);
  request.turns[0] = R"({"role":"user","content":[{"cache_control":{"type":"ephemeral"},)"
                     R"("text":"one","type":"text"}]})";
  request.turns.push_back(Turn("assistant", "yes"));
  request.turns.push_back(Turn("user", "two"));
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_TRUE(MeansTheSame(after, request.Body()));
}

TEST(Pin, ThinkingAndMediaAreNeverTouched) {
  Caller caller(Mode::kPin, "anthropic");
  const std::string image = R"({"type":"image","source":{"type":"base64","data":"AA=="}})";
  const std::string thinking = R"({"type":"thinking","thinking":"hm","signature":"s"})";
  Request request{.turns = {TurnOf("user", {image}), TurnOf("assistant", {thinking})}};
  caller.Send(request);
  request.turns = {TurnOf("user", {R"({"source":{"data":"AA==","type":"base64"},)"
                                   R"("type":"image"})"}),
                   TurnOf("assistant", {R"({"signature":"s","thinking":"hm","type":"thinking"})"}),
                   Turn("user", "go on")};
  EXPECT_EQ(caller.Send(request), request.Body());
}

TEST(Pin, V10ReasoningBesideCallsStaysAsItCame) {
  Caller caller(Mode::kPin);
  Request request{.endpoint = Endpoint::kChatCompletions,
                  .turns = {Turn("user", "look"),
                            R"({"role":"assistant","reasoning_content":"hm","content":"ok"})"}};
  caller.Send(request);
  request.turns[1] = R"({"role":"assistant","content":"ok"})";
  request.turns.push_back(Turn("user", "more"));
  EXPECT_EQ(caller.Send(request), request.Body());
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
