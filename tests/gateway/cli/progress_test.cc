#include "gateway/cli/progress.h"

#include <gtest/gtest.h>

#include <array>

namespace kvgate::cli {
namespace {

std::string TextOf(std::FILE* file) {
  std::rewind(file);
  std::array<char, 4096> text{};
  const size_t size = std::fread(text.data(), 1, text.size(), file);
  return {text.data(), size};
}

TEST(ProgressTest, WhatIsQuickSaysNothing) {
  std::FILE* out = std::tmpfile();
  { const Progress progress("warming", "", out); }
  EXPECT_EQ(TextOf(out), "");
  std::fclose(out);
}

TEST(ProgressTest, WhatLastsSaysHowFarItIs) {
  std::FILE* out = std::tmpfile();
  {
    Progress progress("exporting", "MiB", out, std::chrono::milliseconds(20));
    progress.Set(3, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    progress.Set(12, 40);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const std::string text = TextOf(out);
  EXPECT_NE(text.find("exporting: 3 MiB, 0 s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("exporting: 12 of 40 MiB, 0 s\n"), std::string::npos) << text;
  std::fclose(out);
}

}  // namespace
}  // namespace kvgate::cli
