// Tokenizer: text to token ids and back, exactly as the model's reference implementation does.
// Immutable after Load; thread-safe.
//
// Text need not be valid UTF-8. A byte that belongs to no character becomes its own byte token, so
// that Decode(Encode(text)) == text wherever the vocabulary has all 256 bytes. (SentencePiece
// writes a space as U+2581 and cannot tell the two apart: that character alone comes back as a
// space.)
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/model/model_file.h"

namespace kvgate::tokenizer {

struct EncodeOptions {
  bool add_special = true;    // BOS / EOS as the model's flags say
  bool parse_special = true;  // "<|im_end|>" in the text is that one token; false: plain characters
};

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

// Text of which only some parts are trusted. It is encoded as one run, so that the tokens are those
// of the whole text, but a control token is recognised only where it lies inside a marker.
struct MarkedText {
  std::string_view text;
  std::span<const TextRange> markers;  // ascending, not overlapping
  std::span<const size_t> offsets;     // ascending: places in the text to find again in the tokens
};

struct MarkedTokens {
  std::vector<TokenId> tokens;
  // Per offset: how many tokens end at or before it. Exact at the edges of special tokens and of
  // words; a token that straddles the offset is not counted.
  std::vector<size_t> offsets;
};

class Tokenizer {
 public:
  // From tokenizer.ggml.* of a GGUF file, or from the texts of a Hugging Face folder.
  // kUnsupported: a tokenizer model or pre-tokenizer we do not have (detail names it and lists
  // ours). kDataLoss: a key is missing or senseless (detail names it). Keeps no reference to the
  // file.
  static Result<std::unique_ptr<Tokenizer>> Load(const model::ModelFile& file);
  // The same from a path: a GGUF file, a Hugging Face tokenizer.json, or a folder that holds one.
  static Result<std::unique_ptr<Tokenizer>> LoadFile(const std::filesystem::path& path);
  virtual ~Tokenizer() = default;

  // User-defined tokens are found in the text whatever the options say: they are words of the
  // vocabulary, not control. Control tokens never come out of ordinary characters by merging.
  virtual std::vector<TokenId> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;
  // Without BOS and EOS.
  virtual MarkedTokens EncodeMarked(const MarkedText& text) const = 0;
  // The bytes a token stands for; control tokens give "" unless `special`. May be a part of a UTF-8
  // character. For SentencePiece the leading space of the first token is the caller's matter: see
  // Decode. "" for an id outside the vocabulary.
  virtual std::string TokenBytes(TokenId token, bool special = false) const = 0;
  // The bytes of a whole run from the start of a text: where adds_space_prefix(), one leading space
  // is dropped again. A run that goes on from other tokens is a matter for Detokenizer.
  virtual std::string Decode(std::span<const TokenId> tokens, bool special = false) const = 0;

  virtual int vocab_size() const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  virtual bool adds_bos() const = 0;
  virtual bool adds_space_prefix() const = 0;
  virtual bool is_end_of_generation(TokenId token) const = 0;
  // The id of a special (control, unknown or user-defined) token by its text.
  virtual std::optional<TokenId> FindSpecial(std::string_view text) const = 0;
  // tokenizer.chat_template of the file, when it has one.
  virtual std::optional<std::string_view> chat_template() const = 0;
  // XXH3-128 of everything that decides Encode.
  virtual Fingerprint fingerprint() const = 0;
};

// Turns a growing run of tokens into text, never splitting a UTF-8 character: Push returns the text
// that is complete now; Finish what remains (incomplete bytes as U+FFFD). Everything returned is
// valid UTF-8; ill-formed bytes come as U+FFFD, one per maximal ill-formed part.
class Detokenizer {
 public:
  enum class Start {
    kContinuation,  // the tokens follow a prompt: nothing is dropped
    kText,          // the tokens are a text from its start: the whole equals Decode
  };
  explicit Detokenizer(const Tokenizer& tokenizer, Start start = Start::kContinuation);
  // Control tokens give nothing unless `special`.
  std::string Push(TokenId token, bool special = false);
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool drops_space_;     // the next byte, if it is a space, is the prefix
  std::string pending_;  // bytes of an incomplete character
};

}  // namespace kvgate::tokenizer
