#include "gateway/session/prompts/prompt_rows.h"

#include <gtest/gtest.h>

#include "tests/store/memory_meta_store.h"

namespace kvgate::session::prompts {
namespace {

using store::MemoryMetaStore;
using store::meta::MetaTable;

PromptVersion Version(std::string version, std::optional<double> share = {}) {
  PromptVersion made = *MakeVersion({.name = "support", .version = std::move(version)},
                                    "Be kind to {{customer}}.", share);
  made.created_us = 42;
  return made;
}

std::vector<std::pair<std::string, std::string>> RowsOf(const MemoryMetaStore& meta) {
  std::vector<std::pair<std::string, std::string>> rows;
  EXPECT_TRUE(
      meta.Scan(MetaTable::kPrefixes, "", [&](std::string_view key, std::string_view value) {
        rows.emplace_back(key, value);
        return true;
      }));
  return rows;
}

TEST(PromptRowsTest, WhatIsPutIsReadAgainUntilItIsRemoved) {
  MemoryMetaStore meta;
  PromptRows rows(&meta);
  ASSERT_TRUE(rows.Put(Version("1", 0.25)));
  ASSERT_TRUE(rows.Put(Version("2")));
  ASSERT_TRUE(rows.Put(Version("1")));
  auto read = PromptRows(&meta).Load();
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 2u);
  for (const PromptVersion& version : *read) EXPECT_EQ(version, Version(version.id.version));
  ASSERT_TRUE(rows.Remove({{.name = "support", .version = "1"}}));
  read = PromptRows(&meta).Load();
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->front().id.version, "2");
}

TEST(PromptRowsTest, NeitherNamesNorTextsAreOnTheDiskInClear) {
  MemoryMetaStore meta;
  ASSERT_TRUE(PromptRows(&meta).Put(Version("1")));
  const auto rows = RowsOf(meta);
  ASSERT_EQ(rows.size(), 1u);
  for (const std::string_view word : {"support", "kind", "customer"}) {
    EXPECT_EQ(rows[0].first.find(word), std::string::npos);
    EXPECT_EQ(rows[0].second.find(word), std::string::npos);
  }
}

TEST(PromptRowsTest, ADamagedRowIsAbsentAndTheOthersAreThere) {
  MemoryMetaStore meta;
  PromptRows rows(&meta);
  ASSERT_TRUE(rows.Put(Version("1")));
  std::string damaged = RowsOf(meta)[0].second;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  ASSERT_TRUE(meta.Put(MetaTable::kPrefixes, RowsOf(meta)[0].first, damaged));
  ASSERT_TRUE(rows.Put(Version("2")));
  const auto read = rows.Load();
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->front().id.version, "2");
}

TEST(PromptRowsTest, ANewSecretInFrontSealsThemAnew) {
  MemoryMetaStore meta;
  const std::string old_secret = Keyring::GenerateSecret();
  const std::string new_secret = Keyring::GenerateSecret();
  meta.SetKeyring(*Keyring::Parse(old_secret, "test"));
  ASSERT_TRUE(PromptRows(&meta).Put(Version("1")));
  meta.SetKeyring(*Keyring::Parse(new_secret + "\n" + old_secret, "test"));
  ASSERT_EQ(PromptRows(&meta).Load()->size(), 1u);
  meta.SetKeyring(*Keyring::Parse(new_secret, "test"));
  EXPECT_EQ(PromptRows(&meta).Load()->size(), 1u) << "the old secret is needed no more";
  EXPECT_EQ(PromptRows(&meta).Load()->size(), 1u);
  EXPECT_EQ(RowsOf(meta).size(), 1u) << "under its new name alone";
}

TEST(PromptRowsTest, RowsOfAMissingSecretStayUntilItIsBack) {
  MemoryMetaStore meta;
  const std::string secret = Keyring::GenerateSecret();
  meta.SetKeyring(*Keyring::Parse(secret, "test"));
  ASSERT_TRUE(PromptRows(&meta).Put(Version("1")));
  meta.SetKeyring(*Keyring::Parse(Keyring::GenerateSecret(), "test"));
  EXPECT_TRUE(PromptRows(&meta).Load()->empty());
  meta.SetKeyring(*Keyring::Parse(secret, "test"));
  EXPECT_EQ(PromptRows(&meta).Load()->size(), 1u);
}

TEST(PromptRowsTest, WithoutADataDirectoryNothingIsKept) {
  PromptRows rows(nullptr);
  EXPECT_TRUE(rows.Load()->empty());
  EXPECT_EQ(rows.Put(Version("1")).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(rows.Remove({}).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kvgate::session::prompts
