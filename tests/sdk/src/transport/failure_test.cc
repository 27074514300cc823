#include "sdk/src/transport/failure.h"

#include <gtest/gtest.h>

namespace kvgate::sdk::transport {
namespace {

TEST(FailureTest, AnErrorOfThisProcessKeepsItsField) {
  const Failure failure = ToFailure(Error{.code = ErrorCode::kRateLimited,
                                          .source = "a",
                                          .detail = "b",
                                          .field = "c",
                                          .retry_after_seconds = 3});
  EXPECT_EQ(failure.status, KVGATE_RATE_LIMITED);
  EXPECT_EQ(failure.message, "a: c: b");
  EXPECT_EQ(failure.field, "c");
  EXPECT_EQ(failure.retry_after_ms, 3000u);
}

TEST(FailureTest, BothFormsOfAnErrorBodyAreRead) {
  const Failure openai = ToFailure(
      400, R"({"error":{"message":"m","type":"invalid_request_error","param":"p","code":null}})");
  EXPECT_EQ(openai.status, KVGATE_INVALID_ARGUMENT);
  EXPECT_EQ(openai.message, "m");
  EXPECT_EQ(openai.field, "p");
  EXPECT_EQ(openai.code, "");
  EXPECT_EQ(openai.http_status, 400);
  const Failure anthropic =
      ToFailure(529, R"({"type":"error","error":{"type":"overloaded_error","message":"busy"}})");
  EXPECT_EQ(anthropic.status, KVGATE_OVERLOADED);
  EXPECT_EQ(anthropic.message, "busy");
}

TEST(FailureTest, APromptThatIsTooLongHasAStatusOfItsOwn) {
  EXPECT_EQ(ToFailure(400, R"({"error":{"message":"m","code":"context_length_exceeded"}})").status,
            KVGATE_CONTEXT_EXCEEDED);
}

TEST(FailureTest, WhatIsNoErrorBodyIsShown) {
  const Failure failure = ToFailure(502, "<html>Bad gateway</html>");
  EXPECT_EQ(failure.status, KVGATE_UNAVAILABLE);
  EXPECT_NE(failure.message.find("Bad gateway"), std::string::npos);
  EXPECT_EQ(ToFailure(500, "").status, KVGATE_INTERNAL);
  EXPECT_EQ(ToFailure(418, "[]").status, KVGATE_INVALID_ARGUMENT);
  EXPECT_EQ(ToFailure(400, R"({"error":"as a text"})").message, "as a text");
}

TEST(FailureTest, AnErrorInAStreamIsKnownByItsWords) {
  EXPECT_EQ(StreamFailure(R"({"error":{"message":"m","code":"rate_limit_exceeded"}})").status,
            KVGATE_RATE_LIMITED);
  EXPECT_EQ(StreamFailure(R"({"error":{"message":"m","type":"invalid_request_error"}})").status,
            KVGATE_INVALID_ARGUMENT);
  EXPECT_EQ(StreamFailure(R"({"error":{"message":"m","type":"server_error"}})").status,
            KVGATE_INTERNAL);
  EXPECT_EQ(StreamFailure("?").status, KVGATE_INTERNAL);
}

}  // namespace
}  // namespace kvgate::sdk::transport
