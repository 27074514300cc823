#include "store/file/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/store/store_fixture.h"

namespace kvgate::store::file {
namespace {

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path FileOf(const TempFolder& directory) {
  return directory.path() / kSecretFileName;
}

// Sets an environment variable for its lifetime.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

TEST(SecretFileTest, IsMadeOnceForItsOwnerAloneAndFoundAgain) {
  const TempFolder directory;
  const auto made = OpenKeyring({.directory = directory.path()});
  ASSERT_TRUE(made) << made.error().detail;
  struct stat info {};
  ASSERT_EQ(::stat(FileOf(directory).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  const std::string text = ReadAll(FileOf(directory));
  const auto again = OpenKeyring({.directory = directory.path(), .make = false});
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->sealing_key_id(), (*made)->sealing_key_id());
  EXPECT_EQ(ReadAll(FileOf(directory)), text);
  EXPECT_NE((*again)->source().find("secret.key"), std::string::npos);
}

TEST(SecretFileTest, IsNotMadeWhereNothingIsToBeWritten) {
  const TempFolder directory;
  EXPECT_EQ(OpenKeyring({.directory = directory.path(), .make = false}).error().code,
            ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(FileOf(directory)));
}

TEST(SecretFileTest, AStartThatWasKilledWhileItWasMadeLeavesNoHalf) {
  const TempFolder directory;
  std::filesystem::path partial = FileOf(directory);
  partial += ".partial";
  std::ofstream(partial) << "0011";
  ASSERT_TRUE(OpenKeyring({.directory = directory.path()}));
  EXPECT_FALSE(std::filesystem::exists(partial));
}

TEST(SecretFileTest, WhatOthersMayReadOrIsNoFileIsRefused) {
  const TempFolder directory;
  ASSERT_TRUE(OpenKeyring({.directory = directory.path()}));
  for (const unsigned mode : {0640u, 0604u, 0660u}) {
    ASSERT_EQ(::chmod(FileOf(directory).c_str(), mode), 0);
    const auto refused = OpenKeyring({.directory = directory.path()});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
    EXPECT_NE(refused.error().detail.find("chmod 600"), std::string::npos);
  }
  std::filesystem::remove(FileOf(directory));
  ASSERT_EQ(::mkfifo(FileOf(directory).c_str(), 0600), 0);  // must not hang
  EXPECT_EQ(OpenKeyring({.directory = directory.path()}).error().code,
            ErrorCode::kPermissionDenied);
  std::filesystem::remove(FileOf(directory));
  std::filesystem::create_symlink("elsewhere", FileOf(directory));
  EXPECT_EQ(OpenKeyring({.directory = directory.path()}).error().code, ErrorCode::kIo);
}

TEST(SecretFileTest, WhatHoldsNoSecretIsRefusedAndStays) {
  const TempFolder directory;
  std::ofstream(FileOf(directory)) << "no secret\n";
  ASSERT_EQ(::chmod(FileOf(directory).c_str(), 0600), 0);
  EXPECT_EQ(OpenKeyring({.directory = directory.path()}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ReadAll(FileOf(directory)), "no secret\n");
}

TEST(SecretFileTest, TheVariableSealsAndDerivesAndTheFileStillOpens) {
  const TempFolder directory;
  const auto file = OpenKeyring({.directory = directory.path()}).value()->sealing_key_id();
  const std::string secret = Keyring::GenerateSecret();
  const Variable variable("KVGATE_TEST_SECRET_FILE", secret);
  const auto ring =
      OpenKeyring({.directory = directory.path(), .environment = "KVGATE_TEST_SECRET_FILE"});
  ASSERT_TRUE(ring);
  const auto own = Keyring::Parse(secret, "").value()->sealing_key_id();
  EXPECT_EQ((*ring)->sealing_key_id(), own);
  EXPECT_EQ((*ring)->deriving_key_id(), own);
  EXPECT_TRUE((*ring)->Has(file));
}

TEST(SecretFileTest, AVariableThatIsNotSetIsNamed) {
  const TempFolder directory;
  const auto ring = OpenKeyring({.directory = directory.path(), .environment = "KVGATE_NOT_SET"});
  ASSERT_FALSE(ring);
  EXPECT_EQ(ring.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(ring.error().detail.find("KVGATE_NOT_SET"), std::string::npos);
  EXPECT_FALSE(CheckSecretEnvironment("KVGATE_NOT_SET"));
  EXPECT_TRUE(CheckSecretEnvironment(""));
  EXPECT_FALSE(std::filesystem::exists(FileOf(directory)));
}

}  // namespace
}  // namespace kvgate::store::file
