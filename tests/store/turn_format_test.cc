#include "store/turn_format.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::store {
namespace {

TurnRecord SomeRecord() {
  TurnRecord record;
  record.turn.id = "resp_2";
  record.turn.parent = "resp_1";
  record.turn.tenant = "tenant";
  record.turn.session = "session";
  record.turn.items = {{.role = "user", .payload = "{\"a\":\"\\u0000\"}"},
                       {.role = "assistant", .payload = std::string("\0\xff", 2)}};
  record.turn.tokens = {.input = 100, .cached = 90, .output = 7};
  record.turn.content = PrefixDigest{.bytes = {1, 2, 3}};
  record.turn.order = 9;
  record.turn.created_us = 1'234'567;
  record.parent_order = 8;
  record.conversation = 3;
  return record;
}

TEST(TurnFormat, ATurnComesBackAsItWas) {
  const TurnRecord record = SomeRecord();
  const auto decoded = DecodeTurn(TurnKey(9), EncodeTurn(record));
  ASSERT_TRUE(decoded) << decoded.error().detail;
  EXPECT_EQ(decoded->turn, record.turn);
  EXPECT_EQ(decoded->parent_order, 8u);
  EXPECT_EQ(decoded->conversation, 3u);
  TurnRecord bare;
  bare.turn.id = "x";
  bare.turn.order = 1;
  EXPECT_EQ(DecodeTurn(TurnKey(1), EncodeTurn(bare)).value().turn, bare.turn);
}

TEST(TurnFormat, EveryFlippedBitAndEveryTruncationIsFoundOut) {
  const std::string key = TurnKey(9);
  std::string value = EncodeTurn(SomeRecord());
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeTurn(key, value)) << bit;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
  }
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_FALSE(DecodeTurn(key, std::string_view(value).substr(0, size))) << size;
  }
  EXPECT_FALSE(DecodeTurn(TurnKey(10), value)) << "a turn under another key";
}

TEST(TurnFormat, AParentThatIsNotOlderIsDamage) {
  TurnRecord record = SomeRecord();
  record.parent_order = 9;
  EXPECT_EQ(DecodeTurn(TurnKey(9), EncodeTurn(record)).error().code, ErrorCode::kDataLoss);
}

TEST(TurnFormat, NoNameIsTheBeginningOfAnother) {
  EXPECT_FALSE(TurnIdPrefix("ab").starts_with(TurnIdPrefix("a")));
  EXPECT_NE(TurnIdKey("a", "bc"), TurnIdKey("ab", "c"));
  EXPECT_FALSE(TurnSessionPrefix("t", "ab").starts_with(TurnSessionPrefix("t", "a")));
  EXPECT_TRUE(TurnIdKey("", "x").starts_with(TurnIdPrefix("")));
}

TEST(TurnFormat, KeysSortByTheirOrder) {
  EXPECT_LT(TurnKey(255), TurnKey(256));
  EXPECT_LT(TurnAgeKey((uint64_t{1} << 40) - 1), TurnAgeKey(uint64_t{1} << 40));
  EXPECT_EQ(OrderOf(WithOrder(TurnMemberPrefix(7), 0x0102030405060708)), 0x0102030405060708u);
  EXPECT_EQ(OrderOf("short"), 0u);
}

TEST(TurnFormat, RowsComeBackAndOtherSizesDoNot) {
  EXPECT_EQ(DecodePlace(EncodePlace({.order = 5, .conversation = 6}))->conversation, 6u);
  EXPECT_EQ(DecodeAge(EncodeAge({.conversation = 5, .last_us = -6}))->last_us, -6);
  EXPECT_EQ(DecodeTotals(EncodeTotals({.next_order = 2, .bytes = 9}))->bytes, 9u);
  EXPECT_EQ(DecodeConversation(EncodeConversation({.last_order = 1, .num_turns = 4}))->num_turns,
            4u);
  const auto member = DecodeMember(EncodeMember(
      {.id = "i", .tenant = "t", .session = "", .content = PrefixDigest(), .bytes = 77}));
  ASSERT_TRUE(member);
  EXPECT_EQ(member->id + member->tenant + member->session, "it");
  EXPECT_EQ(member->content, PrefixDigest());
  EXPECT_EQ(member->bytes, 77u);
  for (const std::string_view bad : {"", "1234567", "12345678901234567"}) {
    EXPECT_FALSE(DecodePlace(bad));
    EXPECT_FALSE(DecodeAge(bad));
    EXPECT_FALSE(DecodeTotals(bad));
    EXPECT_FALSE(DecodeConversation(bad));
    EXPECT_FALSE(DecodeMember(bad));
  }
}

}  // namespace
}  // namespace kvgate::store
