// These are small vocabularies made for the tests, written and read as GGUF, so that no data beside
// the project is needed.
#pragma once

#include <gtest/gtest.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/modelfile/gguf.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::tokenizer {

// Returns the CPU time of this thread, so that a busy machine does not fail a test of linear time.
inline double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Makes freed memory stay with the process. Otherwise large texts get fresh pages each time, small
// ones do not, and on a virtual machine a fresh page costs more than all that is written into it.
inline void KeepFreedMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

// Expects that `work` on `bytes` bytes of repeated `unit` takes as much longer than on a sixteenth
// of them as n log n allows: 20 times, and 256 times if it were quadratic.
inline void ExpectGrowsLinearly(const std::string& unit, size_t bytes,
                                const std::function<void(const std::string& text)>& work) {
  constexpr double kGrowthMax = 64;
  constexpr double kSecondsFloor = 0.002;  // less than that is what it costs to begin at all
  const auto measure = [&](size_t size) {
    std::string text;
    while (text.size() < size) text += unit;
    const double started = ThreadSeconds();
    work(text);
    return ThreadSeconds() - started;
  };
  KeepFreedMemory();
  measure(bytes);  // touches the memory
  const double small = std::max({kSecondsFloor, measure(bytes / 16), measure(bytes / 16)});
  const double whole = measure(bytes);
  ASSERT_LE(whole, kGrowthMax * small) << "'" << unit << "': " << small << " s of a sixteenth";
}

inline constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};

// Returns the pieces that a text is cut into.
inline std::vector<std::string> Texts(const Tokenizer& tokenizer, std::string_view text,
                                      const EncodeOptions& options = kPlain) {
  std::vector<std::string> texts;
  for (const TokenId id : tokenizer.Encode(text, options)) {
    texts.push_back(tokenizer.TokenBytes(id, true));
  }
  return texts;
}

enum Type : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kUnused = 5, kByte = 6 };

// A tokenizer file in the making: fill it, change it, then Load.
struct Fixture {
  std::string model;
  std::string pre;
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
  std::vector<std::pair<std::string, modelfile::GgufValue>> extra;  // with full key names

  TokenId Add(std::string text, int32_t type, float score = 0) {
    texts.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
    return static_cast<TokenId>(texts.size()) - 1;
  }

  Result<std::unique_ptr<Tokenizer>> Load() const {
    const TempFolder directory;
    modelfile::GgufWriter writer;
    writer.Add("tokenizer.ggml.model", model);
    if (!pre.empty()) writer.Add("tokenizer.ggml.pre", pre);
    writer.AddStrings("tokenizer.ggml.tokens", texts);
    writer.AddIntegers("tokenizer.ggml.token_type", types);
    if (!scores.empty()) writer.AddFloats("tokenizer.ggml.scores", scores);
    if (!merges.empty()) writer.AddStrings("tokenizer.ggml.merges", merges);
    for (const auto& [key, value] : extra) writer.Add(key, value);
    KVGATE_TRY_VOID(writer.Write(directory / "vocab.gguf", nullptr));
    KVGATE_TRY(const auto file, modelfile::GgufFile::Open(directory / "vocab.gguf"));
    return Tokenizer::Load(*file);
  }
  // Loads a fixture that must be valid; returns null after a failure.
  std::unique_ptr<Tokenizer> MustLoad() const {
    auto tokenizer = Load();
    if (!tokenizer) ADD_FAILURE() << tokenizer.error().ToString();
    return tokenizer ? std::move(*tokenizer) : nullptr;
  }
};

// Makes <unk> <s> </s>, the 256 bytes, then pieces whose scores fall in the given order.
inline Fixture SpmFixture(const std::vector<std::string>& pieces) {
  Fixture fixture;
  fixture.model = "llama";
  fixture.Add("<unk>", kUnknown);
  fixture.Add("<s>", kControl);
  fixture.Add("</s>", kControl);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    fixture.Add(text, kByte);
  }
  float score = 0;
  for (const std::string& piece : pieces) fixture.Add(piece, kNormal, score -= 1);
  return fixture;
}

// Returns the printable spelling of a byte in byte-level vocabularies.
inline std::string SpellByte(int byte) {
  int next = 0x100;
  for (int b = 0; b <= 255; ++b) {
    const bool is_printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
    const int character = is_printable ? b : next++;
    if (b != byte) continue;
    std::string text;
    AppendUtf8(static_cast<char32_t>(character), text);
    return text;
  }
  return {};
}

// Makes the 256 bytes (token = byte), then one token per merge, then <|end|> (control).
inline Fixture BpeFixture(const std::vector<std::string>& merges, std::string pre = "gpt-2") {
  Fixture fixture;
  fixture.model = "gpt2";
  fixture.pre = std::move(pre);
  for (int byte = 0; byte < 256; ++byte) fixture.Add(SpellByte(byte), kNormal);
  fixture.merges = merges;
  for (std::string text : merges) {
    text.erase(text.find(' ', 1), 1);
    fixture.Add(text, kNormal);
  }
  fixture.Add("<|end|>", kControl);
  return fixture;
}

inline const std::vector<std::string>& SpmPieces() {
  static const std::vector<std::string> pieces = {
      "▁t", "he", "▁the", "in", "▁▁", "▁▁▁▁", "er", "▁a", "ing", "日本", "▁", "t",
      "h",  "e",  "i",    "n",  "g",  "r",    "a",  "s",  "日",  "本",   "é", "\n"};
  return pieces;
}

inline const std::vector<std::string>& BpeMerges() {
  static const std::vector<std::string> merges = {"Ġ t", "h e",   "Ġt he", "i n", "in g",
                                                  "Ġ Ġ", "ĠĠ ĠĠ", "e r",   "Ã ©", "æ Ĺ"};
  return merges;
}

// Returns random text: words of the fixtures' letters, white space, other scripts and, on demand,
// bytes that are not UTF-8.
inline std::string RandomText(std::mt19937_64& random, size_t num_parts, bool with_invalid) {
  static const std::vector<std::string> parts = {" ",      "  ",       "\n",
                                                 "\t",     "the",      "t",
                                                 "in",     "ing",      "er",
                                                 "he",     "a",        "'s",
                                                 "'RE",    "12",       "3",
                                                 "4567",   "é",        "日本",
                                                 "日",     "👍🏽", "\u00a0",
                                                 "\u3000", "\u180e",   "!?",
                                                 "-",      "ſ",        "\r\n",
                                                 "xz",     "Ω",        "нет",
                                                 "</s>",   "<|end|>",  std::string("\0", 1)};
  static const std::vector<std::string> invalid = {"\xFF", "\xC3", "\xE6\x97", "\x80",
                                                   "\xED\xA0\x80"};
  std::string text;
  for (size_t i = 0; i < num_parts; ++i) {
    if (random() % 16 == 0) {
      char32_t code_point = 0;
      do {
        code_point = static_cast<char32_t>(random() % 0x110000);
        // Surrogates are not characters, and U+2581 is a space to SentencePiece.
      } while ((code_point >= 0xD800 && code_point < 0xE000) || code_point == 0x2581);
      AppendUtf8(code_point, text);
    } else if (with_invalid && random() % 8 == 0) {
      text += invalid[random() % invalid.size()];
    } else {
      text += parts[random() % parts.size()];
    }
  }
  return text;
}

}  // namespace kvgate::tokenizer
