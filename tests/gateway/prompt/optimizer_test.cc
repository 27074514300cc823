#include "gateway/prompt/optimizer.h"

#include <gtest/gtest.h>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt {

using parse::Rule;

namespace {

using namespace test;  // NOLINT: the helpers of these tests

Request Simple() { return {.system = "Be brief.", .turns = {Turn("user", "one")}}; }

TEST(Optimizer, ObserveChangesNoByteAndRecognisesTheConversation) {
  Caller caller(Mode::kObserve);
  Request request = Simple();
  request.tools = {R"({"name":"b"})", R"({"name":"a"})"};
  caller.Send(request);
  const parse::Identity id = caller.last.conversation.id;
  std::swap(request.tools[0], request.tools[1]);
  request.turns.push_back(Turn("assistant", "yes"));
  request.turns.push_back(Turn("user", "two"));
  EXPECT_EQ(caller.Send(request), request.Body());
  EXPECT_FALSE(caller.last.first_of_conversation);
  EXPECT_EQ(caller.last.conversation.id, id);
  EXPECT_EQ(caller.last.conversation.origin, "content");
  EXPECT_TRUE(caller.planner().seen.empty());
}

TEST(Optimizer, ABodyThatIsNotUnderstoodIsForwardedAsItIs) {
  Optimizer optimizer(Optimizer::Options{}, std::make_unique<FakePlanner>());
  for (const std::string_view body : {"", "[]", "{", "{\"messages\":[1]}", "{\"messages\":{}}",
                                      "{\"messages\":[]} x", "{\"messages\":[],\"messages\":[]}"}) {
    OptimizeArgs args;
    args.body = body;
    args.endpoint = Endpoint::kMessages;
    const Prepared prepared = optimizer.Prepare(args);
    EXPECT_NE(prepared.unreadable, "") << body;
    EXPECT_FALSE(prepared.body.has_value());
    EXPECT_FALSE(optimizer.Finish(prepared, {}).attribution.has_value());
    optimizer.Abandon(prepared);
  }
}

TEST(Optimizer, AConversationIsNamedByWhatItsCallerCallsIt) {
  Caller caller(Mode::kPin);
  Request request = Simple();
  request.more = R"("metadata":{"user_id":"user_1_account__session_2"},)";
  caller.Send(request);
  EXPECT_EQ(caller.last.conversation.origin, "metadata.user_id");
  request.more = R"("metadata":{"user_id":"a person"},"prompt_cache_key":"k",)";
  caller.Send(request);
  EXPECT_EQ(caller.last.conversation.origin, "prompt_cache_key");
  request.more = R"("conversation":{"id":"conv_1"},)";
  caller.Send(request);
  EXPECT_EQ(caller.last.conversation.origin, "conversation");
  caller.session = "mine";
  caller.Send(request);
  EXPECT_EQ(caller.last.conversation.origin, "x-kvgate-session");
}

TEST(Optimizer, OfSeveralBranchesTheOneWithTheLongestPrefixGoesOn) {
  Caller caller(Mode::kPin);
  caller.session = "s";
  Request main = Simple();
  main.turns.push_back(Turn("assistant", "a"));
  main.turns.push_back(Turn("user", "main"));
  Request helper{.system = "You search.", .turns = {Turn("user", "find it")}};
  caller.Send(main);
  caller.Send(helper);
  EXPECT_TRUE(caller.last.first_of_conversation);
  // Both conversations continue, each with a turn whose keys come in another order.
  const auto other_keys = [](std::string_view text) {
    return "{\"content\":" + Quoted(text) + ",\"role\":\"user\"}";
  };
  const std::string main_before = main.Body();
  main.turns[2] = other_keys("main");
  main.turns.push_back(Turn("assistant", "b"));
  main.turns.push_back(Turn("user", "more"));
  EXPECT_TRUE(GoesOn(main_before, caller.Send(main)));
  const std::string helper_before = helper.Body();
  helper.turns[0] = other_keys("find it");
  helper.turns.push_back(Turn("assistant", "b"));
  helper.turns.push_back(Turn("user", "more"));
  EXPECT_TRUE(GoesOn(helper_before, caller.Send(helper)));
}

TEST(Optimizer, ACompactionUnderASharedNameTakesNoValueOfAHelper) {
  Caller caller(Mode::kStabilize);
  caller.session = "s";
  const auto line = [](int run) { return "The run of this agent is 7f3a9" + std::to_string(run); };
  const std::string rules = "Run the tests before you commit, and never push to the main branch.";
  const auto start = [&](int run, std::string_view words) {
    return Request{.system = "You are an agent.\n" + line(run) + ".\nBe kind.",
                   .turns = {TurnOf("user", {Block(rules), Block(words)})}};
  };
  const auto go = [&](Request request, int run, std::string_view answer) {
    request.system = start(run, "").system;
    request.turns.push_back(Turn("assistant", answer));
    request.turns.push_back(Turn("user", "go on"));
    return request;
  };
  // The line is known to change, so each conversation's stands in its own turns.
  Request taught = start(1, "teach");
  caller.Send(taught);
  caller.Send(go(taught, 2, "an answer of some words"));
  caller.session = "shared";
  Request main = start(100, "fix the bug");
  caller.Send(main);
  main = go(main, 200, "I have read the parser and the tests of the parser, all of them.");
  caller.Send(main);
  // A helper begins like its caller, and both go on, each with a value of its own.
  const Request helper = go(main, 300, "The helper has found the place, which is in the header.");
  caller.Send(helper);
  main = go(main, 400, "I have changed the parser, and the tests of the parser pass again.");
  caller.Send(main);
  // A compaction of either begins with the same rules as both.
  const std::string sent = caller.Send(start(500, "The conversation so far: all is done."));
  EXPECT_NE(sent.find(line(500)), std::string::npos);
  for (const int other : {100, 200, 300, 400}) {
    EXPECT_EQ(sent.find(line(other)), std::string::npos) << other;
  }
}

TEST(Optimizer, AConversationWithoutAKeyIsKnownAgainWhenItsToolsOrSystemChange) {
  Caller caller(Mode::kPin);
  Request request = Simple();
  request.tools = {R"({"name":"a"})"};
  caller.Send(request);
  const parse::Identity id = caller.last.conversation.id;
  request.turns.push_back(Turn("assistant", "a"));
  request.turns.push_back(Turn("user", "two"));
  request.tools.push_back(R"({"name":"b"})");
  caller.Send(request);
  EXPECT_EQ(caller.last.conversation.id, id);
  request.system = "Be long.";
  request.turns.push_back(Turn("assistant", "b"));
  request.turns.push_back(Turn("user", "three"));
  caller.Send(request);
  EXPECT_EQ(caller.last.conversation.id, id);
}

// The system prompt of a run that has an id of its own and says the time.
std::string SystemOfRun(char run, int minute) {
  return "You are an agent.\nRead files first.\nThis is the run 5131b20a-" + std::string(1, run) +
         " of today, at 10:" + std::to_string(minute) + ".\nBe kind.";
}

TEST(Optimizer, TwoConversationsWithEqualTurnsDoNotExchangeValues) {
  Caller caller(Mode::kStabilize);
  Request one{.system = SystemOfRun('1', 10), .turns = {Turn("user", "hi")}};
  Request two{.system = SystemOfRun('2', 11), .turns = {Turn("user", "hi")}};
  caller.Send(one);
  caller.Send(two);
  for (int minute = 12; minute < 16; ++minute) {
    for (Request* request : {&one, &two}) {
      const char run = request == &one ? '1' : '2';
      request->system = SystemOfRun(run, minute);
      // Both go on with the same answer and the same words.
      request->turns.push_back(Turn("assistant", "hello, what may I do for you today, my friend?"));
      request->turns.push_back(Turn("user", "go on"));
      const std::string sent = caller.Send(*request);
      EXPECT_EQ(sent.find("5131b20a-" + std::string(1, run == '1' ? '2' : '1')), std::string::npos);
      EXPECT_NE(sent.find("10:" + std::to_string(minute)), std::string::npos);
    }
  }
}

TEST(Optimizer, AUsersWordsJoinNobody) {
  Caller caller(Mode::kStabilize);
  Request one{.system = "You are an agent.\nBe kind.", .turns = {Turn("user", "hi")}};
  caller.Send(one);
  Request other{.system = "You search.\nBe quick.", .turns = {Turn("user", "hi")}};
  other.turns.push_back(Turn("assistant", "hello"));
  other.turns.push_back(Turn("user", "go on"));
  caller.Send(other);
  EXPECT_TRUE(caller.last.first_of_conversation);
  one.turns = other.turns;
  caller.tenant = "another";
  caller.Send(one);
  EXPECT_TRUE(caller.last.first_of_conversation);
}

TEST(Optimizer, AConversationIsKnownByItsAnswerWhenSystemAndFirstTurnHaveChanged) {
  Caller caller(Mode::kStabilize);
  const std::string answer =
      "I have read all of the files that you have opened, and what is wrong "
      "stands in the third of them, where a bound is missing.";
  Request request{.system = SystemOfRun('1', 10),
                  .turns = {Turn("user", "Open files: a.c\nfix the bug")}};
  caller.Send(request);
  const parse::Identity id = caller.last.conversation.id;
  request.system = SystemOfRun('1', 11);
  request.turns.push_back(Turn("assistant", answer));
  request.turns.push_back(Turn("user", "go on"));
  caller.Send(request);
  EXPECT_EQ(caller.last.conversation.id, id) << "its beginning is alike";
  request.system = SystemOfRun('1', 12);
  request.turns[0] = Turn("user", "Open files: a.c, b.c\nfix the bug");
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "and more"));
  caller.Send(request);
  EXPECT_EQ(caller.last.conversation.id, id);
  // A short answer is given in many conversations.
  Request other{.system = SystemOfRun('2', 12), .turns = {Turn("user", "something else")}};
  caller.Send(other);
  other.turns.push_back(Turn("assistant", "done"));
  other.turns.push_back(Turn("user", "and more"));
  caller.Send(other);
  EXPECT_NE(caller.last.conversation.id, id);
}

