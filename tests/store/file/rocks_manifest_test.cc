#include "store/file/rocks_manifest.h"

#include <gtest/gtest.h>

#include <iterator>

#include "store/file/log_records.h"
#include "store/file/rocks_file_system.h"
#include "store/kv/rocks_kv_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store::file {
namespace {

class Manifest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(directory_.path() / name, std::ios::binary | std::ios::trunc) << bytes;
  }
  Result<ManifestChange> Compare(const ManifestMark& marked) {
    return CompareManifest(*EnvUse(), directory_.path(), marked);
  }
  TempFolder directory_;
};

TEST_F(Manifest, MayGrowAndBeReplacedByALaterOneOnly) {
  EXPECT_EQ(MarkManifest(*EnvUse(), directory_.path()).error().code, ErrorCode::kNotFound);
  Write("CURRENT", "MANIFEST-000005\n");
  Write("MANIFEST-000005", "what stands in it");
  const ManifestMark marked = MarkManifest(*EnvUse(), directory_.path()).value();
  EXPECT_EQ(marked.number, 5u);
  EXPECT_EQ(marked.bytes, 17u);
  EXPECT_EQ(Compare(marked), ManifestChange::kNone);
  EXPECT_EQ(Compare({}), ManifestChange::kOther) << "none was marked";
  Write("MANIFEST-000005", "what stands in it, and more");
  EXPECT_EQ(Compare(marked), ManifestChange::kOther);
  for (const char* damaged : {"what stands in i", "", "what stands on it, and more"}) {
    Write("MANIFEST-000005", damaged);
    EXPECT_EQ(Compare(marked).error().code, ErrorCode::kDataLoss) << damaged;
  }
  Write("CURRENT", "MANIFEST-000007\n");
  EXPECT_FALSE(Compare(marked).has_value()) << "it is not there";
  Write("MANIFEST-000007", "another");
  EXPECT_EQ(Compare(marked), ManifestChange::kOther);
  Write("CURRENT", "MANIFEST-000004\n");
  Write("MANIFEST-000004", "what stands in it");
  EXPECT_EQ(Compare(marked).error().code, ErrorCode::kDataLoss) << "an earlier one";
}

TEST_F(Manifest, CurrentMustNameOne) {
  for (const char* bytes : {"", "MANIFEST-", "MANIFEST-0\n", "../MANIFEST-000005\n", "\xff\xfe"}) {
    Write("CURRENT", bytes);
    EXPECT_EQ(MarkManifest(*EnvUse(), directory_.path()).error().code, ErrorCode::kDataLoss)
        << bytes;
  }
}

TEST_F(Manifest, ItsNumbersMayNotRunBackwards) {
  const auto edit = [](char sequence) { return std::string{'\x02', '\x07', '\x04', sequence}; };
  EXPECT_TRUE(CheckManifestOrder(*EnvUse(), directory_.path())) << "there is no database";
  Write("CURRENT", "MANIFEST-000005\n");
  const std::vector<std::string> sound{edit(3), edit(3), "\x01\x02xy", edit(9)};
  Write("MANIFEST-000005", WriteLogRecords(sound));
  EXPECT_TRUE(CheckManifestOrder(*EnvUse(), directory_.path()));
  const std::vector<std::string> twice{edit(3), edit(9), edit(3)};
  Write("MANIFEST-000005", WriteLogRecords(twice));
  EXPECT_EQ(CheckManifestOrder(*EnvUse(), directory_.path()).error().code,
            ErrorCode::kDataLoss);
}

// Uses a real manifest, because RocksDB asserts that the numbers in it do not run backwards.
TEST_F(Manifest, OneThatStandsTwiceIsDamageNotTheEndOfTheProcess) {
  const auto directory = directory_.path() / "kv";
  const auto chain = MakeChain(1, 2, 1000);
  const kv::KvStoreOptions options{.directory = directory,
                                   .capacity_bytes = kv::kKvCapacityBytesMin};
  {
    const auto store = kv::RocksKvStore::Open(options).value();
    ASSERT_TRUE(store->Put(Records(chain)));
    ASSERT_TRUE(store->Flush());
  }
  const auto manifest = FilesWith(directory, "MANIFEST").at(0);
  std::ifstream in(manifest, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  auto records = ReadLogRecords(bytes).records;
  const auto once = records;
  records.insert(records.end(), once.begin(), once.end());
  std::ofstream(manifest, std::ios::binary) << WriteLogRecords(records);
  const auto store = kv::RocksKvStore::Open(options).value();
  EXPECT_EQ(Read(*store, chain[0]), Found::kMissing);
  EXPECT_EQ(FilesWith(directory_.path(), "kv.damaged-").size(), 1u);
}

}  // namespace
}  // namespace kvgate::store::file
