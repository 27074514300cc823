#include "gateway/cli/agents/draft_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "tests/base/temp_folder.h"

namespace kvgate::cli::agents {
namespace {

namespace fs = std::filesystem;

class DraftFileTest : public testing::Test {
 protected:
  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  size_t NumFiles() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }

  const TempFolder folder_;
  const fs::path path_ = folder_ / "file";
};

TEST_F(DraftFileTest, ReplacesWhatIsThereWithTheModeThatIsAsked) {
  std::ofstream(path_) << "old";
  ASSERT_TRUE(DraftFile::Write(path_, "new", 0640).value().Replace());
  EXPECT_EQ(Text(), "new");
  EXPECT_EQ(NumFiles(), 1u);
  struct stat found {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0640u);
}

TEST_F(DraftFileTest, ANewOneTakesOnlyAFreePlace) {
  EXPECT_TRUE(DraftFile::Write(path_, "first", 0600).value().PublishNew().value());
  EXPECT_FALSE(DraftFile::Write(path_, "second", 0600).value().PublishNew().value());
  EXPECT_EQ(Text(), "first");
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(DraftFileTest, WhatIsGivenUpLeavesNothing) {
  { const DraftFile draft = DraftFile::Write(path_, "never", 0600).value(); }
  EXPECT_EQ(NumFiles(), 0u);
  EXPECT_EQ(DraftFile::Write(folder_ / "missing/file", "x", 0600).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace kvgate::cli::agents
