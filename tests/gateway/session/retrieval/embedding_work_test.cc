#include "gateway/session/retrieval/embedding_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/store/memory_meta_store.h"

namespace kvgate::session::retrieval {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EmbeddingWorkTest : public ::testing::Test {
 protected:
  static TurnTexts Turn(int number, size_t num_texts, size_t bytes = 8) {
    TurnTexts turn{.turn = fmt::format("turn_{}", number)};
    for (size_t i = 0; i < num_texts; ++i) {
      turn.texts.push_back(fmt::format("{}.{}", number, i));
      turn.texts.back().resize(std::max(bytes, turn.texts.back().size()), 'x');
    }
    return turn;
  }
  EmbeddingWork Begin(std::vector<TurnTexts> turns, size_t dimensions = 0) {
    EmbeddingWork work({.book = *book,
                        .ticket = pace.Begin("t", "k"),
                        .tenant = "t",
                        .key = "k",
                        .turns = std::move(turns),
                        .dimensions = dimensions});
    EXPECT_TRUE(work.Plan());
    return work;
  }
  static std::vector<Meaning> Made(size_t count, size_t dimensions = 3) {
    return {count, Meaning::Of(std::vector<float>(dimensions, 1))};
  }
  // Returns the number of texts in each request.
  static std::vector<size_t> Finish(EmbeddingWork& work, size_t dimensions = 3) {
    std::vector<size_t> sizes;
    while (true) {
      const size_t size = work.Next().size();
      if (size == 0) return sizes;
      sizes.push_back(size);
      work.Take(Made(size, dimensions));
      EXPECT_TRUE(work.Store());
    }
  }
  bool Has(const TurnTexts& turn) {
    const auto kept = book->Get({.tenant = "t", .session = "k"}, turn.turn, turn.texts);
    return kept && kept->has_value();
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<VectorBook> book = *VectorBook::Open({.meta = meta, .model = "m"});
  EmbeddingPace pace;
};

TEST_F(EmbeddingWorkTest, SmallTurnsGoTogetherAndLargeOnesInParts) {
  EmbeddingWork work = Begin({Turn(1, 3), Turn(2, 130), Turn(3, 2)});
  EXPECT_THAT(Finish(work), ElementsAre(64, 64, 7));
  for (const TurnTexts& turn : {Turn(1, 3), Turn(2, 130), Turn(3, 2)}) EXPECT_TRUE(Has(turn));
}

TEST_F(EmbeddingWorkTest, TurnsThatAreWholeAreKeptBeforeTheRest) {
  EmbeddingWork work = Begin({Turn(1, 60), Turn(2, 60)});
  work.Take(Made(work.Next().size()));
  ASSERT_TRUE(work.Store());
  EXPECT_TRUE(Has(Turn(1, 60)));
  EXPECT_FALSE(Has(Turn(2, 60)));
}

TEST_F(EmbeddingWorkTest, WhatIsKeptIsNotAskedForAgain) {
  EmbeddingWork first = Begin({Turn(1, 2), Turn(2, 2)});
  Finish(first);
  EmbeddingWork work = Begin({Turn(1, 2), Turn(2, 2), Turn(3, 1)});
  EXPECT_THAT(work.Next(), ElementsAre(Turn(3, 1).texts[0]));
}

TEST_F(EmbeddingWorkTest, VectorsOfOtherDimensionsAreMadeAgain) {
  EmbeddingWork first = Begin({Turn(1, 2)});
  Finish(first);
  EmbeddingWork same = Begin({Turn(1, 2)}, 3);
  EXPECT_THAT(same.Next(), IsEmpty());
  EmbeddingWork other = Begin({Turn(1, 2)}, 5);
  EXPECT_THAT(Finish(other, 5), ElementsAre(2));
  EmbeddingWork again = Begin({Turn(1, 2)}, 5);
  EXPECT_THAT(again.Next(), IsEmpty());
}

TEST_F(EmbeddingWorkTest, OnceIsBoundedInTextsAndInBytes) {
  std::vector<TurnTexts> turns;
  for (int i = 0; i < 10; ++i) turns.push_back(Turn(i, 300));
  EmbeddingWork many = Begin(turns);
  size_t num_texts = 0;
  for (const size_t size : Finish(many)) num_texts += size;
  EXPECT_EQ(num_texts, 900u);
  turns.clear();
  for (int i = 20; i < 30; ++i) turns.push_back(Turn(i, 200, 1000));
  EmbeddingWork large = Begin(turns);
  size_t num_requests = 0;
  size_t bytes = 0;
  for (const size_t size : Finish(large)) {
    EXPECT_LE(size * 1000, EmbeddingWork::kRequestBytesMax);
    bytes += size * 1000;
    ++num_requests;
  }
  EXPECT_LE(bytes, EmbeddingWork::kBytesMax);
  EXPECT_GT(bytes, EmbeddingWork::kBytesMax / 2);
  EXPECT_GT(num_requests, 10u);
  // A turn of more is done alone.
  EmbeddingWork huge = Begin({Turn(40, 2000), Turn(41, 1)});
  Finish(huge);
  EXPECT_TRUE(Has(Turn(40, 2000)));
  EXPECT_FALSE(Has(Turn(41, 1)));
}

TEST_F(EmbeddingWorkTest, ADiskThatTakesNothingIsAnError) {
  EmbeddingWork work = Begin({Turn(1, 1)});
  work.Take(Made(work.Next().size()));
  meta.refuses = true;
  EXPECT_FALSE(work.Store());
}

}  // namespace
}  // namespace kvgate::session::retrieval
