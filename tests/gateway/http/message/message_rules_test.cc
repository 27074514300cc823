#include "gateway/http/message/message_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kvgate::http::message {
namespace {

using proxy::request::Response;

namespace bhttp = boost::beast::http;
using Fields = std::vector<std::pair<const char*, const char*>>;

// Returns the status of the refusal, or 0 if the request is accepted.
int Check(const Fields& fields, const char* target = "/v1/completions", const char* method = "POST",
          unsigned version = 11) {
  bhttp::request_header<> head;
  head.version(version);
  head.method_string(method);
  head.target(target);
  for (const auto& [name, value] : fields) head.insert(name, value);
  const std::optional<Response> refusal = CheckMessage(head);
  if (!refusal) return 0;
  EXPECT_NE(refusal->body.find("error"), std::string::npos);
  return refusal->status;
}

TEST(MessageRulesTest, ALengthIsSaidOnceAndInDigits) {
  EXPECT_EQ(Check({{"Host", "a"}, {"Content-Length", "5"}}), 0);
  EXPECT_EQ(Check({{"Host", "a"}, {"content-length", "0005"}}), 0);
  EXPECT_EQ(Check({{"Host", "a"}, {"Content-Length", "5"}, {"content-length", "5"}}), 400);
  for (const char* bad : {"", "+5", "-5", "5, 5", "0x5", "5 5", "5.0", "18446744073709551616"}) {
    EXPECT_EQ(Check({{"Host", "a"}, {"Content-Length", bad}}), 400) << bad;
  }
}

TEST(MessageRulesTest, ATransferCodingIsChunkedAloneAndInHttp11) {
  EXPECT_EQ(Check({{"Host", "a"}, {"Transfer-Encoding", "chunked"}}), 0);
  EXPECT_EQ(Check({{"Host", "a"}, {"transfer-encoding", "Chunked"}}), 0);
  for (const char* bad : {"", "xchunked", "chunked, identity", "identity", "chunked;q=1"}) {
    EXPECT_EQ(Check({{"Host", "a"}, {"Transfer-Encoding", bad}}), 400) << bad;
  }
  EXPECT_EQ(Check({{"Host", "a"}, {"Transfer-Encoding", "gzip, chunked"}}), 501);
  EXPECT_EQ(Check({{"Host", "a"}, {"Transfer-Encoding", "gzip"}, {"Transfer-Encoding", "chunked"}}),
            400);
  EXPECT_EQ(Check({{"Host", "a"}, {"Transfer-Encoding", "x"}, {"Content-Length", "5"}}), 400);
  EXPECT_EQ(Check({{"Host", "a"}, {"Transfer-Encoding", "chunked"}}, "/", "POST", 10), 400);
}

TEST(MessageRulesTest, AHostIsOneHost) {
  for (const char* good : {"localhost", "localhost:80", "localhost:", "[::1]", "[::1]:8080"}) {
    EXPECT_EQ(Check({{"Host", good}}), 0) << good;
  }
  for (const char* bad : {"a@b", "a:80@b", "a:x", "a/", "a, b", "[::1", "[::1]x", "a:1:2", "a#"}) {
    EXPECT_EQ(Check({{"Host", bad}}), 400) << bad;
  }
  EXPECT_EQ(Check({{"Host", "a"}, {"Host", "a"}}), 400);
}

TEST(MessageRulesTest, ATargetIsAPathOrAUrlOfTheSameHost) {
  const Fields host = {{"Host", "a:80"}};
  for (const char* good : {"/", "/v1/x?y=../..", "/v1/a%2Fb", "/v1/..x", "/v1/...", "//v1",
                           "http://a:80/v1", "HTTP://A:80/v1", "http://a:80", "/x://y"}) {
    EXPECT_EQ(Check(host, good), 0) << good;
  }
  for (const char* bad : {"*", "a:80", "http:/v1", "http://b/v1", "http://a/v1", "ftp://a:80/v1",
                          "http://x@a:80/v1", "/v1#x", "/v1?x#y", "/v1/../x", "/v1/..", "/.",
                          "/v1/%2e%2E/x", "/v1/.%2e%2fx", "/v1/..%5Cx", "/v1/..\\x"}) {
    EXPECT_EQ(Check(host, bad), 400) << bad;
  }
  EXPECT_EQ(Check(host, "*", "OPTIONS"), 0);
  EXPECT_EQ(Check(host, "/v1/x", "CONNECT"), 501);
  EXPECT_EQ(Check(host, "/v1/x", "TRACE"), 501);
}

TEST(MessageRulesTest, OnlyOneExpectationIsKnown) {
  EXPECT_EQ(Check({{"Host", "a"}, {"Expect", "100-Continue"}}), 0);
  EXPECT_EQ(Check({{"Host", "a"}, {"Expect", "200-ok"}}), 417);
  EXPECT_EQ(Check({{"Host", "a"}, {"Expect", "200-ok"}}, "/", "POST", 10), 0);
}

// Clients that try a WebSocket first fall back to HTTP at once when they get this status.
TEST(MessageRulesTest, AWebSocketIsNotSpokenAndThatIsSaid) {
  const auto status = [](const char* target, const char* protocol, const char* method = "GET") {
    bhttp::request_header<> head;
    head.method_string(method);
    head.target(target);
    head.insert("Connection", "Upgrade");
    head.insert("Upgrade", protocol);
    const std::optional<Response> refusal = CheckUpgrade(head);
    return refusal ? refusal->status : 0;
  };
  EXPECT_EQ(status("/v1/responses", "websocket"), 426);
  EXPECT_EQ(status("/v1/responses?x=1", "WebSocket"), 426);
  EXPECT_EQ(status("/v1/responses", "h2c"), 0) << "who only offers one may be answered without it";
  EXPECT_EQ(status("/v1/responses", "websocket", "POST"), 0) << "a request like any other";
  EXPECT_EQ(status("/health", "websocket"), 0);
}

}  // namespace
}  // namespace kvgate::http::message