TEST(Optimizer, AConversationIsKnownThoughItsWindowDropsTurnsWithEachRequest) {
  Caller caller(Mode::kStabilize);
  const auto answer = [](int i) {
    return Turn("assistant", "I have read the file of the number " + std::to_string(i) +
                                 ", and what is wrong in it is a bound that is missing in line " +
                                 std::to_string(100 * i) + ".");
  };
  Request request{.system = SystemOfRun('1', 10), .turns = {Turn("user", "read file 0")}};
  caller.Send(request);
  const parse::Identity id = caller.last.conversation.id;
  for (int i = 0; i < 12; ++i) {
    request.system = SystemOfRun('1', 11 + i);
    request.turns.push_back(answer(i));
    request.turns.push_back(Turn("user", "read file " + std::to_string(i + 1)));
    if (i > 2) request.turns.erase(request.turns.begin(), request.turns.begin() + 2);
    caller.Send(request);
    EXPECT_EQ(caller.last.conversation.id, id) << i;
  }
}

TEST(Optimizer, AConversationIsKnownThoughANoticeHasLeftItsFirstTurn) {
  const std::string notice = "\n\n<plan-notice>\nPlan mode is on for s-5f9cb80c.\n</plan-notice>";
  for (const bool is_named : {false, true}) {
    Caller caller(Mode::kStabilize);
    if (is_named) caller.session = "s";
    Request request{.system = SystemOfRun('1', 10), .turns = {Turn("user", "fix it" + notice)}};
    caller.Send(request);
    const parse::Identity id = caller.last.conversation.id;
    Request stranger{.system = SystemOfRun('1', 10), .turns = {Turn("user", "mend it")}};
    request.system = SystemOfRun('1', 11);
    request.turns = {Turn("user", "fix it"), Turn("assistant", "done"),
                     Turn("user", "go on" + notice)};
    stranger.turns.insert(stranger.turns.end(), request.turns.begin() + 1, request.turns.end());
    caller.Send(stranger);
    EXPECT_TRUE(caller.last.first_of_conversation) << "its words are others";
    caller.Send(request);
    EXPECT_FALSE(caller.last.first_of_conversation);
    EXPECT_EQ(caller.last.conversation.id, id);
  }
}

