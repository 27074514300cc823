#include "store/file/byte_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace kvgate::store::file {
namespace {

TEST(ByteCodecTest, WhatIsAppendedIsTakenInTheSameOrder) {
  std::string bytes;
  AppendValue(bytes, uint16_t{0x1234});
  AppendText(bytes, "text");
  AppendBigEndian(bytes, 0x0102030405060708);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Take<uint16_t>(), 0x1234);
  EXPECT_EQ(reader.TakeText(), "text");
  EXPECT_FALSE(reader.at_end());
  EXPECT_EQ(reader.TakeBigEndian(), 0x0102030405060708u);
  EXPECT_TRUE(reader.at_end());
}

TEST(ByteCodecTest, TheByteOrderIsTheOneOfTheFormat) {
  std::string bytes;
  AppendValue(bytes, uint32_t{0x01020304});
  EXPECT_EQ(bytes, "\x04\x03\x02\x01");
  bytes.clear();
  AppendBigEndian(bytes, 0x0102030405060708);
  EXPECT_EQ(bytes, "\x01\x02\x03\x04\x05\x06\x07\x08");
}

TEST(ByteCodecTest, ValuesAreStoredAndLoadedAtOffsets) {
  std::string bytes(7, 'x');
  StoreValue(bytes.data(), 2, uint32_t{0x01020304});
  EXPECT_EQ(bytes, "xx\x04\x03\x02\x01x");
  EXPECT_EQ(LoadValue<uint32_t>(bytes, 2), 0x01020304u);
}

TEST(ByteCodecTest, AReaderPastTheEndReturnsZerosForGood) {
  ByteReader reader("abc");
  EXPECT_EQ(reader.Take<uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.Take<uint8_t>(), 0) << "there would be enough bytes for this one";
  EXPECT_EQ(reader.TakeBytes(1), "");
  EXPECT_EQ(reader.TakeBigEndian(), 0u);
  EXPECT_FALSE(reader.at_end());
}

TEST(ByteCodecTest, AVarintMustEndWithinTheBytesAndTenOfThem) {
  std::string_view bytes = "\xAC\x02rest";
  EXPECT_EQ(TakeVarint(bytes), 300u);
  EXPECT_EQ(bytes, "rest");
  bytes = "\x80\x80";
  EXPECT_FALSE(TakeVarint(bytes).has_value());
  const std::string endless(11, '\xFF');
  bytes = endless;
  EXPECT_FALSE(TakeVarint(bytes).has_value());
}

TEST(ByteCodecTest, VarintsGiveTheSameBack) {
  std::string bytes;
  std::vector<uint64_t> values = {0, 1, 127, 128, 300, ~uint64_t{0}};
  for (int bit = 0; bit < 64; ++bit) values.push_back(uint64_t{1} << bit);
  for (const uint64_t value : values) AppendVarint(bytes, value);
  std::string_view left = bytes;
  for (const uint64_t value : values) EXPECT_EQ(TakeVarint(left), value);
  EXPECT_TRUE(left.empty());
  std::string small;
  AppendVarint(small, 300);
  EXPECT_EQ(small, "\xac\x02");
}

TEST(ByteCodecTest, ATextWithItsSizeMustEndWithinTheBytes) {
  std::string bytes;
  const std::string longer(200, 'x');
  for (const std::string& text : {std::string("one"), std::string(), longer}) {
    AppendVarText(bytes, text);
  }
  std::string_view left = bytes;
  EXPECT_EQ(TakeVarText(left), "one");
  EXPECT_EQ(TakeVarText(left), "");
  std::string_view cut = left.substr(0, left.size() - 1);
  EXPECT_FALSE(TakeVarText(cut).has_value());
  EXPECT_EQ(TakeVarText(left), longer);
  EXPECT_FALSE(TakeVarText(left).has_value());
}

}  // namespace
}  // namespace kvgate::store::file
