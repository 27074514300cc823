#include "gateway/cli/agents/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/temp_folder.h"

namespace kvgate::cli::agents {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

int RunShell(const std::string& line) {
  const SignalGuard signals;
  return RunChild({.program = "/bin/sh",
                   .arguments = {"sh", "-c", line},
                   .variables = {{"KVGATE_TEST_SET", "7"}},
                   .removed = {"KVGATE_TEST_GONE"}},
                  signals)
      .value();
}

TEST(ChildTest, ReturnsTheStatusOrTheSignalOfItsEnd) {
  EXPECT_EQ(RunShell("exit 5"), 5);
  EXPECT_EQ(RunShell("kill -9 $$"), 128 + 9);
  EXPECT_EQ(RunShell("kill -15 $$"), 128 + 15);
}

TEST(ChildTest, TheEnvironmentIsOursButForTheChanges) {
  setenv("KVGATE_TEST_GONE", "x", 1);
  EXPECT_EQ(RunShell("test -z \"$KVGATE_TEST_GONE\" && exit $KVGATE_TEST_SET"), 7);
  setenv("KVGATE_TEST_SET", "old", 1);
  const auto changed = ChangedEnvironment({.variables = {{"KVGATE_TEST_SET", "7"}}});
  EXPECT_THAT(changed, Contains("KVGATE_TEST_SET=7"));
  EXPECT_THAT(changed, Not(Contains("KVGATE_TEST_SET=old")));
  EXPECT_THAT(changed, Contains(StartsWith("PATH=")));
}

TEST(ChildTest, AScriptThatNamesNoInterpreterIsTheShells) {
  const TempFolder folder;
  const std::string script = (folder.path() / "agent").string();
  std::ofstream(script) << "test \"$1\" = 'two words' && exit $KVGATE_TEST_SET\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const SignalGuard signals;
  const auto run = [&] {
    return RunChild({.program = script,
                     .arguments = {"agent", "two words"},
                     .variables = {{"KVGATE_TEST_SET", "7"}},
                     .removed = {}},
                    signals);
  };
  EXPECT_EQ(run().value(), 7);
  std::ofstream(script, std::ios::binary) << "\x7f"
                                          << "ELF of another machine";
  EXPECT_FALSE(run());
}

TEST(ChildTest, ASignalThatAnotherProcessSendsGoesOn) {
  // The signal may come before or after `sleep` begins, which would hold this test's output open.
  EXPECT_EQ(RunShell("trap 'kill $! 2>/dev/null; exit 3' TERM; kill -15 $PPID; "
                     "sleep 60 >/dev/null 2>&1 & wait"),
            3);
}

TEST(ChildTest, ProgramsAreFoundAsAShellFindsThem) {
  EXPECT_THAT(FindProgram("sh"), testing::EndsWith("/sh"));
  EXPECT_EQ(FindProgram("/bin/sh"), "/bin/sh");
  EXPECT_EQ(FindProgram("/bin"), "");
  EXPECT_EQ(FindProgram("no-such-command-of-kvgate"), "");
}

}  // namespace
}  // namespace kvgate::cli::agents
