// What masks cost: mask_bench TOKENIZER [NUM_TEXTS] writes random texts under the mask of some
// grammars with a model's vocabulary and prints microseconds a token.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "engine/grammar/compiler.h"
#include "engine/grammar/matcher.h"
#include "engine/tokenizer/tokenizer.h"

namespace {

using namespace kvgate;           // NOLINT: a program of its own
using namespace kvgate::grammar;  // NOLINT

struct Case {
  const char* name;
  Source source;
};

const Case kCases[] = {
    {"json_object", {.kind = SourceKind::kJsonObject}},
    {"flat schema",
     {.kind = SourceKind::kJsonSchema,
      .text = R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer",
        "minimum":0,"maximum":150},"email":{"type":"string","format":"email"},"kind":{"enum":
        ["red","green","blue"]}},"required":["name","age","kind"]})"}},
    {"bounded strings",
     {.kind = SourceKind::kJsonSchema,
      .text = R"({"type":"array","minItems":4,"maxItems":9,"items":{"type":"string",
        "minLength":10,"maxLength":400}})"}},
    {"recursive schema",
     {.kind = SourceKind::kJsonSchema,
      .text =
          R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]{2,8}-\\d+$"},
        "children":{"type":"array","items":{"$ref":"#"}}},"required":["id","children"]})"}},
    {"gbnf words",
     {.kind = SourceKind::kGbnf,
      .text = "root ::= (word \" \"){5,40} \".\"\nword ::= [a-zA-Z]+ | [0-9]{1,4}"}},
};

double Microseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since)
      .count();
}

void Measure(const Case& measured, Compiler& compiler, int num_texts) {
  const auto began = std::chrono::steady_clock::now();
  const auto grammar = compiler.Compile(measured.source);
  const double compile_us = Microseconds(began);
  if (!grammar) {
    fmt::print("{}: {}\n", measured.name, grammar.error().ToString());
    std::exit(1);
  }
  MatcherPool pool;
  std::mt19937_64 random(1);
  std::vector<uint64_t> mask((static_cast<size_t>((*grammar)->trie->vocab_size()) + 63) / 64);
  std::vector<double> costs;
  double accept_us = 0;
  for (int text = 0; text < num_texts; ++text) {
    const auto matcher = pool.Start(*grammar);
    for (int left = 300; left > 0 && !matcher->IsComplete(); --left) {
      const auto mask_began = std::chrono::steady_clock::now();
      if (!matcher->FillMask(mask, left)) break;
      costs.push_back(Microseconds(mask_began));
      std::vector<TokenId> tokens;
      for (size_t i = 0; i < mask.size() * 64; ++i) {
        if ((mask[i / 64] >> (i % 64) & 1) != 0) tokens.push_back(static_cast<TokenId>(i));
      }
      if (tokens.empty()) break;
      const TokenId token = tokens[random() % tokens.size()];
      if ((*grammar)->trie->is_end_token(token)) break;
      const auto accept_began = std::chrono::steady_clock::now();
      matcher->AcceptToken(token);
      accept_us += Microseconds(accept_began);
    }
  }
  double sum = 0;
  for (const double cost : costs) sum += cost;
  const auto num_tokens = static_cast<double>(costs.size());
  const double first_text = costs.front();
  std::sort(costs.begin(), costs.end());
  fmt::print(
      "{:18} compile {:8.0f} us  tokens {:6}  mask: first {:7.1f}  mean {:6.1f}  median "
      "{:6.1f}  p99 {:7.1f}  max {:7.1f} us  accept {:.2f} us\n",
      measured.name, compile_us, costs.size(), first_text, sum / num_tokens,
      costs[costs.size() / 2], costs[costs.size() * 99 / 100], costs.back(),
      accept_us / num_tokens);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("usage: mask_bench TOKENIZER.gguf|tokenizer.json [NUM_TEXTS]\n");
    return 2;
  }
  const auto tokenizer = tokenizer::Tokenizer::LoadFile(argv[1]);
  if (!tokenizer) {
    fmt::print("{}\n", tokenizer.error().ToString());
    return 1;
  }
  Compiler compiler(**tokenizer, {});
  fmt::print("{} tokens\n", (*tokenizer)->vocab_size());
  for (const Case& measured : kCases) {
    Measure(measured, compiler, argc > 2 ? std::atoi(argv[2]) : 50);
  }
  return 0;
}
