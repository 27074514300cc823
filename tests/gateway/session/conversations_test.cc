#include "gateway/session/conversations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/service/kept_responses.h"

namespace kvgate::session {
namespace {

using nlohmann::json;
using test::Body;
using test::KeptResponses;
using ::testing::ElementsAre;

std::string Create(KeptResponses& kept, const std::string& body = "{}") {
  const auto made = kept.gateway.service.conversations().Create(kept.tenant, kept.NextId(), body);
  EXPECT_TRUE(made) << made.error().ToString();
  return made ? json::parse(*made)["id"].get<std::string>() : "";
}

std::vector<std::string> Texts(KeptResponses& kept, const std::string& id) {
  std::vector<std::string> texts;
  const auto page =
      kept.gateway.service.conversations().ListItems(kept.Place(id), {.order = "asc"});
  EXPECT_TRUE(page) << page.error().ToString();
  if (!page) return texts;
  const json listed = json::parse(*page);
  for (const json& item : listed["data"]) {
    texts.push_back(item["content"][0]["text"]);
  }
  return texts;
}

std::string In(const std::string& id) { return R"(,"conversation":")" + id + "\""; }

constexpr const char* kTwoItems =
    R"({"items":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],)"
    R"("metadata":{"k":"v"}})";

TEST(ConversationsTest, AResponseAddsItsInputAndItsAnswer) {
  KeptResponses kept;
  const std::string id = Create(kept, kTwoItems);
  const auto first = kept.Ask(Body(R"("one")", In(id)));
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_EQ((*first)["conversation"]["id"], id);
  EXPECT_EQ(kept.Prompt(), "user: a\nassistant: b\nuser: one\nassistant:");
  const auto second = kept.Ask(
      R"({"model":"local","input":"two","store":false,"conversation":{"id":")" + id + "\"}}");
  ASSERT_TRUE(second);
  EXPECT_EQ(kept.Prompt(),
            "user: a\nassistant: b\nuser: one\nassistant: Hello world!\nuser: two\nassistant:");
  EXPECT_THAT(Texts(kept, id), ElementsAre("a", "b", "one", "Hello world!", "two", "Hello world!"));
  // A response in the conversation can be continued, and deleted, without changing the
  // conversation.
  const auto aside = kept.Ask(Body(
      R"("aside")", R"(,"previous_response_id":")" + (*first)["id"].get<std::string>() + "\""));
  ASSERT_TRUE(aside) << aside.error().ToString();
  EXPECT_EQ(kept.Prompt(),
            "user: a\nassistant: b\nuser: one\nassistant: Hello world!\nuser: aside\nassistant:");
  EXPECT_TRUE(
      kept.gateway.service.responses().Delete(kept.tenant, (*first)["id"].get<std::string>()));
  EXPECT_EQ(Texts(kept, id).size(), 6u);
}