TEST(Optimizer, TwoThatBeganWithTheSameWordsAreNotToldApartByThem) {
  Caller caller(Mode::kStabilize);
  const auto first = [](char run, std::string_view notice) {
    return Request{
        .system = SystemOfRun(run, 10),
        .turns = {Turn("user", "fix it\n\n<notice>" + std::string(notice) + "</notice>")}};
  };
  caller.Send(first('1', "one"));
  caller.Send(first('2', "two"));
  Request next{.system = SystemOfRun('1', 11), .turns = {Turn("user", "fix it")}};
  next.turns.push_back(Turn("assistant", "done"));
  next.turns.push_back(Turn("user", "go on"));
  caller.Send(next);
  EXPECT_TRUE(caller.last.first_of_conversation);
}

TEST(Optimizer, ADryRunRemembersNothing) {
  Caller caller(Mode::kPin);
  const std::string body = Simple().Body();
  OptimizeArgs args;
  args.body = body;
  args.endpoint = Endpoint::kMessages;
  args.mode = Mode::kPin;
  EXPECT_TRUE(caller.optimizer().DryRun(args).first_of_conversation);
  EXPECT_TRUE(caller.planner().seen.empty());
  Request request = Simple();
  request.turns.push_back(Turn("assistant", "a"));
  request.turns.push_back(Turn("user", "two"));
  caller.Send(request);
  EXPECT_TRUE(caller.last.first_of_conversation);
}

