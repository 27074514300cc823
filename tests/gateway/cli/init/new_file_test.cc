#include "gateway/cli/init/new_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/base/temp_folder.h"

namespace kvgate::cli::init {
namespace {

namespace fs = std::filesystem;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

size_t NumFiles(const TempFolder& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

TEST(NewFileTest, IsOfThisUserAloneWhateverTheMask) {
  const TempFolder folder;
  const mode_t mask = umask(0);
  ASSERT_TRUE(WriteNewFile(folder / "a.toml", "text\n", IfThere::kRefuse));
  umask(mask);
  EXPECT_EQ(ReadText(folder / "a.toml"), "text\n");
  EXPECT_EQ(fs::status(folder / "a.toml").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(NumFiles(folder), 1u);
}

TEST(NewFileTest, WhatIsThereStaysUnlessItIsToBeReplaced) {
  const TempFolder folder;
  std::ofstream(folder / "a.toml") << "mine";
  const auto refused = WriteNewFile(folder / "a.toml", "text", IfThere::kRefuse);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ReadText(folder / "a.toml"), "mine");
  ASSERT_TRUE(WriteNewFile(folder / "a.toml", "text", IfThere::kReplace));
  EXPECT_EQ(ReadText(folder / "a.toml"), "text");
  EXPECT_EQ(NumFiles(folder), 1u);
}

TEST(NewFileTest, ALinkIsNeitherFollowedNorReplaced) {
  const TempFolder folder;
  fs::create_symlink(folder / "elsewhere", folder / "a.toml");
  for (const IfThere if_there : {IfThere::kRefuse, IfThere::kReplace}) {
    const auto refused = WriteNewFile(folder / "a.toml", "text", if_there);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
  EXPECT_FALSE(CheckNewFile(folder.path(), IfThere::kReplace));
}

TEST(NewFileTest, AFolderThatIsNotThereIsSaid) {
  const TempFolder folder;
  const auto failed = WriteNewFile(folder / "b/a.toml", "", IfThere::kRefuse);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_NE(failed.error().detail.find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::cli::init
