#include "gateway/prompt/rewrite/thinking.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/dialect/form/dialect.h"
#include "gateway/prompt/parse/segment_memo.h"
#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

constexpr std::string_view kThought = R"({"type":"thinking","thinking":"t","signature":"s"})";
constexpr std::string_view kHidden = R"({"type":"redacted_thinking","data":"d"})";
constexpr std::string_view kText = R"({"type":"text","text":"a"})";

std::string Body(const std::vector<std::string>& messages) {
  std::string body = R"({"model":"m","messages":[)";
  for (size_t i = 0; i < messages.size(); ++i) body += (i > 0 ? ", " : "") + messages[i];
  return body + "]}";
}
std::string Assistant(const std::vector<std::string_view>& blocks) {
  std::string message = R"({"role":"assistant","content":[ )";
  for (size_t i = 0; i < blocks.size(); ++i)
    message += (i > 0 ? " , " : "") + std::string(blocks[i]);
  return message + " ]}";
}
const std::string kUser = R"({"role":"user","content":"q"})";

std::string Without(const std::string& body) {
  parse::SegmentMemo memo(16);
  const auto layout = parse::ReadRequestLayout(dialect::form::Endpoint::kMessages, body, memo);
  EXPECT_TRUE(layout);
  const auto edits = RemoveThinking(*layout);
  for (const parse::Edit& edit : edits) EXPECT_EQ(edit.rule, parse::Rule::kThinkingRemoved);
  return parse::ApplyEdits(body, edits, {0, static_cast<uint32_t>(body.size())});
}

void ExpectSame(const std::string& body, const std::string& expected) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << body;
  EXPECT_EQ(json, nlohmann::json::parse(expected));
}

TEST(RemoveThinkingTest, ItGoesFromEveryPlaceInAMessage) {
  const std::string bare = Body({kUser, Assistant({kText}), kUser});
  ExpectSame(Without(Body({kUser, Assistant({kThought, kText}), kUser})), bare);
  ExpectSame(Without(Body({kUser, Assistant({kText, kThought}), kUser})), bare);
  ExpectSame(
      Without(Body({kUser, Assistant({kThought, kHidden, kText, kThought, kThought}), kUser})),
      bare);
  ExpectSame(Without(Body({kUser, Assistant({kText, kThought, kText}), kUser})),
             Body({kUser, Assistant({kText, kText}), kUser}));
}

TEST(RemoveThinkingTest, AMessageOfNothingElseGoesAsAWhole) {
  ExpectSame(Without(Body({kUser, Assistant({kThought}), kUser})), Body({kUser, kUser}));
  ExpectSame(Without(Body({kUser, Assistant({kThought, kHidden})})), Body({kUser}));
  ExpectSame(Without(Body({Assistant({kThought}), kUser})), Body({kUser}));
}

TEST(RemoveThinkingTest, EverythingElseStaysByteForByte) {
  const std::string body = Body({kUser, Assistant({kText}), R"({"role": "user", "content":"x" })"});
  EXPECT_EQ(Without(body), body);
  // A user's text that looks like thinking is none.
  const std::string quoted =
      Body({R"({"role":"user","content":[{"type":"text","text":"thinking"}]})"});
  EXPECT_EQ(Without(quoted), quoted);
}

// A client whose model binds its thinking, and whose system prompt changes.
class VoidThinking : public ::testing::TestWithParam<Mode> {
 protected:
  static std::string Thought(std::string_view signature) {
    return R"({"type":"thinking","thinking":"hm","signature":")" + std::string(signature) + "\"}";
  }
  // Adds an answer with thinking, and the next question.
  static void Go(test::Request& request, std::string_view signature) {
    request.turns.push_back(
        test::TurnOf("assistant", {Thought(signature), test::Block("I read the files.")}));
    request.turns.push_back(test::Turn("user", "go on"));
  }
  // Returns the signatures in the order sent.
  static std::string SignaturesIn(const std::string& body) {
    const nlohmann::json parsed = nlohmann::json::parse(body);
    std::string all;
    for (const auto& message : parsed["messages"]) {
      EXPECT_FALSE(message["content"].empty());
      if (!message["content"].is_array()) continue;
      for (const auto& block : message["content"]) all += block.value("signature", "");
    }
    return all;
  }
  std::string Send(const test::Request& request) {
    std::string body = request.Body();
    body.replace(body.find("\"m\""), 3, "\"claude-opus-5-5\"");
    return caller_.SendBody(dialect::form::Endpoint::kMessages, body);
  }
  VoidThinking() { caller_.session = "s"; }
  test::Caller caller_{GetParam(), "anthropic"};
};