TEST(Optimizer, WhatWasAbandonedIsNotGoneOnFrom) {
  Caller caller(Mode::kPin);
  caller.session = "s";
  Request request = Simple();
  caller.Send(request);
  request.turns.push_back(Turn("assistant", "a"));
  request.turns.push_back(Turn("user", "two"));
  caller.Send(request);
  caller.optimizer().Abandon(caller.last);
  EXPECT_EQ(caller.planner().forgotten.size(), 1U);
  const Report report = caller.optimizer().Finish(caller.last, {});
  EXPECT_NE(report.prefix_break.cause, diagnose::BreakCause::kFirstSeen);
  caller.Send(request);
  EXPECT_FALSE(caller.last.first_of_conversation);
}

TEST(Optimizer, FinishTellsThePlannerWhatWasRead) {
  Caller caller(Mode::kPin);
  caller.Send(Simple());
  ledger::reply::TokenUsage usage;
  usage.uncached_tokens = 10;
  usage.cache_read_tokens = 90;
  const Report report =
      caller.optimizer().Finish(caller.last, {.usage = usage, .provider_reason = "", .now_us = 5});
  EXPECT_EQ(report.prefix_break.cause, diagnose::BreakCause::kNone) << "all but one block was read";
  EXPECT_TRUE(report.attribution.has_value());
  ASSERT_EQ(caller.planner().learnt.size(), 1U);
  EXPECT_EQ(caller.planner().learnt[0].cache_read_tokens, 90);
  EXPECT_EQ(caller.planner().learnt[0].input_tokens, 100);
  EXPECT_GT(caller.planner().learnt[0].estimated_tokens, 0);
}

// The prompt is long enough for any provider, and its conversation continues cleanly: edits by the
// rules and breakpoints are never taken for a break, and the caller's own change is.
TEST(Optimizer, OnlyTheCallersChangesAreBreaks) {
  std::string text;
  for (int i = 0; i < 6000; ++i) text += "rule ";
  const auto cause_of = [](Caller& caller) {
    const ledger::reply::TokenUsage usage = {.uncached_tokens = 10, .cache_write_tokens = 9000};
    const diagnose::PrefixBreak found =
        caller.optimizer()
            .Finish(caller.last, {.usage = usage, .provider_reason = {}, .now_us = 9})
            .prefix_break;
    return std::string(diagnose::BreakCauseName(found.cause)) + " " + found.path;
  };
  for (const Mode mode : {Mode::kObserve, Mode::kPin, Mode::kStabilize}) {
    for (const char* provider : {"anthropic", "openai"}) {
      SCOPED_TRACE(std::string(provider) + " " + std::string(ModeName(mode)));
      Caller caller(mode, provider);
      caller.planner().mark_last = true;
      const bool marks = std::string_view(provider) == "anthropic";
      Request request{.endpoint = marks ? Endpoint::kMessages : Endpoint::kChatCompletions,
                      .tools = {R"({"name":"a","x":1})", R"({"name":"b","x":1})"},
                      .system = text + "\nCurrent time: 2026-11-22T10:15:07Z",
                      .turns = {Turn("user", "one")}};
      caller.Send(request);
      EXPECT_EQ(cause_of(caller), "first_seen ");
      for (const char* answer : {"two", "three"}) {
        request.turns.push_back(Turn("assistant", answer));
        request.turns.push_back(Turn("user", "and then?"));
        caller.Send(request);
        EXPECT_EQ(cause_of(caller), "provider_miss ");
      }
      request.tools.insert(request.tools.begin() + 1, R"({"name":"c","x":1})");
      caller.Send(request);
      EXPECT_EQ(cause_of(caller).substr(0, 10), "tool_added");
    }
  }
}

