// Tokenizer: text to token ids and back, exactly as the model's reference implementation does.
// Immutable after Load; thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/model/gguf.h"

namespace kvgate::tokenizer {

struct EncodeOptions {
  bool add_special = true;    // BOS / EOS as the model's flags say
  bool parse_special = true;  // "<|im_end|>" in the text is that one token; false: plain characters
};

class Tokenizer {
 public:
  // kUnsupported: a tokenizer model or pre-tokenizer we do not have (detail names it and lists ours).
  static Result<std::unique_ptr<Tokenizer>> Load(const model::GgufFile& file);
  virtual ~Tokenizer() = default;

  virtual std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options) const = 0;
  // The bytes a token stands for; control tokens give "" unless `special`. May be a part of a UTF-8
  // character. For SentencePiece the leading space of the first token is the caller's matter: see
  // Decode.
  virtual std::string TokenBytes(TokenId token, bool special = false) const = 0;
  // The whole text of a run, the reference's rule for the first space included.
  virtual std::string Decode(std::span<const TokenId> tokens, bool special = false) const = 0;

  virtual int vocab_size() const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual bool is_end_of_generation(TokenId token) const = 0;
  // The id of a special token by its text.
  virtual std::optional<TokenId> FindSpecial(std::string_view text) const = 0;
  // tokenizer.chat_template of the file, when it has one.
  virtual std::optional<std::string_view> chat_template() const = 0;
  // XXH3-128 of everything that decides Encode.
  virtual Fingerprint fingerprint() const = 0;
};

// Turns a growing run of tokens into text, never splitting a UTF-8 character: Push returns the text
// that is complete now; Finish what remains (incomplete bytes as U+FFFD).
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string Push(TokenId token);
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;  // bytes of an incomplete character
};

}  // namespace kvgate::tokenizer
