#include "gateway/prompt/history/reference_index.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "gateway/prompt/parse/canonical.h"
#include "tests/gateway/prompt/sent_request.h"

namespace kvgate::prompt::history {

using parse::Identity;

namespace {

using Json = nlohmann::ordered_json;

Identity Id(std::string_view name) { return parse::HashBytes(name, parse::Domain::kConversation); }

std::string Filler(const std::string& word) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += word + " ";
  return text;
}

// The parts of an agent's request; each turn is named by a word.
struct Parts {
  std::string tool = "read";
  std::string system = Filler("rule");
  std::vector<std::string> turns = {"task"};
};

SentRequest RequestOf(const Parts& parts, int64_t time_us) {
  Json body = {{"model", "m"}, {"tools", Json::array()}, {"messages", Json::array()}};
  if (!parts.tool.empty()) {
    body["tools"].push_back({{"name", parts.tool}, {"description", Filler(parts.tool)}});
  }
  if (!parts.system.empty()) body["system"] = parts.system;
  for (const std::string& turn : parts.turns) {
    const char* role = body["messages"].size() % 2 == 0 ? "user" : "assistant";
    body["messages"].push_back({{"role", role}, {"content", Filler(turn)}});
  }
  SentRequest request = SentAs(dialect::form::Endpoint::kMessages, body.dump());
  request.time_us = time_us;
  return request;
}

// An index with the memory that its conversations are in.
class ReferenceIndexTest : public ::testing::Test {
 protected:
  void Send(const std::string& conversation, const Parts& parts, std::string_view tenant = "me") {
    auto branch = std::make_shared<Branch>();
    branch->request = RequestOf(parts, ++now_us_);
    branch->bytes = 1;
    index_.Remember(Id(tenant), Id(conversation), branch->request);
    memory_.Remember(
        {.tenant = Id(tenant), .conversation = Id(conversation), .aliases = {}, .branch = branch});
    last_ = branch;
  }
  // Returns what is found for a request of a conversation of its own, or of the one named.
  Reference Found(const Parts& parts, std::string_view tenant = "me", std::string_view named = "") {
    const SentRequest request = RequestOf(parts, now_us_ + 1);
    const auto candidates = index_.Find({.tenant = Id(tenant),
                                         .conversation = Id(named.empty() ? "new" : named),
                                         .is_named = !named.empty(),
                                         .request = request,
                                         .conversations = memory_});
    return ChooseReference(candidates, request);
  }

  ConversationMemory memory_{size_t{1} << 20};
  ReferenceIndex index_;
  std::shared_ptr<Branch> last_;
  int64_t now_us_ = 1'000'000;
};

TEST_F(ReferenceIndexTest, ARequestThatSharesAnAssistantTurnIsOfTheSameConversation) {
  Send("one", {.turns = {"task", "plan", "go", "done", "more"}});
  const auto own = last_;
  Send("two", {.turns = {"other", "idea", "yes"}});
  for (const std::vector<std::string>& turns : std::vector<std::vector<std::string>>{
           {"go", "done", "more", "next", "on"}, {"changed", "plan", "go", "done", "more"}}) {
    const Reference found = Found({.turns = turns});
    EXPECT_EQ(found.branch, own);
    EXPECT_TRUE(found.same_conversation);
  }
}

TEST_F(ReferenceIndexTest, AnAgentIsKnownThoughOneOfItsPartsHasChanged) {
  Send("one", {});
  const Parts changed[] = {
      {.turns = {"new"}},
      {.tool = "edit", .turns = {"new"}},
      {.system = Filler("law"), .turns = {"new"}},
      {.tool = "edit", .system = Filler("rule") + "Today.", .turns = {"new"}},
      {.tool = "edit", .system = "Today: " + Filler("rule"), .turns = {"new"}}};
  for (const Parts& parts : changed) {
    const Reference found = Found(parts);
    EXPECT_EQ(found.branch, last_) << parts.tool << " " << parts.system.substr(0, 20);
    EXPECT_FALSE(found.same_conversation);
  }
  EXPECT_EQ(Found({.tool = "edit", .system = Filler("law")}).branch, nullptr);
}

TEST_F(ReferenceIndexTest, TheLongestEqualFrontIsPreferredAndThenTheNewest) {
  Send("one", {.system = "A " + Filler("rule")});
  const auto equal = last_;
  Send("two", {.system = "B " + Filler("rule")});
  EXPECT_EQ(Found({.system = "A " + Filler("rule"), .turns = {"new"}}).branch, equal);
  Send("three", {.system = "A " + Filler("rule")});
  EXPECT_EQ(Found({.system = "A " + Filler("rule"), .turns = {"new"}}).branch, last_);
}

TEST_F(ReferenceIndexTest, NothingIsFoundAcrossTenants) {
  Send("one", {.turns = {"task", "plan", "go"}}, "me");
  EXPECT_EQ(Found({.turns = {"task", "plan", "go", "done", "more"}}, "you").branch, nullptr);
}

TEST_F(ReferenceIndexTest, UsersWordsAloneJoinNobody) {
  Send("one", {.tool = "", .system = "", .turns = {"hi"}});
  EXPECT_EQ(Found({.tool = "", .system = "", .turns = {"hi"}}).branch, nullptr);
}

TEST_F(ReferenceIndexTest, ANamedConversationIsItsOwnAlsoBehindASummary) {
  Send("named", {.turns = {"task", "plan", "go"}});
  const Reference summed = Found({.turns = {"<summary> of it"}}, "me", "named");
  EXPECT_EQ(summed.branch, last_);
  EXPECT_TRUE(summed.same_conversation);
  const Reference helper = Found({.turns = {"search"}}, "me", "named");
  EXPECT_EQ(helper.branch, last_);
  EXPECT_FALSE(helper.same_conversation);
  const Reference stranger =
      Found({.tool = "", .system = Filler("law"), .turns = {"search"}}, "me", "named");
  EXPECT_EQ(stranger.branch, nullptr);
}

TEST_F(ReferenceIndexTest, WhatItsMemoryHasForgottenIsNotFound) {
  Send("one", {});
  memory_.Withdraw(Id("one"), last_, nullptr);
  EXPECT_EQ(Found({.turns = {"new"}}).branch, nullptr);
}

}  // namespace
}  // namespace kvgate::prompt::history
