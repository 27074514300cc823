#include "engine/text/tokenizer/vocabulary_tokenizer.h"

#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "engine/text/tokenizer/unicode/char_class.h"
#include "engine/text/tokenizer/unicode/unicode_text.h"

namespace kvgate::tokenizer {
namespace {

// Returns true if a word character is adjacent to [begin, end), before or after it.
bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  if (end < text.size()) {
    const Utf8Step next = NextUtf8(text.substr(end));
    if (next.status == Utf8Status::kValid && unicode::IsWordCharacter(next.code_point)) return true;
  }
  size_t last = begin;  // start of the character before `begin`
  while (last > 0 && begin - last < 4) {
    --last;
    const Utf8Step step = NextUtf8(text.substr(last, begin - last));
    if (step.status != Utf8Status::kValid || last + step.length != begin) continue;
    return unicode::IsWordCharacter(step.code_point);
  }
  return false;
}

}  // namespace

void TokenRun::MarkEnd(size_t offset) {
  // An offset equal to `offset` is settled by the next call, because a later token may cover no
  // bytes.
  while (found_.size() < offsets_.size() && offsets_[found_.size()] < offset) {
    found_.push_back(num_tokens_marked_);
  }
  num_tokens_marked_ = tokens_.size();
}

MarkedTokens TokenRun::Finish() {
  found_.resize(offsets_.size(), num_tokens_marked_);
  return {.tokens = std::move(tokens_), .offsets = std::move(found_)};
}

VocabularyTokenizer::VocabularyTokenizer(vocabulary::Vocabulary vocabulary,
                                         std::vector<std::string> token_bytes)
    : vocabulary_(std::move(vocabulary)),
      token_bytes_(std::move(token_bytes)),
      fingerprint_(vocabulary_.ComputeFingerprint()) {
  KVGATE_CHECK(token_bytes_.size() == vocabulary_.texts.size(), "one text per token");
}

MarkedTokens VocabularyTokenizer::EncodeMarked(const MarkedText& marked) const {
  const std::string_view text = marked.text;
  const vocabulary::SpecialMatcher& specials = vocabulary_.specials;
  TokenRun run(marked.offsets);
  size_t marker = 0;
  size_t fragment_begin = 0;
  bool after_special = true;
  const auto flush = [&](size_t end) {
    if (end == fragment_begin) return;
    EncodeFragment({.text = text.substr(fragment_begin, end - fragment_begin),
                    .offset = fragment_begin,
                    .after_special = after_special},
                   run);
    run.MarkEnd(end);
    after_special = false;
  };
  for (size_t position = 0; position < text.size();) {
    if (!specials.MayBeginWith(text[position])) {
      ++position;
      continue;
    }
    while (marker < marked.markers.size() && marked.markers[marker].end <= position) ++marker;
    const bool in_marker =
        marker < marked.markers.size() && marked.markers[marker].begin <= position;
    const size_t control_end = in_marker ? marked.markers[marker].end : 0;
    const auto match = specials.MatchAt(text, position, control_end);
    const size_t token = match ? static_cast<size_t>(match->token) : 0;
    if (!match ||
        (vocabulary_.is_single_word[token] && TouchesWord(text, match->begin, match->end))) {
      ++position;
      continue;
    }
    size_t begin = match->begin;
    if (vocabulary_.strips_left[token]) {
      begin = fragment_begin +
              unicode::SkipSpacesBack(text.substr(fragment_begin, begin - fragment_begin),
                                      begin - fragment_begin);
    }
    flush(begin);
    run.Append(match->token);
    position = vocabulary_.strips_right[token] ? unicode::SkipSpaces(text, match->end) : match->end;
    run.MarkEnd(position);
    fragment_begin = position;
    after_special = true;
  }
  flush(text.size());
  return run.Finish();
}

std::vector<TokenId> VocabularyTokenizer::Encode(std::string_view text,
                                                 const EncodeOptions& options) const {
  const TextRange whole = {.begin = 0, .end = text.size()};
  const std::span<const TextRange> markers(&whole, options.parse_special ? 1 : 0);
  std::vector<TokenId> tokens =
      EncodeMarked({.text = text, .markers = markers, .offsets = {}}).tokens;
  if (options.add_special) {
    tokens.insert(tokens.begin(), vocabulary_.prefix.begin(), vocabulary_.prefix.end());
    if (adds_bos()) tokens.insert(tokens.begin(), *vocabulary_.bos);
    if (vocabulary_.add_eos && vocabulary_.eos) tokens.push_back(*vocabulary_.eos);
    tokens.insert(tokens.end(), vocabulary_.suffix.begin(), vocabulary_.suffix.end());
  }
  return tokens;
}

std::string VocabularyTokenizer::TokenBytes(TokenId token, bool special) const {
  if (!vocabulary_.contains(token)) return {};
  if (!special && vocabulary_.is_control(token)) return {};
  return bytes_of(token);
}

std::string VocabularyTokenizer::Decode(std::span<const TokenId> tokens, bool special) const {
  std::string text;
  for (const TokenId token : tokens) {
    if (!vocabulary_.contains(token)) continue;
    if (special || !vocabulary_.is_control(token)) text += bytes_of(token);
  }
  if (vocabulary_.add_space_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

bool VocabularyTokenizer::is_end_of_generation(TokenId token) const {
  return vocabulary_.contains(token) && vocabulary_.end_of_generation[static_cast<size_t>(token)];
}

std::optional<TokenId> VocabularyTokenizer::FindSpecial(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  const auto match = vocabulary_.specials.MatchAt(text, 0, text.size());
  if (!match || match->end != text.size()) return std::nullopt;
  return match->token;
}

std::optional<std::string_view> VocabularyTokenizer::chat_template() const {
  if (!vocabulary_.chat_template) return std::nullopt;
  return *vocabulary_.chat_template;
}

}  // namespace kvgate::tokenizer
