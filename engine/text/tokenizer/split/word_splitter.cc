#include "engine/text/tokenizer/split/word_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "engine/text/tokenizer/unicode/byte_alphabet.h"
#include "engine/text/tokenizer/unicode/char_class.h"
#include "engine/text/tokenizer/unicode/unicode_text.h"

namespace kvgate::tokenizer::split {
namespace {

constexpr int kDepthMax = 16;

// Returns one span for each character that `matches`, and spans for the text between them.
template <typename Predicate>
std::vector<Span> FindCharacters(std::string_view text, const Predicate& matches) {
  std::vector<Span> spans;
  size_t begin = 0;
  for (size_t position = 0; position < text.size();) {
    const Utf8Step step = NextUtf8(text.substr(position));
    const size_t end = position + step.length;
    if (matches(step.code_point)) {
      if (position > begin) spans.push_back({begin, position, false});
      spans.push_back({position, end, true});
      begin = end;
    }
    position = end;
  }
  if (begin < text.size()) spans.push_back({begin, text.size(), false});
  return spans;
}

bool HasClass(char32_t c, uint8_t bits) { return (unicode::CharClassTable::Get()[c] & bits) != 0; }
bool IsSpace(char32_t c) { return HasClass(c, unicode::CharClass::kSpace); }
bool IsNumber(char32_t c) { return HasClass(c, unicode::CharClass::kNumber); }

Result<SplitBehavior> ReadBehavior(const JsonNode& node, std::string_view fallback) {
  static constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kBehaviors = {
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  KVGATE_TRY(const std::string name, node.String("behavior", fallback));
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) return behavior;
  }
  return node.At("behavior").Unsupported(fmt::format("'{}' is not supported", name));
}

// Cuts a word of raw bytes at the positions where `cut` cuts its spelling in the byte alphabet,
// because steps after the byte-level one operate on that spelling.
std::vector<Span> CutSpelling(std::string_view word,
                              const std::function<std::vector<Span>(std::string_view)>& cut) {
  const std::string spelled = unicode::ByteAlphabet::Get().Spell(word);
  std::vector<Span> spans = cut(spelled);
  size_t byte = 0;      // in the word: one byte per character of the spelling
  size_t position = 0;  // in the spelling
  const auto to_byte = [&](size_t target) {
    while (position < target) {
      position += NextUtf8(std::string_view(spelled).substr(position)).length;
      ++byte;
    }
    return byte;
  };
  for (Span& span : spans) {
    span.begin = to_byte(span.begin);
    span.end = to_byte(span.end);
  }
  return spans;
}

}  // namespace

std::vector<Span> ApplyBehavior(std::vector<Span> spans, SplitBehavior behavior) {
  std::vector<Span> words;
  words.reserve(spans.size());
  bool after_match = false;
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::reverse(spans.begin(), spans.end());
  for (const Span& span : spans) {
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (!span.is_match) words.push_back(span);
        break;
      case SplitBehavior::kIsolated:
        words.push_back(span);
        break;
      case SplitBehavior::kContiguous:
        if (!words.empty() && words.back().is_match == span.is_match) {
          words.back().end = span.end;
        } else {
          words.push_back(span);
        }
        break;
      case SplitBehavior::kMergedWithPrevious:
      case SplitBehavior::kMergedWithNext:
        // Only the first of several adjacent matches joins a word.
        if (span.is_match && !after_match && !words.empty()) {
          words.back().begin = std::min(words.back().begin, span.begin);
          words.back().end = std::max(words.back().end, span.end);
        } else {
          words.push_back(span);
        }
        after_match = span.is_match;
        break;
    }
  }
  if (backwards) std::reverse(words.begin(), words.end());
  std::erase_if(words, [](const Span& span) { return span.begin == span.end; });
  return words;
}

void WordSplitter::AddCut(Cut cut) {
  steps_.push_back({.cut = std::move(cut), .sees_spelled_bytes = is_byte_level_});
}

Result<void> WordSplitter::AddSplit(const JsonNode& node) {
  KVGATE_TRY(TextPattern pattern, TextPattern::FromJson(node.At("pattern")));
  KVGATE_TRY(const SplitBehavior behavior, ReadBehavior(node, ""));
  KVGATE_TRY(const bool inverts, node.Bool("invert", false));
  AddCut([pattern = std::move(pattern), behavior, inverts](std::string_view word) {
    std::vector<Span> spans = pattern.Find(word);
    for (Span& span : spans) span.is_match = span.is_match != inverts;
    return ApplyBehavior(std::move(spans), behavior);
  });
  return {};
}

Result<void> WordSplitter::AddMetaspace(const JsonNode& node) {
  KVGATE_TRY(const std::string mark, node.At("replacement").String());
  KVGATE_TRY(const bool splits, node.Bool("split", true));
  KVGATE_TRY(const bool adds_prefix, node.Bool("add_prefix_space", true));  // older files have this
  KVGATE_TRY(const std::string scheme,
             node.String("prepend_scheme", adds_prefix ? "always" : "never"));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return node.At("prepend_scheme").Unsupported(fmt::format("'{}' is not supported", scheme));
  }
  if (mark.empty()) return node.At("replacement").Bad("is empty");
  Step step;
  step.space_mark = mark;
  step.prefix = scheme == "never" ? "" : mark;
  step.prefix_first_only = scheme == "first";
  step.sees_spelled_bytes = is_byte_level_;
  if (splits) {
    step.cut = [mark](std::string_view word) {
      std::vector<Span> spans;
      size_t begin = 0;
      for (size_t at = 0; (at = word.find(mark, at)) != std::string_view::npos;) {
        if (at > begin) spans.push_back({begin, at, false});
        spans.push_back({at, at + mark.size(), true});
        begin = at += mark.size();
      }
      if (begin < word.size()) spans.push_back({begin, word.size(), false});
      return ApplyBehavior(std::move(spans), SplitBehavior::kMergedWithNext);
    };
  }
  steps_.push_back(std::move(step));
  return {};
}

