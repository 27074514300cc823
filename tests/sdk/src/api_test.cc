#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "sdk/include/kvgate.h"

namespace kvgate::sdk {
namespace {

std::string MessageOf(kvgate_error* error) {
  const std::string message = kvgate_error_message(error);
  kvgate_error_free(error);
  return message;
}

TEST(ApiTest, TheLibraryKnowsItsVersion) {
  EXPECT_EQ(kvgate_abi_version(), KVGATE_ABI_VERSION);
  EXPECT_STRNE(kvgate_version(), "");
  EXPECT_STREQ(kvgate_status_name(KVGATE_CONTEXT_EXCEEDED), "CONTEXT_EXCEEDED");
  EXPECT_STREQ(kvgate_status_name(static_cast<kvgate_status>(99)), "UNKNOWN");
}

TEST(ApiTest, WhatIsMissingIsNamedAndNothingIsWritten) {
  kvgate_client* client = nullptr;
  kvgate_error* error = nullptr;
  EXPECT_EQ(kvgate_connect(nullptr, &client, &error), KVGATE_INVALID_ARGUMENT);
  kvgate_error_free(error);
  kvgate_connect_options options{};
  options.struct_size = sizeof options;
  EXPECT_EQ(kvgate_connect(&options, &client, &error), KVGATE_INVALID_ARGUMENT);
  EXPECT_STREQ(kvgate_error_field(error), "url");
  kvgate_error_free(error);
  options.url = "http://127.0.0.1:9";
  options.api_key = "two\nlines";
  EXPECT_EQ(kvgate_connect(&options, &client, nullptr), KVGATE_INVALID_ARGUMENT);
  EXPECT_EQ(client, nullptr);
  kvgate_stream* stream = nullptr;
  EXPECT_EQ(kvgate_chat(nullptr, "{}", 2, nullptr, &stream, &error), KVGATE_INVALID_ARGUMENT);
  EXPECT_NE(MessageOf(error), "");
}

// A program that was compiled with an older header has shorter structs.
TEST(ApiTest, AShorterStructIsTakenAndNotReadBeyondItsEnd) {
  kvgate_connect_options options;
  std::memset(&options, 0xff, sizeof options);
  options.struct_size = offsetof(kvgate_connect_options, api_key);
  options.url = "http://127.0.0.1:9";
  kvgate_client* client = nullptr;
  ASSERT_EQ(kvgate_connect(&options, &client, nullptr), KVGATE_OK);
  kvgate_call_options call;
  std::memset(&call, 0xff, sizeof call);
  call.struct_size = offsetof(kvgate_call_options, cancel);
  call.timeout_ms = 50;
  kvgate_response* response = nullptr;
  EXPECT_NE(kvgate_call(client, "GET", "/health", nullptr, 0, &call, &response, nullptr),
            KVGATE_OK);
  kvgate_stream* stream = nullptr;
  ASSERT_EQ(kvgate_chat(client, "{}", 2, &call, &stream, nullptr), KVGATE_OK);
  kvgate_event event{};
  event.struct_size = offsetof(kvgate_event, text);
  event.text = "untouched";
  EXPECT_NE(kvgate_stream_next(stream, &event, nullptr), KVGATE_OK);
  EXPECT_STREQ(event.text, "untouched");
  event.struct_size = 0;
  EXPECT_EQ(kvgate_stream_next(stream, &event, nullptr), KVGATE_INVALID_ARGUMENT);
  kvgate_stream_free(stream);
  kvgate_close(client);
}

TEST(ApiTest, FreeingNothingIsAllowed) {
  kvgate_error_free(nullptr);
  kvgate_cancel_free(nullptr);
  kvgate_response_free(nullptr);
  kvgate_stream_free(nullptr);
  kvgate_server_close(nullptr, 0);
  kvgate_close(nullptr);
}

TEST(ApiTest, ACancelMayBeFreedWhileItsCallGoesOn) {
  kvgate_connect_options options{};
  options.struct_size = sizeof options;
  options.url = "http://127.0.0.1:9";
  options.no_retries = 1;
  kvgate_client* client = nullptr;
  ASSERT_EQ(kvgate_connect(&options, &client, nullptr), KVGATE_OK);
  kvgate_cancel* cancel = kvgate_cancel_new();
  kvgate_call_options call{};
  call.struct_size = sizeof call;
  call.cancel = cancel;
  kvgate_stream* stream = nullptr;
  ASSERT_EQ(kvgate_chat(client, "{}", 2, &call, &stream, nullptr), KVGATE_OK);
  kvgate_cancel_trigger(cancel);
  kvgate_cancel_free(cancel);
  kvgate_event event{};
  event.struct_size = sizeof event;
  const kvgate_status status = kvgate_stream_next(stream, &event, nullptr);
  EXPECT_TRUE(status == KVGATE_CANCELLED || status == KVGATE_UNAVAILABLE);
  kvgate_stream_free(stream);
  kvgate_close(client);
}

TEST(ApiTest, ValuesOfJsonComeAsResponses) {
  kvgate_response* value = nullptr;
  constexpr const char* kJson = R"({"a":["x"]})";
  ASSERT_EQ(kvgate_json_find(kJson, std::strlen(kJson), "/a/0", &value, nullptr), KVGATE_OK);
  size_t size = 0;
  EXPECT_STREQ(kvgate_response_body(value, &size), "x");
  EXPECT_EQ(size, 1u);
  kvgate_response_free(value);
}

}  // namespace
}  // namespace kvgate::sdk
