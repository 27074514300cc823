#include "gateway/session/prompts/prompt_place.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvgate::session::prompts {
namespace {

using Json = nlohmann::json;
constexpr Dialect kChat = Dialect::kChatCompletions;
constexpr Dialect kMessages = Dialect::kMessages;
constexpr Dialect kResponses = Dialect::kResponses;

Json With(Dialect dialect, std::string_view body, std::string_view values = "V") {
  const auto made =
      WithPrompt({.dialect = dialect, .body = body, .text = "P \"q\"\n", .values = values});
  EXPECT_TRUE(made) << made.error().ToString();
  return made ? Json::parse(*made) : Json();
}

std::string FieldOf(Dialect dialect, std::string_view body) {
  const auto made = WithPrompt({.dialect = dialect, .body = body, .text = "P", .values = "V"});
  return made ? "none" : made.error().field;
}

TEST(PromptPlaceTest, OfChatItIsTheFirstSystemMessage) {
  const Json alone = With(kChat, R"({"model":"m","messages":[{"role":"user","content":"hi"}]})");
  ASSERT_EQ(alone["messages"].size(), 2u);
  EXPECT_EQ(alone["messages"][0], Json::parse(R"({"role":"system","content":"P \"q\"\n\n\nV"})"));
  const Json own = With(kChat, R"({"messages":[{"role":"developer","content":"own\u00e4"},
                                               {"role":"user","content":"hi"}]})");
  ASSERT_EQ(own["messages"].size(), 2u) << "templates take one message of the system";
  EXPECT_EQ(own["messages"][0]["role"], "developer");
  EXPECT_EQ(own["messages"][0]["content"], "P \"q\"\n\n\nown\u00e4\n\nV");
}

TEST(PromptPlaceTest, OfChatWithPartsAndSeveralMessagesTheValuesAreLast) {
  const Json parts = With(kChat, R"({"messages":[{"role":"system","content":
      [{"type":"text","text":"own"}]},{"role":"user","content":"hi"}]})");
  EXPECT_EQ(parts["messages"][0]["content"],
            Json::parse(R"([{"type":"text","text":"P \"q\"\n\n\n"},{"type":"text","text":"own"},
                            {"type":"text","text":"\n\nV"}])"));
  const Json two = With(kChat, R"({"messages":[{"role":"system","content":"a"},
      {"role":"system","content":"b"},{"role":"user","content":"hi"}]})");
  EXPECT_EQ(two["messages"][0]["content"], "P \"q\"\n\n\na");
  EXPECT_EQ(two["messages"][1]["content"], "b\n\nV");
}

TEST(PromptPlaceTest, OfMessagesItIsTheFirstBlock) {
  const Json alone = With(kMessages, R"({"messages":[]})", "");
  EXPECT_EQ(alone["system"], Json::parse(R"([{"type":"text","text":"P \"q\"\n"}])"));
  const Json text = With(kMessages, R"({"system":"own","messages":[]})");
  EXPECT_EQ(text["system"],
            Json::parse(R"([{"type":"text","text":"P \"q\"\n"},{"type":"text","text":"own"},
                            {"type":"text","text":"V"}])"));
  const Json blocks = With(kMessages, R"({"system":[{"type":"text","text":"own",
      "cache_control":{"type":"ephemeral"}}],"messages":[]})");
  EXPECT_EQ(blocks["system"].size(), 3u);
  EXPECT_EQ(blocks["system"][1]["cache_control"]["type"], "ephemeral");
  EXPECT_EQ(With(kMessages, R"({"system":"","messages":[]})")["system"].size(), 2u)
      << "providers take no empty block";
}

TEST(PromptPlaceTest, ASharedOneHoldsABreakpointWhereThereIsRoomForIt) {
  const std::string text(5000, 'p');
  const auto marks = [&](std::string_view body, bool is_shared = true) {
    const Json made = Json::parse(*WithPrompt(
        {.dialect = kMessages, .body = body, .text = text, .values = "V", .is_shared = is_shared}));
    EXPECT_FALSE(made["system"].back().contains("cache_control"));
    return made["system"][0].contains("cache_control");
  };
  const std::string block = R"({"type":"text","text":"x","cache_control":{"type":"ephemeral"}})";
  EXPECT_TRUE(marks(R"({"messages":[]})"));
  EXPECT_FALSE(marks(R"({"messages":[]})", false));
  const std::string three = block + "," + block + "," + block;
  EXPECT_TRUE(marks(R"({"messages":[{"role":"user","content":[)" + three + "]}]}"));
  EXPECT_FALSE(marks(R"({"messages":[{"role":"user","content":[)" + three + "," + block + "]}]}"));
  EXPECT_FALSE(Json::parse(*WithPrompt({.dialect = kMessages,
                                        .body = R"({"messages":[]})",
                                        .text = "P",
                                        .is_shared = true}))["system"][0]
                   .contains("cache_control"))
      << "too short for any provider";
}

