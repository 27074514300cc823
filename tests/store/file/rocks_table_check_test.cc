#include "store/file/rocks_table_check.h"

#include <gtest/gtest.h>

#include <iterator>

#include "store/kv/rocks_kv_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store::file {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Result<void> Check(const std::string& bytes) {
  return CheckTable(bytes.size(), [&](uint64_t offset, uint64_t size) -> Result<std::string> {
    EXPECT_LE(offset + size, bytes.size()) << "asked for what is not there";
    return bytes.substr(offset, size);
  });
}

// Returns a table written by RocksDB.
std::string MakeTable() {
  const TempFolder temporary;
  const kv::KvStoreOptions options{.directory = temporary.path() / "kv",
                                   .capacity_bytes = 16 << 20};
  auto store = kv::RocksKvStore::Open(options).value();
  EXPECT_TRUE(store->Put(Records(MakeChain(1, 4, 1000))));
  EXPECT_TRUE(store->Flush());
  return ReadFile(FilesWith(options.directory, ".sst").at(0));
}

TEST(RocksTableCheck, ATableAsRocksDbWritesItPasses) {
  const auto checked = Check(MakeTable());
  EXPECT_TRUE(checked) << checked.error().ToString();
}

TEST(RocksTableCheck, AnyChangeOfItsMetadataIsFoundOrHarmsNothing) {
  const std::string table = MakeTable();
  size_t num_found = 0;
  for (size_t at = 0; at < table.size(); ++at) {
    std::string damaged = table;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    const auto checked = Check(damaged);
    num_found += checked ? 0 : 1;
    EXPECT_TRUE(checked || checked.error().code == ErrorCode::kDataLoss) << at;
  }
  EXPECT_GT(num_found, 500u);
}

TEST(RocksTableCheck, ATableCutAnywhereIsRefused) {
  const std::string table = MakeTable();
  for (size_t size = 0; size < table.size(); ++size) EXPECT_FALSE(Check(table.substr(0, size)));
}

}  // namespace
}  // namespace kvgate::store::file
