#include "engine/text/jinja/value/text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace kvgate::jinja::value {
namespace {

// Returns the origin of each byte: 't', 'i' or 'o'.
std::string Origins(const String& text) {
  std::string origins;
  VisitRuns(text, [&](std::string_view part, Origin origin) {
    origins += std::string(part.size(), "tio"[static_cast<size_t>(origin)]);
  });
  return origins;
}

TEST(TextTest, PartsKeepTheirOrigins) {
  Heap heap(1 << 20);
  TextBuilder builder(heap);
  builder.Append("abc");
  builder.Append("def", Origin::kInput);
  builder.Append("gh", Origin::kTools);
  builder.Append("i");
  const String* text = builder.Build();
  EXPECT_EQ(text->view(), "abcdefghi");
  EXPECT_EQ(Origins(*text), "tttiiioot");
  EXPECT_EQ(Origins(*Part(heap, *text, 2, 7)), "tiiio");
  EXPECT_EQ(Origins(*Part(heap, *text, 4, 5)), "i");
  EXPECT_EQ(Part(heap, *text, 4, 5)->origin(), Origin::kInput);
  EXPECT_EQ(Origins(*Part(heap, *text, 9, 9)), "");
  EXPECT_EQ(Origins(*BorrowString(heap, "xy", Origin::kTools)), "oo");
}

TEST(TextTest, AStringGrowsInPlaceAndStaysWhatItWas) {
  Heap heap(1 << 20);
  TextBuilder first(heap);
  first.Append("ab", Origin::kInput);
  const String* ab = first.Build();
  TextBuilder second(heap, *ab);
  second.Append("c", Origin::kInput);
  const String* abc = second.Build();
  EXPECT_EQ(abc->buffer, ab->buffer) << "nothing was appended to it before";
  TextBuilder third(heap, *ab);
  third.Append("x");
  const String* abx = third.Build();
  EXPECT_NE(abx->buffer, ab->buffer);
  EXPECT_EQ(ab->view(), "ab");
  EXPECT_EQ(abc->view(), "abc");
  EXPECT_EQ(abx->view(), "abx");
  EXPECT_EQ(Origins(*ab), "ii");
  EXPECT_EQ(Origins(*abc), "iii");
  EXPECT_EQ(Origins(*abx), "iit");
  TextBuilder doubled(heap, *abc);
  doubled.Append(*abc);
  EXPECT_EQ(doubled.Build()->view(), "abcabc");
}

TEST(TextTest, RandomAppendsAndPartsAreThoseOfAPlainModel) {
  std::mt19937 random(3);
  Heap heap(size_t{64} << 20);
  std::vector<std::pair<const String*, std::string>> texts = {{EmptyString(), ""}};
  for (int step = 0; step < 3000; ++step) {
    const auto [text, origins] = texts[random() % texts.size()];
    if (random() % 3 == 0 && text->size > 0) {
      const size_t begin = random() % text->size;
      const size_t end = begin + random() % (text->size - begin + 1);
      texts.emplace_back(Part(heap, *text, begin, end), origins.substr(begin, end - begin));
    } else {
      TextBuilder builder(heap, *text);
      const auto [other, other_origins] = texts[random() % texts.size()];
      const auto origin = static_cast<Origin>(random() % 3);
      std::string expected = origins;
      builder.Append("xy", origin);
      expected += std::string(2, "tio"[static_cast<size_t>(origin)]);
      if (text->size + other->size < 4000) {
        builder.Append(*other);
        expected += other_origins;
      }
      texts.emplace_back(builder.Build(), expected);
    }
    EXPECT_EQ(Origins(*texts.back().first), texts.back().second);
  }
  for (const auto& [text, origins] : texts) EXPECT_EQ(Origins(*text), origins);
}

TEST(TextTest, CharactersAreCountedAndFound) {
  Heap heap(1 << 20);
  const String* text = BorrowString(heap, "aé😀b", Origin::kInput);
  EXPECT_EQ(text->length(), 4);
  EXPECT_EQ(text->OffsetOf(2), 3u);
  EXPECT_EQ(text->OffsetOf(3), 7u);
  EXPECT_EQ(text->OffsetOf(4), 8u);
}

TEST(TextTest, AnExhaustedHeapTakesNoMore) {
  Heap heap(1000);
  TextBuilder builder(heap);
  builder.Append(std::string(100, 'x'));
  builder.Repeat("ab", int64_t{1} << 62);
  EXPECT_TRUE(heap.exhausted());
  EXPECT_EQ(builder.Build()->size, 100u);
}

}  // namespace
}  // namespace kvgate::jinja::value
