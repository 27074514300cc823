#include "gateway/session/memory/entry.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::memory {
namespace {

TEST(EntryTest, ChangesSetReplaceAndRemove) {
  Entries entries = {{"a", "1"}, {"b", "2"}};
  Apply(Entries{{"b", "3"}, {"a", "null"}, {"c", "\"x\""}, {"d", "null"}}, entries);
  EXPECT_EQ(entries, (Entries{{"b", "3"}, {"c", "\"x\""}}));
  EXPECT_EQ(Find(entries, "c")->value, "\"x\"");
  EXPECT_EQ(Find(entries, "a"), nullptr);
}

TEST(EntryTest, AnObjectIsReadInItsOrder) {
  const auto read =
      ReadEntries(R"({"na\u006de": "x y", "list": [1,  2], "gone": null, "n": 1.50})", "facts");
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(*read,
            (Entries{{"name", "\"x y\""}, {"list", "[1,2]"}, {"gone", "null"}, {"n", "1.5"}}));
  std::string out;
  dialect::form::JsonWriter json(out);
  WriteEntries(Entries{{"name", "\"x\""}, {"n", "1"}}, json);
  EXPECT_EQ(out, R"({"name":"x","n":1})");
}

TEST(EntryTest, TheLastOfTwoOfOneNameHolds) {
  EXPECT_EQ(*ReadEntries(R"({"a":1,"a":2})", "facts"), (Entries{{"a", "2"}}));
}

TEST(EntryTest, WhatNoMemoryTakesNamesItsField) {
  const auto field_of = [](const std::string& object) {
    const auto read = ReadEntries(object, "facts");
    return read ? std::string("read") : read.error().field;
  };
  EXPECT_EQ(field_of(R"(["a"])"), "facts");
  EXPECT_EQ(field_of(R"({"a":)"), "facts");
  EXPECT_EQ(field_of(R"({"":1})"), "facts.");
  EXPECT_EQ(field_of(R"({"a\nb":1})"), "facts.a\nb");
  EXPECT_EQ(field_of("{\"big\":\"" + std::string(kValueBytesMax, 'x') + "\"}"), "facts.big");
  EXPECT_EQ(field_of("{\"" + std::string(kNameBytesMax + 1, 'n') + "\":1}"),
            "facts." + std::string(kNameBytesMax, 'n'));
  EXPECT_EQ(field_of("{\"deep\":" + std::string(500, '[') + std::string(500, ']') + "}"), "facts");
}

TEST(EntryTest, AMemoryHasABound) {
  Entries entries;
  for (size_t i = 0; i <= kEntriesMax; ++i) entries.push_back({std::to_string(i), "1"});
  EXPECT_FALSE(CheckSize(entries));
  entries.pop_back();
  EXPECT_TRUE(CheckSize(entries));
  for (Entry& entry : entries) entry.value = std::string(kBytesMax / kEntriesMax, '1');
  EXPECT_FALSE(CheckSize(entries));
}

}  // namespace
}  // namespace kvgate::session::memory
