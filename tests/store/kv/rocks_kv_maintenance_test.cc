// Tests the store's own maintenance: flushing on time, keeping the cap, recovering from a full or
// failing disk.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "store/kv/rocks_kv_store.h"
#include "store/rocks_data_directory.h"
#include "tests/store/store_fixture.h"
#include "tests/wait_until.h"

namespace kvgate::store::kv {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A file system of its own that is small enough to fill.
class SmallDisk {
 public:
  explicit SmallDisk(const char* options) {
    mounted_ =
        ::geteuid() == 0 && ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, options) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  bool MakeReadOnly() {
    return ::mount("tmpfs", path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TempFolder directory_;
  bool mounted_ = false;
};

TEST(RocksKvMaintenance, WhatIsWrittenIsOnDiskWithinTheFlushInterval) {
  const TempFolder temporary;
  const KvStoreOptions options{.directory = temporary.path() / "kv",
                               .capacity_bytes = 64 * kMiB,
                               .flush_interval = std::chrono::milliseconds(300)};
  auto store = RocksKvStore::Open(options).value();
  const auto chain = MakeChain(1, 4, 100'000);
  ASSERT_TRUE(store->Put(Records(chain)));
  ASSERT_TRUE(test::WaitUntil([&] { return DirectoryBytes(options.directory) > 400'000; },
                              "it was flushed"));
  KvStoreOptions look = options;
  look.read_only = true;
  ASSERT_TRUE(test::WaitUntil(
      [&] {
        auto reader = RocksKvStore::Open(look);
        return reader && Read(**reader, chain[3]) == Found::kRight;
      },
      "a reader finds the chain"));
}

// Writes `factor` times the cap while another thread measures the directory.
void KeepsTheCap(uint64_t capacity, uint64_t factor, size_t block_bytes, bool reuse_old) {
  const TempFolder temporary;
  // This test is about the cap, so a busy machine gets ample time to free space.
  const KvStoreOptions options{.directory = temporary.path() / "kv",
                               .capacity_bytes = capacity,
                               .admit_timeout = std::chrono::seconds(60)};
  auto store = RocksKvStore::Open(options).value();
  std::atomic<bool> stop{false};
  uint64_t peak = 0;
  std::thread watcher([&] {
    while (!stop) {
      peak = std::max(peak, DirectoryBytesAtOnce(options.directory));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const uint64_t num_chains = factor * capacity / (8 * block_bytes);
  std::mt19937_64 random(3);
  for (uint64_t chain = 0; chain < num_chains; ++chain) {
    const auto put = store->Put(Records(MakeChain(chain, 8, block_bytes)));
    EXPECT_TRUE(put.has_value()) << put.error().ToString();
    if (!reuse_old || chain < 8) continue;
    // Old chains that stay in use leave garbage in every file, the collector's worst case.
    for (int i = 0; i < 8; ++i) {
      const uint64_t old = chain - 1 - random() % std::min<uint64_t>(chain, 12 * 8);
      store->Touch(std::vector{MakeBlock(old, 7, 8).key});
    }
  }
  stop = true;
  watcher.join();
  EXPECT_LE(static_cast<double>(peak), 1.15 * static_cast<double>(capacity));
  EXPECT_GE(store->Stats().payload_bytes, capacity / 2) << "more is evicted than the cap asks for";
  EXPECT_EQ(store->Verify(nullptr).value().num_dropped, 0u);
  EXPECT_TRUE(store->Stats().error.empty()) << store->Stats().error;
  store->CheckIntegrity();
}

TEST(RocksKvMaintenance, KeepsTheCapWhileTenTimesAsMuchIsWritten) {
  KeepsTheCap(64 * kMiB, 10, 384 * 1024, false);
}

TEST(RocksKvMaintenance, KeepsTheCapWhenOldRecordsStayInUse) {
  KeepsTheCap(32 * kMiB, 5, 48 * 1024, true);
}

TEST(RocksKvMaintenance, AFullDiskStopsWritingNotReadingAndWritingResumesByItself) {
  SmallDisk disk("size=24m");
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  auto store = RocksKvStore::Open({.directory = disk.path() / "kv",
                                   .capacity_bytes = 256 * kMiB,
                                   .flush_interval = std::chrono::milliseconds(100)})
                   .value();
  const auto first = MakeChain(0, 4, 200'000);
  ASSERT_TRUE(store->Put(Records(first)));
  ASSERT_TRUE(store->Flush());
  {
    std::ofstream filler(disk.path() / "filler");
    const std::string megabyte(kMiB, 'x');
    while (filler << megabyte << std::flush) continue;
  }
  uint64_t chain = 1;
  Result<void> put;
  ASSERT_TRUE(test::WaitUntil(
      [&] {
        put = store->Put(Records(MakeChain(chain++, 4, 200'000)));
        return !put.has_value();
      },
      "a full disk refuses a write"));
  EXPECT_EQ(put.error().code, ErrorCode::kIo) << put.error().ToString();
  EXPECT_NE(store->Stats().error.find("disk is full"), std::string::npos) << store->Stats().error;
  for (const Block& block : first) EXPECT_EQ(Read(*store, block), Found::kRight);

  std::filesystem::remove(disk.path() / "filler");
  const auto later = MakeChain(100'000, 4, 200'000);
  EXPECT_TRUE(test::WaitUntil([&] { return store->Put(Records(later)).has_value(); },
                              "the disk takes writes"));
  EXPECT_TRUE(store->Flush());
  EXPECT_TRUE(store->Stats().error.empty()) << store->Stats().error;
  for (const Block& block : later) EXPECT_EQ(Read(*store, block), Found::kRight);
  store->CheckIntegrity();
}

TEST(RocksKvMaintenance, ADiskThatFailsMidRunStopsWritingNotReadingAndWritingResumesByItself) {
  const TempFolder temporary;
  const KvStoreOptions options{.directory = temporary.path() / "kv",
                               .capacity_bytes = 256 * kMiB,
                               .flush_interval = std::chrono::milliseconds(100)};
  auto store = RocksKvStore::Open(options).value();
  const auto first = MakeChain(0, 4, 200'000);
  ASSERT_TRUE(store->Put(Records(first)));
  ASSERT_TRUE(store->Flush());
  {
    const FailingDisk failing(64 * 1024);
    uint64_t chain = 1;
    EXPECT_TRUE(test::WaitUntil(
        [&] { return !store->Put(Records(MakeChain(chain++, 4, 200'000))).has_value(); },
        "a failing disk refuses a write"));
    EXPECT_FALSE(store->Stats().error.empty());
    for (const Block& block : first) EXPECT_EQ(Read(*store, block), Found::kRight);
  }
  const auto later = MakeChain(100'000, 4, 200'000);
  EXPECT_TRUE(test::WaitUntil([&] { return store->Put(Records(later)).has_value(); },
                              "the disk takes writes"));
  EXPECT_TRUE(store->Flush());
  EXPECT_EQ(store->Stats().error, "");
  store->CheckIntegrity();
  store.reset();
  store = RocksKvStore::Open(options).value();
  for (const Block& block : first) EXPECT_EQ(Read(*store, block), Found::kRight);
  for (const Block& block : later) EXPECT_EQ(Read(*store, block), Found::kRight);
}

TEST(RocksKvMaintenance, AReadOnlyDiskIsNamedAtOpening) {
  SmallDisk disk("size=8m");
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
  std::filesystem::create_directory(disk.path() / "data");
  ASSERT_TRUE(disk.MakeReadOnly());
  for (const char* name : {"data", "missing"}) {
    const auto opened = DataDirectory::Open({.directory = disk.path() / name});
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, ErrorCode::kPermissionDenied) << opened.error().ToString();
    EXPECT_NE(opened.error().detail.find(disk.path().string()), std::string::npos);
    EXPECT_NE(opened.error().detail.find("Read-only"), std::string::npos);
  }
}

TEST(RocksKvMaintenance, DamageThatStopsTheCollectorIsHealedWhileServing) {
  const TempFolder temporary;
  const KvStoreOptions options{.directory = temporary.path() / "kv", .capacity_bytes = 16 * kMiB};
  auto store = RocksKvStore::Open(options).value();
  for (uint64_t chain = 0; chain < 10; ++chain) {
    ASSERT_TRUE(store->Put(Records(MakeChain(chain, 4, 200'000))));
  }
  ASSERT_TRUE(store->Flush());
  for (const auto& file : FilesWith(options.directory, ".blob")) {
    FlipByte(file, std::filesystem::file_size(file) / 2);
  }
  uint64_t num_written = 0;
  for (uint64_t chain = 100; chain < 200; ++chain) {
    num_written += store->Put(Records(MakeChain(chain, 4, 200'000))).has_value() ? 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(num_written, 10u);
  const auto last = MakeChain(1000, 4, 200'000);
  EXPECT_TRUE(test::WaitUntil([&] { return store->Put(Records(last)).has_value(); },
                              "the disk takes writes"));
  for (const Block& block : last) EXPECT_EQ(Read(*store, block), Found::kRight);
  EXPECT_TRUE(test::WaitUntil([&] { return store->Stats().error.empty(); }, "the error is gone"));
  EXPECT_EQ(store->Verify(nullptr).value().num_dropped, 0u);
  store->CheckIntegrity();
}

TEST(RocksKvMaintenance, LastUseSurvivesAnOrderlyClose) {
  const TempFolder temporary;
  const KvStoreOptions options{.directory = temporary.path() / "kv", .capacity_bytes = 16 * kMiB};
  const Block old = MakeBlock(1, 0, 1000);
  const Block young = MakeBlock(2, 0, 1000);
  {
    auto store = RocksKvStore::Open(options).value();
    ASSERT_TRUE(store->Put(std::vector{old.Record(), young.Record()}));
    ASSERT_TRUE(store->Flush());
    store->Touch(std::vector{old.key});
  }
  auto store = RocksKvStore::Open(options).value();
  EXPECT_EQ(store->ListPrefixes().front().leaf, old.key);
}

}  // namespace
}  // namespace kvgate::store::kv
