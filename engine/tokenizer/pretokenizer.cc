#include "engine/tokenizer/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include <kvgate/check.h>

#include "engine/tokenizer/utf8.h"

namespace kvgate::tokenizer {
namespace {

// Unicode's White_Space as the inside of a character class. PCRE2's own \s also has U+180E, which
// has not been white space since Unicode 6.3; the models' tokenizers do not count it.
#define SPACE "\\t-\\r\\x{85}\\p{Z}"

// GPT-2's expression, the ancestor of all.
constexpr std::string_view kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE
                                   "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

// Llama 3's and Qwen2's differ in how many digits make a word.
#define MODERN(digits)                                                               \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" SPACE \
  "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

// A family of models that cut text alike, under every name it goes by in files.
struct Family {
  std::array<std::string_view, 5> names;
  std::array<std::string_view, 5> expressions;
  bool ignores_merges = false;
  bool adds_bos = false;
};

constexpr Family kFamilies[] = {
    {.names = {"default"},
     .expressions = {"[\\p{P}\\$\\+<=>\\^~\\|]+", kGpt2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = {"gpt-2", "phi-2"}, .expressions = {kGpt2}},
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"},
     .expressions = {MODERN("\\p{N}{1,3}")},
     .ignores_merges = true,
     .adds_bos = true},
    {.names = {"qwen2", "deepseek-r1-qwen", "stablelm2"}, .expressions = {MODERN("\\p{N}")}},
    {.names = {"deepseek-coder"},
     .expressions = {"[\\r\\n]", "[" SPACE "]?\\p{L}+", "[" SPACE "]?\\p{P}+",
                     "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+", "\\p{N}"}},
    {.names = {"starcoder", "refact", "smollm", "command-r", "codeshell"},
     .expressions = {"\\p{N}", kGpt2}},
};

#undef SPACE
#undef MODERN

const Family* FindFamily(std::string_view name) {
  for (const Family& family : kFamilies) {
    const auto end = family.names.end();
    if (!name.empty() && std::find(family.names.begin(), end, name) != end) return &family;
  }
  return nullptr;
}

std::string FamilyNames() {
  std::string names;
  for (const Family& family : kFamilies) {
    for (const std::string_view name : family.names) {
      if (!name.empty()) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    }
  }
  return names;
}

struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Pretokenizer::Expression {
  ~Expression() { pcre2_code_free(code); }
  pcre2_code* code = nullptr;
  bool is_compiled = false;  // to machine code
};

// One expression with the scratch memory of one Split.
class Pretokenizer::Matcher {
 public:
  explicit Matcher(const Expression& expression)
      : expression_(expression),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    KVGATE_CHECK(data_ != nullptr && context_ != nullptr, "out of memory");
    // The expressions are linear (none nests a repeat in a repeat), so the count of steps, which
    // grows with the length of one word, needs no limit.
    pcre2_set_match_limit(context_.get(), std::numeric_limits<uint32_t>::max());
  }

  // The next match at or after `begin`; {end, end} of the text when there is none.
  std::pair<size_t, size_t> Next(std::string_view text, size_t begin) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int count = PCRE2_ERROR_JIT_STACKLIMIT;
    if (expression_.is_compiled) {
      count = pcre2_jit_match(expression_.code, subject, text.size(), begin, PCRE2_NO_UTF_CHECK,
                              data_.get(), context_.get());
    }
    // The interpreter keeps its stack on the heap and takes what the JIT's own stack cannot.
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = pcre2_match(expression_.code, subject, text.size(), begin,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data_.get(), context_.get());
    }
    if (count == PCRE2_ERROR_NOMATCH) return {text.size(), text.size()};
    KVGATE_CHECK(count >= 0, "a pre-tokenizer expression failed on valid UTF-8");
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data_.get());
    return {span[0], span[1]};
  }

 private:
  const Expression& expression_;
  std::unique_ptr<pcre2_match_data, MatchDataDeleter> data_;
  std::unique_ptr<pcre2_match_context, MatchContextDeleter> context_;
};

Pretokenizer::Pretokenizer() = default;
Pretokenizer::~Pretokenizer() = default;

Result<std::unique_ptr<Pretokenizer>> Pretokenizer::Create(std::string_view name) {
  const Family* family = FindFamily(name.empty() ? "default" : name);
  if (family == nullptr) {
    return MakeError(ErrorCode::kUnsupported, "tokenizer",
                     fmt::format("tokenizer.ggml.pre '{}' is not supported; supported are {}", name,
                                 FamilyNames()));
  }
  std::unique_ptr<Pretokenizer> result(new Pretokenizer());
  result->ignores_merges_ = family->ignores_merges;
  result->adds_bos_ = family->adds_bos;
  for (const std::string_view pattern : family->expressions) {
    if (pattern.empty()) break;
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    auto expression = std::make_unique<Expression>();
    expression->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &error_offset, nullptr);
    KVGATE_CHECK(expression->code != nullptr, "a built-in expression does not compile");
    expression->is_compiled = pcre2_jit_compile(expression->code, PCRE2_JIT_COMPLETE) == 0;
    result->expressions_.push_back(std::move(expression));
  }
  return result;
}

void Pretokenizer::Split(std::string_view text, std::vector<size_t>& word_ends) const {
  std::vector<Matcher> matchers;
  matchers.reserve(expressions_.size());
  for (const auto& expression : expressions_) matchers.emplace_back(*expression);
  size_t offset = 0;
  while (offset < text.size()) {
    const size_t valid = ValidUtf8Bytes(text.substr(offset));
    if (valid > 0) SplitValid(text.substr(offset, valid), offset, matchers, word_ends);
    offset += valid;
    const size_t invalid_begin = offset;
    while (offset < text.size()) {
      const Utf8Step step = NextUtf8(text.substr(offset));
      if (step.status == Utf8Status::kValid) break;
      offset += step.length;
    }
    if (offset > invalid_begin) word_ends.push_back(offset);
  }
}

void Pretokenizer::SplitValid(std::string_view text, size_t offset, std::vector<Matcher>& matchers,
                              std::vector<size_t>& word_ends) const {
  std::vector<size_t> ends = {text.size()};
  std::vector<size_t> finer;
  for (const Matcher& matcher : matchers) {
    finer.clear();
    size_t piece_begin = 0;
    for (const size_t piece_end : ends) {
      // A word is matched as if it were all the text: no expression looks past an earlier cut.
      const std::string_view piece = text.substr(piece_begin, piece_end - piece_begin);
      size_t position = 0;
      while (position < piece.size()) {
        const auto [begin, end] = matcher.Next(piece, position);
        if (begin > position) finer.push_back(piece_begin + begin);
        if (end > begin) finer.push_back(piece_begin + end);
        position = end;
      }
      piece_begin = piece_end;
    }
    std::swap(ends, finer);
  }
  for (const size_t end : ends) word_ends.push_back(offset + end);
}

}  // namespace kvgate::tokenizer
