#include "gateway/ledger/segment/segment_format.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace kvgate::ledger::segment {
namespace {

std::vector<RecordSegment> Some(size_t count) {
  std::mt19937_64 random(count);
  std::vector<RecordSegment> segments(count);
  for (RecordSegment& segment : segments) {
    segment = {.source = "tools",
               .name = std::string(random() % 20, 'n'),
               .server = std::string(random() % 20, 's'),
               .role = "tool",
               .path = "/tools/" + std::to_string(random() % 300),
               .bytes = static_cast<int64_t>(random() % 100'000),
               .cached = static_cast<int64_t>(random() % 1'000),
               .written = static_cast<int64_t>(random() % 1'000),
               .uncached = static_cast<int64_t>(random() % 1'000),
               .hash = random()};
  }
  return segments;
}

TEST(SegmentFormatTest, BytesGiveTheSameBackAndBrokenOnesNothing) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{40}, kSegmentsMax}) {
    const auto segments = Some(count);
    EXPECT_EQ(DecodeSegments(EncodeSegments(segments)), segments);
  }
  const std::string bytes = EncodeSegments(Some(3));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeSegments(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(DecodeSegments(bytes + "x"));
  auto segments = Some(1);
  segments[0].cached = kStoredNumberMax;
  EXPECT_TRUE(DecodeSegments(EncodeSegments(segments)));
  segments[0].cached += 1;
  EXPECT_FALSE(DecodeSegments(EncodeSegments(segments))) << "no prompt has as many tokens";
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = bytes;
    changed[random() % changed.size()] = static_cast<char>(random());
    (void)DecodeSegments(changed);
  }
}

TEST(SegmentFormatTest, SizeIsBoundedWhateverACallerSends) {
  auto segments = Some(1'000);
  for (RecordSegment& segment : segments) segment.name = std::string(1 << 16, 'x');
  const std::string bytes = EncodeSegments(segments);
  EXPECT_LT(bytes.size(), 200'000U);
  EXPECT_EQ(DecodeSegments(bytes)->size(), kSegmentsMax);
}

TEST(SegmentFormatTest, JsonShowsNamesWhereThereAreAnyAndTheHashInHex) {
  std::string text;
  dialect::form::JsonWriter json(text);
  WriteSegments(
      std::vector<RecordSegment>{{.source = "user", .cached = 3, .uncached = 4, .hash = 255}},
      json);
  const auto shown = nlohmann::json::parse(text);
  EXPECT_EQ(shown[0]["tokens"], 7);
  EXPECT_EQ(shown[0]["hash"], "00000000000000ff");
  EXPECT_FALSE(shown[0].contains("name"));
  EXPECT_FALSE(shown[0].contains("server"));
}

}  // namespace
}  // namespace kvgate::ledger::segment
