#include "store/file/log_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace kvgate::store::file {
namespace {

std::vector<std::string> SomeRecords(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> records;
  for (int i = 0; i < 40; ++i) {
    const size_t bytes = i % 8 == 0 ? random() % 100'000 : random() % 3000;
    records.emplace_back(bytes, static_cast<char>('a' + i % 26));
  }
  return records;
}

TEST(LogRecords, WhatIsWrittenIsReadAcrossBlocks) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto records = SomeRecords(seed);
    const LogRecords read = ReadLogRecords(WriteLogRecords(records));
    EXPECT_EQ(read.records, records);
    EXPECT_EQ(read.num_bytes_skipped, 0u);
  }
  EXPECT_TRUE(ReadLogRecords("").records.empty());
}

TEST(LogRecords, DamageCostsItsBlockAndNothingIsMadeUp) {
  const auto records = SomeRecords(7);
  const std::string whole = WriteLogRecords(records);
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string file = whole;
    const size_t at = random() % file.size();
    file[at] = static_cast<char>(file[at] ^ (1 << (random() % 8)));
    const LogRecords read = ReadLogRecords(file);
    auto next = records.begin();
    for (const std::string& record : read.records) {
      next = std::find(next, records.end(), record);
      ASSERT_NE(next, records.end()) << "byte " << at << ": a record that nobody wrote";
      ++next;
    }
    EXPECT_EQ(read.records.size() < records.size(), read.num_bytes_skipped > 0) << at;
  }
}

TEST(LogRecords, AnyBytesCanBeRead) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 200; ++i) {
    std::string file(random() % 70'000, '\0');
    for (char& byte : file) byte = static_cast<char>(random() % (1 + random() % 256));
    (void)ReadLogRecords(file);
  }
}

}  // namespace
}  // namespace kvgate::store::file
