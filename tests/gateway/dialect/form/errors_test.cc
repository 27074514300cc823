#include "gateway/dialect/form/errors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/reply_translator.h"

namespace kvgate::dialect::form {
namespace {

nlohmann::json Encode(const Error& error) {
  return nlohmann::json::parse(EncodeError(error))["error"];
}

TEST(EncodeErrorTest, HasTheFourFieldsOfTheDialect) {
  const auto error = Encode(MakeError(ErrorCode::kInvalidArgument, "p", "wrong \"x\"", "n"));
  EXPECT_EQ(error["message"], "wrong \"x\"");
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], "n");
  EXPECT_TRUE(error["code"].is_null());
  EXPECT_TRUE(Encode(MakeError(ErrorCode::kRateLimited, "p", "slow"))["param"].is_null());
}

TEST(EncodeErrorTest, CodesAreThoseClientsTestFor) {
  EXPECT_EQ(Encode(MakeError(ErrorCode::kNotFound, "s", "x", "model"))["code"], "model_not_found");
  EXPECT_EQ(Encode(MakeError(ErrorCode::kInvalidArgument, kContextLengthSource, "x"))["code"],
            "context_length_exceeded");
  EXPECT_EQ(Encode(MakeError(ErrorCode::kRateLimited, "s", "x"))["code"], "rate_limit_exceeded");
}

TEST(EncodeErrorTest, InternalDetailIsNotSent) {
  for (const ErrorCode code : {ErrorCode::kInternal, ErrorCode::kIo, ErrorCode::kDataLoss}) {
    const std::string body = EncodeError(MakeError(code, "store", "/secret/path"));
    EXPECT_EQ(body.find("secret"), std::string::npos);
    EXPECT_EQ(HttpStatus(code), 500);
  }
}

TEST(EncodeMessagesErrorTest, HasTheTypeOfItsStatus) {
  EXPECT_EQ(EncodeMessagesError({.status = 404, .message = "no \"x\"", .request_id = "r1"}),
            R"({"type":"error","error":{"type":"not_found_error","message":"no \"x\""},)"
            R"("request_id":"r1"})");
  const auto type = [](int status) {
    const std::string body =
        EncodeMessagesError({.status = status, .message = "", .request_id = ""});
    const size_t at = body.find(R"("type":")", 10) + 8;
    return body.substr(at, body.find('"', at) - at);
  };
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(415), "invalid_request_error");
  EXPECT_EQ(type(401), "authentication_error");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(502), "api_error");
  EXPECT_EQ(type(503), "overloaded_error");
  EXPECT_EQ(type(504), "timeout_error");
}

}  // namespace
}  // namespace kvgate::dialect::form
