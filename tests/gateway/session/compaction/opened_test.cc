#include "gateway/session/compaction/opened.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/session/summary/summary_text.h"

namespace kvgate::session::compaction {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The items of these tests are "kvg1.a" and "kvg1.u", for what they cover; others do not open.
Result<SealedSummary> OpenItem(std::string_view sealed) {
  if (sealed == "kvg1.a") return SealedSummary{.text = "all", .covers = Covers::kAll};
  if (sealed == "kvg1.u") return SealedSummary{.text = "rest", .covers = Covers::kBesidesUser};
  return MakeError(ErrorCode::kInvalidArgument, "test", "it was changed");
}

Result<std::optional<std::string>> OpenList(Dialect dialect, const json& list,
                                            bool is_native = false) {
  const char* name = dialect == Dialect::kResponses ? "input" : "messages";
  const std::string body = json{{"model", "m"}, {name, list}}.dump();
  return OpenBody({.dialect = dialect, .body = body, .is_native = is_native, .open = OpenItem});
}

json ListOf(const Result<std::optional<std::string>>& opened, const char* name) {
  EXPECT_TRUE(opened && *opened) << (opened ? "it stays" : opened.error().ToString());
  return opened && *opened ? json::parse(**opened)[name] : json();
}

json Item(std::string_view sealed) {
  return {{"type", "compaction"}, {"id", "cmp_1"}, {"encrypted_content", sealed}};
}
json User(std::string_view text) { return {{"role", "user"}, {"content", text}}; }
json Assistant(std::string_view text) { return {{"role", "assistant"}, {"content", text}}; }

const json kRules = {{"role", "developer"}, {"content", "rules"}};
const json kCall = {
    {"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", "{}"}};

TEST(OpenedTest, AnItemsSummaryStandsForWhatItCovers) {
  const json front = json::array({kRules, User("one"), kCall, Assistant("done")});
  for (const auto& [sealed, text, num_front] :
       {std::tuple("kvg1.a", "all", 1), std::tuple("kvg1.u", "rest", 2)}) {
    json list = front;
    list.push_back(Item(sealed));
    list.push_back(User("next"));
    const json opened = ListOf(OpenList(Dialect::kResponses, list), "input");
    ASSERT_EQ(opened.size(), static_cast<size_t>(num_front) + 1) << opened;
    EXPECT_EQ(opened[0], kRules);
    if (num_front == 2) {
      EXPECT_EQ(opened[1], User("one"));
    }
    const json& last = opened[opened.size() - 1]["content"];
    EXPECT_EQ(last[0]["text"], summary::Marked(text));
    EXPECT_EQ(last[1]["text"], "next");
  }
}

TEST(OpenedTest, OfSeveralItemsTheNewestCounts) {
  const json list = json::array({User("one"), Item("kvg1.u"), Assistant("a"), Item("kvg1.a"),
                                 Assistant("goes on"), User("two")});
  const json opened = ListOf(OpenList(Dialect::kResponses, list), "input");
  ASSERT_EQ(opened.size(), 3u) << opened;
  EXPECT_EQ(opened[0]["content"][0]["text"], summary::Marked("all"));
  EXPECT_EQ(opened[1], Assistant("goes on"));
  EXPECT_EQ(opened[2], User("two"));
}

TEST(OpenedTest, WhatFollowsOnlyAddsToTheEnd) {
  json list = json::array({User("one"), Item("kvg1.u"), User("two")});
  std::string before = **OpenList(Dialect::kResponses, list);
  for (const json& more : {Assistant("a"), User("three"), kCall}) {
    list.push_back(more);
    const std::string after = **OpenList(Dialect::kResponses, list);
    const size_t end = before.rfind(']');
    const size_t same = before.substr(end).size();
    EXPECT_THAT(after, HasSubstr(before.substr(before.find("\"input\""),
                                               before.size() - same - before.find("\"input\""))));
    before = after;
  }
}

TEST(OpenedTest, ItemsOfOthersStayWithWhoMadeThem) {
  const json list = json::array({Item("gAAAA"), User("one")});
  const auto native = OpenList(Dialect::kResponses, list, true);
  ASSERT_TRUE(native);
  EXPECT_FALSE(*native);
  const auto foreign = OpenList(Dialect::kResponses, list);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().field, "input[0].encrypted_content");
  EXPECT_THAT(foreign.error().detail, HasSubstr("only the provider that made it"));
  // One that can be read needs nobody.
  json readable = Item("gAAAA");
  readable["summary"] = {{{"type", "summary_text"}, {"text", "s"}}};
  const auto stays = OpenList(Dialect::kResponses, json::array({readable, User("one")}));
  ASSERT_TRUE(stays);
  EXPECT_FALSE(*stays);
  const auto changed = OpenList(Dialect::kResponses, json::array({Item("kvg1.x"), User("one")}));
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().detail, "it was changed");
}