TEST(Optimizer, HistoryThatItsProviderHoldsIsNeitherEditedNorTruncated) {
  std::string text;
  for (int i = 0; i < 6000; ++i) text += "rule ";
  for (const Mode mode : {Mode::kObserve, Mode::kPin, Mode::kStabilize}) {
    Caller caller(mode);
    caller.session = "s";
    const std::string reminder = Turn("system", "<system-reminder>Do.</system-reminder>");
    Request request{.endpoint = Endpoint::kResponses,
                    .tools = {R"({"name":"a"})", R"({"name":"b"})"},
                    .system = text,
                    .turns = {Turn("user", "one"), reminder}};
    const auto cause_after = [&](int64_t read) {
      const std::string sent = caller.Send(request);
      EXPECT_EQ(json::parse(sent)["input"], json::parse(request.Body())["input"]);
      const ledger::reply::TokenUsage usage = {.uncached_tokens = 9000, .cache_read_tokens = read};
      const Optimizer::FinishArgs args = {.usage = usage, .provider_reason = {}, .now_us = 9};
      return std::string(diagnose::BreakCauseName(
          caller.optimizer().Finish(caller.last, args).prefix_break.cause));
    };
    EXPECT_EQ(cause_after(0), "first_seen");
    request.more = R"("previous_response_id":"resp_1",)";
    for (const char* turn : {"two", "one", "three"}) {
      request.turns = {Turn("user", turn)};
      EXPECT_EQ(cause_after(0), "none");
      EXPECT_FALSE(caller.last.first_of_conversation);
    }
    request.tools.push_back(R"({"name":"c"})");
    EXPECT_EQ(cause_after(0), "tool_added");
    request.system += "And this.";
    EXPECT_EQ(cause_after(0), "system_changed");
  }
}

TEST(Optimizer, ATimeInTheSystemPromptBreaksUnlessItIsMoved) {
  std::string text;
  for (int i = 0; i < 6000; ++i) text += "rule ";
  for (const Mode mode : {Mode::kObserve, Mode::kPin, Mode::kStabilize}) {
    SCOPED_TRACE(std::string(ModeName(mode)));
    Caller caller(mode, "openai");
    Request request{.endpoint = Endpoint::kChatCompletions, .turns = {Turn("user", "one")}};
    diagnose::PrefixBreak found;
    for (int minute = 10; minute < 13; ++minute) {
      request.system = text + "\nCurrent time: 2026-11-22T10:" + std::to_string(minute) + ":07Z";
      caller.Send(request);
      const ledger::reply::TokenUsage usage = {.uncached_tokens = 10, .cache_write_tokens = 9000};
      found = caller.optimizer()
                  .Finish(caller.last, {.usage = usage, .provider_reason = {}, .now_us = 9})
                  .prefix_break;
      request.turns.push_back(Turn("assistant", "two"));
      request.turns.push_back(Turn("user", "and then?"));
    }
    const bool breaks = mode != Mode::kStabilize;
    EXPECT_EQ(diagnose::BreakCauseName(found.cause), breaks ? "system_changed" : "provider_miss");
    EXPECT_EQ(found.volatile_kind, breaks ? "time" : "");
  }
}

// --- verdicts: what was sent and what was read, not the request alone ----------------------------

// Asks for the verdict on the last request, given its counts.
diagnose::PrefixBreak VerdictOn(Caller& caller, int64_t read, int64_t written, int64_t uncached) {
  const ledger::reply::TokenUsage usage = {
      .uncached_tokens = uncached, .cache_read_tokens = read, .cache_write_tokens = written};
  return caller.optimizer()
      .Finish(caller.last, {.usage = usage, .provider_reason = {}, .now_us = 9})
      .prefix_break;
}

