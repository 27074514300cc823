// SentencepieceText: SentencePiece's spelling of text: a blank is U+2581, and a byte without a
// character is a token such as "<0x0A>".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::tokenizer::vocabulary {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

std::string EscapeSpaces(std::string_view text);
std::string UnescapeSpaces(std::string_view text);
// Returns the byte that a text such as "<0x0A>" stands for, or nothing for other texts.
std::optional<uint8_t> ParseByteToken(std::string_view text);
// Returns true if a space follows another character inside a piece: "a▁b". If no piece does so,
// words can be encoded one by one.
bool CrossesWords(std::string_view piece);
// Returns the first word of `text`: up to the next space mark that follows another character.
std::string_view FirstWord(std::string_view text);

}  // namespace kvgate::tokenizer::vocabulary
