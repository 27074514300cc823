// Fuzzes JSON Schema: any text is a schema that compiles or an error; the grammar can be followed
// to an end, and the resulting text is JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/text/grammar/schema/json_schema.h"
#include "tests/fuzz/grammar_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvgate::grammar;  // NOLINT: a program of its own
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto grammar = schema::CompileJsonSchema(text, {.rules_max = 5'000});
  if (!grammar) return 0;
  const auto written = WalkGrammar(*grammar, size);
  if (written && !schema::Json::accept(*written)) std::abort();
  return 0;
}
