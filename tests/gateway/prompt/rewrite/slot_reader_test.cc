#include "gateway/prompt/rewrite/slot_reader.h"

#include <gtest/gtest.h>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

// Returns the text of the newest turn.
std::string Newest(const std::string& body) {
  const json parsed = json::parse(body);
  const json turn = parsed[parsed.contains("input") ? "input" : "messages"].back();
  if (turn["content"].is_string()) return turn["content"];
  return turn["content"].back().value("text", "?");
}
// Returns what is said behind a user's text.
std::string Said(std::string_view user, const std::string& line) {
  return std::string(user) + "\n\n<system-reminder>\n" + line + "\n</system-reminder>";
}
std::string SystemOf(const std::string& body) {
  const json parsed = json::parse(body);
  if (parsed.contains("system")) return parsed["system"];
  if (parsed.contains("instructions")) return parsed["instructions"];
  return parsed["messages"][0]["content"];
}

// An agent that writes a line of its own into its system prompt with each request.
class LearntSlots : public ::testing::TestWithParam<Endpoint> {
 protected:
  static std::string Around(std::string_view line) {
    return "You are an agent.\nRead files before you edit them.\n" + std::string(line) +
           "\nAnswer in English.\nNever commit on your own.";
  }
  Request Start(std::string_view line, std::string_view user) const {
    return {.endpoint = GetParam(), .system = Around(line), .turns = {Turn("user", user)}};
  }
  static void Go(Request& request, std::string_view line, std::string_view user) {
    request.system = Around(line);
    request.turns.push_back(Turn("assistant", "I did."));
    request.turns.push_back(Turn("user", user));
  }
  // Sends a conversation of two requests, so that the line is known.
  void Teach(std::string_view first, std::string_view second) {
    Request request = Start(first, "teach");
    caller_.Send(request);
    Go(request, second, "more");
    caller_.Send(request);
  }
  Caller caller_{Mode::kStabilize, GetParam() == Endpoint::kMessages ? "anthropic" : "openai"};
};

std::string Sentence(std::string_view time, int call) {
  return "You are working in /src/app on branch main as of " + std::string(time) +
         " (session 47664700, call " + std::to_string(call) + ").";
}

TEST_P(LearntSlots, AShortValueIsSaidBehindTheWordsInFrontOfIt) {
  Request request = Start("Calls so far:\n601", "one");
  const std::string before = caller_.Send(request);
  Go(request, "Calls so far:\n602", "two");
  const std::string after = caller_.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_EQ(Newest(after), Said("two", "Calls so far:\n602"));
  // What has not changed is not said again.
  Go(request, "Calls so far:\n602", "three");
  EXPECT_EQ(Newest(caller_.Send(request)), "three");
}

TEST_P(LearntSlots, ALineThatChangesStaysAsFirstSentAndItsNewTextFollowsWhole) {
  Request request = Start(Sentence("2025-06-03 09:00:12", 1), "fix the bug");
  std::string before = caller_.Send(request);
  EXPECT_EQ(before, request.Body());
  for (int call = 2; call < 6; ++call) {
    const std::string line = Sentence("2025-06-03 09:0" + std::to_string(call) + ":30", call);
    Go(request, line, "more");
    const std::string after = caller_.Send(request);
    EXPECT_FALSE(caller_.last.first_of_conversation);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_EQ(Newest(after), Said("more", line));
    EXPECT_EQ(SystemOf(after), Around(Sentence("2025-06-03 09:00:12", 1)));
    before = after;
  }
}

TEST_P(LearntSlots, FromTheNextConversationOnTheLineStandsBehindTheStablePrefix) {
  Teach(Sentence("2025-06-03 09:00:12", 1), Sentence("2025-06-03 09:01:30", 2));
  std::string system;
  for (const char* user : {"one", "two"}) {
    const std::string line = Sentence("2025-07-0" + std::to_string(user[0] % 9) + " 10:00:00", 1);
    Request request = Start(line, user);
    std::string before = caller_.Send(request);
    EXPECT_EQ(Newest(before), Said(user, line));
    EXPECT_EQ(SystemOf(before),
              "You are an agent.\nRead files before you edit them.\nAnswer in English.\nNever "
              "commit on your own.");
    EXPECT_TRUE(caller_.Used(parse::Rule::kSystemSlots));
    const std::string next = Sentence("2025-07-01 10:00:59", 2);
    Go(request, next, "more");
    const std::string after = caller_.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_EQ(Newest(after), Said("more", next));
    Go(request, next, "and more");
    EXPECT_EQ(Newest(caller_.Send(request)), "and more") << "it has been said";
  }
}

