// Tests the checks that RocksDB has no options for: blobs tapped during reads, and tables with
// handles that point outside the file.
#include "store/file/rocks_file_system.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "store/kv/rocks_kv_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store::file {

using kv::RocksKvStore;

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMiB = uint64_t{1} << 20;

kv::KvStoreOptions Options(const fs::path& directory) {
  fs::create_directories(directory);
  return {.directory = directory / "kv", .capacity_bytes = 16 * kMiB};
}

TEST(RocksFileSystem, AnyByteOfATableMayChangeAndNothingWrongIsServed) {
  const TempFolder temporary;
  const auto chain = MakeChain(1, 6, 2000);
  {
    auto store = RocksKvStore::Open(Options(temporary.path() / "whole")).value();
    ASSERT_TRUE(store->Put(Records(chain)));
    ASSERT_TRUE(store->Flush());
  }
  std::mt19937 random(7);
  uint64_t num_right = 0;
  for (const auto& table : FilesWith(temporary.path() / "whole" / "kv", ".sst")) {
    const uint64_t bytes = fs::file_size(table);
    for (uint64_t at = random() % 150; at < bytes; at += 150) {
      const auto copy = temporary.path() / "copy";
      fs::remove_all(copy);
      fs::copy(temporary.path() / "whole", copy, fs::copy_options::recursive);
      FlipByte(copy / "kv" / table.filename(), at);
      auto store = RocksKvStore::Open(Options(copy));
      ASSERT_TRUE(store.has_value()) << table << " at " << at << store.error().ToString();
      for (const Block& block : chain) {
        num_right += Read(**store, block) == Found::kRight ? 1 : 0;
      }
    }
  }
  EXPECT_GT(num_right, 0u) << "bytes that nobody reads harm nothing";
}

TEST(RocksFileSystem, AFooterThatPointsOutsideIsDamageAndNotARequestForMemory) {
  const TempFolder temporary;
  const auto options = Options(temporary.path());
  {
    auto store = RocksKvStore::Open(options).value();
    ASSERT_TRUE(store->Put(Records(MakeChain(1, 2, 1000))));
    ASSERT_TRUE(store->Flush());
  }
  for (const auto& table : FilesWith(options.directory, ".sst")) {
    // Each byte of the footer's handles becomes the first byte of a longer number.
    std::fstream file(table, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(table)) - 52);
    file << std::string(8, '\xff') << '\x7f';
  }
  auto store = RocksKvStore::Open(options);
  ASSERT_TRUE(store.has_value()) << store.error().ToString();
  EXPECT_EQ((*store)->Stats().num_records, 0u);
  EXPECT_EQ(FilesWith(temporary.path(), "kv.damaged-").size(), 1u);
}

TEST(RocksFileSystem, ATapTakesOneBlobOfItsThreadAndNoSmallerOne) {
  std::string taken;
  const std::function<Result<void>(std::string_view)> use = [&](std::string_view bytes) {
    taken = bytes;
    return Result<void>();
  };
  EXPECT_FALSE(BlobTap::Offer("nobody asks"));
  {
    const BlobTap tap({.bytes_min = 4, .header_bytes = 2, .use = use});
    EXPECT_FALSE(BlobTap::Offer("small"));
    EXPECT_FALSE(tap.used());
    EXPECT_TRUE(BlobTap::Offer("--value"));
    EXPECT_FALSE(BlobTap::Offer("--again"));
    EXPECT_TRUE(tap.used() && tap.result());
  }
  EXPECT_EQ(taken, "value");
  EXPECT_FALSE(BlobTap::Offer("--value"));
}

}  // namespace
}  // namespace kvgate::store::file
