#include "engine/text/tokenizer/split/pretokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace kvgate::tokenizer::split {

using unicode::Regex;

namespace {

// Cuts `digits`, which begin at `offset`, into threes from the end: 12 345 678.
template <typename Add>
void CutThrees(std::string_view digits, size_t offset, const Add& add) {
  size_t left = CountUtf8Characters(digits);
  for (size_t i = 0; i < digits.size(); ++i) {
    if (IsUtf8Continuation(digits[i])) continue;
    if (left % 3 == 0) add(offset + i);
    --left;
  }
}

void CutByExpression(const Regex& regex, const Regex::Matcher& matcher, CutRule::Kind kind,
                     std::string_view piece, size_t offset, std::vector<size_t>& ends) {
  size_t cut = 0;  // position of the last cut
  const auto add = [&](size_t end) {
    if (end > cut) ends.push_back(offset + end);
    cut = std::max(cut, end);
  };
  for (size_t position = 0; position < piece.size();) {
    const auto [begin, end] = matcher.Next(regex, piece, position);
    if (kind != CutRule::Kind::kDigitCuts) add(begin);
    if (kind != CutRule::Kind::kExpression) CutThrees(piece.substr(begin, end - begin), begin, add);
    if (kind != CutRule::Kind::kDigitCuts) add(end);
    position = std::max(end, position + 1);
  }
  add(piece.size());
}

}  // namespace

Pretokenizer::Pretokenizer(const PretokenizerFamily& family) : family_(family) {
  for (const CutRule& rule : family.rules) {
    if (rule.kind == CutRule::Kind::kNone) break;
    if (rule.kind == CutRule::Kind::kWords) {
      passes_.push_back({rule.kind, WordScanner(rule.shape)});
    } else {
      passes_.push_back({rule.kind, Regex::MustCompile(rule.expression)});
    }
  }
}

Result<std::unique_ptr<Pretokenizer>> Pretokenizer::Create(std::string_view name) {
  const PretokenizerFamily* family = FindPretokenizerFamily(name);
  if (family == nullptr) {
    return MakeError(ErrorCode::kUnsupported, "tokenizer",
                     fmt::format("tokenizer.ggml.pre '{}' is not supported; supported are {}", name,
                                 PretokenizerNames()));
  }
  return std::unique_ptr<Pretokenizer>(new Pretokenizer(*family));
}

void Pretokenizer::Split(std::string_view text, std::vector<size_t>& word_ends) const {
  const Regex::Matcher matcher;
  size_t offset = 0;
  while (offset < text.size()) {
    const size_t valid = ValidUtf8Bytes(text.substr(offset));
    if (valid > 0) SplitValid(text.substr(offset, valid), offset, matcher, word_ends);
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

void Pretokenizer::SplitValid(std::string_view text, size_t offset, const Regex::Matcher& matcher,
                              std::vector<size_t>& word_ends) const {
  // A single hand-written pass, the usual case, needs no list of pieces.
  if (passes_.size() == 1 && passes_[0].kind == CutRule::Kind::kWords) {
    std::get<WordScanner>(passes_[0].cutter).Cut(text, offset, word_ends);
    return;
  }
  std::vector<size_t> ends = {text.size()};
  std::vector<size_t> finer;
  for (const Pass& pass : passes_) {
    finer.clear();
    size_t piece_begin = 0;
    for (const size_t piece_end : ends) {
      // Each piece is matched as if it were the whole text, so no expression looks across an
      // earlier cut.
      const std::string_view piece = text.substr(piece_begin, piece_end - piece_begin);
      if (pass.kind == CutRule::Kind::kWords) {
        std::get<WordScanner>(pass.cutter).Cut(piece, piece_begin, finer);
      } else {
        CutByExpression(std::get<Regex>(pass.cutter), matcher, pass.kind, piece, piece_begin,
                        finer);
      }
      piece_begin = piece_end;
    }
    std::swap(ends, finer);
  }
  for (const size_t end : ends) word_ends.push_back(offset + end);
}

}  // namespace kvgate::tokenizer::split
