// Lines that agents write into the first text of the user, such as the state of the repository.
#include <gtest/gtest.h>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

constexpr std::string_view kAnswer =
    "I have read the files that you named, and the function that parses the header is where the "
    "length is taken before it is checked.";

std::string Context(std::string_view line) {
  return "These are the rules of the repository.\nRun the tests before you commit.\n" +
         std::string(line) + "\nNever push to the main branch.\nFix the bug in the parser.";
}
std::string State(int call) {
  return "The build at revision 7f3a" + std::to_string(1000 + call) + " was seen by call " +
         std::to_string(call) + ".";
}

// Returns the text of turn `index`, which may be a list of one block.
std::string TextOfTurn(const std::string& body, size_t index) {
  const json parsed = json::parse(body);
  const json content = parsed[parsed.contains("input") ? "input" : "messages"][index]["content"];
  return content.is_string() ? content.get<std::string>() : content.back().value("text", "?");
}

class UserSlots : public ::testing::TestWithParam<Endpoint> {
 protected:
  Request Start(std::string_view line) const {
    return {.endpoint = GetParam(), .turns = {Turn("user", Context(line))}};
  }
  static void Go(Request& request, std::string_view line, std::string_view user) {
    request.turns[0] = Turn("user", Context(line));
    request.turns.push_back(Turn("assistant", kAnswer));
    request.turns.push_back(Turn("user", user));
  }
  void Teach() {
    caller_.session = "teach";
    Request request = Start(State(1));
    caller_.Send(request);
    for (int call = 2; call < 4; ++call) {
      Go(request, State(call), "go on");
      caller_.Send(request);
    }
    caller_.session = "later";
  }
  // Returns a conversation of two requests that began when the line was known.
  Request Taught() {
    Teach();
    Request request = Start(State(70));
    caller_.Send(request);
    Go(request, State(71), "more");
    caller_.Send(request);
    return request;
  }
  static size_t Last(const Request& request) { return request.turns.size() - 1; }
  Caller caller_{Mode::kStabilize, GetParam() == Endpoint::kMessages ? "anthropic" : "openai"};
};

TEST_P(UserSlots, AnEditGoesOutAsWrittenAndASecondChangeOfTheSameLineFollows) {
  caller_.session = "s";
  Request request = Start(State(1));
  caller_.Send(request);
  Go(request, State(2), "go on");
  std::string before = caller_.Send(request);
  EXPECT_FALSE(caller_.last.first_of_conversation);
  EXPECT_EQ(TextOfTurn(before, 0), Context(State(2)));
  EXPECT_EQ(TextOfTurn(before, Last(request)), "go on");
  for (int call = 3; call < 6; ++call) {
    Go(request, State(call), "more");
    const std::string after = caller_.Send(request);
    EXPECT_FALSE(caller_.last.first_of_conversation);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_EQ(TextOfTurn(after, 0), Context(State(2)));
    EXPECT_EQ(TextOfTurn(after, Last(request)), "more\n\n" + State(call));
    EXPECT_TRUE(caller_.Used(parse::Rule::kUserSlots));
    before = after;
  }
}

TEST_P(UserSlots, FromTheNextConversationOnTheLineStandsBehindTheOthers) {
  Teach();
  Request request = Start(State(70));
  std::string before = caller_.Send(request);
  const std::string rules =
      "These are the rules of the repository.\nRun the tests before you commit.\nNever push to "
      "the main branch.\nFix the bug in the parser.";
  EXPECT_EQ(TextOfTurn(before, 0), rules + "\n\n" + State(70));
  EXPECT_TRUE(caller_.Used(parse::Rule::kUserSlots));
  for (int call = 71; call < 74; ++call) {
    Go(request, State(call), "more");
    const std::string after = caller_.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_EQ(TextOfTurn(after, Last(request)), "more\n\n" + State(call));
    before = after;
  }
  Go(request, State(73), "the same state");
  EXPECT_EQ(TextOfTurn(caller_.Send(request), Last(request)), "the same state");
}

TEST_P(UserSlots, AnotherEditOfTheTextGoesOutWhole) {
  Request request = Taught();
  Go(request, State(72), "and more");
  std::string edited = Context(State(72));
  edited.replace(edited.find("Never push"), 10, "You may push");
  request.turns[0] = Turn("user", edited);
  const std::string after = caller_.Send(request);
  EXPECT_NE(after.find("You may push to the main branch"), std::string::npos);
  EXPECT_EQ(after.find("Never push"), std::string::npos);
  EXPECT_NE(after.find(State(72)), std::string::npos);
}

TEST_P(UserSlots, ASentenceThatAPersonWritesAnewGoesOutHoweverOften) {
  Request request = Start(State(1));
  caller_.Send(request);
  for (const std::string_view task :
       {"Write a test first.", "continue", "Explain it to me.", "Stop.", "Now mend the lexer.",
        "Look at the header instead."}) {
    Go(request, State(1), "go on");
    const std::string text =
        "These are the rules of the repository.\nRun the tests before you commit.\n" + State(1) +
        "\nNever push to the main branch.\n" + std::string(task);
    request.turns[0] = Turn("user", text);
    EXPECT_EQ(TextOfTurn(caller_.Send(request), 0), text);
  }
}

TEST_P(UserSlots, ALineThatTheClientTakesOutIsSentNoMore) {
  Request request = Taught();
  Go(request, State(71), "and more");
  std::string without = Context(State(71));
  without.erase(without.find(State(71)), State(71).size() + 1);
  request.turns[0] = Turn("user", without);
  const std::string after = caller_.Send(request);
  EXPECT_EQ(after.find("was seen by call"), std::string::npos);
}

TEST_P(UserSlots, TheRuleCanBeSwitchedOff) {
  Teach();
  caller_.rules_off = parse::Bit(parse::Rule::kUserSlots);
  Request request = Start(State(70));
  EXPECT_EQ(TextOfTurn(caller_.Send(request), 0), Context(State(70)));
}

INSTANTIATE_TEST_SUITE_P(Dialects, UserSlots,
                         ::testing::Values(Endpoint::kMessages, Endpoint::kChatCompletions,
                                           Endpoint::kResponses),
                         test::DialectOf);

}  // namespace
}  // namespace kvgate::prompt::rewrite