TEST(ConversationsTest, ItemsAndMetadataChange) {
  KeptResponses kept;
  Conversations& conversations = kept.gateway.service.conversations();
  const std::string id = Create(kept, kTwoItems);
  const json made = json::parse(*conversations.Get(kept.Place(id)));
  EXPECT_EQ(made["object"], "conversation");
  EXPECT_EQ(made["metadata"], (json{{"k", "v"}}));
  EXPECT_GT(made["created_at"], 0);
  const auto updated = conversations.Update(kept.Place(id), R"({"metadata":{"x":"y"}})");
  ASSERT_TRUE(updated);
  EXPECT_EQ(json::parse(*updated)["metadata"], (json{{"x", "y"}}));
  EXPECT_EQ(conversations.Update(kept.Place(id), "{}").error().field, "metadata");
  const auto added =
      conversations.AddItems(kept.Place(id), R"({"items":[{"role":"user","content":"c"}]})");
  ASSERT_TRUE(added);
  const std::string item = json::parse(*added)["data"][0]["id"];
  EXPECT_EQ(json::parse(*conversations.GetItem(kept.Place(id), item))["id"], item);
  EXPECT_THAT(Texts(kept, id), ElementsAre("a", "b", "c"));
  const auto removed = conversations.RemoveItem(kept.Place(id), item);
  ASSERT_TRUE(removed);
  EXPECT_EQ(json::parse(*removed)["id"], id);
  EXPECT_THAT(Texts(kept, id), ElementsAre("a", "b"));
  EXPECT_EQ(conversations.GetItem(kept.Place(id), item).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(conversations.RemoveItem(kept.Place(id), item).error().code, ErrorCode::kNotFound);
}

TEST(ConversationsTest, BadItemsAreNotAdded) {
  KeptResponses kept;
  Conversations& conversations = kept.gateway.service.conversations();
  EXPECT_EQ(conversations
                .Create(kept.tenant, kept.NextId(),
                        R"({"items":[{"role":"user","content":[{"type":"input_image"}]}]})")
                .error()
                .field,
            "items[0].content[0].image_url");
  const std::string id = Create(kept);
  EXPECT_EQ(conversations.AddItems(kept.Place(id), R"({"items":[{"type":"compaction_trigger"}]})")
                .error()
                .field,
            "items[0].type");
  EXPECT_EQ(conversations.AddItems(kept.Place(id), "{}").error().field, "items");
  EXPECT_TRUE(Texts(kept, id).empty());
}

TEST(ConversationsTest, ADeletedOneIsGoneWithItsItems) {
  KeptResponses kept;
  Conversations& conversations = kept.gateway.service.conversations();
  const std::string id = Create(kept, kTwoItems);
  const auto response = kept.Ask(Body(R"("one")", In(id)));
  ASSERT_TRUE(response);
  const auto deleted = conversations.Delete(kept.Place(id));
  ASSERT_TRUE(deleted);
  EXPECT_EQ(json::parse(*deleted)["object"], "conversation.deleted");
  EXPECT_EQ(conversations.Get(kept.Place(id)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(conversations.Delete(kept.Place(id)).error().code, ErrorCode::kNotFound);
  const auto refused = kept.Ask(Body(R"("two")", In(id)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(refused.error().field, "conversation");
  EXPECT_TRUE(
      kept.gateway.service.responses().Get(kept.tenant, (*response)["id"].get<std::string>()));
}

TEST(ConversationsTest, AnAnswerWhoseConversationHasGoneFailsAndIsNotKept) {
  KeptResponses kept({.first_delay = std::chrono::milliseconds(50)});
  const std::string id = Create(kept);
  const auto completion = kept.Start(Body(R"("one")", In(id)));
  ASSERT_TRUE(completion);
  ASSERT_TRUE(kept.gateway.service.conversations().Delete(kept.Place(id)));
  const auto failed = KeptResponses::Finish(**completion);
  ASSERT_FALSE(failed);
  EXPECT_EQ(kept.turns->Stats().num_turns, 0u);
}

TEST(ConversationsTest, AnotherTenantDoesNotSeeIt) {
  KeptResponses kept;
  const std::string id = Create(kept);
  kept.credential = "Bearer other";
  EXPECT_EQ(kept.Ask(Body(R"("one")", In(id))).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(kept.gateway.service.conversations().Get(
      {.tenant = local::TenantOf("Bearer other"), .id = id}));
}

TEST(ConversationsTest, OneAnswerAtATimeIsGivenInIt) {
  KeptResponses kept;
  const std::string id = Create(kept);
  const auto first = kept.Start(Body(R"("one")", In(id)));
  ASSERT_TRUE(first);
  const auto second = kept.Start(Body(R"("two")", In(id)));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().source, dialect::form::kLockedSource);
  EXPECT_EQ(second.error().field, "conversation");
  ASSERT_TRUE(KeptResponses::Finish(**first));
  EXPECT_TRUE(kept.Ask(Body(R"("two")", In(id)))) << "while the first is still there";
  EXPECT_THAT(Texts(kept, id), ElementsAre("one", "Hello world!", "two", "Hello world!"));
}

TEST(ConversationsTest, AnAnswerThatIsGivenUpLetsGoOfIt) {
  KeptResponses kept({.first_delay = std::chrono::milliseconds(60'000)});
  const std::string id = Create(kept);
  auto first = kept.Start(Body(R"("one")", In(id)));
  ASSERT_TRUE(first);
  first->reset();
  EXPECT_TRUE(kept.Start(Body(R"("two")", In(id))));
  EXPECT_TRUE(Texts(kept, id).empty());
}

TEST(ConversationsTest, WhereNothingIsKeptThereAreNone) {
  test::Gateway gateway;
  Conversations& conversations = gateway.service.conversations();
  EXPECT_EQ(conversations.Create("", "r", "{}").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(conversations.Get({.tenant = "", .id = "conv_kv1"}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvgate::session