TEST_P(LearntSlots, AValueThatReturnsIsSaidAgain) {
  const auto line = [](char c) { return std::string("<context trace=\"5131b20a-") + c + "\"/>"; };
  Request request = Start(line('1'), "fix the bug");
  std::string before = caller_.Send(request);
  for (const char c : {'2', '1', '1', '2'}) {
    const bool is_new = before.rfind(line('x').substr(0, 10)) == std::string::npos ||
                        Newest(before).find(c) == std::string::npos;
    Go(request, line(c), "more");
    const std::string after = caller_.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    if (is_new && c != '1') {
      EXPECT_EQ(Newest(after), Said("more", line(c)));
    }
    before = after;
  }
  EXPECT_EQ(Newest(before), Said("more", line('2')));
}

TEST_P(LearntSlots, WordsCountFromTheThirdChangeOn) {
  const auto line = [](std::string_view branch) {
    return "You work on the branch " + std::string(branch) + " of this repository.";
  };
  Request request = Start(line("main"), "fix the bug");
  std::string before = caller_.Send(request);
  for (const char* branch : {"fix", "docs"}) {
    Go(request, line(branch), "more");
    before = caller_.Send(request);
    EXPECT_EQ(before, request.Body()) << "its caller may be editing it";
  }
  Go(request, line("test"), "more");
  std::string after = caller_.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_EQ(Newest(after), Said("more", line("test")));
  Request other = Start(line("another"), "something else");
  EXPECT_EQ(Newest(caller_.Send(other)), Said("something else", line("another")));
}

TEST_P(LearntSlots, WhatOnlyDiffersBetweenConversationsIsNotVolatile) {
  for (const char* role : {"guest", "admin", "owner", "guest", "nobody", "admin"}) {
    Request request = Start("The role of this user is " + std::string(role) + ", level 3.", role);
    EXPECT_EQ(caller_.Send(request), request.Body());
    Go(request, "The role of this user is " + std::string(role) + ", level 3.", "more");
    EXPECT_EQ(caller_.Send(request), request.Body());
  }
}

TEST_P(LearntSlots, NoValueCrossesConversationsOrTenants) {
  Teach(Sentence("2025-06-03 09:00:12", 1), Sentence("2025-06-03 09:01:30", 2));
  Request request = Start(Sentence("2026-01-01 00:00:00", 1), "teach");
  const std::string sent = caller_.Send(request);
  EXPECT_EQ(sent.find("2025-06-03"), std::string::npos);
  caller_.tenant = "another";
  EXPECT_EQ(caller_.Send(request), request.Body());
}

TEST_P(LearntSlots, ALineThatIsRemovedIsAbsent) {
  Teach(Sentence("2025-06-03 09:00:12", 1), Sentence("2025-06-03 09:01:30", 2));
  Request request = Start(Sentence("2025-06-04 09:00:12", 1), "one");
  EXPECT_NE(caller_.Send(request).find("2025-06-04"), std::string::npos);
  Go(request, "", "more");
  const std::string sent = caller_.Send(request);
  EXPECT_EQ(sent.find("2025-06-04"), std::string::npos);
  EXPECT_EQ(Newest(sent), "more");
}

TEST_P(LearntSlots, WordsThatReplaceASlotsAreNoValue) {
  const auto key = [](std::string_view what) {
    return "The key of this session is " + std::string(what) + ", use it.";
  };
  // Held in its place, and moved behind the prefix.
  for (const char* user : {"one", "two"}) {
    Request request = Start(key("sk-1"), user);
    caller_.Send(request);
    Go(request, key("sk-2"), "more");
    EXPECT_NE(caller_.Send(request).find("sk-2"), std::string::npos);
    Go(request, "Ask for keys.", "more");
    const std::string sent = caller_.Send(request);
    EXPECT_EQ(sent.find("sk-"), std::string::npos) << sent;
    EXPECT_EQ(SystemOf(sent), Around("Ask for keys."));
  }
}

