#include "gateway/session/session_fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/session/session_admin.h"
#include "gateway/session/sessions.h"
#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/session/session_turns.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::session {
namespace {

using nlohmann::json;
using test::Said;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kAnswer =
    R"({"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"S)";

// Sessions whose tokens are the bytes of their bodies.
class SessionFoldTest : public ::testing::Test {
 protected:
  // One turn with its answer. Returns what was sent for it.
  std::string Say(std::string_view text) {
    const std::string body =
        R"({"model":"m","messages":[{"role":"user","content":")" + std::string(text) + "\"}]}";
    auto read = sessions.Read({.tenant = "t",
                               .ask = {.key = "k"},
                               .request_id = std::to_string(++last_id),
                               .dialect = Dialect::kChatCompletions,
                               .body = body});
    EXPECT_TRUE(read);
    turn = *read;
    EXPECT_TRUE(sessions.Load(*turn));
    auto composed =
        sessions.Compose(*turn, {.body = body, .count = [](std::string_view prompt) {
                                   return Result<int64_t>(static_cast<int64_t>(prompt.size()));
                                 }});
    EXPECT_TRUE(composed) << composed.error().detail;
    compaction = turn->compaction;
    fold.reset();
    last_body = body;
    const std::string answer = fmt::format("A{}", last_id);
    EXPECT_TRUE(sessions.Commit(*turn, {.messages = {Said("assistant", answer)}, .tokens = {}}));
    return composed ? *composed : "";
  }
  // Says turns until a fold is due, and begins it.
  void SayUntilDue() {
    for (int i = 0; i < 40 && fold == nullptr; ++i) {
      Say(fmt::format("{} {}", last_id + 1, std::string(50, 'x')));
      fold = sessions.BeginFold(*turn, last_body);
    }
    ASSERT_NE(fold, nullptr);
  }
  Result<void> Answer(std::string_view text) {
    const std::string body =
        R"({"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":")" +
        std::string(text) + R"("},"finish_reason":"stop"}],"usage":{"completion_tokens":5}})";
    return fold->Read(body);
  }
  log::History History() {
    const log::SessionLog::Place place{.tenant = "t", .key = "k"};
    const auto root = sessions.session_log().Find(place);
    const auto head = sessions.session_log().Head(place, *root);
    using Reach = log::SessionLog::Reach;
    const auto prompt = sessions.session_log().Load(place, *root, (*head)->id, Reach::kPrompt);
    const auto branch = sessions.session_log().Load(place, *root, (*head)->id, Reach::kBranch);
    const log::History history = log::HistoryOf(*prompt);
    // What is read for a prompt says the same as all of the branch.
    EXPECT_EQ(history.messages, log::HistoryOf(*branch).messages);
    EXPECT_EQ(history.event, log::HistoryOf(*branch).event);
    EXPECT_EQ(history.frame, log::HistoryOf(*branch).frame);
    return history;
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns = test::OpenTurns(meta);
  Sessions sessions{{.turns = turns.get(),
                     .window = {.mode = window::Mode::kSummary,
                                .high = 1000,
                                .low = 600,
                                .hard = 4000,
                                .summary_tokens_max = 50}}};
  SessionAdmin admin{sessions};
  std::shared_ptr<SessionTurn> turn;
  std::unique_ptr<SessionFold> fold;
  std::string last_body;
  std::string compaction;
  int last_id = 0;
};

TEST_F(SessionFoldTest, TheSummaryStandsForTheOldestRounds) {
  SayUntilDue();
  EXPECT_EQ(compaction, "advised");
  const json call = json::parse(fold->MakeCall().body);
  EXPECT_THAT(call["messages"][0]["content"].get<std::string>(), StartsWith("1 x"));
  EXPECT_EQ(call["messages"][call["messages"].size() - 2]["content"], fmt::format("A{}", last_id));
  ASSERT_TRUE(Answer("Facts"));
  const json next = json::parse(fold->NextBody());
  ASSERT_TRUE(fold->Store("call")) << "store";
  const log::History history = History();
  EXPECT_EQ(history.head, "turn_call");
  EXPECT_EQ(history.summary->text, "Facts");
  EXPECT_EQ(history.summary->model, "m-1");
  EXPECT_EQ(history.summary->request_id, "call");
  EXPECT_EQ(history.num_left_out + history.messages.size(), 2U * static_cast<uint64_t>(last_id));
  const json sent = json::parse(Say("new"));
  EXPECT_THAT(compaction, StartsWith("done;before="));
  // The next prompt is what was computed ahead, and the new turn.
  ASSERT_EQ(sent["messages"].size(), next["messages"].size() + 1);
  for (size_t i = 0; i < next["messages"].size(); ++i) {
    EXPECT_EQ(sent["messages"][i], next["messages"][i]);
  }
  EXPECT_THAT(sent["messages"][0]["content"].get<std::string>(), StartsWith("<summary>\n"));
  EXPECT_LT(sent.dump().size(), 1000U);
  Say("more");
  EXPECT_EQ(compaction, "none");
}

TEST_F(SessionFoldTest, TurnsThatCameMeanwhileStay) {
  SayUntilDue();
  auto under_way = std::move(fold);
  Say("meanwhile");
  EXPECT_FALSE(turn->fold) << "two at a time";
  fold = std::move(under_way);
  ASSERT_TRUE(Answer("S"));
  ASSERT_TRUE(fold->Store("call"));
  const log::History history = History();
  ASSERT_GE(history.messages.size(), 2U);
  EXPECT_THAT(history.messages[history.messages.size() - 2].json, HasSubstr("meanwhile"));
}

