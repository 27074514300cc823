#include "engine/text/jinja/value/value.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace kvgate::jinja::value {
namespace {

TEST(ValueTest, ADictIsAnInsertionOrderedMapWhateverItsSize) {
  Heap heap(size_t{64} << 20);
  std::mt19937 random(5);
  auto* dict = heap.New<Dict>();
  std::map<std::string, int64_t> model;
  std::vector<std::string> order;
  for (int step = 0; step < 2000; ++step) {
    const std::string key = "key" + std::to_string(random() % 300);
    const auto number = static_cast<int64_t>(random());
    if (model.count(key) == 0) order.push_back(key);
    model[key] = number;
    dict->Set(heap, MakeString(heap, key), MakeInt(number));
    const std::string asked = "key" + std::to_string(random() % 300);
    const Value* found = dict->Find(std::string_view(asked));
    ASSERT_EQ(found != nullptr, model.count(asked) != 0) << asked;
    if (found != nullptr) {
      EXPECT_EQ(found->integer, model[asked]);
    }
  }
  ASSERT_EQ(dict->size, order.size());
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(dict->entries[i].key.text(), order[i]);
}

TEST(ValueTest, EqualKeysAreOneKey) {
  Heap heap(1 << 20);
  auto* dict = heap.New<Dict>();
  dict->Set(heap, MakeInt(1), MakeInt(10));
  dict->Set(heap, MakeBool(true), MakeInt(20));
  dict->Set(heap, MakeFloat(1.0), MakeInt(30));
  const Value parts[] = {MakeInt(1), MakeString(heap, "a")};
  dict->Set(heap, MakeList(heap, parts, ListKind::kTuple), MakeInt(40));
  ASSERT_EQ(dict->size, 2u);
  EXPECT_TRUE(dict->entries[0].key.is(Tag::kInt));
  EXPECT_EQ(dict->Find(MakeInt(1))->integer, 30);
  EXPECT_EQ(dict->Find(MakeList(heap, parts, ListKind::kTuple))->integer, 40);
  EXPECT_FALSE(IsHashable(MakeList(heap, parts)));
  EXPECT_EQ(dict->Find(MakeInt(2)), nullptr);
}

TEST(ValueTest, RangesCountWithoutOverflow) {
  EXPECT_EQ((Range{.start = 0, .stop = 10, .step = 3}.size()), 4);
  EXPECT_EQ((Range{.start = 10, .stop = 0, .step = -3}.size()), 4);
  EXPECT_EQ((Range{.start = 5, .stop = 5, .step = 1}.size()), 0);
  EXPECT_EQ((Range{.start = 0, .stop = 10, .step = INT64_MIN}.size()), 0);
  EXPECT_EQ((Range{.start = 1, .stop = 0, .step = INT64_MIN}.size()), 1);
}

}  // namespace
}  // namespace kvgate::jinja::value
