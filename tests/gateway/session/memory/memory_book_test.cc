#include "gateway/session/memory/memory_book.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/seal.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::session::memory {
namespace {

using store::meta::MetaTable;

class MemoryBookTest : public ::testing::Test {
 protected:
  void Open(MemoryBook::Options options) {
    options.now_us = [this] { return now_us; };
    auto opened = MemoryBook::Open(std::move(options));
    ASSERT_TRUE(opened) << opened.error().ToString();
    book = *std::move(opened);
  }
  void Open() { Open({.meta = meta}); }
  Result<Memory> Set(const MemoryBook::Place& place, const Entries& changes) {
    return book->Update(place, [&](Memory& memory) -> Result<void> {
      Apply(changes, memory.entries);
      return {};
    });
  }
  std::vector<std::string> Rows() {
    std::vector<std::string> rows;
    EXPECT_TRUE(
        meta.Scan(MetaTable::kPrefixes, "M", [&](std::string_view key, std::string_view value) {
          rows.push_back(std::string(key) + std::string(value));
          return true;
        }));
    return rows;
  }
  void SetUp() override { Open(); }

  store::MemoryMetaStore meta;
  std::unique_ptr<MemoryBook> book;
  int64_t now_us = 1'000'000;
};

TEST_F(MemoryBookTest, WhatIsKeptIsThereAfterARestart) {
  ASSERT_TRUE(Set({.tenant = "t", .session = "s"}, {{"a", "1"}}));
  Open();
  const auto memory = book->Get({.tenant = "t", .session = "s"});
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->entries, (Entries{{"a", "1"}}));
  EXPECT_EQ(memory->updated_us, 1'000'000);
}

TEST_F(MemoryBookTest, ASessionSaysMoreThanItsTenantOrOtherwise) {
  ASSERT_TRUE(Set({.tenant = "t"}, {{"a", "1"}, {"b", "2"}}));
  ASSERT_TRUE(Set({.tenant = "t", .session = "s"}, {{"b", "3"}, {"c", "4"}}));
  EXPECT_EQ(book->Holding({.tenant = "t", .session = "s"})->entries,
            (Entries{{"a", "1"}, {"b", "3"}, {"c", "4"}}));
  EXPECT_EQ(book->Holding({.tenant = "t", .session = "other"})->entries,
            (Entries{{"a", "1"}, {"b", "2"}}));
}

TEST_F(MemoryBookTest, TenantsShareNothing) {
  ASSERT_TRUE(Set({.tenant = "t", .session = "s"}, {{"a", "1"}}));
  EXPECT_TRUE(book->Get({.tenant = "u", .session = "s"})->is_empty());
  EXPECT_TRUE(book->Get({.tenant = "", .session = "ts"})->is_empty());
  EXPECT_TRUE(book->Get({.tenant = "t1", .session = ""})->is_empty());
}

TEST_F(MemoryBookTest, NothingIsReadableOnTheDisk) {
  ASSERT_TRUE(Set({.tenant = "tenant-name", .session = "session-key"}, {{"fact", "\"secret\""}}));
  for (const std::string& row : Rows()) {
    for (const char* text : {"tenant-name", "session-key", "fact", "secret"}) {
      EXPECT_EQ(row.find(text), std::string::npos) << text;
    }
  }
  EXPECT_EQ(Rows().size(), 1u);
}

TEST_F(MemoryBookTest, AnEmptyMemoryHasNoRow) {
  const MemoryBook::Place place{.tenant = "t", .session = "s"};
  ASSERT_TRUE(Set(place, {{"a", "1"}}));
  ASSERT_TRUE(Set(place, {{"a", "null"}}));
  EXPECT_TRUE(Rows().empty());
  ASSERT_TRUE(Set(place, {{"a", "1"}}));
  ASSERT_TRUE(book->Remove(place));
  ASSERT_TRUE(book->Remove(place));
  EXPECT_TRUE(Rows().empty());
}

TEST_F(MemoryBookTest, WhatDoesNotFitChangesNothing) {
  const MemoryBook::Place place{.tenant = "t", .session = "s"};
  ASSERT_TRUE(Set(place, {{"a", "1"}}));
  Entries many;
  for (size_t i = 0; i < kEntriesMax; ++i) many.push_back({"n" + std::to_string(i), "1"});
  EXPECT_FALSE(Set(place, many));
  EXPECT_EQ(book->Get(place)->entries.size(), 1u);
  meta.refuses = true;
  EXPECT_FALSE(Set(place, {{"a", "2"}}));
  meta.refuses = false;
  EXPECT_EQ(book->Get(place)->entries, (Entries{{"a", "1"}}));
}

