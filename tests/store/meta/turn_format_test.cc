#include "store/meta/turn_format.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::store::meta {
namespace {

const Keyring& Ring() {
  static const auto ring = Keyring::Generate();
  return *ring;
}

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
  const auto decoded = DecodeTurn(TurnKey(9), EncodeTurn(record, Ring()), Ring());
  ASSERT_TRUE(decoded) << decoded.error().detail;
  EXPECT_EQ(decoded->record.turn, record.turn);
  EXPECT_EQ(decoded->record.parent_order, 8u);
  EXPECT_EQ(decoded->record.conversation, 3u);
  TurnRecord bare;
  bare.turn.id = "x";
  bare.turn.order = 1;
  EXPECT_EQ(DecodeTurn(TurnKey(1), EncodeTurn(bare, Ring()), Ring()).value().record.turn,
            bare.turn);
}

TEST(TurnFormat, EveryFlippedBitAndEveryTruncationIsFoundOut) {
  const std::string key = TurnKey(9);
  std::string value = EncodeTurn(SomeRecord(), Ring());
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeTurn(key, value, Ring())) << bit;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
  }
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_FALSE(DecodeTurn(key, std::string_view(value).substr(0, size), Ring())) << size;
  }
  EXPECT_FALSE(DecodeTurn(TurnKey(10), value, Ring())) << "a turn under another key";
}

TEST(TurnFormat, AParentThatIsNotOlderIsDamage) {
  TurnRecord record = SomeRecord();
  record.parent_order = 9;
  EXPECT_EQ(DecodeTurn(TurnKey(9), EncodeTurn(record, Ring()), Ring()).error().code,
            ErrorCode::kDataLoss);
}

TEST(TurnFormat, NothingOfATurnStandsInItsRowsInClear) {
  const TurnRecord record = SomeRecord();
  const TurnMember member = MemberOf(record.turn, TurnNames(Ring()), 7);
  const std::string rows = EncodeTurn(record, Ring()) + EncodeMember(member) +
                           TurnIdKey(member.tenant, member.id) +
                           TurnSessionPrefix(member.tenant, *member.session);
  for (const char* text : {"resp_2", "resp_1", "tenant", "session", "user", "u0000"}) {
    EXPECT_EQ(rows.find(text), std::string::npos) << text;
  }
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
  const TurnMember member{
      .tenant = {1}, .id = {2}, .session = {}, .content = TurnName{3}, .bytes = 77};
  EXPECT_EQ(DecodeMember(EncodeMember(member)), member);
  for (const std::string_view bad : {"", "1234567", "12345678901234567"}) {
    EXPECT_FALSE(DecodePlace(bad));
    EXPECT_FALSE(DecodeAge(bad));
    EXPECT_FALSE(DecodeTotals(bad));
    EXPECT_FALSE(DecodeConversation(bad));
    EXPECT_FALSE(DecodeMember(bad));
  }
}

}  // namespace
}  // namespace kvgate::store::meta
