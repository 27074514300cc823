#include "store/file/acked_sequence.h"

#include <gtest/gtest.h>

#include "store/file/byte_codec.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store::file {
namespace {

TEST(AckedSequence, RemembersTheLargestNumberOrTheOneItBeganAgainWith) {
  const TempFolder directory;
  const auto path = directory.path() / "sequence";
  EXPECT_EQ(AckedSequence::Read(path), std::nullopt);
  {
    AckedSequence acked(path);
    acked.Note(5);
    acked.Note(3);
  }
  EXPECT_EQ(AckedSequence::Read(path), AckedState{.sequence = 5});
  const ManifestMark manifest{.number = 4, .bytes = 200, .digest = 9};
  AckedSequence(path).NoteBase(3, manifest);
  const AckedState noted{.sequence = 5, .first_logged = 3, .manifest = manifest};
  EXPECT_EQ(AckedSequence::Read(path), noted);
  const AckedState anew{.sequence = 2, .first_logged = 3, .manifest = manifest};
  AckedSequence(path).Restart(anew);
  EXPECT_EQ(AckedSequence::Read(path), anew);
}

TEST(AckedSequence, ADamagedFileTellsNothing) {
  const TempFolder directory;
  const auto path = directory.path() / "sequence";
  AckedSequence(path).Note(77);
  const uint64_t bytes = std::filesystem::file_size(path);
  for (uint64_t at = 0; at < bytes; ++at) {
    FlipByte(path, at);
    EXPECT_EQ(AckedSequence::Read(path), std::nullopt) << at;
    FlipByte(path, at);
  }
  EXPECT_EQ(AckedSequence::Read(path)->sequence, 77u);
  std::filesystem::resize_file(path, bytes - 1);
  EXPECT_EQ(AckedSequence::Read(path), std::nullopt);
}

// Format version 1 wrote "KVSQ" 1 77, alone or over the front of a longer file.
TEST(AckedSequence, AFileOfTheVersionBeforeTellsTheSequence) {
  const TempFolder directory;
  const auto path = directory.path() / "sequence";
  std::string bytes;
  AppendValue(bytes, uint32_t{0x5153564b});
  AppendValue(bytes, uint32_t{1});
  AppendValue(bytes, uint64_t{77});
  AppendValue(bytes, Xxh3(AsBytes(bytes)).first);
  for (const size_t num_behind : {0u, 32u}) {
    std::ofstream(path, std::ios::binary) << bytes + std::string(num_behind, 'x');
    EXPECT_EQ(AckedSequence::Read(path), AckedState{.sequence = 77}) << num_behind;
  }
}

}  // namespace
}  // namespace kvgate::store::file
