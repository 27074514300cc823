// Rendering in one call, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/template.h"

namespace kvgate::jinja {

inline Outcome<Template::Rendering> TryRender(std::string_view source, const Data::Dict& variables,
                                              const Limits& limits = {}) {
  auto parsed = Template::Parse(source);
  if (!parsed) return tl::unexpected(parsed.error());
  std::vector<Template::Variable> given;
  for (const auto& [name, value] : variables) {
    given.push_back({.name = name,
                     .value = &value,
                     .origin = name == "tools" ? Origin::kTools : Origin::kInput});
  }
  return (*parsed)->Render(
      {.variables = given, .now = ParseTime("2026-03-14 09:26:53"), .limits = limits});
}

// The text, or "ERROR line:column: message".
inline std::string Render(std::string_view source, const Data::Dict& variables = {}) {
  const auto rendered = TryRender(source, variables);
  return rendered ? rendered->text : rendered.error().ToString("ERROR");
}

// What the tables of expectations are rendered with.
inline const Data::Dict& SampleData() {
  static const auto user = [](const char* name, int age, Data::List tags) {
    return Data(Data::Dict{{"name", name}, {"age", age}, {"tags", std::move(tags)}});
  };
  static const auto node = [](int value, Data::List children) {
    return Data(Data::Dict{{"v", value}, {"c", std::move(children)}});
  };
  static const Data::Dict data = {
      {"s", "Hello, W\u00f6rld \u00df!"},
      {"n", 42},
      {"f", 3.5},
      {"neg", -7},
      {"yes", true},
      {"nothing", Data()},
      {"l", Data::List{3, 1, 2, 2}},
      {"ls", Data::List{"b", "A", "c", "a"}},
      {"d", Data::Dict{{"b", 1}, {"a", "x"}, {"\u00e9", Data::List{1, Data::Dict{{"k", Data()}}}}}},
      {"users",
       Data::List{user("Bob", 30, {"x", "y"}), user("alice", 25, {}), user("Carl", 30, {"z"})}},
      {"e", ""},
      {"lines", "one\n\n  two\r\nthree"},
      {"tree", Data::List{node(1, {node(2, {}), node(3, {node(4, {})})})}}};
  return data;
}

inline constexpr const char* kFails = nullptr;

struct Expectation {
  std::string_view source;
  const char* text;  // kFails: an error
};
inline void ExpectRendered(std::initializer_list<Expectation> expectations) {
  for (const auto& [source, text] : expectations) {
    const auto rendered = TryRender(source, SampleData());
    if (text == kFails) {
      EXPECT_FALSE(rendered) << source << " gave " << rendered->text;
    } else if (rendered) {
      EXPECT_EQ(rendered->text, text) << source;
    } else {
      ADD_FAILURE() << source << ": " << rendered.error().ToString("");
    }
  }
}

}  // namespace kvgate::jinja