TEST(PromptPlaceTest, OfResponsesItIsTheBeginningOfTheInstructions) {
  EXPECT_EQ(With(kResponses, R"({"input":"hi"})")["instructions"], "P \"q\"\n\n\nV");
  EXPECT_EQ(With(kResponses, R"({"instructions":"own","input":"hi"})")["instructions"],
            "P \"q\"\n\n\nown\n\nV");
  EXPECT_EQ(With(kResponses, R"({"instructions":null,"input":"hi"})", "")["instructions"],
            "P \"q\"\n");
}

TEST(PromptPlaceTest, TheStablePartIsTheSameWhateverTheValuesAre) {
  const std::pair<Dialect, std::string> bodies[] = {
      {kChat, R"({"messages":[{"role":"system","content":"OWN"},{"role":"user","content":"hi"}]})"},
      {kMessages, R"({"system":"OWN","messages":[{"role":"user","content":"hi"}]})"},
      {kResponses, R"({"instructions":"OWN","input":"hi"})"}};
  for (const auto& [dialect, body] : bodies) {
    const auto make = [&, dialect = dialect, &body = body](std::string_view values) {
      return *WithPrompt({.dialect = dialect, .body = body, .text = "PROMPT", .values = values});
    };
    const std::string one = make("@1");
    const std::string other = make("@22");
    EXPECT_EQ(make("@1"), one) << "equal arguments give equal bytes";
    EXPECT_EQ(one.substr(0, one.find('@')), other.substr(0, other.find('@')));
    EXPECT_LT(one.find("PROMPT"), one.find("OWN"));
    EXPECT_LT(one.find("OWN"), one.find('@')) << "the caller's is in front of the values";
  }
}

TEST(PromptPlaceTest, AllElseStaysAsItIsWritten) {
  const auto made = WithPrompt({.dialect = kMessages,
                                .body = R"({"a": {"x" : 1.50},"messages":[{"role":"user"}]})",
                                .text = "P"});
  EXPECT_EQ(*made, R"({"a":{"x" : 1.50},"messages":[{"role":"user"}],)"
                   R"("system":[{"type":"text","text":"P"}]})");
}

TEST(PromptPlaceTest, ASystemTextOfAnotherFormIsNamed) {
  EXPECT_EQ(FieldOf(kMessages, R"({"system":3,"messages":[]})"), "system");
  EXPECT_EQ(FieldOf(kResponses, R"({"instructions":[],"input":"x"})"), "instructions");
  EXPECT_EQ(FieldOf(kChat, R"({"messages":[{"role":"system","content":{}}]})"),
            "messages[0].content");
  EXPECT_FALSE(WithPrompt({.dialect = kChat, .body = "[1]", .text = "P"}));
  EXPECT_FALSE(
      WithPrompt({.dialect = kChat, .body = "{\"a\":" + std::string(300, '[') + "}", .text = "P"}));
}

TEST(PromptPlaceTest, AViewSaysHowTheConversationBegan) {
  const auto chat = ViewOf(kChat, R"({"messages":[{"role":"system","content":"s"},
      {"role":"user","content":[{"type":"text","text":"hi"}]},
      {"role":"assistant","content":"yes"},{"role":"user","content":"more"}]})");
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->opening, "hi");
  EXPECT_FALSE(chat->answered.empty());
  EXPECT_TRUE(chat->has_system);
  const auto first = ViewOf(kMessages, R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(first->opening, "hi");
  EXPECT_TRUE(first->answered.empty());
  EXPECT_FALSE(first->has_system);
  const auto chain = ViewOf(kResponses, R"({"input":"hi","previous_response_id":"resp_1"})");
  EXPECT_EQ(chain->continues, "resp_1");
  EXPECT_EQ(chain->opening, "hi");
  EXPECT_EQ(ViewOf(kResponses, R"({"conversation":{"id":"conv_1"}})")->continues, "conv_1");
  EXPECT_EQ(ViewOf(kChat, R"({"model":"m"})").error().field, "messages");
}

TEST(PromptPlaceTest, AMarkThatMovesOnWithTheTurnsChangesNoView) {
  const auto marked = ViewOf(kMessages, R"({"messages":[{"role":"user","content":[
      {"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]})");
  EXPECT_EQ(marked->opening, "hi");
}

}  // namespace
}  // namespace kvgate::session::prompts
