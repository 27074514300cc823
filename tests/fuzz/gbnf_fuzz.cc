// Fuzzes GBNF: any text is a grammar or an error that says where; a grammar's automaton can be
// followed, and every state reached has a path to an end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/text/grammar/language/gbnf.h"
#include "engine/text/grammar/mask/state_table.h"
#include "tests/fuzz/grammar_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvgate::grammar;  // NOLINT: a program of its own
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto grammar = language::ParseGbnf(text, {.rules_max = 200, .repeat_max = 1000});
  if (grammar) WalkGrammar(*grammar, size);
  return 0;
}