TEST(OpenedTest, BodiesWithoutThemStay) {
  for (const char* body : {"", "[]", R"({"input":"compaction"})", R"({"input":[7]})",
                           R"({"input":[{"role":"user","content":"a"}]})"}) {
    const auto opened = OpenBody({.dialect = Dialect::kResponses, .body = body, .open = OpenItem});
    ASSERT_TRUE(opened) << body;
    EXPECT_FALSE(*opened) << body;
  }
}

// --- Messages

json SignedBlock(std::string_view content, std::string_view signature) {
  return {{"type", "compaction"}, {"content", content}, {"signature", signature}};
}
json SealedBlock(const json& content, const json& sealed) {
  return {{"type", "compaction"}, {"content", content}, {"encrypted_content", sealed}};
}
json Text(std::string_view text) { return {{"type", "text"}, {"text", text}}; }
json Says(std::string_view role, const json& blocks) {
  return {{"role", role}, {"content", blocks}};
}

TEST(OpenedTest, ABlockStandsInItsOwnMessageOrInFrontOfTheFirst) {
  const json block = SignedBlock("all", "kvg1.a");
  for (const json& list : {json::array({Says("assistant", json::array({block})),
                                        Says("user", json::array({Text("b")}))}),
                           json::array({Says("user", json::array({block, Text("b")}))})}) {
    const json opened = ListOf(OpenList(Dialect::kMessages, list), "messages");
    ASSERT_EQ(opened.size(), 1u) << opened;
    EXPECT_EQ(opened[0]["role"], "user");
    EXPECT_EQ(opened[0]["content"], json::array({Text(summary::Marked("all")), Text("b")}));
  }
}

TEST(OpenedTest, ABlockWithinAnAnswerTakesWhatCameBeforeIt) {
  const json list = json::array(
      {Says("user", json::array({Text("a")})), Says("assistant", json::array({Text("b")})),
       Says("user", json::array({Text("c")})),
       Says("assistant", json::array({SealedBlock("all", "kvg1.a"), Text("d")})),
       Says("user", json::array({Text("e")}))});
  const json opened = ListOf(OpenList(Dialect::kMessages, list), "messages");
  ASSERT_EQ(opened.size(), 3u) << opened;
  EXPECT_EQ(opened[0]["content"], json::array({Text(summary::Marked("all"))}));
  EXPECT_EQ(opened[1], Says("assistant", json::array({Text("d")})));
  EXPECT_EQ(opened[2]["content"], json::array({Text("e")}));
}

TEST(OpenedTest, BlocksOfAProviderAreReadWhereTheyCanBe) {
  const json list = json::array({Says("assistant", json::array({SignedBlock("theirs", "EqQB")})),
                                 Says("user", json::array({Text("b")}))});
  const json opened = ListOf(OpenList(Dialect::kMessages, list), "messages");
  EXPECT_EQ(opened[0]["content"][0], Text(summary::Marked("theirs")));
  const auto native = OpenList(Dialect::kMessages, list, true);
  ASSERT_TRUE(native);
  EXPECT_FALSE(*native);
  const json sealed = json::array({Says("assistant", json::array({SealedBlock(nullptr, "EqQB")})),
                                   Says("user", json::array({Text("b")}))});
  const auto foreign = OpenList(Dialect::kMessages, sealed);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().field, "messages[0].content[0]");
  // One that failed is none.
  const json failed =
      json::array({Says("user", json::array({Text("a")})),
                   Says("assistant", json::array({SealedBlock(nullptr, nullptr)}))});
  const auto stays = OpenList(Dialect::kMessages, failed);
  ASSERT_TRUE(stays);
  EXPECT_FALSE(*stays);
}

TEST(OpenedTest, ErrorsHaveTheProvidersNames) {
  const json next = Says("user", json::array({Text("b")}));
  const auto why = [&](const json& list) {
    const auto opened = OpenList(Dialect::kMessages, list);
    EXPECT_FALSE(opened) << list;
    return opened ? "" : opened.error().detail;
  };
  const json block = SignedBlock("all", "kvg1.a");
  const auto says = [](const char* role, const json& first) {
    return Says(role, json::array({first}));
  };
  EXPECT_THAT(why(json::array({next, says("assistant", block), next})),
              StartsWith("compaction_block_misplaced: "));
  EXPECT_THAT(why(json::array({Says("user", json::array({Text("b"), block}))})),
              StartsWith("compaction_block_misplaced: "));
  EXPECT_THAT(why(json::array({says("assistant", SignedBlock("other", "kvg1.a")), next})),
              StartsWith("compaction_block_content_mismatch: "));
  EXPECT_THAT(why(json::array({says("assistant", SignedBlock("all", "kvg1.x")), next})),
              StartsWith("compaction_block_signature_invalid: it was changed"));
}

}  // namespace
}  // namespace kvgate::session::compaction
