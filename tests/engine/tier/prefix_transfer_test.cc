#include "engine/tier/prefix_transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv/tenant_salt.h"
#include "kernels/backend.h"
#include "tests/engine/memory_kv_store.h"

namespace kvgate::tier {
namespace {

constexpr uint64_t kSeed = 11;
constexpr Fingerprint kModel{3, 4};
constexpr size_t kNumBlocks = 5;
constexpr size_t kPayloadBytes = 3000;

const Keyring& Ring() {
  static const auto ring = Keyring::Generate();
  return *ring;
}

DirectoryKeys KeysOf(uint64_t seed) { return {.hash_seed = seed, .ring = Ring()}; }

std::vector<TokenId> SomeTokens() {
  std::vector<TokenId> tokens(kNumBlocks * kernels::kKvBlockTokens + 7);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7 % 100);
  return tokens;
}

std::vector<std::byte> PayloadOf(size_t block) {
  return std::vector<std::byte>(kPayloadBytes, static_cast<std::byte>(block + 1));
}

// Stores the prefix as an engine would, and returns its id.
BlockHash StorePrefix(store::kv::KvStore& kv, const std::string& tenant, bool with_tokens = true) {
  const std::vector<TokenId> tokens = SomeTokens();
  const auto keys =
      PrefixKeys({.fingerprint = kModel, .seed = kSeed}, kv::TenantSalt(Ring(), tenant), tokens);
  EXPECT_EQ(keys.size(), kNumBlocks);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto payload = PayloadOf(i);
    const auto block = std::span(tokens).subspan(i * kernels::kKvBlockTokens,
                                                 with_tokens ? kernels::kKvBlockTokens : 0);
    const store::kv::KvRecord record{.key = {.fingerprint = kModel, .hash = keys[i].hash},
                                     .parent = i == 0 ? BlockHash{} : keys[i - 1].hash,
                                     .depth = static_cast<uint32_t>(i),
                                     .digest = keys[i].digest,
                                     .group = 0,
                                     .shape_tag = 9,
                                     .tokens = block,
                                     .payload = payload};
    EXPECT_TRUE(kv.Put({&record, 1}));
  }
  return keys.back().hash;
}

std::string Export(store::kv::KvStore& kv, const BlockHash& id, const std::string& tenant) {
  const std::vector<std::string> tenants = {"somebody else", tenant};
  auto prefix = ReadPrefix(kv, KeysOf(kSeed), id, tenants);
  EXPECT_TRUE(prefix) << prefix.error().ToString();
  PrefixExporter exporter(kv, Ring(), std::move(*prefix));
  std::string all;
  std::string piece;
  while (true) {
    const auto more = exporter.Next(piece);
    EXPECT_TRUE(more);
    all += piece;
    if (!*more) return all;
  }
}

Result<ImportReport> Import(store::kv::KvStore& kv, uint64_t seed, std::string_view file,
                            size_t step = 1000) {
  PrefixImporter importer(kv, KeysOf(seed));
  for (size_t at = 0; at < file.size(); at += step) {
    KVGATE_TRY_VOID(importer.Feed(file.substr(at, step)));
  }
  return importer.Finish();
}

// Stores the records that a second KV group has of the prefix's last two blocks.
void StoreWindows(store::kv::KvStore& kv, const std::string& tenant) {
  const auto keys = PrefixKeys({.fingerprint = kModel, .seed = kSeed},
                               kv::TenantSalt(Ring(), tenant), SomeTokens());
  for (size_t i = kNumBlocks - 2; i < kNumBlocks; ++i) {
    const auto payload = PayloadOf(100 + i);
    const store::kv::KvRecord record{
        .key = {.fingerprint = kModel, .hash = kv::GroupHash(keys[i].hash, 1)},
        .parent = keys[i].hash,
        .depth = static_cast<uint32_t>(i) + 1,
        .digest = keys[i].digest,
        .group = 1,
        .shape_tag = 10,
        .payload = payload};
    EXPECT_TRUE(kv.Put({&record, 1}));
  }
}

