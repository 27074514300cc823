// Lexer: splits a template's source into tokens, and applies trim_blocks, lstrip_blocks and the '-'
// and '+' signs to the text between tags. Follows Jinja2's lexer rule by rule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja/syntax/failure.h"
#include "engine/text/jinja/syntax/token.h"

namespace kvgate::jinja::parse {

// Converts line ends to \n and removes one newline at the very end.
std::string NormalizeSource(std::string_view source);

// The last token is kEnd. REQUIRES: the source is normalised.
syntax::Outcome<std::vector<syntax::Token>> Tokenize(std::string_view source);

// Returns "','", "name", "end of template", for error messages.
std::string_view TokenKindName(syntax::TokenKind kind);

// A failure at a byte offset of the normalised source.
syntax::Failure MakeFailure(syntax::Failure::Kind kind, std::string_view source, size_t offset,
                            std::string message);

}  // namespace kvgate::jinja::parse
