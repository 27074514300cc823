#include "tests/complexity/complexity.h"

#include <gtest/gtest-spi.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/modelfile/gguf.h"
#include "engine/sample/stop_matcher.h"
#include "engine/text/grammar/compiler.h"
#include "engine/text/grammar/mask/matcher.h"
#include "engine/text/grammar/schema/json_schema.h"
#include "gateway/dialect/reply/sse_reader.h"
#include "tests/engine/text/grammar/grammar_fixture.h"
#include "tests/engine/text/jinja/render.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::complexity {

Memory& ThreadMemory() {
  thread_local Memory memory;
  return memory;
}

}  // namespace kvgate::complexity

// --- memory accounting ------------------------------------------------------------------------

void* operator new(size_t size) {
  void* const block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  kvgate::complexity::Memory& memory = kvgate::complexity::ThreadMemory();
  memory.bytes += malloc_usable_size(block);
  memory.bytes_peak = std::max(memory.bytes_peak, memory.bytes);
  return block;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* block) noexcept {
  kvgate::complexity::ThreadMemory().bytes -= malloc_usable_size(block);
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }
void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
void operator delete[](void* block) noexcept { operator delete(block); }
void operator delete[](void* block, size_t) noexcept { operator delete(block); }

namespace kvgate::complexity {
namespace {

std::string Repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// Joins `piece(i)` for each i with `between`.
template <typename Piece>
std::string Joined(size_t count, std::string_view between, Piece piece) {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) all += between;
    all += piece(i);
  }
  return all;
}

std::string Number(size_t i) { return std::to_string(i); }

