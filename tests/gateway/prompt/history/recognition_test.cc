#include "gateway/prompt/history/recognition.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::history {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

// A text of ten lines, of which two say something else with each request.
std::string Text(std::string_view of, std::string_view state) {
  std::string text = "These are the notes of " + std::string(of) + ".";
  for (const char* rule : {"tests", "names", "files", "errors", "logs", "commits", "words"}) {
    text += "\nAlways look at the " + std::string(rule) + " of " + std::string(of) + ".";
  }
  text += "\n- **state**: " + std::string(state) + "\n| now | " + std::string(state) + " |";
  return text;
}

Request First(std::string_view of, std::string_view state) {
  return {.system = Text("the system", state), .turns = {Turn("user", Text(of, state))}};
}

Request Second(std::string_view of, std::string_view state) {
  Request request = First(of, state);
  request.turns.push_back(Turn("assistant", "I have looked."));
  request.turns.push_back(Turn("user", "go on"));
  return request;
}

TEST(RecognitionTest, ANamedConversationGoesOnFromTheMostSimilarBeginning) {
  Caller caller(Mode::kStabilize);
  caller.session = "s";
  caller.Send(First("the parser", "indexing the tree"));
  const parse::Identity id = caller.last.conversation.id;
  caller.Send(First("another helper", "idle"));
  caller.Send(Second("the parser", "waiting for ci"));
  EXPECT_FALSE(caller.last.first_of_conversation);
  EXPECT_EQ(caller.last.conversation.id, id);
}

TEST(RecognitionTest, OneThatMayGoOnFromEitherOfTwoBeginsAnew) {
  Caller caller(Mode::kStabilize);
  caller.session = "s";
  caller.Send(First("the parser", "indexing the tree"));
  caller.Send(First("the parser", "idle"));
  caller.Send(Second("the parser", "waiting for ci"));
  EXPECT_TRUE(caller.last.first_of_conversation);
}

TEST(RecognitionTest, ABeginningThatSaysMostlySomethingElseIsAnothers) {
  Caller caller(Mode::kStabilize);
  caller.session = "s";
  caller.Send(First("another helper", "indexing the tree"));
  caller.Send(Second("the parser", "waiting for ci"));
  EXPECT_TRUE(caller.last.first_of_conversation);
}

// The same with other words of a user behind what the agent adds to them.
Request Asking(std::string_view words, std::string_view state, bool is_second) {
  Request request = is_second ? Second("the parser", state) : First("the parser", state);
  request.turns[0] =
      Turn("user", "# The project\n\n" + Text("the project", state) + "\n\n" + std::string(words));
  return request;
}

TEST(RecognitionTest, AConversationWithoutANameIsKnownThoughLinesOfItsBeginningChange) {
  Caller caller(Mode::kStabilize);
  caller.Send(Asking("mend the parser", "indexing the tree", false));
  const parse::Identity id = caller.last.conversation.id;
  caller.Send(Asking("mend the parser", "waiting for ci", true));
  EXPECT_FALSE(caller.last.first_of_conversation);
  EXPECT_EQ(caller.last.conversation.id, id);
}

TEST(RecognitionTest, TwoConversationsOfOneAgentInOneProjectStayTwo) {
  Caller caller(Mode::kStabilize);
  caller.Send(Asking("mend the parser", "indexing the tree", false));
  const parse::Identity parser = caller.last.conversation.id;
  caller.Send(Asking("write the report", "idle", false));
  const parse::Identity report = caller.last.conversation.id;
  caller.Send(Asking("write the report", "waiting for ci", true));
  EXPECT_EQ(caller.last.conversation.id, report);
  caller.Send(Asking("mend the parser", "done", true));
  EXPECT_EQ(caller.last.conversation.id, parser);
  // One that began elsewhere joins neither.
  caller.Send(Asking("name the files", "done", true));
  EXPECT_TRUE(caller.last.first_of_conversation);
}

TEST(RecognitionTest, ACallerWhoseHelperHasGoneOnFromItsFirstRequestGoesOnFromItToo) {
  Caller caller(Mode::kStabilize);
  const auto answered = [](std::string_view answer, std::string_view state) {
    Request request = Asking("mend the parser", state, false);
    request.turns.push_back(Turn("assistant", std::string(answer)));
    request.turns.push_back(Turn("user", "go on"));
    return request;
  };
  caller.Send(Asking("mend the parser", "idle", false));
  const parse::Identity id = caller.last.conversation.id;
  caller.Send(answered("A helper looks at the files.", "idle"));
  EXPECT_EQ(caller.last.conversation.id, id);
  caller.Send(answered("I have looked at the files.", "idle"));
  EXPECT_EQ(caller.last.conversation.id, id);
  // Another conversation that begins with the same words has other values.
  caller.Send(answered("Done.", "waiting for ci"));
  EXPECT_TRUE(caller.last.first_of_conversation);
}