TEST_P(VoidThinking, ItIsLeftOutBehindAChangeAndStaysOut) {
  test::Request request{.system = "Be kind.", .turns = {test::Turn("user", "hi")}};
  Send(request);
  Go(request, "A");
  Send(request);
  Go(request, "B");
  EXPECT_EQ(SignaturesIn(Send(request)), "AB");
  request.system = "Be brief and never push anything.";
  Go(request, "C");
  EXPECT_EQ(SignaturesIn(Send(request)), "");
  EXPECT_EQ(caller_.last.rewrite, history::Rewrite::kClient);
  ASSERT_FALSE(caller_.last.notes.empty());
  EXPECT_NE(caller_.last.notes.back().find("made behind another prefix"), std::string::npos);
  // What is made from then on stands behind this prefix.
  Go(request, "D");
  EXPECT_EQ(SignaturesIn(Send(request)), "D");
  EXPECT_EQ(caller_.last.rewrite, history::Rewrite::kNone);
  Go(request, "E");
  EXPECT_EQ(SignaturesIn(Send(request)), "DE");
  EXPECT_EQ(caller_.last.rewrite, history::Rewrite::kNone);
}

TEST_P(VoidThinking, WhatStandsInFrontOfTheChangeStays) {
  test::Request request{.system = "Be kind.", .turns = {test::Turn("user", "hi")}};
  Send(request);
  for (const char* signature : {"A", "B", "C"}) {
    Go(request, signature);
    Send(request);
  }
  request.turns[2] = test::Turn("user", "another question, which the client edited");
  Go(request, "D");
  EXPECT_EQ(SignaturesIn(Send(request)), "A");
  Go(request, "E");
  EXPECT_EQ(SignaturesIn(Send(request)), "AE");
}

TEST_P(VoidThinking, AMessageOfThinkingAloneGoesAsAWholeAndStaysOut) {
  test::Request request{.system = "Be kind.", .turns = {test::Turn("user", "hi")}};
  Send(request);
  request.turns.push_back(test::TurnOf("assistant", {Thought("A")}));
  request.turns.push_back(test::Turn("user", "you said nothing"));
  EXPECT_EQ(SignaturesIn(Send(request)), "A");
  request.system = "Be brief and never push anything.";
  Go(request, "B");
  EXPECT_EQ(nlohmann::json::parse(Send(request))["messages"].size(), 4U);
  Go(request, "C");
  const std::string after = Send(request);
  EXPECT_EQ(SignaturesIn(after), "C");
  EXPECT_EQ(nlohmann::json::parse(after)["messages"].size(), 6U);
  EXPECT_EQ(caller_.last.rewrite, history::Rewrite::kNone);
}

TEST_P(VoidThinking, TheAnswerToARequestThatIsNotKnownIsLeftOut) {
  test::Request request{.system = "Be kind.", .turns = {test::Turn("user", "hi")}};
  Send(request);
  Go(request, "A");
  Send(request);
  Go(request, "B");
  Go(request, "C");
  EXPECT_EQ(SignaturesIn(Send(request)), "A");
  Go(request, "D");
  EXPECT_EQ(SignaturesIn(Send(request)), "AD");
}

TEST_P(VoidThinking, TheRuleCanBeSwitchedOff) {
  caller_.rules_off = parse::Bit(parse::Rule::kThinkingRemoved);
  test::Request request{.system = "Be kind.", .turns = {test::Turn("user", "hi")}};
  Send(request);
  Go(request, "A");
  Send(request);
  request.system = "Be brief and never push anything.";
  Go(request, "B");
  EXPECT_EQ(SignaturesIn(Send(request)), "AB");
}

INSTANTIATE_TEST_SUITE_P(Modes, VoidThinking, ::testing::Values(Mode::kPin, Mode::kStabilize),
                         [](const auto& test) { return std::string(ModeName(test.param)); });

}  // namespace
}  // namespace kvgate::prompt::rewrite
