#include "store/acked_sequence.h"

#include <gtest/gtest.h>

#include "tests/store/store_fixture.h"

namespace kvgate::store {
namespace {

TEST(AckedSequence, RemembersTheLargestNumberOrTheOneItBeganAgainWith) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "sequence";
  {
    AckedSequence acked(path);
    EXPECT_EQ(acked.at_open(), std::nullopt);
    acked.Note(5);
    acked.Note(3);
  }
  EXPECT_EQ(AckedSequence(path).at_open(), 5u);
  AckedSequence(path).Restart(2);
  EXPECT_EQ(AckedSequence(path).at_open(), 2u);
}

TEST(AckedSequence, ADamagedFileTellsNothing) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "sequence";
  AckedSequence(path).Note(77);
  const uint64_t bytes = std::filesystem::file_size(path);
  for (uint64_t at = 0; at < bytes; ++at) {
    FlipByte(path, at);
    EXPECT_EQ(AckedSequence(path).at_open(), std::nullopt) << at;
    FlipByte(path, at);
  }
  EXPECT_EQ(AckedSequence(path).at_open(), 77u);
}

}  // namespace
}  // namespace kvgate::store
