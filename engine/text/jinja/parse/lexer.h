// Lexer: a template's source as tokens, with trim_blocks, lstrip_blocks and the '-' and '+' marks
// applied to the text between the tags. Follows Jinja2's lexer rule by rule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/syntax/failure.h"
#include "engine/jinja/token.h"

namespace kvgate::jinja {

// Line ends as \n, and without one newline at the very end.
std::string NormalizeSource(std::string_view source);

// The last token is kEnd. REQUIRES: normalised source.
Outcome<std::vector<Token>> Tokenize(std::string_view source);

// A failure at an offset of the normalised source.
Failure MakeFailure(Failure::Kind kind, std::string_view source, size_t offset,
                    std::string message);

}  // namespace kvgate::jinja
