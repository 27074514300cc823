#include "gateway/cli/server/server_target.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "store/file/directory_lock.h"
#include "tests/base/temp_folder.h"

namespace kvgate::cli::server {
namespace {

// The fixture holds a data directory in this process and publishes an address for it.
class ServerTargetTest : public ::testing::Test {
 protected:
  ServerTargetTest() {
    EXPECT_TRUE(store::file::WriteServerInfo(
        folder_, {.pid = ::getpid(), .address = "http://127.0.0.1:1", .admin_token = "token"}));
  }
  const TempFolder temp_;
  const std::filesystem::path& folder_ = temp_.path();
};

TEST_F(ServerTargetTest, TheServerOfTheDirectoryIsAskedAsItsAdmin) {
  EXPECT_EQ(FindServer({}, folder_).url, "") << "nobody holds it";
  const auto lock = store::file::DirectoryLock::Acquire(folder_).value();
  const store::ServerAddress server = FindServer({}, folder_);
  EXPECT_EQ(server.url, "http://127.0.0.1:1");
  const HttpRequest request = RequestTo(server, {.url = "/x", .authorization = "Bearer a"});
  EXPECT_EQ(request.url, "http://127.0.0.1:1/x");
  EXPECT_EQ(request.admin_token, "token");
  EXPECT_EQ(request.authorization, "Bearer a");
}

TEST_F(ServerTargetTest, AServerNamedByHandDoesNotGetTheToken) {
  const auto lock = store::file::DirectoryLock::Acquire(folder_).value();
  const store::ServerAddress server =
      FindServer({.url = "http://other:2/", .key_env = ""}, folder_);
  EXPECT_EQ(server.url, "http://other:2");
  EXPECT_EQ(RequestTo(server, {.url = "/x"}).admin_token, "");
}

TEST_F(ServerTargetTest, TheKeyComesFromTheVariableThatEitherFlagNames) {
  ::setenv("KVGATE_TARGET_TEST", "secret", 1);
  for (const char* flag : {"--key-env", "--api-key-env"}) {
    CLI::App app;
    TargetFlags flags;
    AddTargetFlags(app, flags);
    app.parse(std::string(flag) + " KVGATE_TARGET_TEST");
    EXPECT_EQ(AuthorizationOf(flags).value(), "Bearer secret") << flag;
  }
  EXPECT_EQ(AuthorizationOf({}).value(), "");
  EXPECT_EQ(AuthorizationOf({.url = "", .key_env = "KVGATE_NOT_SET"}).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvgate::cli::server
