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

}  // namespace
}  // namespace kvgate::prompt::history
