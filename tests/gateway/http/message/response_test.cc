#include "gateway/http/message/response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::http::message {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ResponseTest, AHeadHasItsLengthAndIds) {
  const Response response{.status = 404, .body = "abc", .headers = {{"allow", "GET"}}};
  const std::string head =
      ResponseHead(response, {.request_id = "r1", .dialect_id_name = "x-request-id"});
  EXPECT_TRUE(head.starts_with("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_THAT(head, HasSubstr("content-length: 3\r\n"));
  EXPECT_THAT(head, HasSubstr("x-kvgate-request-id: r1\r\nx-request-id: r1\r\n"));
  EXPECT_THAT(head, HasSubstr("allow: GET\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("connection:")));
  EXPECT_THAT(ResponseHead(response, {.request_id = "r", .keep_alive = false}),
              HasSubstr("connection: close\r\n"));
}

TEST(ResponseTest, ErrorsCarryStatusAndRetryAdvice) {
  EXPECT_EQ(ErrorResponse(MakeError(ErrorCode::kInvalidArgument, "x", "bad")).status, 400);
  const Response overloaded = ErrorResponse(MakeError(ErrorCode::kOverloaded, "x", "full"));
  EXPECT_EQ(overloaded.status, 503);
  EXPECT_EQ(overloaded.headers.at(0), std::make_pair(std::string("retry-after"), std::string("1")));
  Error later = MakeError(ErrorCode::kRateLimited, "x", "y");
  later.retry_after_seconds = 12;
  EXPECT_EQ(ErrorResponse(later).headers.at(0).second, "12");
  // The client is still there to read this, so the server's side ended the request.
  EXPECT_EQ(ErrorResponse(MakeError(ErrorCode::kCancelled, "x", "y")).status, 503);
}

TEST(ResponseTest, ChunksAreLengthPrefixed) {
  EXPECT_EQ(Chunk("0123456789abcdef"), "10\r\n0123456789abcdef\r\n");
}

TEST(ToMessagesErrorTest, RewritesErrorsAndNothingElse) {
  Response error = StatusResponse(502, "The upstream failed.");
  ToMessagesError("r1", error);
  EXPECT_EQ(error.status, 502);
  EXPECT_EQ(error.body,
            R"({"type":"error","error":{"type":"api_error","message":"The upstream failed."},)"
            R"("request_id":"r1"})");
  Response other{.body = "{}"};
  ToMessagesError("r1", other);
  EXPECT_EQ(other.body, "{}");
  EXPECT_TRUE(other.headers.empty());
}

}  // namespace
}  // namespace kvgate::http::message