// A client leaves out what was thought before an answer, and says its first words otherwise.
TEST(RecognitionTest, AnAnswerIsKnownWithoutWhatWasThoughtBeforeIt) {
  Caller caller(Mode::kStabilize);
  const std::string answer =
      Block("I have looked at the parser, and at all of its tests, and found three that fail.");
  const std::string thinking =
      R"({"type":"thinking","thinking":"What does the parser do?","signature":"s"})";
  Request first = Asking("mend the parser", "indexing the tree", false);
  first.turns.push_back(TurnOf("assistant", {thinking, answer}));
  first.turns.push_back(Turn("user", "mend the first one"));
  caller.Send(first);
  const parse::Identity id = caller.last.conversation.id;
  Request second = first;
  second.turns[0] = Turn("user", "Something else was said here.");
  second.turns[1] = TurnOf("assistant", {answer});
  second.turns.push_back(Turn("assistant", "It is mended, and so is what depends on it."));
  second.turns.push_back(Turn("user", "go on"));
  caller.Send(second);
  EXPECT_FALSE(caller.last.first_of_conversation);
  EXPECT_EQ(caller.last.conversation.id, id);
}

// Each of the two in one session compacts its history. What both say then is no proof.
TEST(RecognitionTest, ACompactionOfASessionsHelperDoesNotGoOnFromItsCallers) {
  Caller caller(Mode::kStabilize);
  caller.session = "s";
  const auto compacted = [](std::string_view summary, std::string_view state) {
    Request request = First("the parser", state);
    request.turns = {
        TurnOf("user", {Block("These are the rules of the project."), Block(summary)})};
    return request;
  };
  const auto answered = [](Request request, std::string_view answer) {
    request.turns.push_back(Turn("assistant", answer));
    request.turns.push_back(Turn("user", "go on"));
    return request;
  };
  caller.Send(answered(First("the parser", "indexing the tree"), "The caller has looked."));
  caller.Send(answered(First("the files", "waiting for ci"), "The helper has read all of them."));
  const Request callers = compacted("Summary: the parser fails.", "indexing the tree");
  caller.Send(callers);
  caller.Send(answered(callers, "It is mended."));
  const Request helpers = compacted("Summary: all files are named.", "waiting for ci");
  const std::string sent = caller.Send(helpers);
  EXPECT_TRUE(caller.last.first_of_conversation);
  EXPECT_EQ(sent.find("indexing the tree"), std::string::npos) << sent;
}

TEST(RecognitionTest, OfTwoThatBeginWithTheSameWordsNoneIsChosen) {
  Caller caller(Mode::kStabilize);
  caller.Send(Asking("continue", "indexing the tree", false));
  caller.Send(Asking("continue", "idle", false));
  caller.Send(Asking("continue", "waiting for ci", true));
  EXPECT_TRUE(caller.last.first_of_conversation);
}

TEST(RecognitionTest, AUsersWordsAloneJoinNobody) {
  Caller caller(Mode::kStabilize);
  const auto ask = [](std::string_view system, bool is_second) {
    Request request = {.system = std::string(system), .turns = {Turn("user", "hi")}};
    if (!is_second) return request;
    request.turns.push_back(Turn("assistant", "Hello."));
    request.turns.push_back(Turn("user", "go on"));
    return request;
  };
  caller.Send(ask(Text("the parser", "idle"), false));
  caller.Send(ask("You write poems.\nThey rhyme.", true));
  EXPECT_TRUE(caller.last.first_of_conversation);
}

TEST(RecognitionTest, AnotherTenantsBeginningIsNotFound) {
  Caller caller(Mode::kStabilize);
  caller.Send(Asking("mend the parser", "indexing the tree", false));
  caller.tenant = "another";
  caller.Send(Asking("mend the parser", "waiting for ci", true));
  EXPECT_TRUE(caller.last.first_of_conversation);
}

}  // namespace
}  // namespace kvgate::prompt::history
