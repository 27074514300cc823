#include "engine/modelfile/mapped_file.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/engine/model/test_paths.h"

namespace kvgate::modelfile {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("0123456789");
    auto opened = MappedFile::Open(path_);
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    file_ = std::move(*opened);
  }
  // Overwrites the first bytes of the file in place, without truncating it; creates the file if it
  // is absent.
  void Write(const std::string& text) const {
    const auto mode = std::ios::out | std::ios::binary;
    std::ofstream(path_, fs::exists(path_) ? mode | std::ios::in : mode) << text;
  }
  bool HasMoved() const { return MayDiffer(file_->identity(), *file_->CurrentIdentity()); }

  const TempFolder directory_;
  const fs::path path_ = directory_ / "file.bin";
  std::unique_ptr<MappedFile> file_;
};

TEST_F(MappedFileTest, ReadsWhatTheFileHasNow) {
  std::array<std::byte, 4> bytes{};
  ASSERT_TRUE(file_->ReadAt(3, bytes).has_value());
  EXPECT_EQ(static_cast<char>(bytes[0]), '3');
  Write("abcdefghij");
  ASSERT_TRUE(file_->ReadAt(3, bytes).has_value());
  EXPECT_EQ(static_cast<char>(bytes[0]), 'd');
}

TEST_F(MappedFileTest, AReadBeyondTheEndOfAFileThatWasCutIsAnErrorThatNamesIt) {
  fs::resize_file(path_, 5);
  std::array<std::byte, 4> bytes{};
  const Result<void> read = file_->ReadAt(3, bytes);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(read.error().detail.find(path_.string()), std::string::npos);
}

TEST_F(MappedFileTest, AFileThatWasWrittenHasMoved) {
  EXPECT_FALSE(HasMoved());
  Write("x");
  EXPECT_TRUE(HasMoved());
}

TEST_F(MappedFileTest, SettingTheTimeBackHidesNothing) {
  const auto before = fs::last_write_time(path_);
  Write("x");
  fs::last_write_time(path_, before);
  EXPECT_TRUE(HasMoved());
}

TEST_F(MappedFileTest, AFileThatWasReplacedByRenameHasNotMoved) {
  const fs::path other = path_.string() + ".new";
  std::ofstream(other, std::ios::binary) << "abcdefghij";
  fs::rename(other, path_);
  EXPECT_FALSE(HasMoved());
  std::array<std::byte, 4> bytes{};
  ASSERT_TRUE(file_->ReadAt(3, bytes).has_value());
  EXPECT_EQ(static_cast<char>(bytes[0]), '3');
}

TEST_F(MappedFileTest, AnAddressTellsThePathWhileTheFileIsMapped) {
  const void* const address = file_->bytes().data() + 9;
  EXPECT_STREQ(MappedFile::PathOf(address), path_.c_str());
  EXPECT_EQ(MappedFile::PathOf(&path_), nullptr);
  file_.reset();
  EXPECT_EQ(MappedFile::PathOf(address), nullptr);
}

}  // namespace
}  // namespace kvgate::modelfile
