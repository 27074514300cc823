#include "engine/model/embedding_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/engine/model/test_paths.h"

namespace kvgate::model {
namespace {

constexpr int64_t kRows = 50;
constexpr int64_t kColumns = 8;
constexpr size_t kRowBytes = kColumns * sizeof(float);
constexpr size_t kOffset = 12;  // of the first row in the file, in bytes

// The fixture has a file with a table of F32 rows: row r holds r, r + 1/8, ...
class EmbeddingTableTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<char> bytes(kOffset + kRows * kRowBytes);
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      const float value = static_cast<float>(i) / kColumns;
      std::memcpy(bytes.data() + kOffset + static_cast<size_t>(i) * sizeof(float), &value,
                  sizeof(float));
    }
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file_ = *modelfile::MappedFile::Open(path_);
    const modelfile::GgufTensor tensor = {.name = "t",
                                          .dimensions = {kColumns, kRows},
                                          .data = file_->bytes().subspan(kOffset),
                                          .file = file_.get()};
    auto made = EmbeddingTable::Make(
        tensor, {.data = tensor.data.data(), .rows = kRows, .columns = kColumns});
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    table_ = std::move(*made);
    table_.Reserve(4);
  }
  void Overwrite(size_t row, size_t byte) const {
    std::fstream out(path_, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(kOffset + row * kRowBytes + byte));
    out.put('\x7f');
  }
  static float FirstOf(const kernels::WeightView& view, size_t row) {
    float value = 0;
    std::memcpy(&value, view.data + row * kRowBytes, sizeof(float));
    return value;
  }

  const TempFolder directory_;
  const std::filesystem::path path_ = directory_ / "table.bin";
  std::unique_ptr<modelfile::MappedFile> file_;
  EmbeddingTable table_;
};

TEST_F(EmbeddingTableTest, StagesTheRowsOfTokensInTheirOrder) {
  const std::vector<TokenId> ids = {7, 0, 49, 7};
  const auto rows = table_.Stage(ids);
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->rows, 4);
  EXPECT_EQ(rows->columns, kColumns);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(FirstOf(*rows, i), static_cast<float>(ids[i]));
}

TEST_F(EmbeddingTableTest, AnyByteOfARowThatWasOverwrittenIsNoticedBeforeTheRowIsUsed) {
  for (size_t byte = 0; byte < kRowBytes; ++byte) {
    SetUp();
    Overwrite(20, byte);
    const TokenId other = 19;
    EXPECT_TRUE(table_.Stage({&other, 1}).has_value()) << byte;
    const TokenId changed = 20;
    const auto rows = table_.Stage({&changed, 1});
    ASSERT_FALSE(rows.has_value()) << byte;
    EXPECT_EQ(rows.error().code, ErrorCode::kDataLoss);
    EXPECT_NE(rows.error().detail.find(path_.string()), std::string::npos);
    EXPECT_FALSE(table_.CheckAll({}).has_value()) << byte;
  }
}

TEST_F(EmbeddingTableTest, AFileThatWasCutIsAnErrorAndNoSignal) {
  std::filesystem::resize_file(path_, kOffset + 30 * kRowBytes + 1);
  const TokenId before = 29;
  EXPECT_TRUE(table_.Stage({&before, 1}).has_value());
  for (const TokenId gone : {30, 49}) {
    const auto rows = table_.Stage({&gone, 1});
    ASSERT_FALSE(rows.has_value());
    EXPECT_EQ(rows.error().code, ErrorCode::kDataLoss);
  }
  EXPECT_FALSE(table_.CheckAll({}).has_value());
}

TEST_F(EmbeddingTableTest, WhatIsWrittenBesideTheRowsDoesNotMatter) {
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).put('x');
  EXPECT_TRUE(table_.CheckAll({}).has_value());
}

}  // namespace
}  // namespace kvgate::model