Result<void> WordSplitter::AddByteLevel(const JsonNode& node) {
  KVGATE_TRY(const bool adds_prefix, node.Bool("add_prefix_space", true));
  KVGATE_TRY(const bool cuts, node.Bool("use_regex", true));
  Step step;
  if (adds_prefix) step.prefix = " ";
  if (cuts) {
    const TextPattern pattern = TextPattern::Words({.style = WordShape::Style::kGpt2});
    step.cut = [pattern](std::string_view word) { return pattern.Find(word); };
  }
  step.sees_spelled_bytes = is_byte_level_;
  steps_.push_back(std::move(step));
  is_byte_level_ = true;
  return {};
}

Result<void> WordSplitter::Add(const JsonNode& node, int depth) {
  KVGATE_TRY(const std::string type, node.At("type").String());
  if (type == "Sequence") {
    if (depth == kDepthMax) return node.Bad("is nested too deeply");
    KVGATE_TRY(const std::vector<JsonNode> steps, node.At("pretokenizers").Elements());
    for (const JsonNode& step : steps) KVGATE_TRY_VOID(Add(step, depth + 1));
    return {};
  }
  if (type == "Split") return AddSplit(node);
  if (type == "Metaspace") return AddMetaspace(node);
  if (type == "ByteLevel") return AddByteLevel(node);
  if (type == "Digits") {
    KVGATE_TRY(const bool individual, node.Bool("individual_digits", false));
    const auto behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
    AddCut([=](std::string_view word) {
      return ApplyBehavior(FindCharacters(word, IsNumber), behavior);
    });
  } else if (type == "Punctuation") {
    KVGATE_TRY(const SplitBehavior behavior, ReadBehavior(node, "Isolated"));
    AddCut([=](std::string_view word) {
      return ApplyBehavior(FindCharacters(word, unicode::IsPunctuation), behavior);
    });
  } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    AddCut([](std::string_view word) {
      return ApplyBehavior(FindCharacters(word, IsSpace), SplitBehavior::kRemoved);
    });
    if (type == "BertPreTokenizer") {
      AddCut([](std::string_view word) {
        return ApplyBehavior(FindCharacters(word, unicode::IsPunctuation),
                             SplitBehavior::kIsolated);
      });
    }
  } else if (type == "Whitespace") {
    // Implements \w+|[^\w\s]+ and drops the text between matches.
    AddCut([](std::string_view word) {
      std::vector<Span> words;
      for (const Span& span : ApplyBehavior(FindCharacters(word, unicode::IsWordCharacter),
                                            SplitBehavior::kContiguous)) {
        if (span.is_match) {
          words.push_back(span);
          continue;
        }
        const std::string_view rest = word.substr(span.begin, span.end - span.begin);
        for (Span part : FindCharacters(rest, IsSpace)) {
          if (part.is_match) continue;
          words.push_back({span.begin + part.begin, span.begin + part.end, true});
        }
      }
      return words;
    });
  } else {
    return node.At("type").Unsupported(
        fmt::format("'{}' is not supported; supported are Sequence, ByteLevel, Split, Metaspace, "
                    "Digits, Punctuation, Whitespace, WhitespaceSplit and BertPreTokenizer",
                    type));
  }
  return {};
}

Result<WordSplitter> WordSplitter::FromJson(const JsonNode& node) {
  WordSplitter splitter;
  if (!node.is_null()) KVGATE_TRY_VOID(splitter.Add(node, 0));
  return splitter;
}

void WordSplitter::Run(const Step& step, const Place& place, Words& words) {
  std::vector<std::string_view> out;
  out.reserve(words.words.size());
  for (size_t i = 0; i < words.words.size(); ++i) {
    std::string_view word = words.words[i];
    if (!step.space_mark.empty() && word.find(' ') != std::string_view::npos) {
      std::string& marked = words.rewritten.emplace_back();
      for (const char c : word) {
        if (c == ' ') {
          marked += step.space_mark;
        } else {
          marked += c;
        }
      }
      word = marked;
    }
    const bool continues = place.continues && i == 0;
    const bool is_first = place.is_text_start && i == 0;
    if (!step.prefix.empty() && !continues && (is_first || !step.prefix_first_only) &&
        !word.starts_with(step.prefix)) {
      word = words.rewritten.emplace_back(step.prefix + std::string(word));
    }
    if (!step.cut) {
      out.push_back(word);
      continue;
    }
    const std::vector<Span> spans =
        step.sees_spelled_bytes ? CutSpelling(word, step.cut) : step.cut(word);
    for (const Span& span : spans) out.push_back(word.substr(span.begin, span.end - span.begin));
  }
  words.words = std::move(out);
}

WordSplitter::Words WordSplitter::Split(std::string_view text, const Place& place) const {
  Words words;
  if (text.empty()) return words;
  words.words = {text};
  for (const Step& step : steps_) Run(step, place, words);
  return words;
}

}  // namespace kvgate::tokenizer::split
