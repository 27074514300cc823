#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/gateway/proxy/session_proxy.h"

namespace kvgate::proxy::handler {
namespace {

using nlohmann::json;
using test::SessionProxy;
using test::TestSink;
using ::testing::HasSubstr;

std::unique_ptr<TestSink> Post(SessionProxy& session, const std::string& key,
                               const std::string& what) {
  return session.Ask({.path = "/kvgate/v1/sessions/" + key + "/" + what,
                      .body = {},
                      .fields = {},
                      .id = fmt::format("{:024x}", ++session.last_id)});
}

std::string Body(std::string_view text) {
  return fmt::format(
      R"({{"model":"local","max_tokens":8,"messages":[{{"role":"user","content":"{}"}}]}})", text);
}

TEST(SessionCompactTest, ASessionIsFoldedWhenItIsAskedForAndThatIsTakenBack) {
  SessionProxy session;
  for (int turn = 0; turn < 6; ++turn) session.Say(Body(fmt::format("turn {} {:050}", turn, 0)));
  const auto made = Post(session, "k", "compact");
  ASSERT_EQ(made->status, 200) << made->body;
  const json shown = json::parse(made->body);
  EXPECT_EQ(shown["data"][0]["compaction"]["mode"], "summary");
  EXPECT_EQ(shown["data"][0]["compaction"]["summary"]["text"], "Hello world!");
  EXPECT_GT(shown["messages_left_out"], 0);
  session.Say(Body("next"));
  EXPECT_THAT(session.Prompt(), HasSubstr("Hello world!\n</summary>"));
  const auto undone = Post(session, "k", "undo");
  EXPECT_EQ(undone->status, 200) << undone->body;
  session.Say(Body("last"));
  EXPECT_THAT(session.Prompt(), HasSubstr("user: turn 0"));
  EXPECT_EQ(Post(session, "k", "undo")->status, 400);
}

TEST(SessionCompactTest, WhatCannotBeFoldedIsRefused) {
  SessionProxy session;
  EXPECT_EQ(Post(session, "none", "compact")->status, 404);
  session.Say(Body("one"));
  EXPECT_EQ(Post(session, "k", "compact")->status, 400);  // a summary would be longer
  session.Say(Body(std::string(800, 'x')));
  const auto held = session.sessions.folds().Begin({.tenant = session.tenant, .key = "k"}, 1);
  EXPECT_EQ(Post(session, "k", "compact")->status, 409);
}

}  // namespace
}  // namespace kvgate::proxy::handler
