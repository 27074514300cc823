// gguf_test.cc reads back what GgufWriter writes; these tests cover its failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/modelfile/gguf.h"
#include "tests/engine/model/full_file.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::modelfile {

using model::FillPattern;
using model::FullWriter;

namespace {

using ::testing::HasSubstr;

TEST(GgufWriterTest, ATensorLargerThanTheWriteBufferIsWrittenRowByRow) {
  const TempFolder scratch;
  GgufWriter writer;  // 3000 rows of 4 KiB fill three buffers
  writer.AddTensor({.name = "t.large", .dimensions = {1024, 3000}, .type = GgufType::kF32});
  int num_calls = 0;
  const auto fill = [&](const auto& spec, int64_t first_row, std::span<std::byte> data) {
    ++num_calls;
    FillPattern(spec, first_row, data);
  };
  ASSERT_TRUE(writer.Write(scratch / "a.gguf", fill).has_value());
  EXPECT_GT(num_calls, 1);
  const auto opened = GgufFile::Open(scratch / "a.gguf");
  ASSERT_TRUE(opened.has_value());
  const std::span<const std::byte> data = (*opened)->FindTensor("t.large")->data;
  for (size_t row = 0; row < 3000; ++row) {
    ASSERT_EQ(data[row * 4096 + row],
              model::PatternByte("t.large", static_cast<int64_t>(row), row));
  }
}

TEST(GgufWriterTest, AFullDiskLeavesNothingBehindAndSaysSo) {
  const TempFolder scratch;
  const auto path = scratch / "a.gguf";
  // The partial file is a link to a device that is always full.
  std::filesystem::create_symlink("/dev/full", path.string() + ".partial");
  const Result<void> written = FullWriter().Write(path, FillPattern);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_THAT(written.error().detail, HasSubstr("No space left on device"));
  EXPECT_THAT(written.error().detail, HasSubstr(path.string()));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path)));
  EXPECT_FALSE(
      std::filesystem::exists(std::filesystem::symlink_status(path.string() + ".partial")));
}

TEST(GgufWriterTest, AFailedWriteKeepsTheOldFile) {
  const TempFolder scratch;
  const auto path = scratch / "a.gguf";
  ASSERT_TRUE(FullWriter().Write(path, FillPattern).has_value());
  const std::vector<std::byte> before = model::ReadAll(path);
  std::filesystem::create_symlink("/dev/full", path.string() + ".partial");
  ASSERT_FALSE(FullWriter().Write(path, FillPattern).has_value());
  EXPECT_EQ(model::ReadAll(path), before);
}

TEST(GgufWriterTest, TheWriterRefusesWhatCannotBeRead) {
  const TempFolder scratch;
  const auto refused = [&](auto change, std::string_view part) {
    GgufWriter writer = FullWriter();
    change(writer);
    const Result<void> written = writer.Write(scratch / "a.gguf", FillPattern);
    ASSERT_FALSE(written.has_value());
    EXPECT_EQ(written.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(written.error().detail, HasSubstr(std::string(part)));
    EXPECT_FALSE(std::filesystem::exists(scratch / "a.gguf"));
  };
  refused([](GgufWriter& w) { w.Add("u8", uint8_t{1}); }, "'u8'");
  refused(
      [](GgufWriter& w) {
        w.AddTensor({.name = "t.f32", .dimensions = {1}, .type = GgufType::kF32});
      },
      "'t.f32'");
  refused(
      [](GgufWriter& w) {
        w.AddTensor({.name = "odd", .dimensions = {33}, .type = GgufType::kQ8_0});
      },
      "'odd'");
  refused(
      [](GgufWriter& w) {
        w.AddTensor({.name = "none", .dimensions = {}, .type = GgufType::kF32});
      },
      "'none'");
  refused([](GgufWriter& w) { w.Add("general.alignment", uint32_t{64}); }, "alignment");
}

}  // namespace
}  // namespace kvgate::modelfile
