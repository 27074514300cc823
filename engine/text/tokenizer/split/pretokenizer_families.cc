#include "engine/text/tokenizer/split/pretokenizer_families.h"

#include <fmt/format.h>

namespace kvgate::tokenizer::split {
namespace {

using Kind = CutRule::Kind;

// Unicode's White_Space for use inside a character class; see regex.cc.
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
#define BLANKS "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define LINES "[" SPACE "]*[\\r\\n]+|" BLANKS
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
// A word is capitals followed by small letters, so HelloWorld is two words.
#define CASED(tail)                                 \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail \
  "|"                                               \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" tail "|"
#define SYMBOLS(tail) " ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n" tail "]*|"
#define HAN                                                                            \
  "\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B73F}"   \
  "\\x{2B740}-\\x{2B81F}\\x{2B820}-\\x{2CEAF}\\x{2CEB0}-\\x{2EBEF}\\x{F900}-\\x{FAFF}" \
  "\\x{2F800}-\\x{2FA1F}"
#define HAN_KANA "\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}"
// DeepSeek's range of East Asian scripts.
#define HAN_WIDE "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define ASCII_SYMBOL "[!-/:-@\\[-`{-~]"
#define DEEPSEEK3(tail) \
  ASCII_SYMBOL "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+" tail

// The cased letters in the Unicode version that deepseek-llm was made with.
constexpr std::string_view kDeepseekLetters =
    "[" SPACE
    "]?["
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}"
    "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
    "]+";

constexpr CutRule Expression(std::string_view expression) {
  return {.kind = Kind::kExpression, .expression = expression};
}
constexpr CutRule Words(const WordShape& shape) { return {.kind = Kind::kWords, .shape = shape}; }

constexpr CutRule kGpt2 = Words({.style = WordShape::Style::kGpt2});
constexpr CutRule kLlama3 = Words({.style = WordShape::Style::kLlama3, .digits_max = 3});
constexpr CutRule kQwen2 = Words({.style = WordShape::Style::kLlama3, .digits_max = 1});
constexpr CutRule kDigit = Expression("\\p{N}");
constexpr CutRule kThreeDigits = Expression("\\p{N}{1,3}");
constexpr CutRule kLines = Expression("[^\\n]+|\\n+");
// BLOOM's words; the sentence punctuation of many scripts is kept apart.
constexpr CutRule kBloom = Expression(
    " ?[^(" SPACE "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+");

constexpr PretokenizerFamily kFamilies[] = {
    {.names = "default",
     .rules = {Expression("[\\p{P}\\$\\+<=>\\^~\\|]+"), kGpt2, Expression("\\p{N}+"),
               Expression("[0-9][0-9][0-9]")}},
    {.names = "gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 mellum a.x-4.0 gigachat "
              "modern-bert roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de "
              "jina-v2-code",
     .rules = {kGpt2}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .rules = {kLlama3},
     .ignores_merges = true,
     .adds_bos = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .rules = {kLlama3}},
    {.names = "qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo f2llmv2 solar-open grok-2",
     .rules = {kQwen2}},
    {.names = "qwen35",
     .rules = {Words(
         {.style = WordShape::Style::kLlama3, .digits_max = 1, .marks_are_letters = true})}},
    {.names = "ufakzeka",
     .rules = {Words(
         {.style = WordShape::Style::kLlama3, .digits_max = 1, .has_contractions = false})}},
    {.names = "minicpm5",
     .rules = {kThreeDigits, Words({.style = WordShape::Style::kLlama3, .digits_max = 0})},
     .ignores_merges = true},
    {.names = "jais-2",
     .rules = {Words(
         {.style = WordShape::Style::kLlama3, .digits_max = 3, .chunks_spaces = true})}},
    {.names = "laguna", .rules = {kLines, kQwen2}},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     .rules = {kDigit, kGpt2}},
    {.names = "falcon",
     .rules = {Expression("[\\p{P}\\$\\+<=>\\^~\\|`]+"), kGpt2, Expression("[0-9][0-9][0-9]")}},
    {.names = "deepseek-coder",
     .rules = {Expression("[\\r\\n]"), Expression("[" SPACE "]?\\p{L}+"),
               Expression("[" SPACE "]?\\p{P}+"), Expression(HAN_WIDE), kDigit}},
    // "[" SPACE "]+$" would be retried from every blank of a run, hence the lookbehind.
    {.names = "deepseek-llm",
     .rules = {Expression("[\\r\\n]"), Expression(kDeepseekLetters),
               Expression("[" SPACE "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}"
                          "\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"),
               Expression("(?<![" SPACE "])[" SPACE "]++\\z"), Expression(HAN_WIDE),
               Expression("\\p{N}+")}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .rules = {kThreeDigits, Expression("[" HAN_KANA "]+"),
               Expression(DEEPSEEK3("[\\r\\n]*|" LINES))}},
    {.names = "spark2_5",
     .rules = {kThreeDigits, Expression("[" HAN_KANA "]+"),
               Expression(DEEPSEEK3("|[\\r\\n]|" BLANKS)), kDigit}},
    {.names = "afmoe",
     .rules = {CutRule{.kind = Kind::kDigitGroups, .expression = "\\p{N}+"},
               Expression("[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}"
                          "\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}\\x{FF65}-\\x{FF9F}"
                          "\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}"
                          "\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}"
                          "\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"),
               Expression(DEEPSEEK3("[\\r\\n]*|" LINES))}},
    {.names = "youtu",
     .rules = {Expression("[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|"
                          "[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}"
                          "\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|"
                          "[\\x{3105}-\\x{312F}]+|[" HAN_KANA "]+"),
               Expression(CASED(CONTRACTION "?") "\\p{N}|" SYMBOLS("/") LINES)},
     .ignores_merges = true},
    {.names = "tekken",
     .rules = {Expression(CASED("") "\\p{N}|" SYMBOLS("/") LINES)},
     .ignores_merges = true,
     .adds_bos = true},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .rules = {Expression(CASED(CONTRACTION "?") "\\p{N}{1,3}|" SYMBOLS("/") LINES)}},
    {.names = "granite-embed-multi-97m",
     .rules = {Expression(CASED(CONTRACTION "?") "\\p{N}{1,3}|" SYMBOLS("/") LINES)},
     .ignores_merges = true},
    // Numbers are cut in threes from the right, unless a word follows immediately.
    {.names = "tiny_aya cohere2moe",
     .rules = {CutRule{.kind = Kind::kDigitGroups,
                       .expression = "(?<!\\d)\\d++(?![\\p{L}\\p{N}\\p{M}\\p{Pc}])"},
               Expression(CASED(CONTRACTION "?") "\\p{N}{1,3}|" SYMBOLS("/") LINES)}},
    {.names = "superbpe",
     .rules = {Expression("\\p{N}+"), CutRule{.kind = Kind::kDigitCuts, .expression = "\\d+"}}},
    // Cuts as llama.cpp does. The model's own expression also separates capitals from the text
    // before them.
    {.names = "kimi-k2",
     .rules = {Expression("[" HAN "]+|[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}" HAN "]+" CONTRACTION "?|"
                          "\\p{N}{1,3}|" SYMBOLS("") LINES)}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .rules = {Expression(CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" SYMBOLS(
         "") "[" SPACE "]*[\\r\\n]|" BLANKS)}},
    {.names = "seed-coder",
     .rules = {Expression(CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^" SPACE
                                      "\\p{L}\\p{N}]+|" LINES)}},
    {.names = "exaone-moe",
     .rules = {Expression(CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}\\p{M}*+(?: ?\\p{L}\\p{M}*+)*+|"
                                      "\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n/]?|[" SPACE
                                      "]*[\\r\\n]|" BLANKS)}},
    {.names = "poro-chat bloom gpt3-finnish", .rules = {kBloom}},
    {.names = "viking", .rules = {kBloom, kDigit}},
    {.names = "chameleon",
     .rules = {Expression("<sentinel:[0-9]+>"), Expression("IMGIMG[A-I]{1,4}Z"),
               Expression("[\\t\\n]|    |  "), kDigit, Expression("[\\p{P}!-/:-@\\[-`{-~]"), kGpt2},
     .adds_bos = true},
    {.names = "gemma4 granite-embed-multi-311m",
     .rules = {kLines},
     .always_adds_bos = true,
     .is_sentencepiece = true,
     .keeps_line_ends = true},
    {.names = "sarvam-moe", .rules = {kLines}, .is_sentencepiece = true},
};

#undef SPACE
#undef BLANKS
#undef LINES
#undef CONTRACTION
#undef UPPER
#undef LOWER
#undef CASED
#undef SYMBOLS
#undef HAN
#undef HAN_KANA
#undef HAN_WIDE
#undef ASCII_SYMBOL
#undef DEEPSEEK3

// Removes the next name from the front of a list.
std::string_view TakeName(std::string_view& names) {
  const size_t blank = names.find(' ');
  const std::string_view name = names.substr(0, blank);
  names.remove_prefix(blank == std::string_view::npos ? names.size() : blank + 1);
  return name;
}

}  // namespace

const PretokenizerFamily* FindPretokenizerFamily(std::string_view name) {
  if (name.empty()) name = "default";
  for (const PretokenizerFamily& family : kFamilies) {
    for (std::string_view names = family.names; !names.empty();) {
      if (TakeName(names) == name) return &family;
    }
  }
  return nullptr;
}

std::string PretokenizerNames() {
  std::string out;
  for (const PretokenizerFamily& family : kFamilies) {
    for (std::string_view names = family.names; !names.empty();) {
      out += fmt::format("{}{}", out.empty() ? "" : ", ", TakeName(names));
    }
  }
  return out;
}

}  // namespace kvgate::tokenizer::split
