#include "engine/text/grammar/compiler.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar {
namespace {

std::shared_ptr<mask::GrammarMemory> Remembering(size_t num_grammars) {
  return std::make_shared<mask::GrammarMemory>(
      mask::GrammarMemory::Options{.remembered_max = num_grammars});
}

TEST(CompilerTest, WhatShowsOtherMarksIsAnotherGrammarOfTheSameMemory) {
  const auto tokenizer = JsonTokenizer();
  const auto memory = Remembering(4);
  Compiler plain(*tokenizer, {.memory = memory});
  Compiler marked(*tokenizer, {.memory = memory, .shown_marks = {"<|end|>"}});
  const Source source{.kind = SourceKind::kGbnf, .text = "root ::= \"a\""};
  EXPECT_NE(*plain.Compile(source), *marked.Compile(source));
  EXPECT_EQ(*plain.Compile(source), *plain.Compile(source));
}

TEST(CompilerTest, EqualSourcesAreOneGrammarUntilTheyAreForgotten) {
  const auto tokenizer = JsonTokenizer();
  Compiler compiler(*tokenizer, {.memory = Remembering(2)});
  const auto get = [&](SourceKind kind, std::string text) {
    return *compiler.Compile({.kind = kind, .text = std::move(text)});
  };
  const auto object = get(SourceKind::kJsonObject, "");
  const auto schema = get(SourceKind::kJsonSchema, "{}");
  EXPECT_EQ(get(SourceKind::kJsonObject, ""), object);
  EXPECT_EQ(get(SourceKind::kJsonSchema, "{}"), schema);
  EXPECT_EQ(object->trie, schema->trie);
  get(SourceKind::kGbnf, "root ::= \"a\"");
  EXPECT_EQ(get(SourceKind::kJsonSchema, "{}"), schema);
  EXPECT_NE(get(SourceKind::kJsonObject, ""), object);
}

TEST(CompilerTest, ErrorsNameTheirPlace) {
  const auto tokenizer = JsonTokenizer();
  Compiler compiler(*tokenizer, {});
  const auto schema = compiler.Compile(
      {.kind = SourceKind::kJsonSchema, .text = R"({"properties":{"x":{"foo":1}}})"});
  ASSERT_FALSE(schema.has_value());
  EXPECT_EQ(schema.error().field, "properties.x.foo");
  EXPECT_EQ(schema.error().code, ErrorCode::kUnsupported);
  const auto gbnf = compiler.Compile({.kind = SourceKind::kGbnf, .text = "root ::= a"});
  ASSERT_FALSE(gbnf.has_value());
  EXPECT_NE(gbnf.error().detail.find("line 1, column 10"), std::string::npos);
}

TEST(CompilerTest, ThreadsMayCompileAtOnce) {
  const auto tokenizer = JsonTokenizer();
  Compiler compiler(*tokenizer, {.memory = Remembering(4)});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&compiler] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = "root ::= \"" + std::to_string(i % 8) + "\"";
        EXPECT_TRUE(compiler.Compile({.kind = SourceKind::kGbnf, .text = text}).has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvgate::grammar
