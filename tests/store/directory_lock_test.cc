#include "store/directory_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "tests/store/store_fixture.h"

namespace kvgate::store {
namespace {

TEST(DirectoryLock, OneHolderAtATimeAlsoWithinAProcess) {
  const TemporaryDirectory temporary;
  EXPECT_FALSE(DirectoryLock::IsHeld(temporary.path()));
  std::optional<DirectoryLock> first(DirectoryLock::Acquire(temporary.path()).value());
  EXPECT_TRUE(DirectoryLock::IsHeld(temporary.path()));
  EXPECT_EQ(DirectoryLock::Acquire(temporary.path()).error().code, ErrorCode::kUnavailable);
  first.reset();
  EXPECT_FALSE(DirectoryLock::IsHeld(temporary.path()));
  EXPECT_TRUE(DirectoryLock::Acquire(temporary.path()).has_value());
}

TEST(DirectoryLock, ServerInfoComesBackAndNonsenseIsDataLoss) {
  const TemporaryDirectory temporary;
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

TEST(DirectoryLock, AMissingDirectoryIsAnIoError) {
  EXPECT_EQ(DirectoryLock::Acquire("/nonexistent/dir").error().code, ErrorCode::kIo);
  EXPECT_TRUE(IsProcessAlive(::getpid()));
  EXPECT_FALSE(IsProcessAlive(0));
}

}  // namespace
}  // namespace kvgate::store
