#include "gateway/prompt/diagnose/json_difference.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace kvgate::prompt::diagnose {
namespace {

using Json = nlohmann::ordered_json;
using Kind = JsonDifference::Kind;

std::string PathOf(std::string_view before, std::string_view after) {
  return FindJsonDifference(before, after).path;
}

TEST(JsonDifferenceTest, TheFirstDifferenceIsFoundDownInTheValue) {
  EXPECT_EQ(PathOf(R"({"a":{"b":[1,{"c":"x"}]},"d":1})", R"({"a":{"b":[1,{"c":"y"}]},"d":2})"),
            ".a.b[1].c");
  EXPECT_EQ(PathOf("[1,2]", "[1,3]"), "[1]");
  EXPECT_EQ(PathOf("1", "2"), "");
  EXPECT_EQ(PathOf(R"({"a":1})", R"({"a":[1]})"), ".a");
  EXPECT_EQ(PathOf(R"({"a b":1})", R"({"a b":2})"), R"(["a b"])");
}

TEST(JsonDifferenceTest, WhatOnlyOneHasIsAddedOrRemoved) {
  const JsonDifference added = FindJsonDifference(R"({"a":1,"b":2})", R"({"a":1,"x":3,"b":2})");
  EXPECT_EQ(added.kind, Kind::kAdded);
  EXPECT_EQ(added.path, ".x");
  EXPECT_EQ(added.after, "3");
  const JsonDifference removed = FindJsonDifference(R"({"a":1,"b":2})", R"({"b":2})");
  EXPECT_EQ(removed.kind, Kind::kRemoved);
  EXPECT_EQ(removed.path, ".a");
  EXPECT_EQ(FindJsonDifference("[1]", "[1,2]").path, "[1]");
  EXPECT_EQ(FindJsonDifference("[1,2]", "[1]").kind, Kind::kRemoved);
}

TEST(JsonDifferenceTest, MembersInAnotherOrderAreToldByTheirObject) {
  const JsonDifference found =
      FindJsonDifference(R"({"o":{"a":1,"b":2}})", R"({"o":{"b":2,"a":1}})");
  EXPECT_EQ(found.kind, Kind::kReordered);
  EXPECT_EQ(found.path, ".o");
}

TEST(JsonDifferenceTest, WhiteSpaceIsNoDifferenceAndASpellingIsOne) {
  EXPECT_EQ(FindJsonDifference(R"({"a": [1, 2] })", R"( {"a":[1,2]})").kind, Kind::kNone);
  EXPECT_EQ(PathOf(R"({"a":[1 ],"b":1.0})", R"({"a":[ 1],"b":1})"), ".b");
  EXPECT_EQ(PathOf(R"({"a":"\u0041"})", R"({"a":"A"})"), ".a");
}

TEST(JsonDifferenceTest, AValueThatWasCutIsComparedAsFarAsItGoes) {
  EXPECT_EQ(PathOf(R"({"a":{"b":1,"c":"lon)", R"({"a":{"b":2,"c":"lon)"), ".a.b");
  EXPECT_EQ(PathOf(R"({"a":{"b":1,"c":"lon)", R"({"a":{"b":1,"c":"lox)"), ".a.c");
  EXPECT_EQ(FindJsonDifference(R"({"a":[1,)", R"({"a":[1,)").kind, Kind::kNone);
}

TEST(JsonDifferenceTest, AnyBytesAreTakenAndPathsAreBounded) {
  std::mt19937 random(5);
  const std::string json = R"({"a":[1,{"b":"x\"y"},null],"c":{"d":true}})";
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = json.substr(0, random() % json.size());
    if (!changed.empty()) changed[random() % changed.size()] = static_cast<char>(random());
    FindJsonDifference(json, changed);
    FindJsonValue(changed, "a.b");
  }
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += R"({"aaaaaaaaaaaaaaaaaaaa":)";
  EXPECT_LT(PathOf(deep + "1", deep + "2").size(), 600u);
  const std::string name(100'000, 'n');
  EXPECT_LT(PathOf("{\"" + name + "\":1}", "{\"" + name + "\":2}").size(), 600u);
}

Json RandomJson(std::mt19937& random, int depth) {
  const auto kind = random() % (depth == 0 ? 3 : 5);
  if (kind == 0) return static_cast<int>(random() % 100);
  if (kind == 1) return random() % 2 == 0;
  if (kind == 2) return "text " + std::to_string(random() % 100);
  Json value = kind == 3 ? Json::array() : Json::object();
  for (size_t i = random() % 4; i > 0; --i) {
    Json inner = RandomJson(random, depth - 1);
    if (kind == 3) {
      value.push_back(inner);
    } else {
      value["k" + std::to_string(i)] = inner;
    }
  }
  return value;
}

// Changes one leaf and returns its path.
std::string ChangeOne(std::mt19937& random, Json& value) {
  if (!value.is_structured() || value.empty()) {
    value = "changed";
    return "";
  }
  const size_t index = random() % value.size();
  auto item = value.begin();
  std::advance(item, index);
  const std::string step = value.is_array() ? "[" + std::to_string(index) + "]" : "." + item.key();
  return step + ChangeOne(random, *item);
}

TEST(JsonDifferenceTest, OneChangeAnywhereIsFoundWithItsPath) {
  std::mt19937 random(6);
  for (int i = 0; i < 5'000; ++i) {
    const Json before = RandomJson(random, 5);
    Json after = before;
    const std::string path = ChangeOne(random, after);
    const auto indent = static_cast<int>(random() % 4) - 1;
    EXPECT_EQ(PathOf(before.dump(indent), after.dump(-1)), path) << before << "\n" << after;
  }
}

TEST(JsonDifferenceTest, FindsValuesByPath) {
  const std::string json = R"({"type":"function","function":{"name":"f","x":[1, 2]}})";
  EXPECT_EQ(FindJsonValue(json, "function.name"), R"("f")");
  EXPECT_EQ(FindJsonValue(json, "function.x"), "[1, 2]");
  EXPECT_EQ(FindJsonValue(json, "name"), "");
  EXPECT_EQ(FindJsonValue(json, "type.name"), "");
  EXPECT_EQ(FindJsonValue(R"("text")", ""), R"("text")");
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
