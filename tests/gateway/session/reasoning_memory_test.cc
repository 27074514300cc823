#include "gateway/session/reasoning_memory.h"

#include <gtest/gtest.h>

#include "tests/store/memory_meta_store.h"

namespace kvgate::session {
namespace {

using dialect::form::Message;

struct Fixture {
  explicit Fixture(bool enabled = true)
      : turns(store::meta::TurnStore::Open({.meta = meta, .enabled = enabled}).value()) {}
  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns;
  ReasoningMemory memory{turns.get()};

  // Keeps the answer's reasoning, and continues the conversation without it.
  void Answer(std::vector<Message>& messages, Message answer, const std::string& tenant = "t") {
    static int num_answers = 0;
    const PrefixDigest before = memory.Restore(tenant, messages);
    memory.Keep({.tenant = tenant,
                 .id = "r" + std::to_string(++num_answers),
                 .before = before,
                 .message = answer});
    answer.reasoning.clear();
    messages.push_back(std::move(answer));
  }
  std::string Found(std::vector<Message> messages, const std::string& tenant = "t") const {
    memory.Restore(tenant, messages);
    return messages.back().reasoning;
  }
};

Message Calling(const std::string& id, const std::string& arguments, const std::string& reasoning) {
  return {.role = "assistant",
          .content = "",
          .reasoning = reasoning,
          .tool_calls = {{.id = id, .name = "f", .arguments = arguments}}};
}

TEST(ReasoningMemoryTest, ATurnThatComesBackWithoutItsReasoningGetsItAgain) {
  Fixture fixture;
  std::vector<Message> messages = {{"system", "s"}, {"user", "u"}};
  fixture.Answer(messages, Calling("call_1", R"({"a": 1.0, "b": "x"})", "I look."));
  EXPECT_EQ(fixture.Found(messages), "I look.");
  messages.push_back({.role = "tool", .content = "r", .tool_call_id = "call_1"});
  fixture.Answer(messages, {.role = "assistant", .content = "Done.", .reasoning = "I say so."});
  EXPECT_EQ(fixture.Found(messages), "I say so.");
  fixture.memory.Restore("t", messages);
  EXPECT_EQ(messages[2].reasoning, "I look.");
}

TEST(ReasoningMemoryTest, ArgumentsAreComparedAsParsedAndTextsWithoutBlanks) {
  Fixture fixture;
  std::vector<Message> messages = {{"user", "u  u"}};
  Message answer = Calling("call_1", R"({"a": 1.0, "b": {"x": 12345678901234567890}})", "why");
  answer.content = "\n\nLooking. ";
  fixture.Answer(messages, answer);
  messages[0].content = "u u";
  messages[1].content = "Looking.";
  messages[1].tool_calls[0].arguments = R"({"b":{"x":12345678901234567000},"a":1})";
  EXPECT_EQ(fixture.Found(messages), "why");
  messages[1].tool_calls[0].id = "another";  // then found by its visible content
  EXPECT_EQ(fixture.Found(messages), "why");
  messages[1].tool_calls[0].arguments = R"({"b":{"x":12345678901234567000},"a":2})";
  EXPECT_EQ(fixture.Found(messages), "");
}

TEST(ReasoningMemoryTest, OfLikeTurnsEachHasItsOwnByTheIdsOfItsCalls) {
  Fixture fixture;
  std::vector<Message> first = {{"user", "u"}};
  std::vector<Message> second = first;
  fixture.Answer(first, Calling("call_1", "{}", "one"));
  fixture.Answer(second, Calling("call_2", "{}", "two"));
  EXPECT_EQ(fixture.Found(first), "one");
  EXPECT_EQ(fixture.Found(second), "two");
  first.front().content = "the history has been cut";
  EXPECT_EQ(fixture.Found(first), "one");
}

// Some models write their own call ids and begin them anew in each conversation.
TEST(ReasoningMemoryTest, OfConversationsWithTheSameCallsEachHasItsOwnReasoning) {
  Fixture fixture;
  const std::string id = "functions.f:0";
  std::vector<Message> first = {{"user", "one"}};
  std::vector<Message> second = {{"user", "two"}};
  std::vector<Message> third = {{"user", "three"}};
  fixture.Answer(first, Calling(id, "{}", "of one"));
  EXPECT_EQ(fixture.Found(first), "of one");
  fixture.Answer(second, Calling(id, "{}", "of two"));
  fixture.Answer(third, Calling(id, "{}", "of three"));
  EXPECT_EQ(fixture.Found(first), "of one");
  EXPECT_EQ(fixture.Found(second), "of two");
  EXPECT_EQ(fixture.Found(third), "of three");
  EXPECT_EQ(fixture.turns->Stats().num_turns, 4u);  // with the one that marks the name
  for (std::vector<Message>* changed : {&first, &second, &third}) {
    changed->front().content = "the history has been cut";
    EXPECT_EQ(fixture.Found(*changed), "") << "any of the three could be wrong";
  }
}

TEST(ReasoningMemoryTest, OfTurnsWithTheSameCallsInOneConversationEachHasItsOwnReasoning) {
  Fixture fixture;
  std::vector<Message> messages = {{"user", "u"}};
  fixture.Answer(messages, Calling("f:0", "{}", "first"));
  messages.push_back({.role = "tool", .content = "r", .tool_call_id = "f:0"});
  fixture.Answer(messages, Calling("f:0", "{}", "again"));
  EXPECT_EQ(fixture.Found(messages), "again");
  messages.resize(2);
  EXPECT_EQ(fixture.Found(messages), "first");
}

TEST(ReasoningMemoryTest, AnAnswerThatIsSaidAgainLeavesItsNameUnambiguous) {
  Fixture fixture;
  std::vector<Message> messages = {{"user", "u"}};
  for (int i = 0; i < 2; ++i) {
    messages.resize(1);
    fixture.Answer(messages, Calling("call_1", "{}", "why"));
  }
  EXPECT_EQ(fixture.turns->Stats().num_turns, 2u);
  messages.front().content = "the history has been cut";
  EXPECT_EQ(fixture.Found(messages), "why");
}

TEST(ReasoningMemoryTest, NothingIsSharedBetweenTenantsNorReplaced) {
  Fixture fixture;
  std::vector<Message> messages = {{"user", "u"}};
  fixture.Answer(messages, Calling("call_1", "{}", "secret"));
  EXPECT_EQ(fixture.Found(messages, "other"), "");
  messages.back().reasoning = "the agent's own";
  EXPECT_EQ(fixture.Found(messages), "the agent's own");
}

TEST(ReasoningMemoryTest, WithoutTurnsNothingIsKept) {
  Fixture off(false);
  std::vector<Message> messages = {{"user", "u"}};
  off.Answer(messages, Calling("call_1", "{}", "gone"));
  EXPECT_EQ(off.Found(messages), "");
  EXPECT_EQ(off.turns->Stats().num_turns, 0u);
  const ReasoningMemory none(nullptr);
  none.Restore("t", messages);
  none.Keep({.tenant = "t", .id = "x", .before = {}, .message = Calling("call_2", "{}", "gone")});
  EXPECT_EQ(messages.back().reasoning, "");
}

TEST(ReasoningMemoryTest, AnAnswerWithoutReasoningIsNotKept) {
  Fixture fixture;
  std::vector<Message> messages = {{"user", "u"}};
  fixture.Answer(messages, Calling("call_1", "{}", ""));
  EXPECT_EQ(fixture.turns->Stats().num_turns, 0u);
}

}  // namespace
}  // namespace kvgate::session
