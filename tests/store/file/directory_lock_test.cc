#include "store/file/directory_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/store/store_fixture.h"

namespace kvgate::store::file {
namespace {

TEST(DirectoryLock, OneHolderAtATimeAlsoWithinAProcess) {
  const TempFolder temporary;
  EXPECT_FALSE(DirectoryLock::IsHeld(temporary.path()));
  std::optional<DirectoryLock> first(DirectoryLock::Acquire(temporary.path()).value());
  EXPECT_TRUE(DirectoryLock::IsHeld(temporary.path()));
  EXPECT_EQ(DirectoryLock::Acquire(temporary.path()).error().code, ErrorCode::kUnavailable);
  first.reset();
  EXPECT_FALSE(DirectoryLock::IsHeld(temporary.path()));
  EXPECT_TRUE(DirectoryLock::Acquire(temporary.path()).has_value());
}

TEST(DirectoryLock, ServerInfoComesBackAndNonsenseIsDataLoss) {
  const TempFolder temporary;
  EXPECT_EQ(ReadServerInfo(temporary.path()).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(WriteServerInfo(temporary.path(), {42, "http://\"quoted\"\xff"}));
  EXPECT_EQ(ReadServerInfo(temporary.path()).value().pid, 42);
  EXPECT_EQ(ReadServerInfo(temporary.path()).value().certificate_sha256, "");
  ASSERT_TRUE(WriteServerInfo(temporary.path(), {42, "https://x", "ab12"}));
  EXPECT_EQ(ReadServerInfo(temporary.path()).value().certificate_sha256, "ab12");
  for (const char* text : {"", "{", "[]", "{\"pid\":\"x\",\"address\":1}", "{\"pid\":1}"}) {
    std::ofstream(temporary.path() / "server.json") << text;
    EXPECT_EQ(ReadServerInfo(temporary.path()).error().code, ErrorCode::kDataLoss) << text;
  }
}

TEST(DirectoryLock, TheAdminTokenIsInAFileThatOnlyItsOwnerReads) {
  const TempFolder temporary;
  // An attacker has created a link under the temporary name, to read what is written.
  const auto trap = temporary.path() / "trap";
  std::ofstream(trap) << "";
  std::filesystem::create_symlink(trap, temporary.path() / "server.json.new");
  ASSERT_TRUE(WriteServerInfo(temporary.path(),
                              {.pid = 1, .address = "http://x", .admin_token = "secret"}));
  EXPECT_EQ(std::filesystem::file_size(trap), 0u);
  const auto file = temporary.path() / "server.json";
  EXPECT_EQ(std::filesystem::symlink_status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(ReadServerInfo(temporary.path()).value().admin_token, "secret");
}

// A pipe in place of a file would block its reader for ever.
TEST(DirectoryLock, WhatIsNoFileHoldsUpNobody) {
  for (const char* name : {"server.json", "lock"}) {
    const TempFolder temporary;
    ASSERT_EQ(::mkfifo((temporary.path() / name).c_str(), 0600), 0);
    EXPECT_FALSE(ReadServerInfo(temporary.path())) << name;
    EXPECT_FALSE(DirectoryLock::IsHeld(temporary.path())) << name;
  }
  const TempFolder temporary;
  ASSERT_EQ(::mkfifo((temporary.path() / "lock").c_str(), 0600), 0);
  EXPECT_FALSE(DirectoryLock::Acquire(temporary.path()));
}

TEST(DirectoryLock, AMissingDirectoryIsAnIoError) {
  EXPECT_EQ(DirectoryLock::Acquire("/nonexistent/dir").error().code, ErrorCode::kIo);
  EXPECT_TRUE(IsProcessAlive(::getpid()));
  EXPECT_FALSE(IsProcessAlive(0));
}

}  // namespace
}  // namespace kvgate::store::file
