#include "gateway/prompt/rewrite/thinking.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/prompt/parse/segment_memo.h"
#include "gateway/upstream/wire/dialect.h"

namespace kvgate::prompt::rewrite {
namespace {

constexpr std::string_view kThought = R"({"type":"thinking","thinking":"t","signature":"s"})";
constexpr std::string_view kHidden = R"({"type":"redacted_thinking","data":"d"})";
constexpr std::string_view kText = R"({"type":"text","text":"a"})";

std::string Body(const std::vector<std::string>& messages) {
  std::string body = R"({"model":"m","messages":[)";
  for (size_t i = 0; i < messages.size(); ++i) body += (i > 0 ? ", " : "") + messages[i];
  return body + "]}";
}
std::string Assistant(const std::vector<std::string_view>& blocks) {
  std::string message = R"({"role":"assistant","content":[ )";
  for (size_t i = 0; i < blocks.size(); ++i)
    message += (i > 0 ? " , " : "") + std::string(blocks[i]);
  return message + " ]}";
}
const std::string kUser = R"({"role":"user","content":"q"})";

std::string Without(const std::string& body) {
  parse::SegmentMemo memo(16);
  const auto layout = parse::ReadRequestLayout(upstream::wire::Endpoint::kMessages, body, memo);
  EXPECT_TRUE(layout);
  const auto edits = RemoveThinking(*layout);
  for (const parse::Edit& edit : edits) EXPECT_EQ(edit.rule, parse::Rule::kThinkingRemoved);
  return parse::ApplyEdits(body, edits, {0, static_cast<uint32_t>(body.size())});
}

void ExpectSame(const std::string& body, const std::string& expected) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << body;
  EXPECT_EQ(json, nlohmann::json::parse(expected));
}

TEST(RemoveThinkingTest, ItGoesFromEveryPlaceInAMessage) {
  const std::string bare = Body({kUser, Assistant({kText}), kUser});
  ExpectSame(Without(Body({kUser, Assistant({kThought, kText}), kUser})), bare);
  ExpectSame(Without(Body({kUser, Assistant({kText, kThought}), kUser})), bare);
  ExpectSame(
      Without(Body({kUser, Assistant({kThought, kHidden, kText, kThought, kThought}), kUser})),
      bare);
  ExpectSame(Without(Body({kUser, Assistant({kText, kThought, kText}), kUser})),
             Body({kUser, Assistant({kText, kText}), kUser}));
}

TEST(RemoveThinkingTest, AMessageOfNothingElseGoesAsAWhole) {
  ExpectSame(Without(Body({kUser, Assistant({kThought}), kUser})), Body({kUser, kUser}));
  ExpectSame(Without(Body({kUser, Assistant({kThought, kHidden})})), Body({kUser}));
  ExpectSame(Without(Body({Assistant({kThought}), kUser})), Body({kUser}));
}

TEST(RemoveThinkingTest, EverythingElseStaysByteForByte) {
  const std::string body = Body({kUser, Assistant({kText}), R"({"role": "user", "content":"x" })"});
  EXPECT_EQ(Without(body), body);
  // A user's text that looks like thinking is none.
  const std::string quoted =
      Body({R"({"role":"user","content":[{"type":"text","text":"thinking"}]})"});
  EXPECT_EQ(Without(quoted), quoted);
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
