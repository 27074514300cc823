#include "gateway/session/results/turn_results.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/session/results/read_tool.h"

namespace kvgate::session::results {
namespace {

using Json = nlohmann::json;

class TakeResultsTest : public testing::Test {
 protected:
  // What a request becomes in the session of `stored_`.
  bool Take(std::optional<bool> stubs, const std::string& tools = "") {
    kept_.clear();
    Json body = {
        {"model", "m"},
        {"messages",
         Json::array(
             {{{"role", "tool"}, {"tool_call_id", "c"}, {"content", std::string(3000, 'x')}}})}};
    if (!tools.empty()) body["tools"] = Json::parse(tools);
    body_ = body.dump();
    request_ = transcript::ReadBody(Dialect::kChatCompletions, body_).value();
    return TakeResults({.settings = settings_,
                        .stubs = stubs,
                        .stored = stored_,
                        .request = request_,
                        .kept = kept_});
  }

  Settings settings_ = {.stubs = false, .bytes_max = 1024};
  std::vector<log::LoggedTurn> stored_;
  transcript::RequestBody request_;
  std::vector<log::KeptResult> kept_;
  std::string body_;
};

constexpr const char* kTools = R"([{"type":"function","function":{"name":"f"}}])";

TEST_F(TakeResultsTest, NothingHappensUnlessItIsAskedFor) {
  EXPECT_FALSE(Take(std::nullopt, kTools));
  EXPECT_TRUE(kept_.empty());
  EXPECT_FALSE(HasReadTool(request_.frame.tools));
  settings_.stubs = true;
  EXPECT_FALSE(Take(false, kTools));
  EXPECT_TRUE(Take(std::nullopt, kTools));
  EXPECT_EQ(kept_.size(), 1u);
}

TEST_F(TakeResultsTest, OnceTheSessionHasTheToolItStays) {
  EXPECT_TRUE(Take(true, kTools));
  stored_.resize(2);
  stored_[0].frame = request_.frame;
  // It need not be asked for again.
  EXPECT_TRUE(Take(std::nullopt, kTools));
  EXPECT_EQ(kept_.size(), 1u);
  EXPECT_EQ(request_.frame.tools, stored_[0].frame->tools);
  // Whole results leave it where it is.
  EXPECT_TRUE(Take(false, kTools));
  EXPECT_TRUE(kept_.empty());
  EXPECT_EQ(request_.frame.tools, stored_[0].frame->tools);
  // A request without tools has those of the session.
  EXPECT_TRUE(Take(std::nullopt));
  EXPECT_TRUE(request_.frame.tools.empty());
}

TEST_F(TakeResultsTest, ASessionWithoutToolsGetsTheOne) {
  EXPECT_TRUE(Take(true));
  EXPECT_EQ(Json::parse(request_.frame.tools).size(), 1u);
  stored_.resize(1);
  stored_[0].frame = transcript::Frame{.tools = kTools};
  EXPECT_TRUE(Take(true));
  EXPECT_EQ(Json::parse(request_.frame.tools).size(), 2u);
}

TEST_F(TakeResultsTest, TheBodySaysIt) {
  EXPECT_TRUE(Take(true, kTools));
  const Json body = Json::parse(BodyOf(request_, body_));
  EXPECT_EQ(body["tools"].size(), 2u);
  EXPECT_EQ(body["model"], "m");
  EXPECT_LE(body["messages"][0]["content"].get<std::string>().size(), 1024u);
  EXPECT_FALSE(body.contains("store"));
}

}  // namespace
}  // namespace kvgate::session::results