TEST_F(SessionFoldTest, ASummaryIsMergedIntoTheNextAndOneAtATimeStands) {
  for (int i = 1; i <= 4; ++i) {
    SayUntilDue();
    const std::string call = fold->MakeCall().body;
    if (i > 1) {
      EXPECT_THAT(call, HasSubstr(fmt::format("summary {}!", i - 1)));
    }
    EXPECT_THAT(call, Not(HasSubstr(fmt::format("summary {}!", i - 2))));
    ASSERT_TRUE(Answer(fmt::format("summary {}!", i)));
    ASSERT_TRUE(fold->Store(fmt::format("call{}", i)));
    fold.reset();
  }
  const std::string sent = Say("new");
  EXPECT_THAT(sent, HasSubstr("summary 4!"));
  EXPECT_THAT(sent, Not(HasSubstr("summary 3!")));
}

TEST_F(SessionFoldTest, ASessionThatWentElsewhereIsLeftAlone) {
  SayUntilDue();
  ASSERT_TRUE(Answer("S"));
  ASSERT_TRUE(fold->Store("first"));
  // Another branch, from the first turn on.
  auto stale = std::move(fold);
  SayUntilDue();
  ASSERT_TRUE(Answer("S2"));
  ASSERT_TRUE(admin.Undo({.tenant = "t", .key = "k"}, "undo"));
  const auto late = fold->Store("late");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(sessions.folds().counts().num_stale, 1U);
  EXPECT_FALSE(History().summary);
}

TEST_F(SessionFoldTest, UndoneItNoLongerCounts) {
  SayUntilDue();
  ASSERT_TRUE(Answer("S"));
  ASSERT_TRUE(fold->Store("call"));
  fold.reset();
  Say("after");
  const auto undone = admin.Undo({.tenant = "t", .key = "k"}, "undo");
  ASSERT_TRUE(undone) << undone.error().detail;
  EXPECT_EQ(json::parse(*undone)["undone"], "turn_call");
  const log::History history = History();
  EXPECT_FALSE(history.summary);
  EXPECT_EQ(history.messages.size(), 2U * static_cast<size_t>(last_id));
  EXPECT_EQ(history.depth, static_cast<uint64_t>(last_id));
  const auto again = admin.Undo({.tenant = "t", .key = "k"}, "undo2");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidArgument);
  // It is not made again at once, and the log can be moved as it is.
  Say("and on");
  EXPECT_FALSE(turn->fold);
  const auto lines = admin.Export({.tenant = "t", .key = "k"});
  ASSERT_TRUE(lines);
  ASSERT_TRUE(admin.Import({.tenant = "other", .key = ""}, *lines, "import"));
  const auto copy = admin.Show({.tenant = "other", .key = "k"}, {});
  ASSERT_TRUE(copy);
  EXPECT_EQ(json::parse(*copy)["messages_left_out"], 0);
  EXPECT_EQ(json::parse(*copy)["turns"], last_id);
}

TEST_F(SessionFoldTest, AForkFromBeforeItHasAllThatWasSaid) {
  SayUntilDue();
  const std::string before = turn->turn.id;
  ASSERT_TRUE(Answer("S"));
  ASSERT_TRUE(fold->Store("call"));
  const auto place = SessionAdmin::Place{.tenant = "t", .key = "k"};
  ASSERT_TRUE(admin.Fork(place, R"({"key":"with"})", "f1"));
  ASSERT_TRUE(admin.Fork(place, R"({"key":"before","turn":")" + before + "\"}", "f2"));
  const json with = json::parse(*admin.Show({.tenant = "t", .key = "with"}, {}));
  const json without = json::parse(*admin.Show({.tenant = "t", .key = "before"}, {}));
  EXPECT_GT(with["messages_left_out"], 0);
  EXPECT_EQ(with["data"].back()["compaction"]["mode"], "summary");
  EXPECT_EQ(with["data"].back()["compaction"]["summary"]["text"], "S");
  EXPECT_EQ(without["messages_left_out"], 0);
  EXPECT_EQ(with["turns"], without["turns"]);
}

TEST_F(SessionFoldTest, OneThatIsAskedForFoldsTheOlderHalf) {
  for (int i = 0; i < 6; ++i) Say(fmt::format("{} {}", i, std::string(40, 'y')));
  ASSERT_FALSE(turn->fold);
  auto stored = sessions.ReadStored("t", "k");
  ASSERT_TRUE(stored) << stored.error().detail;
  ASSERT_TRUE(sessions.Compose(*stored->turn, {.body = stored->body, .is_forced = true}));
  fold = sessions.BeginFold(*stored->turn, stored->body, summary::Folds::Trigger::kClient);
  ASSERT_NE(fold, nullptr);
  const json call = json::parse(fold->MakeCall().body);
  EXPECT_EQ(call["messages"].size(), 13U);
  ASSERT_TRUE(Answer("S"));
  ASSERT_TRUE(fold->Store("call"));
  const log::History history = History();
  EXPECT_GE(history.num_left_out, 4U);
  EXPECT_GE(history.messages.size(), 2U);
  EXPECT_EQ(sessions.ReadStored("t", "none").error().code, ErrorCode::kNotFound);
}

TEST_F(SessionFoldTest, WhatIsNoSummaryOrCannotBeStoredFails) {
  SayUntilDue();
  EXPECT_FALSE(fold->Read(kAnswer));
  EXPECT_FALSE(Answer(" "));
  ASSERT_TRUE(Answer("S"));
  meta.refuses = true;
  EXPECT_FALSE(fold->Store("call"));
  meta.refuses = false;
  fold.reset();
  EXPECT_EQ(sessions.folds().counts().num_failed, 1U);
  EXPECT_FALSE(History().summary);
  Say("next");
  EXPECT_FALSE(turn->fold) << "tried again with the very next turn";
}

}  // namespace
}  // namespace kvgate::session