// Returns a different character for each number.
std::string Character(size_t i) {
  std::string text;
  AppendUtf8(static_cast<char32_t>(0x4E00 + i % 20'000), text);
  return text;
}

// These two grow with the square of their input, in time and in memory, so they must be found.
void MeasureSquares() {
  // Each step waits for the one before it and touches no memory, so that every step takes the same
  // time. (Processors that forward a store to the next load learn to do so only after a while.)
  ExpectGrowsLinearly({.name = "squares", .begin = 2'000}, [](size_t n) -> std::function<void()> {
    return [n] {
      uint64_t value = n;
      for (size_t i = 0; i < n * n; ++i) value = value * 0x9E3779B97F4A7C15 + i;
      volatile uint64_t result = value;
      (void)result;
    };
  });
}
void MeasureSquareBlocks() {
  ExpectGrowsLinearly({.name = "square blocks", .begin = 1'000, .num_doublings = 3},
                      [](size_t n) -> std::function<void()> {
                        return [n] { (void)std::make_unique_for_overwrite<char[]>(n * n); };
                      });
}

TEST(ComplexityTimingTest, WhatGrowsWithTheSquareIsAFault) {
  EXPECT_NONFATAL_FAILURE(MeasureSquares(), "squares");
  EXPECT_NONFATAL_FAILURE(MeasureSquareBlocks(), "square blocks");
}

// --- grammars ---------------------------------------------------------------------------------

// Parses and builds the grammar and makes the first mask. Hitting a limit is fine if it comes
// early.
void CompileGrammar(const std::function<Result<grammar::rules::Grammar>()>& read) {
  static const auto tokenizer = grammar::JsonTokenizer();
  static const auto trie = std::make_shared<const grammar::mask::TokenTrie>(*tokenizer);
  const auto made = read();
  if (!made) return;
  auto automaton = grammar::mask::Automaton::Build(*made, {});
  if (!automaton) return;
  const auto compiled = std::make_shared<const grammar::mask::CompiledGrammar>(
      grammar::mask::CompiledGrammar{.automaton = std::move(*automaton), .trie = trie});
  grammar::mask::MatcherPool pool;
  const auto matcher = pool.Start(compiled);
  std::vector<uint64_t> mask((static_cast<size_t>(trie->vocab_size()) + 63) / 64);
  (void)matcher->FillMask(mask, 100);
}

struct SizedText {
  const char* name;
  size_t begin;
  std::function<std::string(size_t)> make;
};

const std::string kString = R"({"type":"string"})";

std::string Names(size_t n, const std::string& prefix) {
  return Joined(n, ",", [&](size_t i) { return "\"" + prefix + Number(i) + "\""; });
}

std::string Members(size_t n, const std::string& prefix, const std::string& value) {
  return Joined(n, ",", [&](size_t i) { return "\"" + prefix + Number(i) + "\":" + value; });
}

void ExpectSchemasGrowLinearly(std::initializer_list<SizedText> kinds) {
  for (const SizedText& kind : kinds) {
    ExpectGrowsLinearly({.name = kind.name, .begin = kind.begin}, [&](size_t n) {
      return [text = kind.make(n)] {
        CompileGrammar([&] { return grammar::schema::CompileJsonSchema(text, {}); });
      };
    });
  }
}

TEST(ComplexityTimingTest, NamedValues) {
  const auto names = [](size_t n) { return Names(n, "v"); };
  ExpectSchemasGrowLinearly({
      {"enum", 500, [&](size_t n) { return "{\"enum\":[" + names(n) + "]}"; }},
      {"enum beside a pattern", 500,
       [&](size_t n) {
         return R"({"pattern":"^v[0-9]+$","type":"string","enum":[)" + names(n) + "]}";
       }},
      {"an enum twice", 500,
       [&](size_t n) {
         return "{\"allOf\":[{\"enum\":[" + names(n) + "]},{\"enum\":[" + names(n) + "]}]}";
       }},
      {"unique items of an enum", 500,
       [&](size_t n) {
         return R"({"type":"array","uniqueItems":true,"items":{"enum":[)" + Joined(n, ",", Number) +
                "]}}";
       }},
      {"references to an enum", 40,
       [&](size_t n) {
         return "{\"$defs\":{\"e\":{\"enum\":[" + names(n * 4) +
                "]}},\"type\":\"object\",\"properties\":{" +
                Members(n, "p", R"({"$ref":"#/$defs/e"})") + "}}";
       }},
      {"not an enum", 100,
       [&](size_t n) { return R"({"type":"string","not":{"enum":[)" + names(n) + "]}}"; }},
      {"many alternatives", 300,
       [&](size_t n) {
         return "{\"anyOf\":[" +
                Joined(n, ",", [](size_t i) { return "{\"const\":" + Number(i) + "}"; }) + "]}";
       }},
  });
}

TEST(ComplexityTimingTest, ObjectsAndPatterns) {
  const auto object = [](const std::string& properties, const std::string& rest) {
    return "{\"type\":\"object\",\"properties\":{" + properties + "}" + rest + "}";
  };
  const auto members = [](size_t n) { return Members(n, "p", kString); };
  ExpectSchemasGrowLinearly({
      {"properties", 300, [&](size_t n) { return object(members(n), ""); }},
      {"properties and others", 300,
       [&](size_t n) { return object(members(n), ",\"additionalProperties\":" + kString); }},
      {"properties and patterns", 300,
       [&](size_t n) {
         return object(members(n), R"(,"patternProperties":{"^p[0-9]{1,300}$":)" + kString + "}");
       }},
      {"names of an enum", 300,
       [&](size_t n) {
         return object(members(n), ",\"propertyNames\":{\"enum\":[" + Names(n, "p") + "]}");
       }},
      {"a long name", 1'000,
       [&](size_t n) {
         return object("\"" + Repeated("n", n) + "\":" + kString, ",\"additionalProperties\":true");
       }},
      {"a long name with many below", 500,
       [&](size_t n) {
         return object("\"" + Repeated("n", n * 4) + "\":" + object(members(n), ""), "");
       }},
      {"notes", 1'000, [&](size_t n) { return "{" + Members(n, "x-", "{}") + "}"; }},
      {"an array of objects", 1'000,
       [&](size_t n) {
         return "{\"examples\":[" + Joined(n, ",", [](size_t) { return std::string("{}"); }) + "]}";
       }},
      {"a pattern's class", 500,
       [&](size_t n) {
         return R"({"type":"string","pattern":"[)" +
                Joined(n, "", [&](size_t i) { return Character(20'000 - 2 * i); }) + "]\"}";
       }},
      {"what a pattern tells apart", 50,
       [&](size_t n) {
         return R"({"type":"string","pattern":"^()" +
                Joined(n, "|", [&](size_t i) { return "[^" + Character(i) + "]x"; }) + ")$\"}";
       }},
  });
}

TEST(ComplexityTimingTest, Grammars) {
  const auto counted = [](const char* part) {
    return [part](size_t n) {
      return "root ::= " + Joined(n, " ", [&](size_t) { return std::string(part); });
    };
  };
  const SizedText kinds[] = {
      {"words", 500,
       [](size_t n) {
         return "root ::= " + Joined(n, " | ", [](size_t i) { return "\"w" + Number(i) + "\""; });
       }},
      {"rules", 300,
       [](size_t n) {
         return "root ::= r0\n" +
                Joined(n, "\n",
                       [](size_t i) {
                         return "r" + Number(i) + " ::= \"" + Number(i) + "\" r" + Number(i + 1) +
                                "?";
                       }) +
                "\nr" + Number(n) + " ::= \"z\"";
       }},
      {"a sequence that waits for its last", 2'000,
       [](size_t n) {
         return "root ::= " + Repeated("a ", n) + "b\nb ::= c\nc ::= \"y\"\na ::= \"x\"";
       }},
      {"a sequence without an end", 2'000,
       [](size_t n) { return "root ::= " + Repeated("a ", n) + "b\na ::= \"x\"\nb ::= \"y\" b"; }},
      {"counted parts", 250, counted("[a-z]{0,1000}")},
      {"counted choices", 250, counted("(\"a\" | \"b\"){0,9}")},
      {"parts that may be there", 250, counted("[a-z]?")},
      {"parts without an end", 250, counted("[a-z]*")},
      {"a class", 1'000,
       [](size_t n) {
         return "root ::= [" + Joined(n, "", [&](size_t i) { return Character(20'000 - 2 * i); }) +
                "]";
       }},
  };
  for (const SizedText& kind : kinds) {
    ExpectGrowsLinearly({.name = kind.name, .begin = kind.begin}, [&](size_t n) {
      return [text = kind.make(n)] {
        CompileGrammar([&] { return grammar::language::ParseGbnf(text, {}); });
      };
    });
  }
}

// --- templates --------------------------------------------------------------------------------

TEST(ComplexityTimingTest, Templates) {
  struct Kind {
    const char* source;
    std::function<std::string(size_t)> text;   // `a`
    std::function<std::string(size_t)> other;  // `b`
  };
  const auto as = [](size_t n) { return Repeated("a", n); };
  const auto halves = [](size_t n) { return Repeated("a", n / 2) + "b"; };
  const auto reversed = [](size_t n) { return "b" + Repeated("a", n / 2); };
  const Kind kinds[] = {
      {"{{ b in a }}", as, halves},
      {"{{ b in a }}", as, reversed},
      {"{{ a.find(b) }}{{ a.rfind(b) }}{{ a.count(b) }}", as, halves},
      {"{{ a.find(b) }}{{ a.rfind(b) }}{{ a.count(b) }}", as, reversed},
      {"{{ a.split(b)|length }}{{ a.rsplit(b)|length }}", as, reversed},
      {"{{ a.partition(b)|length }}{{ a.rpartition(b)|length }}", as, halves},
      {"{{ a.replace(b, 'x')|length }}{{ a|replace('aa', 'b')|length }}", as, halves},
      {"{{ a.strip(b)|length }}", as, [](size_t n) { return Repeated("b", n) + "a"; }},
      {"{{ a.startswith((b, b, b, b)) }}{{ a.removeprefix(b)|length }}", as, halves},
      {"{{ a|wordwrap(5)|length }}", [](size_t n) { return Repeated("-", n); }, as},
      {"{{ a|wordwrap(50)|length }}", [](size_t n) { return Repeated("x--", n / 3); }, as},
      {"{{ a|title|length }}{{ a|striptags|length }}", [](size_t n) { return Repeated("<", n); },
       as},
      {"{{ a.lower()|length }}", [](size_t n) { return Repeated("\u03A3.", n / 3); }, as},
      {"{% for c in a %}{{ c }}{% endfor %}", [](size_t n) { return Repeated("\u00E9", n / 40); },
       as},
  };
  for (const Kind& kind : kinds) {
    ExpectGrowsLinearly(
        {.name = kind.source, .begin = 20'000}, [&](size_t n) -> std::function<void()> {
          const jinja::value::Data::Dict data = {{"a", kind.text(n)}, {"b", kind.other(n)}};
          return [data, source = kind.source] { (void)jinja::TryRender(source, data); };
        });
  }
}

// A rendering that exceeds its steps is refused, so no function may do more work than it is
// charged.
TEST(ComplexityTimingTest, RepeatedWorkOnLargeTextsIsCharged) {
  const std::string large = Repeated("a", 2'000'000);
  const jinja::value::Data::Dict data = {{"a", large}, {"b", large + "b"}};
  const Cost once =
      Measure([&] { (void)jinja::TryRender("{{ b in a }}{{ a == b }}{{ a|length }}", data); });
  for (const char* body :
       {"{% if b in a %}x{% endif %}", "{% if a.startswith(b) %}x{% endif %}",
        "{% if a.removeprefix(b) == 1 %}x{% endif %}",
        "{% if a.removesuffix(b) == 1 %}x{% endif %}", "{% if (a, b).count(1) %}x{% endif %}",
        "{% if {}.get(a) %}x{% endif %}", "{% if {}.get((a, a, a, a)) %}x{% endif %}",
        "{% if a in {} %}x{% endif %}", "{% if a.ljust(1) == 1 %}x{% endif %}",
        "{% if a.zfill(1) == 1 %}x{% endif %}", "{% if (a ~ '\u00E9')[0] == 'x' %}x{% endif %}",
        "{% if a.find(b) > 0 %}x{% endif %}", "{% if a.isidentifier() == 1 %}x{% endif %}",
        "{% if a|attr(b) %}x{% endif %}"}) {
    const std::string source = "{% for i in range(60000) %}" + std::string(body) + "{% endfor %}";
    const Cost cost = Measure([&] { (void)jinja::TryRender(source, data); });
    // The bound is relative to one round, so it does not depend on the machine.
    EXPECT_LE(cost.seconds, 400 * std::max(once.seconds, kSecondsFloor)) << body;
  }
}

// --- text -------------------------------------------------------------------------------------

std::vector<std::string> PowersOf(const std::string& letter, size_t count) {
  std::vector<std::string> all;
  for (size_t i = 1; i <= count; ++i) all.push_back(Repeated(letter, i));
  return all;
}

tokenizer::Fixture UnigramFixture(const std::vector<std::string>& pieces) {
  tokenizer::Fixture fixture;
  fixture.model = "t5";
  fixture.Add("<pad>", tokenizer::kControl);
  fixture.Add("</s>", tokenizer::kControl);
  fixture.Add("<unk>", tokenizer::kUnknown);
  float score = 0;
  for (const std::string& piece : pieces) fixture.Add(piece, tokenizer::kNormal, score -= 1);
  return fixture;
}

TEST(ComplexityTimingTest, Tokenizers) {
  const std::pair<const char*, tokenizer::Fixture> fixtures[] = {
      {"bpe", tokenizer::BpeFixture(tokenizer::BpeMerges())},
      {"bpe of one word", tokenizer::BpeFixture({"a a", "aa aa", "aaaa aaaa"})},
      {"sentencepiece", tokenizer::SpmFixture(tokenizer::SpmPieces())},
      {"sentencepiece of one word", tokenizer::SpmFixture({"▁a", "aa", "aaaa", "aaaaaaaa", "a"})},
      {"unigram", UnigramFixture({"▁the", "▁", "t", "h", "e", "▁a", "日", "7"})},
      {"unigram of one letter", UnigramFixture(PowersOf("a", 200))},
  };
  const std::pair<const char*, std::function<std::string(size_t)>> texts[] = {
      {"one letter", [](size_t n) { return Repeated("a", n); }},
      {"spaces", [](size_t n) { return Repeated(" ", n); }},
      {"a special's beginning", [](size_t n) { return Repeated("<|en", n / 4); }},
      {"digits", [](size_t n) { return Repeated("7", n); }},
      {"other scripts", [](size_t n) { return Repeated("\u65E5\u672C", n / 6); }},
      {"marks", [](size_t n) { return "e" + Repeated("\u0301", n / 2); }},
      {"lines", [](size_t n) { return Repeated(" \n", n / 2); }},
  };
  for (const auto& [model, fixture] : fixtures) {
    const auto loaded = fixture.MustLoad();
    for (const auto& [name, make] : texts) {
      ExpectGrowsLinearly({.name = std::string(model) + ", " + name, .begin = 10'000},
                          [&, &make = make](size_t n) -> std::function<void()> {
                            return [text = make(n), &loaded] { (void)loaded->Encode(text, {}); };
                          });
    }
  }
}

TEST(ComplexityTimingTest, StopStrings) {
  ExpectGrowsLinearly({.name = "stop strings", .begin = 20'000},
                      [](size_t n) -> std::function<void()> {
                        return [text = Repeated("a", n), stop = Repeated("a", 1'000) + "b"] {
                          sample::StopMatcher matcher({stop, stop + "c"});
                          for (const char c : text) (void)matcher.Push({&c, 1});
                        };
                      });
}

// --- files and streams ------------------------------------------------------------------------

class Drop final : public dialect::reply::SseSink {
 public:
  void OnData(std::string_view) override {}
  void OnEventEnd() override {}
};

TEST(ComplexityTimingTest, EventStreams) {
  const std::pair<const char*, std::function<std::string(size_t)>> streams[] = {
      {"one long line", [](size_t n) { return "data: " + Repeated("x", n) + "\n\n"; }},
      {"short events", [](size_t n) { return Repeated("data: x\n\n", n / 9); }},
      {"one event of many lines", [](size_t n) { return Repeated("data:\n", n / 6); }},
      {"no colon", [](size_t n) { return Repeated("d", n); }},
      {"comments", [](size_t n) { return Repeated(":\r\n", n / 3); }},
  };
  for (const auto& [name, make] : streams) {
    for (const size_t piece : {size_t{1}, size_t{4'096}}) {
      ExpectGrowsLinearly({.name = name, .begin = 50'000},
                          [&, &make = make](size_t n) -> std::function<void()> {
                            return [text = make(n), piece] {
                              Drop drop;
                              dialect::reply::SseReader reader(drop);
                              for (size_t at = 0; at < text.size(); at += piece) {
                                reader.Feed(std::string_view(text).substr(at, piece));
                              }
                            };
                          });
    }
  }
}

// Builds the bytes of a GGUF file.
class GgufText {
 public:
  GgufText(uint64_t num_keys, uint64_t num_tensors) {
    Append(uint32_t{3});
    Append(num_tensors);
    Append(num_keys);
  }
  template <typename T>
  void Append(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Append(static_cast<uint64_t>(text.size()));
    bytes_ += text;
  }
  void Key(std::string_view key, uint32_t type) {
    Text(key);
    Append(type);
  }
  std::function<void()> Parse(size_t num_tensors) {
    bytes_.resize((bytes_.size() + 31) / 32 * 32 + 32 * num_tensors);
    return [file = bytes_] {
      const auto parsed = modelfile::GgufFile::Parse(std::as_bytes(std::span(file)));
      EXPECT_TRUE(parsed) << parsed.error().ToString();
    };
  }

 private:
  std::string bytes_ = "GGUF";
};

// Headers with n keys, of which some are looked up, with n strings, or with n tensors.
TEST(ComplexityTimingTest, ModelFiles) {
  ExpectGrowsLinearly({.name = "gguf keys", .begin = 1'000}, [](size_t n) -> std::function<void()> {
    std::string file = "GGUF";
    const auto append = [&](auto value) {
      file.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    append(uint32_t{3});
    append(uint64_t{0});
    append(static_cast<uint64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      const std::string key = "key." + Number(i);
      append(static_cast<uint64_t>(key.size()));
      file += key;
      append(uint32_t{4});
      append(static_cast<uint32_t>(i));
    }
    file.resize((file.size() + 31) / 32 * 32);
    return [file] {
      const auto parsed = modelfile::GgufFile::Parse(std::as_bytes(std::span(file)));
      ASSERT_TRUE(parsed) << parsed.error().ToString();
      for (size_t i = 0; i < (*parsed)->metadata().size(); i += 97) {
        (void)(*parsed)->Find("key." + Number(i));
      }
    };
  });
  ExpectGrowsLinearly({.name = "gguf strings", .begin = 10'000}, [](size_t n) {
    GgufText file(1, 0);
    file.Key("tokenizer.ggml.tokens", 9);
    file.Append(uint32_t{8});
    file.Append(static_cast<uint64_t>(n));
    for (size_t i = 0; i < n; ++i) file.Text(Number(i));
    return file.Parse(/*num_tensors=*/0);
  });
  ExpectGrowsLinearly({.name = "gguf tensors", .begin = 1'000}, [](size_t n) {
    GgufText file(0, n);
    for (size_t i = 0; i < n; ++i) {
      file.Text("tensor." + Number(i));
      file.Append(uint32_t{1});
      file.Append(uint64_t{8});
      file.Append(uint32_t{0});
      file.Append(uint64_t{32} * i);
    }
    return file.Parse(n);
  });
}

}  // namespace
}  // namespace kvgate::complexity
