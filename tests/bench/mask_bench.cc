// Measures the cost of grammar masks relative to decoding. `mask_bench MODEL [NUM_TEXTS]
// [MODEL...]` alternates, in one run, between writing random texts under the masks of some grammars
// with a model's vocabulary and decoding with that model. For each grammar it prints the mean cost
// of a token's mask (including the first use of a state), its share of the time of a decoded token,
// and the most expensive masks.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/modelfile/hf_folder.h"
#include "engine/text/grammar/compiler.h"
#include "engine/text/grammar/mask/matcher.h"
#include "engine/text/output/reply_grammar.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/bench/engine_step.h"

namespace {

using namespace kvgate;           // NOLINT: a program of its own
using namespace kvgate::grammar;  // NOLINT
using test::DecodeMicroseconds;
using test::Microseconds;

constexpr double kShareMax = 0.05;  // of the time of a decoded token
constexpr int kDecodedTokens = 48;

struct Case {
  const char* name;
  Source source;
  int num_tools = 0;  // in a reply that may call one of -n tools, or must call one of n
};

std::string ThirtyStrings() {
  std::string text = R"({"type":"object","additionalProperties":false,"properties":{)";
  for (int i = 0; i < 30; ++i) {
    text += fmt::format(R"({}"field_{}":{{"type":"string","maxLength":{}}})", i == 0 ? "" : ",", i,
                        20 + i);
  }
  return text + "}}";
}

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
    {"patterns, formats",
     {.kind = SourceKind::kJsonSchema,
      .text =
          R"({"type":"object","properties":{"a":{"type":"string","pattern":"^(?!.*xx)[^@]+@\\w+$"},
        "b":{"type":"string","format":"date-time"},
        "c":{"type":"string","pattern":"^(a|b|ab)*c{3,9}$","maxLength":300},
        "d":{"type":"number","minimum":-1.5,"maximum":99.25},
        "e":{"type":"integer","multipleOf":7,"minimum":3}},"required":["a","b","c","d","e"]})"}},
    {"30 strings", {.kind = SourceKind::kJsonSchema, .text = ThirtyStrings()}},
    {"20 tools, auto", {}, -20},
    {"20 tools, required", {}, 20},
    {"gbnf words",
     {.kind = SourceKind::kGbnf,
      .text = "root ::= (word \" \"){5,40} \".\"\nword ::= [a-zA-Z]+ | [0-9]{1,4}"}},
};

Result<std::shared_ptr<const mask::CompiledGrammar>> CompileCase(const Case& measured,
                                                                 Compiler& compiler) {
  if (measured.num_tools == 0) return compiler.Compile(measured.source);
  output::ReplyRules rules{.family = "hermes", .must_call = measured.num_tools > 0};
  for (int i = 0; i < std::abs(measured.num_tools); ++i) {
    rules.tools.push_back({.name = fmt::format("tool_{}", i),
                           .parameters = kCases[1 + static_cast<size_t>(i) % 4].source.text});
  }
  return compiler.Compile(
      Compiler::Recipe{.key = output::KeyOf(rules),
                       .make = [&] { return output::MakeReplyGrammar(rules, compiler.options()); },
                       .is_open = !rules.must_call});
}

// Returns the mean share of a decoded token's time.
double Measure(const Case& measured, Compiler& compiler, engine::Engine& engine, int num_texts) {
  const auto began = std::chrono::steady_clock::now();
  const auto grammar = CompileCase(measured, compiler);
  const double compile_us = Microseconds(began);
  if (!grammar) {
    fmt::print("{}: {}\n", measured.name, grammar.error().ToString());
    std::exit(1);
  }
  mask::MatcherPool pool;
  std::mt19937_64 random(1);
  std::vector<uint64_t> mask((static_cast<size_t>((*grammar)->trie->vocab_size()) + 63) / 64);
  std::vector<double> costs;
  std::vector<double> decodes;
  double cold_us = 0;  // the first text's mean
  for (int text = 0; text < num_texts; ++text) {
    if (text % 10 == 0) {
      decodes.push_back(DecodeMicroseconds(engine, static_cast<uint64_t>(text), kDecodedTokens));
    }
    const auto matcher = pool.Start(*grammar);
    for (int left = 300; left > 0 && !matcher->IsComplete(); --left) {
      const auto token_began = std::chrono::steady_clock::now();
      const auto any = matcher->FillMask(mask, left);
      double cost = Microseconds(token_began);
      if (!any) break;
      if (*any) std::fill(mask.begin(), mask.end(), ~uint64_t{0});
      std::vector<TokenId> tokens;
      for (size_t i = 0; i < mask.size() * 64; ++i) {
        if ((mask[i / 64] >> (i % 64) & 1) != 0) tokens.push_back(static_cast<TokenId>(i));
      }
      if (tokens.empty()) break;
      const TokenId token = tokens[random() % tokens.size()];
      if ((*grammar)->trie->is_end_token(token)) break;
      const auto accept_began = std::chrono::steady_clock::now();
      matcher->AcceptToken(token);
      cost += Microseconds(accept_began);
      costs.push_back(cost);
    }
    if (text > 0) continue;
    for (const double cost : costs) cold_us += cost / static_cast<double>(costs.size());
  }
  double sum = 0;
  for (const double cost : costs) sum += cost;
  const double mean = sum / static_cast<double>(costs.size());
  std::sort(costs.begin(), costs.end());
  std::sort(decodes.begin(), decodes.end());
  const double decode_us = decodes[decodes.size() / 2];
  fmt::print(
      "{:20} compile {:7.0f} us  decode {:7.0f} us  mask: mean {:6.1f} us = {:5.2f} %  first text "
      "{:6.1f}  median {:5.1f}  p99 {:6.1f}  max {:7.1f} us\n",
      measured.name, compile_us, decode_us, mean, 100 * mean / decode_us, cold_us,
      costs[costs.size() / 2], costs[costs.size() * 99 / 100], costs.back());
  return mean / decode_us;
}

int Run(const char* path, int num_texts) {
  const auto tokenizer = tokenizer::Tokenizer::LoadFile(path);
  auto file = modelfile::OpenModelFile(path);
  auto backend = kernels::cpu::MakeCpuBackend({.num_threads = 1, .target = ""});
  if (!tokenizer || !file || !backend) {
    fmt::print("{} is no model with a tokenizer\n", path);
    return 1;
  }
  engine::EngineOptions options;
  options.kv_bytes = size_t{64} << 20;
  const auto engine =
      engine::Engine::Open(options, std::move(*file), **backend, **tokenizer, nullptr);
  if (!engine) {
    fmt::print("{}\n", engine.error().ToString());
    return 1;
  }
  Compiler compiler(**tokenizer, {});
  fmt::print("{}: {} tokens\n", path, (*tokenizer)->vocab_size());
  double most = 0;
  for (const Case& measured : kCases) {
    most = std::max(most, Measure(measured, compiler, **engine, num_texts));
  }
  fmt::print("most: {:.2f} % of a decoded token (bound {:.0f} %)\n", 100 * most, 100 * kShareMax);
  return most <= kShareMax ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("usage: mask_bench MODEL.gguf [NUM_TEXTS]\n");
    return 2;
  }
  return Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 50);
}
