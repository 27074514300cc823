// This fixture checks which texts a grammar takes, writes random texts under the mask, and has a
// vocabulary.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/grammar/compiler.h"
#include "engine/text/grammar/language/gbnf.h"
#include "engine/text/grammar/mask/matcher.h"
#include "engine/text/grammar/schema/json_schema.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::grammar {

inline mask::Automaton MustBuild(const Result<rules::Grammar>& grammar) {
  if (!grammar) throw std::runtime_error(grammar.error().ToString());
  auto automaton = mask::Automaton::Build(*grammar, {});
  if (!automaton) throw std::runtime_error(automaton.error().ToString());
  return std::move(*automaton);
}

inline mask::Automaton FromGbnf(std::string_view text) {
  return MustBuild(language::ParseGbnf(text, {}));
}
inline mask::Automaton FromSchema(std::string_view text) {
  return MustBuild(schema::CompileJsonSchema(text, {}));
}

// Returns true if the grammar takes exactly this text.
inline bool Takes(mask::StateTable& states, std::string_view text) {
  mask::StateId state = states.Start();
  for (const char byte : text) state = states.Next(state, static_cast<uint8_t>(byte));
  return state != mask::StateTable::kDead && states.can_end(state);
}
inline bool Takes(const mask::Automaton& automaton, std::string_view text) {
  mask::StateTable states(automaton);
  return Takes(states, text);
}

// Returns "" if the schema compiles, else the error.
inline std::string SchemaError(std::string_view schema) {
  const auto made = schema::CompileJsonSchema(schema, {});
  if (!made) return made.error().field + ": " + made.error().detail;
  return "";
}

inline std::string GbnfError(std::string_view text) {
  const auto made = language::ParseGbnf(text, {});
  if (!made) return made.error().detail;
  const auto automaton = mask::Automaton::Build(*made, {});
  return automaton ? "" : automaton.error().detail;
}

// Returns a tokenizer of the 256 bytes and some longer tokens, including JSON's; <|end|> ends a
// text.
inline std::unique_ptr<tokenizer::Tokenizer> JsonTokenizer() {
  tokenizer::Fixture fixture = tokenizer::BpeFixture({"\" :",
                                                      "\" ,",
                                                      "{ \"",
                                                      "} }",
                                                      "] }",
                                                      "} ,",
                                                      "t r",
                                                      "tr u",
                                                      "tru e",
                                                      "n a",
                                                      "na m",
                                                      "nam e",
                                                      "a b",
                                                      "ab c",
                                                      "1 2",
                                                      "12 3",
                                                      "0 0",
                                                      "00 00",
                                                      "Ã ©",
                                                      "æ Ĺ",
                                                      "ĠĠ ĠĠ",
                                                      "Ġ Ġ",
                                                      "a a",
                                                      "aa aa",
                                                      "aaaa aaaa",
                                                      "aaaaaaaa aaaaaaaa",
                                                      "aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa"});
  fixture.extra.emplace_back("tokenizer.ggml.eos_token_id",
                             static_cast<uint32_t>(fixture.texts.size() - 1));
  return fixture.MustLoad();
}

inline std::vector<TokenId> TokensIn(const std::vector<uint64_t>& mask) {
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < mask.size() * 64; ++i) {
    if ((mask[i / 64] >> (i % 64) & 1) != 0) tokens.push_back(static_cast<TokenId>(i));
  }
  return tokens;
}

}  // namespace kvgate::grammar