std::string NamedBy(const diagnose::PrefixBreak& found) {
  std::string name(diagnose::BreakCauseName(found.cause));
  return found.path.empty() ? name : name + " at " + found.path;
}

std::string Words(std::string_view word, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::string(word) + " ";
  return text;
}

// A chat of an agent in which every turn has about 500 tokens and the front about 4,000.
Request LongChat(int num_rounds) {
  Request request{.endpoint = Endpoint::kChatCompletions,
                  .tools = {R"({"name":"a","description":")" + Words("tool", 2000) + "\"}"},
                  .system = Words("rule", 2000),
                  .turns = {Turn("user", Words("task", 500))}};
  for (int i = 0; i < num_rounds; ++i) {
    request.turns.push_back(Turn("assistant", Words("answer" + std::to_string(i), 250)));
    request.turns.push_back(Turn("user", Words("question" + std::to_string(i), 250)));
  }
  return request;
}

TEST(OptimizerVerdicts, APromptThatNobodyMarksAnyMoreIsStillLostByTheLineThatChanges) {
  Caller caller(Mode::kPin, "anthropic");
  Request request{.tools = {R"({"name":"a"})"}, .turns = {Turn("user", "one")}};
  diagnose::PrefixBreak found;
  for (int minute = 10; minute < 15; ++minute) {
    request.system =
        "Now: 2026-11-22T10:" + std::to_string(minute) + ":07Z\n" + Words("rule", 6000);
    caller.Send(request);
    // The first two requests are written, and nothing is ever read, so later ones are unmarked.
    const bool writes = minute < 12;
    found = VerdictOn(caller, 0, writes ? 6100 : 0, writes ? 10 : 6110);
    request.turns.push_back(Turn("assistant", "two"));
    request.turns.push_back(Turn("user", "and then?"));
  }
  EXPECT_EQ(NamedBy(found), "system_changed at system");
  EXPECT_EQ(found.volatile_kind, "time");
  EXPECT_GT(found.lost_tokens, 5900);
}

TEST(OptimizerVerdicts, AFullHitIsNoBreakThoughItsConversationIsNew) {
  Caller caller(Mode::kObserve, "openai");
  const Request request = LongChat(0);
  caller.Send(request);
  VerdictOn(caller, 0, 0, 1295);
  caller.Send(request);
  EXPECT_EQ(NamedBy(VerdictOn(caller, 1294, 0, 1)), "none");
}

TEST(OptimizerVerdicts, AWindowThatDropsTheFirstTurnsIsNamedWithWhatItLost) {
  Caller caller(Mode::kObserve, "openai");
  Request request = LongChat(8);
  caller.Send(request);
  VerdictOn(caller, 0, 0, 8500);
  request.turns.erase(request.turns.begin(), request.turns.begin() + 4);
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  caller.Send(request);
  const diagnose::PrefixBreak found = VerdictOn(caller, 4096, 0, 3200);
  EXPECT_EQ(NamedBy(found), "history_truncated at messages[1]");
  EXPECT_NEAR(static_cast<double>(found.lost_tokens), 3190, 128);
}

TEST(OptimizerVerdicts, ARewrittenFirstTurnIsNamedWithWhatItLost) {
  Caller caller(Mode::kObserve, "openai");
  Request request = LongChat(8);
  caller.Send(request);
  VerdictOn(caller, 0, 0, 8500);
  request.turns[0] = Turn("user", "Other words. " + Words("task", 500));
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  caller.Send(request);
  const diagnose::PrefixBreak found = VerdictOn(caller, 4096, 0, 4420);
  EXPECT_EQ(NamedBy(found), "history_edited at messages[1].content");
  EXPECT_NEAR(static_cast<double>(found.lost_tokens), 4400, 128);
}

TEST(OptimizerVerdicts, ACompactionIsNamed) {
  Caller caller(Mode::kObserve, "openai");
  Request request = LongChat(8);
  caller.Send(request);
  VerdictOn(caller, 0, 0, 8500);
  request.turns.erase(request.turns.begin(), request.turns.begin() + 13);
  request.turns.insert(request.turns.begin(),
                       Turn("user", "<summary>" + Words("gist", 200) + "</summary>"));
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  caller.Send(request);
  const diagnose::PrefixBreak found = VerdictOn(caller, 4096, 0, 1200);
  EXPECT_EQ(NamedBy(found), "compacted at messages[1]");
  EXPECT_NEAR(static_cast<double>(found.lost_tokens), 985, 128);
}

