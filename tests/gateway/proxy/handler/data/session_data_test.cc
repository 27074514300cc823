#include "gateway/proxy/handler/data/session_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/gateway/proxy/session_proxy.h"

namespace kvgate::proxy::handler::data {
namespace {

using nlohmann::json;
using test::SessionProxy;
using test::TestRequest;
using ::testing::HasSubstr;

constexpr const char* kSessions = "/kvgate/v1/sessions";

TestRequest Of(std::string method, std::string path, std::string body = "") {
  return {.method = std::move(method), .path = std::move(path), .body = std::move(body)};
}

struct Answered {
  int status;
  std::string body;
  json parsed() const { return json::parse(body); }
};

Answered Ask(SessionProxy& session, const TestRequest& request) {
  const auto sink = session.Ask(request);
  return {.status = sink->status, .body = sink->body};
}

TEST(SessionDataTest, ASessionIsListedShownCopiedMovedAndRemoved) {
  SessionProxy session;
  session.Say(R"({"model":"local","messages":[{"role":"user","content":"one"}]})");
  const json list = Ask(session, Of("GET", kSessions)).parsed();
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["key"], "k");
  const std::string path = std::string(kSessions) + "/k";
  const json shown = Ask(session, Of("GET", path)).parsed();
  EXPECT_EQ(shown["data"][0]["answer"][0]["content"], "Hello world!");
  const Answered forked = Ask(session, Of("POST", path + "/fork", R"({"key":"f"})"));
  EXPECT_EQ(forked.status, 200) << forked.body;
  const Answered lines = Ask(session, Of("GET", path + "/export"));
  TestRequest import = Of("POST", std::string(kSessions) + "?key=i", lines.body);
  import.id = "i";
  EXPECT_EQ(Ask(session, import).status, 200);
  EXPECT_EQ(Ask(session, Of("DELETE", path)).status, 200);
  EXPECT_EQ(Ask(session, Of("GET", path)).status, 404);
  EXPECT_EQ(Ask(session, Of("DELETE", kSessions)).parsed()["deleted"], 2);
}

TEST(SessionDataTest, WithoutSessionsTheyAreRefused) {
  test::TestProxy proxy;
  test::TestSink sink(proxy.io());
  proxy.Serve(Of("GET", kSessions), sink);
  EXPECT_EQ(sink.status, 400);
  EXPECT_THAT(sink.body, HasSubstr("store.turns"));
}

}  // namespace
}  // namespace kvgate::proxy::handler::data
