#include "gateway/cli/terminal/progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "tests/wait_until.h"

namespace kvgate::cli::terminal {
namespace {

std::string TextOf(std::FILE* file) {
  // A thread may be writing at the file's position, so the text is read without moving it.
  std::array<char, 4096> text{};
  const ssize_t size = ::pread(::fileno(file), text.data(), text.size(), 0);
  EXPECT_GE(size, 0);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

TEST(ProgressTest, WhatIsQuickSaysNothing) {
  std::FILE* out = std::tmpfile();
  { const Progress progress("warming", "", out); }
  EXPECT_EQ(TextOf(out), "");
  std::fclose(out);
}

TEST(ProgressTest, WhatLastsSaysHowFarItIs) {
  std::FILE* out = std::tmpfile();
  const auto says = [&](std::string_view what) {
    return TextOf(out).find(what) != std::string::npos;
  };
  {
    Progress progress("exporting", "MiB", out, std::chrono::milliseconds(20));
    progress.Set(3, 0);
    EXPECT_TRUE(test::WaitUntil([&] { return says("exporting: 3 MiB, 0 s\n"); }, "a first line"));
    progress.Set(12, 40);
    EXPECT_TRUE(
        test::WaitUntil([&] { return says("exporting: 12 of 40 MiB, "); }, "a line with a total"));
  }
  std::fclose(out);
}

}  // namespace
}  // namespace kvgate::cli::terminal
