#include "store/prefix_file.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvgate::store {
namespace {

KvBlock SomeBlock(uint32_t depth, size_t payload_bytes) {
  KvBlock block;
  block.depth = depth;
  block.shape_tag = 7;
  block.tokens = {static_cast<TokenId>(depth), 5};
  block.digest.bytes[3] = static_cast<uint8_t>(depth + 1);
  block.payload.assign(payload_bytes, static_cast<std::byte>(depth + 1));
  return block;
}

std::string SomeFile() {
  PrefixFileWriter writer;
  std::string bytes;
  writer.Header({.fingerprint = {1, 2}, .salt = "tenant", .num_blocks = 2}, bytes);
  writer.Block(SomeBlock(0, 100), bytes);
  writer.Block(SomeBlock(1, 60), bytes);
  writer.End({.num_blocks = 2, .digest = SomeBlock(1, 0).digest}, bytes);
  return bytes;
}

// Reads in pieces of `step`; the number of frames, or the first error.
Result<size_t> CountFrames(std::string_view bytes, size_t step) {
  PrefixFileReader reader;
  size_t count = 0;
  for (size_t at = 0; at < bytes.size(); at += step) {
    reader.Feed(bytes.substr(at, step));
    while (true) {
      KVGATE_TRY(const auto frame, reader.Next());
      if (!frame) break;
      ++count;
    }
  }
  return count;
}

TEST(PrefixFile, ComesBackWhateverThePiecesItArrivesIn) {
  const std::string bytes = SomeFile();
  for (const size_t step : {size_t{1}, size_t{7}, bytes.size()}) {
    EXPECT_EQ(CountFrames(bytes, step).value(), 4u);
  }
  PrefixFileReader reader;
  reader.Feed(bytes);
  const auto header = std::get<PrefixFileHeader>(*reader.Next().value());
  EXPECT_EQ(header, (PrefixFileHeader{.fingerprint = {1, 2}, .salt = "tenant", .num_blocks = 2}));
  const auto first = std::get<KvBlock>(*reader.Next().value());
  EXPECT_EQ(first.tokens, SomeBlock(0, 0).tokens);
  EXPECT_EQ(first.payload, SomeBlock(0, 100).payload);
  EXPECT_EQ(first.digest, SomeBlock(0, 0).digest);
  EXPECT_EQ(first.shape_tag, 7u);
  EXPECT_EQ(std::get<KvBlock>(*reader.Next().value()).depth, 1u);
  EXPECT_EQ(std::get<PrefixFileEnd>(*reader.Next().value()).num_blocks, 2u);
}

TEST(PrefixFile, EveryFlippedBitIsAnErrorOrAnEndThatNeverComes) {
  std::string bytes = SomeFile();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const auto count = CountFrames(bytes, bytes.size());
    EXPECT_TRUE(!count || *count < 4) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(PrefixFile, AnotherFileAnotherVersionAndAHugeFrameAreRefused) {
  EXPECT_EQ(CountFrames(std::string(100, 'x'), 100).error().code, ErrorCode::kUnsupported);
  std::string newer;
  PrefixFileWriter writer;
  writer.Header({.fingerprint = {}, .salt = {}, .num_blocks = 0}, newer);
  std::string huge = newer;
  huge[16 + 7] = 1;  // 2^56 bytes
  EXPECT_EQ(CountFrames(huge, huge.size()).error().code, ErrorCode::kDataLoss);
}

TEST(PrefixFile, AFrameThatIsLeftOutIsFoundOut) {
  PrefixFileWriter writer;
  std::string head;
  std::string left_out;
  std::string rest;
  writer.Header({.fingerprint = {}, .salt = {}, .num_blocks = 2}, head);
  writer.Block(SomeBlock(0, 8), left_out);
  writer.Block(SomeBlock(1, 8), rest);
  EXPECT_EQ(CountFrames(head + rest, 1000).error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(CountFrames(head + left_out + rest, 1000).value(), 3u);
}

}  // namespace
}  // namespace kvgate::store
