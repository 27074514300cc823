#include "gateway/session/session_admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/session/session_turns.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::session {
namespace {

using nlohmann::json;
using test::TurnOf;
using ::testing::HasSubstr;

class SessionAdminTest : public ::testing::Test {
 protected:
  void Fill(const std::string& key, int num_turns) {
    for (int i = 1; i <= num_turns; ++i) {
      log::LoggedTurn turn = TurnOf(i, {fmt::format("u{}", i)});
      turn.id = fmt::format("turn_{}-{}", key, i);
      if (i > 1) turn.parent = fmt::format("turn_{}-{}", key, i - 1);
      ASSERT_TRUE(sessions.session_log().Append({.tenant = "t", .key = key},
                                                Dialect::kChatCompletions, turn));
    }
  }
  SessionAdmin::Place At(std::string_view key) { return {.tenant = "t", .key = key}; }
  static json Parsed(const Result<std::string>& body) {
    EXPECT_TRUE(body) << body.error().ToString();
    return body ? json::parse(*body) : json();
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns = test::OpenTurns(meta);
  Sessions sessions{{.turns = turns.get()}};
  SessionAdmin admin{sessions};
};

TEST_F(SessionAdminTest, ASessionIsShownWithTheWindowThatIsConfigured) {
  Fill("one", 1);
  EXPECT_EQ(Parsed(admin.Show(At("one"), {}))["window"], json({{"mode", "hard"}}));
  Sessions bounded{{.turns = turns.get(),
                    .window = {.mode = window::Mode::kSummary, .high = 800, .hard = 1000}}};
  EXPECT_EQ(Parsed(SessionAdmin(bounded).Show(At("one"), {}))["window"],
            json({{"mode", "summary"}, {"high", 800}, {"hard", 1000}}));
  Sessions off{{.turns = turns.get(), .window = {.mode = window::Mode::kOff}}};
  EXPECT_EQ(Parsed(SessionAdmin(off).Show(At("one"), {}))["window"], json({{"mode", "off"}}));
}

TEST_F(SessionAdminTest, SessionsAreListedAndShown) {
  Fill("one", 1);
  Fill("two", 3);
  const json list = Parsed(admin.List("t", {.limit = "1"}));
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["key"], "two");
  EXPECT_EQ(list["data"][0]["turns"], 3);
  EXPECT_EQ(list["data"][0]["head"], "turn_two-3");
  EXPECT_EQ(list["has_more"], true);
  const json rest = Parsed(admin.List("t", {.before = list["next"].get<std::string>()}));
  EXPECT_EQ(rest["data"][0]["key"], "one");
  const json shown = Parsed(admin.Show(At("two"), {.limit = "2"}));
  ASSERT_EQ(shown["data"].size(), 2u);
  EXPECT_EQ(shown["data"][1]["input"][0]["content"], "u3");
  EXPECT_EQ(shown["data"][1]["answer"][0]["content"], "A3");
  EXPECT_EQ(shown["has_more"], true);
  EXPECT_EQ(admin.Show(At("none"), {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(admin.List("t", {.limit = "101"}).error().field, "limit");
}

TEST_F(SessionAdminTest, AnExportedSessionIsImportedUnderAnotherKey) {
  Fill("one", 3);
  const auto lines = admin.Export(At("one"));
  ASSERT_TRUE(lines);
  EXPECT_EQ(Parsed(admin.Import(At("copy"), *lines, "r"))["turns"], 3);
  EXPECT_EQ(Parsed(admin.Show(At("copy"), {}))["data"][2]["answer"][0]["content"], "A3");
  EXPECT_EQ(admin.Import(At("copy"), *lines, "s").error().field, "key");
  EXPECT_EQ(admin.Import(At(""), *lines, "s").error().field, "key") << "it is there";
  EXPECT_EQ(admin.Import(At("a b"), *lines, "s").error().field, "key");
  const std::string cut = lines->substr(0, lines->rfind("\n{"));
  EXPECT_THAT(admin.Import(At("cut"), cut, "s").error().detail, HasSubstr("not whole"));
  EXPECT_THAT(admin.Import(At("bad"), *lines + "{}\n", "s").error().detail, HasSubstr("Line 5"));
  EXPECT_FALSE(admin.Import(At("bad"), "{}\n", "s"));
  EXPECT_EQ(admin.Show(At("cut"), {}).error().code, ErrorCode::kNotFound);
}

TEST_F(SessionAdminTest, AForkMayBeginAtAnEarlierTurn) {
  Fill("one", 3);
  EXPECT_EQ(Parsed(admin.Fork(At("one"), R"({"key":"whole"})", "r"))["turns"], 3);
  EXPECT_EQ(Parsed(admin.Fork(At("one"), R"({"key":"part","turn":"turn_one-2"})", "s"))["turns"],
            2);
  EXPECT_EQ(admin.Fork(At("one"), R"({"key":"x","turn":"turn_9"})", "u").error().field, "turn");
  EXPECT_EQ(admin.Fork(At("one"), R"({"key":""})", "u").error().field, "key");
  EXPECT_EQ(admin.Fork(At("one"), "[]", "u").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(admin.Fork(At("none"), R"({"key":"x"})", "u").error().code, ErrorCode::kNotFound);
}

TEST_F(SessionAdminTest, WhatARequestHoldsIsNotRemoved) {
  Fill("one", 1);
  Fill("two", 1);
  auto held = sessions.TryLock({.tenant = "t", .key = "one", .turn = "turn_x"});
  ASSERT_TRUE(held.lock);
  EXPECT_EQ(admin.Remove(At("one"), "r").error().source, dialect::form::kSessionSource);
  const json purged = Parsed(admin.Purge("t", "r"));
  EXPECT_EQ(purged["deleted"], 1);
  EXPECT_EQ(purged["in_use"], 1);
  held.lock.reset();
  EXPECT_EQ(Parsed(admin.Remove(At("one"), "r"))["deleted"], true);
  EXPECT_EQ(admin.Remove(At("one"), "r").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(Parsed(admin.List("t", {}))["data"].empty());
}

TEST_F(SessionAdminTest, ItsKvGoesWithASessionTheNewestFirst) {
  for (const int i : {1, 2, 3}) {
    log::LoggedTurn turn = TurnOf(i, {"u"});
    if (i != 2) turn.kv_block = {.low = static_cast<uint64_t>(i), .high = 0};
    ASSERT_TRUE(sessions.session_log().Append(At("one"), Dialect::kChatCompletions, turn));
  }
  std::vector<uint64_t> forgotten;
  SessionAdmin forgetting(sessions, [&](BlockHash last) {
    forgotten.push_back(last.low);
    return uint64_t{2};
  });
  ASSERT_TRUE(forgetting.Fork(At("one"), R"({"key":"fork"})", "f"));
  EXPECT_EQ(Parsed(forgetting.Remove(At("one"), "r"))["kv_records"], 4);
  EXPECT_THAT(forgotten, ::testing::ElementsAre(3, 1));
  // A copy has none until it goes on.
  EXPECT_EQ(Parsed(forgetting.Purge("t", "r"))["kv_records"], 0);
  EXPECT_EQ(forgotten.size(), 2u);
}

TEST_F(SessionAdminTest, TenantsSeeTheirOwn) {
  Fill("one", 1);
  EXPECT_TRUE(Parsed(admin.List("other", {}))["data"].empty());
  const SessionAdmin::Place theirs{.tenant = "other", .key = "one"};
  EXPECT_EQ(admin.Show(theirs, {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(admin.Export(theirs).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Parsed(admin.Purge("other", "r"))["deleted"], 0);
  EXPECT_EQ(Parsed(admin.Show(At("one"), {}))["turns"], 1);
}

}  // namespace
}  // namespace kvgate::session
