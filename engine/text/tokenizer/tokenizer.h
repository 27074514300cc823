// Tokenizer: converts text to token ids and back, exactly as the model's reference implementation
// does. Immutable after Load; thread-safe.
//
// Text need not be valid UTF-8. A byte that belongs to no character becomes its own byte token, so
// Decode(Encode(text)) == text if the vocabulary has all 256 bytes. (SentencePiece writes a space
// as U+2581 and cannot tell the two apart, so U+2581 is decoded as a space.)
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/modelfile/model_file.h"

namespace kvgate::tokenizer {

struct EncodeOptions {
  bool add_special = true;    // BOS and EOS as the model's flags say
  bool parse_special = true;  // "<|im_end|>" in the text is that token; false: plain characters
};

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

// Text that is trusted only in parts. It is encoded as one run, so that the tokens are those of the
// whole text, but a control token is recognised only if it lies inside a marker.
struct MarkedText {
  std::string_view text;
  std::span<const TextRange> markers;  // trusted ranges, ascending, not overlapping
  std::span<const size_t> offsets;     // ascending text offsets to map to token counts
};

struct MarkedTokens {
  std::vector<TokenId> tokens;
  // For each offset, the number of tokens that end at or before it. Exact at the edges of special
  // tokens and words; a token that straddles the offset is not counted.
  std::vector<size_t> offsets;
};

class Tokenizer {
 public:
  // Reads tokenizer.ggml.* of a GGUF file, or the texts of a Hugging Face folder. kUnsupported: the
  // tokenizer model or pre-tokenizer is not implemented (detail names it and lists the supported
  // ones). kDataLoss: a key is missing or invalid (detail names it). Keeps no reference to the
  // file.
  static Result<std::unique_ptr<Tokenizer>> Load(const modelfile::ModelFile& file);
  // The same from a path: a GGUF file, a Hugging Face tokenizer.json, or a folder that holds one.
  static Result<std::unique_ptr<Tokenizer>> LoadFile(const std::filesystem::path& path);
  virtual ~Tokenizer() = default;

  // User-defined tokens are matched in the text whatever the options say, because they are words,
  // not control tokens. Ordinary characters never merge into control tokens.
  virtual std::vector<TokenId> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;
  // Adds neither BOS nor EOS.
  virtual MarkedTokens EncodeMarked(const MarkedText& text) const = 0;
  // Returns the bytes a token stands for, which may be part of a UTF-8 character. Control tokens
  // give "" unless `special`; ids outside the vocabulary give "". The leading space of a
  // SentencePiece text is kept: see Decode.
  virtual std::string TokenBytes(TokenId token, bool special = false) const = 0;
  // Returns the bytes of tokens from the start of a text; if adds_space_prefix(), one leading space
  // is dropped. For tokens that continue other tokens, use Detokenizer.
  virtual std::string Decode(std::span<const TokenId> tokens, bool special = false) const = 0;

  virtual int vocab_size() const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  virtual bool adds_bos() const = 0;
  virtual bool adds_space_prefix() const = 0;
  virtual bool is_end_of_generation(TokenId token) const = 0;
  // Returns the id of a special (control, unknown or user-defined) token by its text.
  virtual std::optional<TokenId> FindSpecial(std::string_view text) const = 0;
  // Returns the file's tokenizer.chat_template, if it has one.
  virtual std::optional<std::string_view> chat_template() const = 0;
  // XXH3-128 of everything that affects Encode.
  virtual Fingerprint fingerprint() const = 0;
};

// Converts a growing sequence of tokens to text without splitting UTF-8 characters. Push returns
// the text that has become complete; Finish returns the rest (incomplete bytes as U+FFFD). All
// returned text is valid UTF-8; ill-formed bytes become U+FFFD, one per maximal ill-formed part.
class Detokenizer {
 public:
  enum class Start {
    kContinuation,  // the tokens follow a prompt: nothing is dropped
    kText,          // the tokens begin a text: the total equals Decode
  };
  explicit Detokenizer(const Tokenizer& tokenizer, Start start = Start::kContinuation);
  // Control tokens give no text unless `special`.
  std::string Push(TokenId token, bool special = false);
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool drops_space_;     // the next byte is the prefix if it is a space
  std::string pending_;  // bytes of an incomplete character
};

}  // namespace kvgate::tokenizer
