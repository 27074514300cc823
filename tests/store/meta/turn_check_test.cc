#include "store/meta/turn_check.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::store::meta {
namespace {

Turn Whole() {
  Turn turn;
  turn.id = "a";
  turn.items = {{.role = "user", .payload = "12345"}, {.role = "assistant", .payload = "678"}};
  return turn;
}

TEST(TurnCheckTest, ATurnHasAnIdItemsAndRoles) {
  EXPECT_TRUE(CheckTurn(Whole(), 8));
  Turn turn = Whole();
  turn.id.clear();
  EXPECT_EQ(CheckTurn(turn, 8).error().field, "id");
  turn = Whole();
  turn.items.clear();
  EXPECT_EQ(CheckTurn(turn, 8).error().field, "items");
  turn = Whole();
  turn.items.back().role.clear();
  EXPECT_EQ(CheckTurn(turn, 8).error().field, "role");
  turn = Whole();
  turn.session = std::string(kTurnTextMax + 1, 's');
  EXPECT_EQ(CheckTurn(turn, 8).error().field, "session");
  turn = Whole();
  turn.tokens.cached = -1;
  EXPECT_EQ(CheckTurn(turn, 8).error().field, "tokens");
}

TEST(TurnCheckTest, ItsPayloadsAreBounded) {
  EXPECT_EQ(PayloadBytes(Whole()), 8u);
  EXPECT_EQ(CheckTurn(Whole(), 7).error().code, ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace kvgate::store::meta
