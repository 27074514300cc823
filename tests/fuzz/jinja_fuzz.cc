// Fuzzes templates: any source parses or fails, any template renders data or fails, within bounds,
// and twice the same. The first byte chooses small limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/template.h"
#include "engine/jinja/unicode.h"

namespace {

using namespace kvgate::jinja;  // NOLINT: a program of its own

const Data::Dict& Variables() {
  static const Data::Dict variables = {
      {"messages",
       Data::List{Data::Dict{{"role", Data::Trusted("user")}, {"content", " h\u00e9 <|x|>\n"}},
                  Data::Dict{{"role", "tool"}, {"content", Data()}, {"n", 1.5}}}},
      {"tools", Data::List{Data::Dict{{"name", "f"}, {"p", Data::List{1, -2, true, "x"}}}}},
      {"x", 7},
      {"s", "a b,c"},
      {"big", Data::BigInteger{"123456789012345678901234567890"}}};
  return variables;
}

void CheckRendering(const Template::Rendering& rendering) {
  if (FindInvalidUtf8(rendering.text) != std::string_view::npos) std::abort();
  size_t at = 0;
  for (const Template::InputRange& input : rendering.inputs) {
    if (input.begin < at || input.end <= input.begin) std::abort();
    if (input.end > rendering.text.size() || input.origin == Origin::kTemplate) std::abort();
    at = input.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view source(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto parsed = Template::Parse(source);
  if (!parsed) {
    if (parsed.error().line < 1 || parsed.error().column < 1) std::abort();
    return 0;
  }
  std::vector<Template::Variable> variables;
  for (const auto& [name, value] : Variables()) {
    variables.push_back({.name = name,
                         .value = &value,
                         .origin = name == "tools" ? Origin::kTools : Origin::kInput});
  }
  Limits limits;
  limits.steps_max = int64_t{100} << (data[0] % 12);
  limits.memory_bytes_max = size_t{1} << 20;
  const Template::Input input{
      .variables = variables, .now = ParseTime("2026-03-14 09:26:53"), .limits = limits};
  const auto rendered = (*parsed)->Render(input);
  const auto again = (*parsed)->Render(input);
  if (rendered.has_value() != again.has_value()) std::abort();
  if (!rendered) return 0;
  if (rendered->text != again->text) std::abort();
  CheckRendering(*rendered);
  return 0;
}
