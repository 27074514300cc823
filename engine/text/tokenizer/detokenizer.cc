#include "base/utf8.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::tokenizer {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, Start start)
    : tokenizer_(tokenizer), drops_space_(start == Start::kText && tokenizer.adds_space_prefix()) {}

std::string Detokenizer::Push(TokenId token, bool special) {
  std::string_view piece;
  const std::string bytes = tokenizer_.TokenBytes(token, special);
  piece = bytes;
  if (drops_space_ && !piece.empty()) {
    if (piece.front() == ' ') piece.remove_prefix(1);
    drops_space_ = false;
  }
  pending_.append(piece);
  std::string text;
  pending_.erase(0, AppendValidUtf8(pending_, text));
  return text;
}

std::string Detokenizer::Finish() {
  // Push keeps at most one unfinished character, the start of a well-formed one.
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace kvgate::tokenizer