TEST_F(MemoryBookTest, ADamagedRowIsDroppedAndOthersStay) {
  ASSERT_TRUE(Set({.tenant = "t", .session = "s"}, {{"a", "1"}}));
  ASSERT_TRUE(Set({.tenant = "t", .session = "r"}, {{"a", "2"}}));
  std::string key;
  std::string value;
  (void)meta.Scan(MetaTable::kPrefixes, "M", [&](std::string_view k, std::string_view v) {
    key = k;
    value = v;
    return false;
  });
  value[value.size() / 2] = static_cast<char>(value[value.size() / 2] ^ 1);
  ASSERT_TRUE(meta.Put(MetaTable::kPrefixes, key, value));
  const size_t there = !book->Get({.tenant = "t", .session = "s"})->is_empty() +
                       !book->Get({.tenant = "t", .session = "r"})->is_empty();
  EXPECT_EQ(there, 1u);
  Open();
  EXPECT_EQ(Rows().size(), 1u);
}

// A row that is put into another's place does not speak for it.
TEST_F(MemoryBookTest, ARowSpeaksForItsOwnPlaceOnly) {
  ASSERT_TRUE(Set({.tenant = "t", .session = "s"}, {{"a", "1"}}));
  std::string value;
  (void)meta.Scan(MetaTable::kPrefixes, "M", [&](std::string_view, std::string_view v) {
    value = v;
    return false;
  });
  ASSERT_TRUE(Set({.tenant = "u", .session = "s"}, {{"a", "2"}}));
  std::vector<std::string> keys;
  (void)meta.Scan(MetaTable::kPrefixes, "M", [&](std::string_view k, std::string_view) {
    keys.emplace_back(k);
    return true;
  });
  for (const std::string& key : keys) ASSERT_TRUE(meta.Put(MetaTable::kPrefixes, key, value));
  EXPECT_TRUE(book->Get({.tenant = "u", .session = "s"})->is_empty());
}

TEST_F(MemoryBookTest, AfterARotationRowsAreSealedAndNamedAnew) {
  const std::string old_secret = Keyring::GenerateSecret();
  const std::string new_secret = Keyring::GenerateSecret();
  meta.SetKeyring(*Keyring::Parse(old_secret, "test"));
  Open();
  ASSERT_TRUE(Set({.tenant = "t", .session = "s"}, {{"a", "1"}}));
  meta.SetKeyring(*Keyring::Parse(new_secret + "," + old_secret, "test"));
  Open();
  meta.SetKeyring(*Keyring::Parse(new_secret, "test"));
  Open();
  EXPECT_EQ(Rows().size(), 1u);
  EXPECT_EQ(book->Get({.tenant = "t", .session = "s"})->entries, (Entries{{"a", "1"}}));
  meta.SetKeyring(*Keyring::Parse(old_secret, "test"));
  Open();
  EXPECT_TRUE(book->Get({.tenant = "t", .session = "s"})->is_empty());
  EXPECT_EQ(Rows().size(), 1u);  // it may come back with its secret
}

TEST_F(MemoryBookTest, AnOldMemoryWithoutItsSessionGoes) {
  ASSERT_TRUE(Set({.tenant = "t"}, {{"a", "1"}}));
  ASSERT_TRUE(Set({.tenant = "t", .session = "gone"}, {{"a", "1"}}));
  ASSERT_TRUE(Set({.tenant = "t", .session = "there"}, {{"a", "1"}}));
  const auto has = [](const MemoryBook::Place& place) { return place.session == "there"; };
  Open({.meta = meta, .has_session = has, .orphan_age_us = 10});
  EXPECT_EQ(Rows().size(), 3u);
  now_us += 100;
  Open({.meta = meta, .has_session = has, .orphan_age_us = 10});
  EXPECT_EQ(Rows().size(), 2u);
  EXPECT_FALSE(book->Get({.tenant = "t"})->is_empty());
}

}  // namespace
}  // namespace kvgate::session::memory
