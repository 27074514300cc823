// SentencepieceText: how SentencePiece writes text: a blank is U+2581, a byte without a character
// is a token "<0x0A>".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::tokenizer {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

std::string EscapeSpaces(std::string_view text);
std::string UnescapeSpaces(std::string_view text);
// The byte that "<0x0A>" stands for.
std::optional<uint8_t> ParseByteToken(std::string_view text);
// True where a space follows another character inside a piece: "a▁b". Where no piece is so, words
// can be encoded one by one.
bool CrossesWords(std::string_view piece);
// The first word of `text`: up to the next space mark that follows another character.
std::string_view FirstWord(std::string_view text);

}  // namespace kvgate::tokenizer
