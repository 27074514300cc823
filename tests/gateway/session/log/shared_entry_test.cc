#include "gateway/session/log/shared_entry.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::log {
namespace {

SharedEntry MakeEntry() {
  SharedEntry entry;
  entry.turn = {
      .id = "turn_1",
      .parent = "turn_0",
      .tenant = "alice",
      .session = "session:k",
      .items = {{.role = "user", .payload = std::string("a\0b", 3)}, {.role = "", .payload = ""}},
      .tokens = {.input = 5, .cached = 3, .output = -1},
      .content = PrefixDigest{.bytes = {7}},
      .order = 0,
      .created_us = 1'234};
  return entry;
}

TEST(SharedEntryTest, AnEntryIsReadAsItWasWritten) {
  const SharedEntry entry = MakeEntry();
  const auto read = DecodeSharedEntry(EncodeSharedEntry(entry), "alice");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, SharedEntry::Kind::kTurn);
  EXPECT_EQ(read->turn, entry.turn);
  SharedEntry deleted{.kind = SharedEntry::Kind::kDeleted};
  deleted.turn.id = "turn_1";
  EXPECT_EQ(DecodeSharedEntry(EncodeSharedEntry(deleted), "alice")->turn.id, "turn_1");
  EXPECT_EQ(DecodeSharedEntry(EncodeSharedEntry({.kind = SharedEntry::Kind::kPurged}), "")->kind,
            SharedEntry::Kind::kPurged);
}

TEST(SharedEntryTest, BytesThatAreNoneAreSaidToBeNone) {
  const std::string bytes = EncodeSharedEntry(MakeEntry());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeSharedEntry(std::string_view(bytes).substr(0, size), "alice")) << size;
  }
  EXPECT_FALSE(DecodeSharedEntry(bytes + "x", "alice"));
  std::string other = bytes;
  other[0] = 2;  // a newer version
  EXPECT_FALSE(DecodeSharedEntry(other, "alice"));
  other = bytes;
  other[1] = 4;
  EXPECT_FALSE(DecodeSharedEntry(other, "alice"));
}

}  // namespace
}  // namespace kvgate::session::log