TEST(PrefixTransfer, TheWindowsOfAPrefixMoveWithItUnderTheKeysThatHoldThere) {
  store::MemoryKvStore from;
  const BlockHash id = StorePrefix(from, "tenant");
  StoreWindows(from, "tenant");
  const std::string file = Export(from, id, "tenant");
  store::MemoryKvStore to;
  const auto report = Import(to, kSeed + 1, file);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->num_imported, kNumBlocks);
  EXPECT_EQ(report->num_dropped(), 0u);
  EXPECT_EQ(to.Stats().num_records, kNumBlocks + 2);
  const auto keys = PrefixKeys({.fingerprint = kModel, .seed = kSeed + 1},
                               kv::TenantSalt(Ring(), "tenant"), SomeTokens());
  std::vector<std::byte> payload(kPayloadBytes);
  EXPECT_TRUE(to.Get({.key = {.fingerprint = kModel, .hash = kv::GroupHash(keys.back().hash, 1)},
                      .digest = keys.back().digest,
                      .group = 1,
                      .shape_tag = 10,
                      .payload = payload}));
  EXPECT_EQ(payload, PayloadOf(100 + kNumBlocks - 1));
}

TEST(PrefixTransfer, AWindowOfAnotherPrefixEndsTheImport) {
  store::MemoryKvStore from;
  StorePrefix(from, "tenant");
  StoreWindows(from, "tenant");
  const auto keys = PrefixKeys({.fingerprint = kModel, .seed = kSeed},
                               kv::TenantSalt(Ring(), "tenant"), SomeTokens());
  store::kv::KvBlock window =
      *from.Read({.fingerprint = kModel, .hash = kv::GroupHash(keys.back().hash, 1)});
  store::kv::PrefixFileWriter writer(Ring());
  std::string file;
  writer.Header({.fingerprint = kModel, .tenant = "tenant", .num_blocks = 2}, file);
  writer.Block(*from.Read({.fingerprint = kModel, .hash = keys[0].hash}), file);
  window.depth = 1;  // its digest says that it belongs to another block
  writer.Block(window, file);
  writer.Block(*from.Read({.fingerprint = kModel, .hash = keys[1].hash}), file);
  writer.End({.num_blocks = 2, .digest = keys[1].digest}, file);
  store::MemoryKvStore to;
  const auto report = Import(to, kSeed, file);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->num_imported, 1u);
  EXPECT_NE(report->reason.find("window"), std::string::npos) << report->reason;
  EXPECT_EQ(to.Stats().num_records, 1u);
}

TEST(PrefixTransfer, WhatIsExportedIsFoundInADirectoryOfAnotherSeed) {
  store::MemoryKvStore from;
  store::MemoryKvStore to;
  const std::string file = Export(from, StorePrefix(from, "tenant"), "tenant");
  const uint64_t other_seed = kSeed + 1;
  const auto report = Import(to, other_seed, file);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->num_imported, kNumBlocks);
  EXPECT_EQ(report->num_dropped(), 0u);
  EXPECT_EQ(report->reason, "");
  const auto keys = PrefixKeys({.fingerprint = kModel, .seed = other_seed},
                               kv::TenantSalt(Ring(), "tenant"), SomeTokens());
  EXPECT_EQ(report->id, keys.back().hash);
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<std::byte> payload(kPayloadBytes);
    const store::kv::KvKey key{.fingerprint = kModel, .hash = keys[i].hash};
    ASSERT_TRUE(to.Get(
        {.key = key, .digest = keys[i].digest, .group = 0, .shape_tag = 9, .payload = payload}));
    EXPECT_EQ(payload, PayloadOf(i));
  }
}

TEST(PrefixTransfer, OnlyItsTenantReadsAPrefix) {
  store::MemoryKvStore kv;
  const BlockHash id = StorePrefix(kv, "tenant");
  const std::vector<std::string> others = {"", "somebody else"};
  EXPECT_EQ(ReadPrefix(kv, KeysOf(kSeed), id, others).error().code, ErrorCode::kPermissionDenied);
  const std::vector<std::string> own = {"", "tenant"};
  const auto prefix = ReadPrefix(kv, KeysOf(kSeed), id, own);
  ASSERT_TRUE(prefix);
  EXPECT_EQ(prefix->tenant, "tenant");
  EXPECT_EQ(prefix->tokens.size(), kNumBlocks * kernels::kKvBlockTokens);
  EXPECT_EQ(ReadPrefix(kv, KeysOf(kSeed), BlockHash{1, 2}, own).error().code, ErrorCode::kNotFound);
}

TEST(PrefixTransfer, APrefixStoredWithoutItsTokensCannotBeRead) {
  store::MemoryKvStore kv;
  const BlockHash id = StorePrefix(kv, "", false);
  const std::vector<std::string> tenants = {""};
  EXPECT_EQ(ReadPrefix(kv, KeysOf(kSeed), id, tenants).error().code, ErrorCode::kUnsupported);
}

