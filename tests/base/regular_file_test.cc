#include "base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "tests/base/temp_folder.h"

namespace kvgate {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RegularFileTest : public ::testing::Test {
 protected:
  const TempFolder folder_;
};

TEST_F(RegularFileTest, AFileIsReadWholeUpToItsLimit) {
  const std::string text(100'000, 'x');
  std::ofstream(folder_ / "a") << text;
  EXPECT_EQ(ReadRegularFile(folder_ / "a").value(), text);
  EXPECT_EQ(ReadRegularFile(folder_ / "a", {.bytes_max = 100'000}).value(), text);
  const auto beyond = ReadRegularFile(folder_ / "a", {.bytes_max = 99'999});
  EXPECT_EQ(beyond.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(beyond.error().detail, HasSubstr("99999"));
  EXPECT_EQ(CheckRegularFile(folder_ / "a", {.bytes_max = 9}).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(ReadRegularFile(folder_ / "b").error().code, ErrorCode::kNotFound);
}

// If one of these blocked its reader, the test would not end.
TEST_F(RegularFileTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, (folder_ / "socket").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  for (const fs::path& path : {folder_.path(), folder_ / "pipe", folder_ / "socket",
                               fs::path("/dev/zero"), fs::path("/dev/tty")}) {
    const auto read = ReadRegularFile(path);
    ASSERT_FALSE(read) << path;
    if (path == "/dev/tty") continue;  // without a terminal it cannot be opened at all
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument) << path;
    EXPECT_THAT(CheckRegularFile(path).error().detail, HasSubstr("not a regular file"));
  }
  ::close(listener);
}

TEST_F(RegularFileTest, ALinkIsFollowedOnlyWhereThatIsWanted) {
  std::ofstream(folder_ / "a") << "text";
  fs::create_symlink(folder_ / "a", folder_ / "link");
  EXPECT_EQ(ReadRegularFile(folder_ / "link").value(), "text");
  EXPECT_EQ(ReadRegularFile(folder_ / "link", {.follows_link = false}).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvgate
