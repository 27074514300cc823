#include "gateway/session/retrieval/vector_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/store/memory_meta_store.h"

namespace kvgate::session::retrieval {
namespace {

using store::meta::MetaTable;
using ::testing::HasSubstr;
using ::testing::Not;

class VectorBookTest : public ::testing::Test {
 protected:
  using Place = VectorBook::Place;

  void Open(const std::string& model = "m", size_t bytes_max = size_t{1} << 20) {
    auto opened = VectorBook::Open({.meta = meta,
                                    .model = model,
                                    .has_turn =
                                        [this](const Place& place, std::string_view turn) {
                                          return !gone.contains(std::string(place.session)) &&
                                                 !gone.contains(std::string(turn));
                                        },
                                    .bytes_max = bytes_max});
    ASSERT_TRUE(opened) << opened.error().ToString();
    book = *std::move(opened);
  }
  static std::vector<Meaning> Made(float first, size_t dimensions = 4) {
    std::vector<float> values(dimensions, 1);
    values[0] = first;
    return {Meaning::Of(values), Meaning()};
  }
  void Put(const Place& place, std::string_view turn, float first = 1, size_t dimensions = 4) {
    const auto put = book->Put(place, turn, texts, Made(first, dimensions));
    EXPECT_TRUE(put) << put.error().ToString();
  }
  bool Has(const Place& place, std::string_view turn) {
    const auto kept = book->Get(place, turn, texts);
    EXPECT_TRUE(kept);
    return kept && kept->has_value();
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    EXPECT_TRUE(meta.Scan(MetaTable::kPrefixes, "E", [&](std::string_view key, std::string_view) {
      keys.emplace_back(key);
      return true;
    }));
    return keys;
  }
  std::string AllBytes() {
    std::string all;
    EXPECT_TRUE(
        meta.Scan(MetaTable::kPrefixes, "", [&](std::string_view key, std::string_view value) {
          all.append(key).append(value);
          return true;
        }));
    return all;
  }
  void SetUp() override { Open(); }