// Returns the end of each frame. A frame is 24 bytes (checksum, kind, zero and n), then a body of n
// bytes.
std::vector<size_t> FrameEnds(std::string_view file) {
  std::vector<size_t> ends;
  for (size_t at = 0; at + 24 <= file.size(); ends.push_back(at)) {
    uint64_t body_bytes = 0;
    std::memcpy(&body_bytes, file.data() + at + 16, sizeof(body_bytes));
    at += 24 + body_bytes;
  }
  return ends;
}

TEST(PrefixTransfer, EveryDamagedByteCostsWhatHangsFromItAndNothingElse) {
  store::MemoryKvStore from;
  std::string file = Export(from, StorePrefix(from, ""), "");
  const std::vector<size_t> ends = FrameEnds(file);
  ASSERT_EQ(ends.size(), kNumBlocks + 2) << "a header, its blocks, an end";
  ASSERT_EQ(ends.back(), file.size());
  for (size_t at = 0; at < file.size(); at += 97) {
    file[at] ^= 0x20;
    store::MemoryKvStore to;
    const auto report = Import(to, kSeed, file);
    if (report) {
      EXPECT_FALSE(report->reason.empty()) << at;
      const auto whole = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin();
      const size_t intact = whole == 0 ? 0 : std::min(kNumBlocks, static_cast<size_t>(whole) - 1);
      EXPECT_EQ(report->num_imported, intact) << at;
      EXPECT_EQ(to.Stats().num_records, intact);
    } else {
      EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
      EXPECT_EQ(to.Stats().num_records, 0u);
    }
    file[at] ^= 0x20;
  }
}

TEST(PrefixTransfer, AFileThatIsCutShortGivesItsWholeBlocksAndSaysSo) {
  store::MemoryKvStore from;
  const std::string file = Export(from, StorePrefix(from, ""), "");
  store::MemoryKvStore to;
  const auto report = Import(to, kSeed, std::string_view(file).substr(0, file.size() / 2));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->num_imported, 2u);
  EXPECT_EQ(report->num_dropped(), 3u);
  EXPECT_EQ(report->reason, "the file is cut short");
  EXPECT_EQ(Import(to, kSeed, "").error().code, ErrorCode::kUnsupported);
}

TEST(PrefixTransfer, BlocksOfOtherTokensThanTheirDigestSaysAreRefused) {
  store::kv::PrefixFileWriter writer(Ring());
  std::string file;
  writer.Header({.fingerprint = kModel, .tenant = "", .num_blocks = 1}, file);
  store::kv::KvBlock block;
  block.tokens.assign(kernels::kKvBlockTokens, 1);
  block.payload.resize(10);
  writer.Block(block, file);
  writer.End({.num_blocks = 1, .digest = block.digest}, file);
  store::MemoryKvStore to;
  const auto report = Import(to, kSeed, file);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->num_imported, 0u);
  EXPECT_EQ(to.Stats().num_records, 0u);
}

TEST(PrefixTransfer, AStoreThatRefusesIsAnError) {
  store::MemoryKvStore from;
  const std::string file = Export(from, StorePrefix(from, ""), "");
  store::MemoryKvStore to;
  to.fail_put = true;
  EXPECT_EQ(Import(to, kSeed, file).error().code, ErrorCode::kIo);
}

// The blocks of another model's file could never be found.
TEST(PrefixTransfer, AnotherModelsFileIsRefusedAndBothAreNamed) {
  store::MemoryKvStore from;
  store::MemoryKvStore to;
  const std::string file = Export(from, StorePrefix(from, "tenant"), "tenant");
  const Fingerprint other{.low = 1, .high = 2};
  PrefixImporter refusing(to, KeysOf(kSeed), {{.fingerprint = other, .name = "this server's (b)"}});
  const Result<void> fed = refusing.Feed(file);
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(fed.error().field, "fingerprint");
  for (const std::string& named : {ToHex(kModel), ToHex(other), std::string("--any")}) {
    EXPECT_NE(fed.error().detail.find(named), std::string::npos) << fed.error().detail;
  }
  EXPECT_EQ(to.Stats().num_records, 0u);
  // The right model is found among many others.
  std::vector<ImportTarget> many(20, {.fingerprint = other, .name = "b"});
  many.push_back({.fingerprint = kModel, .name = "a"});
  PrefixImporter taking(to, KeysOf(kSeed), many);
  ASSERT_TRUE(taking.Feed(file));
  EXPECT_EQ(taking.Finish()->num_dropped(), 0u);
}

}  // namespace
}  // namespace kvgate::tier