TEST_P(LearntSlots, LinesMayBeInsertedRemovedAndMovedAroundIt) {
  Teach(Sentence("2025-06-03 09:00:12", 1), Sentence("2025-06-03 09:01:30", 2));
  Request request = Start(Sentence("2025-06-04 09:00:12", 1), "one");
  request.system =
      "Be kind.\n" + Sentence("2025-06-04 09:00:12", 1) + "\nAnswer in English.\nYou are an agent.";
  const std::string sent = caller_.Send(request);
  EXPECT_EQ(SystemOf(sent), "Be kind.\nAnswer in English.\nYou are an agent.");
  EXPECT_EQ(Newest(sent), Said("one", Sentence("2025-06-04 09:00:12", 1)));
}

TEST_P(LearntSlots, AnEditOfItsCallerGoesOutAndTheSlotStaysHeld) {
  Request request = Start(Sentence("2025-06-03 09:00:12", 1), "one");
  caller_.Send(request);
  Go(request, Sentence("2025-06-03 09:01:30", 2), "two");
  caller_.Send(request);
  Go(request, Sentence("2025-06-03 09:02:30", 3), "three");
  request.system += "\nA new rule.";
  const std::string sent = caller_.Send(request);
  EXPECT_EQ(SystemOf(sent), Around(Sentence("2025-06-03 09:00:12", 1)) + "\nA new rule.");
  EXPECT_EQ(Newest(sent), Said("three", Sentence("2025-06-03 09:02:30", 3)));
}

// A tool whose description says where it runs, and one that is in front of it.
std::vector<std::string> Tools(std::string_view line) {
  const std::string text = "Runs a command.\n" + std::string(line) + "\nNever asks.";
  return {R"({"name":"read","description":"Reads a file."})",
          R"({"name":"run","description":)" + Quoted(text) + R"(,"input_schema":{}})"};
}

TEST_P(LearntSlots, ALineOfAToolsDescriptionIsLearntToo) {
  Request request = Start("Be kind.", "one");
  request.tools = Tools("The load of this host is 3%, as of 9:00.");
  std::string before = caller_.Send(request);
  EXPECT_EQ(before, request.Body());
  for (const char* line :
       {"The load of this host is 4%, as of 9:05.", "The load of this host is 5%, as of 9:07."}) {
    Go(request, "Be kind.", "more");
    request.tools = Tools(line);
    const std::string after = caller_.Send(request);
    EXPECT_TRUE(GoesOn(before, after));
    EXPECT_EQ(Newest(after), Said("more", line));
    EXPECT_TRUE(caller_.Used(parse::Rule::kToolSlots));
    before = after;
  }
  std::string tools;
  for (const char* user : {"two", "three"}) {
    const std::string line =
        "The load of this host is " + std::to_string(user[1] % 9) + "%, as of 10:00.";
    Request next = Start("Be kind.", user);
    next.tools = Tools(line);
    const std::string sent = caller_.Send(next);
    EXPECT_EQ(Newest(sent), Said(user, line));
    const std::string now = json::parse(sent)["tools"].dump();
    EXPECT_EQ(now.find("10:00"), std::string::npos);
    EXPECT_TRUE(tools.empty() || tools == now);
    tools = now;
  }
}

TEST_P(LearntSlots, TheRuleCanBeSwitchedOff) {
  caller_.rules_off = 1U << static_cast<uint32_t>(parse::Rule::kSystemSlots);
  Request request = Start(Sentence("2025-06-03 09:00:12", 1), "one");
  caller_.Send(request);
  for (int call = 2; call < 4; ++call) {
    Go(request, Sentence("2025-06-03 09:01:30", call), "more");
    EXPECT_EQ(caller_.Send(request), request.Body());
  }
}

INSTANTIATE_TEST_SUITE_P(Dialects, LearntSlots,
                         ::testing::Values(Endpoint::kMessages, Endpoint::kChatCompletions,
                                           Endpoint::kResponses),
                         DialectOf);

}  // namespace
}  // namespace kvgate::prompt::rewrite