TEST(OptimizerVerdicts, AMissOfAnotherConversationOfTheSameAgentIsNamed) {
  Caller caller(Mode::kObserve, "openai");
  Request request = LongChat(3);
  caller.Send(request);
  VerdictOn(caller, 0, 0, 6000);
  request.turns = {Turn("user", Words("another task", 100))};
  caller.Send(request);
  diagnose::PrefixBreak found = VerdictOn(caller, 0, 0, 4220);
  EXPECT_EQ(NamedBy(found), "provider_miss");
  EXPECT_NEAR(static_cast<double>(found.lost_tokens), 4010, 128);
  // Its instructions differ from those of the conversations before.
  request.system = "Project B. " + request.system;
  request.turns = {Turn("user", Words("third task", 100))};
  caller.Send(request);
  found = VerdictOn(caller, 2048, 0, 2180);
  EXPECT_EQ(NamedBy(found), "system_changed at messages[0].content");
  EXPECT_NEAR(static_cast<double>(found.lost_tokens), 1960, 128);
}

TEST(OptimizerVerdicts, NoModeIsAdvisedThatIsInForce) {
  for (const Mode mode : {Mode::kObserve, Mode::kPin, Mode::kStabilize}) {
    SCOPED_TRACE(std::string(ModeName(mode)));
    Caller caller(mode, "anthropic");
    Request request{.tools = {R"({"name":"a"})"}, .turns = {Turn("user", "one")}};
    std::string said;
    for (int minute = 10; minute < 13; ++minute) {
      request.turns[0] = Turn("user", "It is 2026-11-22T10:" + std::to_string(minute) +
                                          ":07Z now, and " + Words("so", 6000));
      caller.Send(request);
      said = VerdictOn(caller, 0, 0, 6100).message;
      request.turns.push_back(Turn("assistant", "two"));
      request.turns.push_back(Turn("user", "and then?"));
    }
    EXPECT_EQ(said.find("mode stabilize") != std::string::npos, mode != Mode::kStabilize) << said;
    EXPECT_EQ(said.find("mode pin"), std::string::npos) << said;
  }
}

TEST(OptimizerVerdicts, NotAllWasReadWhereMarkersEndEarly) {
  Caller caller(Mode::kObserve, "anthropic");
  Request request{.system_blocks = {Block(Words("rule", 4000), kBreakpoint)},
                  .turns = {Turn("user", Words("task", 6000))}};
  caller.Send(request);
  VerdictOn(caller, 0, 4000, 6000);
  request.turns.push_back(Turn("assistant", "two"));
  request.turns.push_back(Turn("user", "and then?"));
  caller.Send(request);
  const diagnose::PrefixBreak found = VerdictOn(caller, 4000, 0, 6010);
  EXPECT_EQ(NamedBy(found), "not_marked");
  EXPECT_EQ(found.lost_tokens, 6000);
}

TEST(OptimizerVerdicts, AKeyThatTheGatewayAddsLaterIsNamed) {
  Caller caller(Mode::kPin, "openai");
  Request request = LongChat(1);
  caller.Send(request);
  VerdictOn(caller, 0, 0, 5000);
  request.turns.push_back(Turn("assistant", "two"));
  request.turns.push_back(Turn("user", "and then?"));
  caller.planner().key = "kvg-1";
  caller.Send(request);
  const diagnose::PrefixBreak found = VerdictOn(caller, 0, 0, 5010);
  EXPECT_EQ(NamedBy(found), "parameter_changed at prompt_cache_key");
  EXPECT_NEAR(static_cast<double>(found.lost_tokens), 5000, 16);
}

TEST(Optimizer, AStringThatGotABreakpointStaysAListFromThenOn) {
  for (const Endpoint endpoint :
       {Endpoint::kMessages, Endpoint::kChatCompletions, Endpoint::kResponses}) {
    Caller caller(Mode::kPin, "anthropic");
    caller.planner().mark_last = true;
    Request request{.endpoint = endpoint, .system = "Be brief.", .turns = {Turn("user", "one")}};
    std::string before = caller.Send(request);
    EXPECT_TRUE(caller.Used(Rule::kCacheControl));
    EXPECT_NE(before.find(kBreakpoint), std::string::npos);
    for (int turn = 0; turn < 3; ++turn) {
      request.turns.push_back(Turn("assistant", "yes"));
      request.turns.push_back(Turn("user", "two"));
      const std::string after = caller.Send(request);
      EXPECT_TRUE(GoesOn(before, after));
      before = after;
    }
  }
}

