#include "gateway/http/message/response_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::http::message {
namespace {

using proxy::request::Response;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ResponseHeadTest, AHeadHasItsLengthAndIds) {
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

TEST(ResponseHeadTest, WhatIsNotModifiedHasNoBodyAndSaysNothingOfOne) {
  const Response response{.status = 304, .headers = {{"etag", "\"a\""}}};
  const std::string head = ResponseHead(response, {.request_id = "r1"});
  EXPECT_TRUE(head.starts_with("HTTP/1.1 304 Not Modified\r\n"));
  EXPECT_THAT(head, HasSubstr("etag: \"a\"\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("content-length")));
  EXPECT_THAT(head, Not(HasSubstr("content-type")));
}

TEST(ResponseHeadTest, ChunksAreLengthPrefixed) {
  EXPECT_EQ(Chunk("0123456789abcdef"), "10\r\n0123456789abcdef\r\n");
}

}  // namespace
}  // namespace kvgate::http::message