  store::MemoryMetaStore meta;
  std::unique_ptr<VectorBook> book;
  std::set<std::string> gone;
  const std::vector<std::string> texts = {"User: a", "Assistant: b"};
  const Place k = {.tenant = "t", .session = "kiwi"};
};

TEST_F(VectorBookTest, WhatIsKeptIsThereAfterARestart) {
  Put(k, "turn_1", 5);
  const size_t bytes = book->bytes();
  Open();
  EXPECT_EQ(book->bytes(), bytes);
  const auto kept = book->Get(k, "turn_1", texts);
  ASSERT_TRUE(kept && *kept);
  ASSERT_EQ((*kept)->size(), 2u);
  EXPECT_EQ((**kept)[0].bytes(), Made(5)[0].bytes());
  EXPECT_FALSE((**kept)[1].is_known());
  EXPECT_FALSE(Has(k, "turn_2"));
}

TEST_F(VectorBookTest, NothingOfItCanBeReadOnTheDisk) {
  Put(k, "turn_1");
  EXPECT_THAT(AllBytes(), Not(HasSubstr("kiwi")));
  EXPECT_THAT(AllBytes(), Not(HasSubstr("turn_1")));
}

TEST_F(VectorBookTest, OthersHaveNoneOfIt) {
  Put(k, "turn_1");
  EXPECT_FALSE(Has({.tenant = "other", .session = "kiwi"}, "turn_1"));
  EXPECT_FALSE(Has({.tenant = "t", .session = "other"}, "turn_1"));
}

TEST_F(VectorBookTest, AnotherModelsVectorsAreNoneAndAreReplaced) {
  Put(k, "turn_1");
  Open("m2");
  EXPECT_FALSE(Has(k, "turn_1"));
  Put(k, "turn_1");
  EXPECT_TRUE(Has(k, "turn_1"));
  EXPECT_EQ(Keys().size(), 1u);
}

TEST_F(VectorBookTest, VectorsOfAnotherDivisionAreNone) {
  Put(k, "turn_1");
  const std::vector<std::string> other = {"User: a", "Assistant: c"};
  const auto kept = book->Get(k, "turn_1", other);
  ASSERT_TRUE(kept);
  EXPECT_FALSE(*kept);
}

TEST_F(VectorBookTest, ADamagedRowIsDroppedAndOthersStay) {
  Put(k, "turn_1");
  Put(k, "turn_2");
  for (const bool reads_all : {false, true}) {
    const std::string key = Keys()[0];
    std::string value = **meta.Get(MetaTable::kPrefixes, key);
    value[value.size() / 2] ^= 1;
    ASSERT_TRUE(meta.Put(MetaTable::kPrefixes, key, value));
    size_t num_found = 0;
    if (reads_all) {
      ASSERT_TRUE(book->ForEach(
          k, [&](const std::string&) { return texts; },
          [&](const std::string&, const std::vector<Meaning>&) { ++num_found; }));
    } else {
      for (const char* turn : {"turn_1", "turn_2"}) num_found += Has(k, turn) ? 1 : 0;
    }
    EXPECT_EQ(num_found, reads_all ? 0u : 1u);
    EXPECT_EQ(Keys().size(), num_found);
  }
  EXPECT_EQ(book->bytes(), 0u);
}

TEST_F(VectorBookTest, AllOfASessionAreReadInOnePass) {
  for (int i = 0; i < 5; ++i) Put(k, "turn_" + std::to_string(i));
  Put({.tenant = "t", .session = "other"}, "turn_9");
  std::set<std::string> turns;
  ASSERT_TRUE(book->ForEach(
      k,
      [&](const std::string& turn) {
        return turn == "turn_3" ? std::vector<std::string>() : texts;
      },
      [&](const std::string& turn, const std::vector<Meaning>& meanings) {
        EXPECT_EQ(meanings.size(), 2u);
        turns.insert(turn);
      }));
  EXPECT_EQ(turns, (std::set<std::string>{"turn_0", "turn_1", "turn_2", "turn_4"}));
}

TEST_F(VectorBookTest, TheyGoWithTheirSessionAlone) {
  Put(k, "turn_1");
  Put(k, "turn_2");
  Put({.tenant = "t", .session = "kiwis"}, "turn_3");
  Put({.tenant = "u", .session = "kiwi"}, "turn_4");
  ASSERT_TRUE(book->Remove(k));
  EXPECT_FALSE(Has(k, "turn_1"));
  EXPECT_EQ(Keys().size(), 2u);
  ASSERT_TRUE(book->Remove({.tenant = "t", .session = "none"}));
}

TEST_F(VectorBookTest, NothingIsKeptOfATurnThatIsGone) {
  gone.insert("turn_1");
  Put(k, "turn_1");
  EXPECT_TRUE(Keys().empty());
}

TEST_F(VectorBookTest, SessionsThatAgedOutAreFoundAtTheStartAndMeanwhile) {
  Put(k, "turn_1");
  Put({.tenant = "t", .session = "old"}, "turn_2");
  Put({.tenant = "t", .session = "new"}, "turn_3");
  gone.insert("old");
  Open();
  EXPECT_EQ(Keys().size(), 2u);
  gone.insert("new");
  // Each write looks at one more session.
  for (int i = 0; i < 3; ++i) Put(k, "turn_1");
  EXPECT_EQ(Keys().size(), 1u);
  EXPECT_TRUE(Has(k, "turn_1"));
}

TEST_F(VectorBookTest, BeyondTheLimitThoseGoThatWereWrittenLongestAgo) {
  Put(k, "turn_1");
  const size_t one = book->bytes();
  Open("m", 4 * one);
  Put({.tenant = "t", .session = "a"}, "turn_2");
  Put({.tenant = "t", .session = "b"}, "turn_3");
  Put(k, "turn_4");
  Put({.tenant = "u", .session = "c"}, "turn_5");
  EXPECT_LE(book->bytes(), 4 * one);
  EXPECT_FALSE(Has({.tenant = "t", .session = "a"}, "turn_2"));
  EXPECT_TRUE(Has({.tenant = "t", .session = "b"}, "turn_3"));
  EXPECT_TRUE(Has(k, "turn_4"));
  // A tenant that has most of it pushes out its own.
  Put({.tenant = "t", .session = "d"}, "turn_6");
  EXPECT_TRUE(Has({.tenant = "u", .session = "c"}, "turn_5"));
  EXPECT_FALSE(Has({.tenant = "t", .session = "b"}, "turn_3"));
}

TEST_F(VectorBookTest, ANewSecretSealsAndNamesThemAnew) {
  const std::string second = Keyring::GenerateSecret();
  const std::string old = Keyring::GenerateSecret();
  meta.SetKeyring(*Keyring::Parse(old, "test"));
  Open();
  Put(k, "turn_1");
  Put(k, "turn_2");
  auto rotated = *Keyring::Parse(second, "test");
  rotated->AddForOpening(**Keyring::Parse(old, "test"));
  meta.SetKeyring(std::move(rotated));
  Open();
  EXPECT_TRUE(Has(k, "turn_1"));
  EXPECT_TRUE(Has(k, "turn_2"));
  // The old one is not needed any more.
  meta.SetKeyring(*Keyring::Parse(second, "test"));
  Open();
  EXPECT_TRUE(Has(k, "turn_1"));
  EXPECT_TRUE(Has(k, "turn_2"));
  EXPECT_EQ(Keys().size(), 2u);
  // Without its secret a row stays as it is.
  meta.SetKeyring(Keyring::Generate());
  Open();
  EXPECT_EQ(Keys().size(), 2u);
}

}  // namespace
}  // namespace kvgate::session::retrieval
