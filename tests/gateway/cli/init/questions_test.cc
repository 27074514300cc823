#include "gateway/cli/init/questions.h"

#include <gtest/gtest.h>

#include <sstream>

namespace kvgate::cli::init {
namespace {

struct Asked {
  std::string answer = {};  // or what is wrong
  std::string shown = {};
};

Asked AskOf(const std::string& typed) {
  std::istringstream in(typed);
  std::ostringstream out;
  const Result<std::string> answer =
      Questions(in, out).Ask("How much?", "1", [](const std::string& text) -> Result<void> {
        if (text == "1" || text == "2") return {};
        return MakeError(ErrorCode::kInvalidArgument, "test", "no " + text);
      });
  return {answer ? *answer : answer.error().detail, out.str()};
}

TEST(QuestionsTest, AnAnswerIsTakenWithoutItsBlanksAndAnEmptyOneIsTheProposal) {
  EXPECT_EQ(AskOf(" 2\t\r\n").answer, "2");
  EXPECT_EQ(AskOf("\n").answer, "1");
  EXPECT_EQ(AskOf("2").answer, "2");  // the input ends without a line's end
  EXPECT_EQ(AskOf("\n").shown, "How much? [1]: ");
}

TEST(QuestionsTest, AWrongAnswerIsAskedForAgainButNotForEver) {
  EXPECT_EQ(AskOf("7\n2\n").answer, "2");
  EXPECT_EQ(AskOf("7\n2\n").shown, "How much? [1]: no 7\nHow much? [1]: ");
  EXPECT_EQ(AskOf("7\n8\n9\n2\n").answer, "no usable answer to: How much? Nothing was written");
}

TEST(QuestionsTest, WhereTheInputHasEndedNobodyIsAskedAgain) {
  EXPECT_EQ(AskOf("").answer, "no answer; nothing was written");
  EXPECT_EQ(AskOf("7\n").answer, "no answer; nothing was written");
}

}  // namespace
}  // namespace kvgate::cli::init
