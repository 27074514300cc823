#include "store/kv/prefix_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"

namespace kvgate::store::kv {
namespace {

const Keyring& Ring() {
  static const auto ring = Keyring::Generate();
  return *ring;
}

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
  PrefixFileWriter writer(Ring());
  std::string bytes;
  writer.Header({.fingerprint = {1, 2}, .tenant = "tenant", .num_blocks = 2}, bytes);
  writer.Block(SomeBlock(0, 100), bytes);
  writer.Block(SomeBlock(1, 60), bytes);
  writer.End({.num_blocks = 2, .digest = SomeBlock(1, 0).digest}, bytes);
  return bytes;
}

// Reads in pieces of `step` bytes; returns the number of frames, or the first error.
Result<size_t> CountFrames(std::string_view bytes, size_t step, const Keyring& ring = Ring()) {
  PrefixFileReader reader(ring);
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
  PrefixFileReader reader(Ring());
  reader.Feed(bytes);
  const auto header = std::get<PrefixFileHeader>(*reader.Next().value());
  EXPECT_EQ(header, (PrefixFileHeader{.fingerprint = {1, 2}, .tenant = "tenant", .num_blocks = 2}));
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
  PrefixFileWriter writer(Ring());
  writer.Header({.fingerprint = {}, .tenant = {}, .num_blocks = 0}, newer);
  std::string huge = newer;
  huge[16 + 7] = 1;  // 2^56 bytes
  EXPECT_EQ(CountFrames(huge, huge.size()).error().code, ErrorCode::kDataLoss);
}

TEST(PrefixFile, AFrameThatIsLeftOutIsFoundOut) {
  PrefixFileWriter writer(Ring());
  std::string head;
  std::string left_out;
  std::string rest;
  writer.Header({.fingerprint = {}, .tenant = {}, .num_blocks = 2}, head);
  writer.Block(SomeBlock(0, 8), left_out);
  writer.Block(SomeBlock(1, 8), rest);
  EXPECT_EQ(CountFrames(head + rest, 1000).error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(CountFrames(head + left_out + rest, 1000).value(), 3u);
}

TEST(PrefixFile, OfAnotherSecretIsRefusedWithWhatToDo) {
  const std::string bytes = SomeFile();
  const auto other = Keyring::Generate();
  const auto refused = CountFrames(bytes, bytes.size(), *other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(refused.error().detail.find("store.secret_env"), std::string::npos);
  EXPECT_EQ(bytes.find("tenant"), std::string::npos);
}

// Returns the offset of each frame of a file, and of its end.
std::vector<size_t> FrameStarts(const std::string& bytes) {
  std::vector<size_t> starts;
  for (size_t at = 0; at < bytes.size();) {
    starts.push_back(at);
    uint64_t body = 0;
    std::memcpy(&body, bytes.data() + at + 16, sizeof(body));
    at += 24 + body;
  }
  starts.push_back(bytes.size());
  return starts;
}

// Corrects a frame's checksum, as a forger of files would.
std::string Checked(std::string frame, uint64_t number) {
  const uint64_t checksum = Xxh3(std::as_bytes(std::span(frame)).subspan(8), number).first;
  std::memcpy(frame.data(), &checksum, sizeof(checksum));
  return frame;
}

TEST(PrefixFile, NoFileIsMadeOfThePartsOfOthers) {
  const std::string one = SomeFile();
  const std::string two = SomeFile();
  const std::vector<size_t> at = FrameStarts(one);
  ASSERT_EQ(at.size(), 5u);
  const auto frame = [&](const std::string& file, size_t i) {
    return file.substr(at[i], at[i + 1] - at[i]);
  };
  const std::string head = frame(one, 0);
  // Each forged file has correct checksums: another file's block, two blocks swapped, a block
  // twice.
  for (const std::string& forged :
       {head + Checked(frame(two, 1), 1), head + Checked(frame(one, 2), 1),
        head + frame(one, 1) + Checked(frame(one, 1), 2)}) {
    const auto count = CountFrames(forged, forged.size());
    ASSERT_FALSE(count);
    EXPECT_EQ(count.error().code, ErrorCode::kDataLoss);
  }
  std::string changed = frame(one, 1);
  changed[60] = static_cast<char>(changed[60] ^ 1);
  EXPECT_FALSE(CountFrames(head + Checked(changed, 1), 10'000));
}

TEST(PrefixFile, OfFormat1IsRefusedWithWhatToDo) {
  std::string body(32, '\0');
  body[0] = 1;
  std::string frame(24, '\0');
  std::memcpy(frame.data() + 8, "KVPH", 4);
  frame[16] = 32;
  const std::string old = Checked(frame + body, 0);
  const auto refused = CountFrames(old, old.size());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().detail.find("export the prefix again"), std::string::npos)
      << refused.error().detail;
}

}  // namespace
}  // namespace kvgate::store::kv
