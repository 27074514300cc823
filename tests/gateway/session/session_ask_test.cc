#include "gateway/session/session_ask.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::session {
namespace {

TEST(SessionAskTest, HeadersSayTheSession) {
  const auto ask = ReadAsk({.key = "k-1", .mode = "append", .wait = "5"}, 60);
  ASSERT_TRUE(ask && *ask);
  EXPECT_EQ((*ask)->key, "k-1");
  EXPECT_EQ((*ask)->mode, SessionAsk::Mode::kAppend);
  EXPECT_EQ((*ask)->wait_seconds, 5);
  EXPECT_EQ((*ReadAsk({.key = "k", .mode = "transcript"}, 60))->mode,
            SessionAsk::Mode::kTranscript);
  EXPECT_EQ((*ReadAsk({.key = "k"}, 60))->mode, SessionAsk::Mode::kAuto);
}

TEST(SessionAskTest, WithoutAKeyOrToBeRecognisedThereIsNone) {
  EXPECT_FALSE(*ReadAsk({}, 60));
  EXPECT_FALSE(*ReadAsk({.mode = "append", .wait = "x"}, 60));
  EXPECT_FALSE(*ReadAsk({.key = "any key / as today", .mode = "recognise"}, 60));
}

TEST(SessionAskTest, AWrongHeaderIsNamed) {
  const auto field_of = [](const SessionHeaders& headers) {
    const auto ask = ReadAsk(headers, 60);
    EXPECT_FALSE(ask);
    return ask ? "" : ask.error().field;
  };
  const std::string longest(128, 'k');
  const std::string too_long(129, 'k');
  EXPECT_TRUE(ReadAsk({.key = longest}, 60));
  EXPECT_EQ(field_of({.key = too_long}), kKeyHeader);
  EXPECT_EQ(field_of({.key = "a b"}), kKeyHeader);
  EXPECT_EQ(field_of({.key = "a/b"}), kKeyHeader);
  EXPECT_EQ(field_of({.key = "\xc3\xa9"}), kKeyHeader);
  EXPECT_EQ(field_of({.key = "k", .mode = "summary"}), kModeHeader);
  for (const char* wait : {"-1", "61", "5s", "1.5", "99999999999"}) {
    EXPECT_EQ(field_of({.key = "k", .wait = wait}), kWaitHeader) << wait;
  }
}

}  // namespace
}  // namespace kvgate::session