TEST(Optimizer, TheCallersBreakpointsAreThePlannersToKeep) {
  Caller caller(Mode::kPin, "anthropic");
  caller.planner().drop_breakpoints = true;
  Request request{.turns = {TurnOf("user", {Block("one", kBreakpoint)})}};
  const std::string sent = caller.Send(request);
  EXPECT_EQ(sent, Unmarked(request.Body()));
  EXPECT_TRUE(caller.Used(Rule::kCacheControl));
  caller.rules_off = 1U << static_cast<uint32_t>(Rule::kCacheControl);
  EXPECT_EQ(caller.Send(request), request.Body());
}

TEST(Optimizer, G8ATtlThatTheUpstreamDoesNotTakeIsDropped) {
  Caller caller(Mode::kPin, "anthropic");
  caller.ttl_supported = false;
  Request request{
      .turns = {
          TurnOf("user", {Block("one", R"(,"cache_control":{"type":"ephemeral","ttl":"5m"})")})}};
  const std::string sent = caller.Send(request);
  EXPECT_EQ(sent.find("ttl"), std::string::npos);
  EXPECT_NE(sent.find("cache_control"), std::string::npos);
  EXPECT_TRUE(caller.Used(Rule::kTtlDropped));
}

TEST(Optimizer, APromptCacheKeyIsAddedUnlessTheCallerHasOne) {
  Caller caller(Mode::kPin);
  caller.planner().key = "kv-\"1";
  Request request = Simple();
  EXPECT_EQ(json::parse(caller.Send(request))["prompt_cache_key"], "kv-\"1");
  request.more = R"("prompt_cache_key":"mine",)";
  EXPECT_EQ(caller.Send(request), request.Body());
}

TEST(Optimizer, KvgateSourceIsTakenOut) {
  Caller caller(Mode::kPin);
  Request request{
      .turns = {TurnOf("user", {Block("text", R"(,"kvgate_source":"retrieval")"), Block("one")}),
                R"({"kvgate_source":"summary","role":"user","content":"x"})"}};
  const std::string sent = caller.Send(request);
  EXPECT_EQ(sent.find("kvgate_source"), std::string::npos);
  EXPECT_TRUE(caller.Used(Rule::kSourceField));
  Caller observing(Mode::kObserve);
  observing.Send(request);
}

TEST(Optimizer, V18AnotherEffortIsRememberedAsAParameter) {
  Caller caller(Mode::kPin);
  Request request = Simple();
  request.more = R"("output_config":{"effort":"high"},)";
  EXPECT_EQ(caller.Send(request), request.Body());
  request.more = R"("output_config":{"effort":"low"},)";
  request.turns.push_back(Turn("assistant", "a"));
  request.turns.push_back(Turn("user", "two"));
  EXPECT_EQ(caller.Send(request), request.Body());
  EXPECT_FALSE(caller.last.first_of_conversation);
}

TEST(Optimizer, ModesHaveNames) {
  for (const Mode mode : {Mode::kObserve, Mode::kPin, Mode::kStabilize}) {
    EXPECT_EQ(ParseMode(ModeName(mode)), mode);
  }
  EXPECT_FALSE(ParseMode("fast").has_value());
}

TEST(Optimizer, AConversationKeepsTheKeyThatItWasGiven) {
  Caller caller(Mode::kPin);
  Request request{.endpoint = Endpoint::kChatCompletions, .turns = {Turn("user", "one")}};
  for (const char* planned : {"kv-\"1", "later", ""}) {
    caller.planner().key = planned;
    EXPECT_EQ(json::parse(caller.Send(request))["prompt_cache_key"], "kv-\"1");
    request.turns.push_back(Turn("assistant", "two"));
    request.turns.push_back(Turn("user", "three"));
  }
}

}  // namespace
}  // namespace kvgate::prompt
