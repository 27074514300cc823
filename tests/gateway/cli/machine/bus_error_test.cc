#include "gateway/cli/machine/bus_error.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/modelfile/mapped_file.h"
#include "tests/base/temp_folder.h"

namespace kvgate::cli::machine {
namespace {

namespace fs = std::filesystem;

class BusErrorTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    const std::vector<char> bytes(64 << 10, 'x');
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // Reads a byte of the mapping that the file no longer has.
  int ReadBeyondTheEnd() const {
    const auto file = *modelfile::MappedFile::Open(path_);
    fs::resize_file(path_, 100);
    return static_cast<int>(*static_cast<const volatile std::byte*>(&file->bytes()[40 << 10]));
  }

  const TempFolder folder_;
  const fs::path path_ = folder_ / "model.gguf";
};

TEST_F(BusErrorTest, AReadBehindTheEndOfAModelFileEndsTheProgramWithItsName) {
  EXPECT_EXIT(
      {
        ExplainBusErrors();
        std::exit(ReadBeyondTheEnd());
      },
      testing::ExitedWithCode(kBusErrorExit),
      "kvgate-test-[A-Za-z0-9]+/model.gguf was cut");  // the child makes a folder of its own
}

TEST_F(BusErrorTest, WhatIsNoModelFilesIsLeftToWhoeverWasThereBefore) {
  struct sigaction before {};
  before.sa_handler = [](int) { _exit(33); };
  EXPECT_EXIT(
      {
        sigaction(SIGBUS, &before, nullptr);
        ExplainBusErrors();
        raise(SIGBUS);
        raise(SIGBUS);
        std::exit(0);
      },
      testing::ExitedWithCode(33), "");
}

}  // namespace
}  // namespace kvgate::cli::machine
