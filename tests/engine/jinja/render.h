// Rendering in one call, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/template.h"

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

}  // namespace kvgate::jinja
