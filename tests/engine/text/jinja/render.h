// This header renders a template in one call, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/template.h"

namespace kvgate::jinja {

inline syntax::Outcome<Template::Rendering> TryRender(std::string_view source,
                                                      const value::Data::Dict& variables,
                                                      const syntax::Limits& limits = {}) {
  auto parsed = Template::Parse(source);
  if (!parsed) return tl::unexpected(parsed.error());
  std::vector<Template::Variable> given;
  for (const auto& [name, value] : variables) {
    given.push_back({.name = name,
                     .value = &value,
                     .origin = name == "tools" ? value::Origin::kTools : value::Origin::kInput});
  }
  return (*parsed)->Render(
      {.variables = given, .now = ParseTime("2026-03-14 09:26:53"), .limits = limits});
}

// Returns the text, or "ERROR line:column: message".
inline std::string Render(std::string_view source, const value::Data::Dict& variables = {}) {
  const auto rendered = TryRender(source, variables);
  return rendered ? rendered->text : rendered.error().ToString("ERROR");
}

// Returns the variables that the tables of expectations are rendered with.
inline const value::Data::Dict& SampleData() {
  static const auto user = [](const char* name, int age, value::Data::List tags) {
    return value::Data(value::Data::Dict{{"name", name}, {"age", age}, {"tags", std::move(tags)}});
  };
  static const auto node = [](int value, value::Data::List children) {
    return value::Data(value::Data::Dict{{"v", value}, {"c", std::move(children)}});
  };
  static const value::Data::Dict data = {
      {"s", "Hello, W\u00f6rld \u00df!"},
      {"n", 42},
      {"f", 3.5},
      {"neg", -7},
      {"yes", true},
      {"nothing", value::Data()},
      {"l", value::Data::List{3, 1, 2, 2}},
      {"ls", value::Data::List{"b", "A", "c", "a"}},
      {"d", value::Data::Dict{{"b", 1},
                              {"a", "x"},
                              {"\u00e9",
                               value::Data::List{1, value::Data::Dict{{"k", value::Data()}}}}}},
      {"users", value::Data::List{user("Bob", 30, {"x", "y"}), user("alice", 25, {}),
                                  user("Carl", 30, {"z"})}},
      {"e", ""},
      {"lines", "one\n\n  two\r\nthree"},
      {"tree", value::Data::List{node(1, {node(2, {}), node(3, {node(4, {})})})}}};
  return data;
}

inline constexpr const char* kFails = nullptr;

struct Expectation {
  std::string_view source;
  const char* text;  // kFails: rendering must fail
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
