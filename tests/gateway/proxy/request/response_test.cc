#include "gateway/proxy/request/response.h"

#include <gtest/gtest.h>

namespace kvgate::proxy::request {
namespace {

TEST(ResponseTest, ErrorsCarryStatusAndRetryAdvice) {
  EXPECT_EQ(ErrorResponse(MakeError(ErrorCode::kInvalidArgument, "x", "bad")).status, 400);
  const Response overloaded = ErrorResponse(MakeError(ErrorCode::kOverloaded, "x", "full"));
  EXPECT_EQ(overloaded.status, 503);
  EXPECT_EQ(overloaded.headers.at(0), std::make_pair(std::string("retry-after"), std::string("1")));
  Error later = MakeError(ErrorCode::kRateLimited, "x", "y");
  later.retry_after_seconds = 12;
  EXPECT_EQ(ErrorResponse(later).headers.at(0).second, "12");
  EXPECT_EQ(ErrorResponse(later).headers.size(), 1u);
  later.retry_after_seconds = 3600;  // longer than an SDK is to sleep
  EXPECT_EQ(ErrorResponse(later).headers.at(1),
            std::make_pair(std::string("x-should-retry"), std::string("false")));
  // The client is still there to read this, so the server's side ended the request.
  EXPECT_EQ(ErrorResponse(MakeError(ErrorCode::kCancelled, "x", "y")).status, 503);
}

TEST(ToErrorOfTest, RewritesErrorsAndNothingElse) {
  Response error = StatusResponse(502, "The upstream failed.");
  ToErrorOf(dialect::form::Api::kAnthropic, "r1", error);
  EXPECT_EQ(error.status, 502);
  EXPECT_EQ(error.body,
            R"({"type":"error","error":{"type":"api_error","message":"The upstream failed."},)"
            R"("request_id":"r1"})");
  Response other{.body = "{}"};
  ToErrorOf(dialect::form::Api::kAnthropic, "r1", other);
  EXPECT_EQ(other.body, "{}");
  EXPECT_TRUE(other.headers.empty());
}

TEST(ToErrorOfTest, EachApiHasItsForm) {
  const std::string openai = StatusResponse(429, "Slower.").body;
  Response error = StatusResponse(429, "Slower.");
  ToErrorOf(dialect::form::Api::kOpenAi, "r1", error);
  EXPECT_EQ(error.body, openai);
  ToErrorOf(dialect::form::Api::kGemini, "r1", error);
  EXPECT_EQ(error.body,
            R"({"error":{"code":429,"message":"Slower.","status":"RESOURCE_EXHAUSTED"}})");
}

}  // namespace
}  // namespace kvgate::proxy::request
