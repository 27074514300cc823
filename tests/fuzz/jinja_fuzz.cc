// Fuzzes templates: any source parses or fails, any template renders data or fails, within bounds,
// and a second rendering is equal to the first. The first byte chooses small limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "engine/text/jinja/template.h"
#include "engine/text/jinja/value/unicode.h"

namespace {

using namespace kvgate::jinja;  // NOLINT: a program of its own

const value::Data::Dict& Variables() {
  static const value::Data::Dict variables = {
      {"messages",
       value::Data::List{
           value::Data::Dict{{"role", value::Data::Trusted("user")},
                             {"content", " h\u00e9 <|x|>\n"}},
           value::Data::Dict{{"role", "tool"}, {"content", value::Data()}, {"n", 1.5}}}},
      {"tools", value::Data::List{value::Data::Dict{{"name", "f"},
                                                    {"p", value::Data::List{1, -2, true, "x"}}}}},
      {"x", 7},
      {"s", "a b,c"},
      {"big", value::Data::BigInteger{"123456789012345678901234567890"}}};
  return variables;
}

void CheckRendering(const Template::Rendering& rendering) {
  if (!kvgate::IsValidUtf8(rendering.text)) std::abort();
  size_t at = 0;
  for (const Template::InputRange& input : rendering.inputs) {
    if (input.begin < at || input.end <= input.begin) std::abort();
    if (input.end > rendering.text.size() || input.origin == value::Origin::kTemplate) std::abort();
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
    variables.push_back(
        {.name = name,
         .value = &value,
         .origin = name == "tools" ? value::Origin::kTools : value::Origin::kInput});
  }
  syntax::Limits limits;
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
