// These helpers parse a reply as a whole or in pieces and show it as one readable text.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/output/families.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::output {

// Joins neighbours of one kind, so that cuts do not show.
inline std::vector<Piece> Merge(const std::vector<Piece>& pieces) {
  std::vector<Piece> merged;
  for (const Piece& piece : pieces) {
    const bool joins = piece.kind != PieceKind::kCall && piece.kind != PieceKind::kCallEnd;
    if (joins && !merged.empty() && merged.back().kind == piece.kind) {
      merged.back().text += piece.text;
    } else {
      merged.push_back(piece);
    }
  }
  return merged;
}

// Parses the text in pieces of `bytes` bytes.
inline std::vector<Piece> ParseCut(const ReplyParserOptions& options, std::string_view text,
                                   size_t bytes) {
  const auto parser = MakeReplyParser(options);
  std::vector<Piece> pieces;
  for (size_t i = 0; i < text.size(); i += bytes) parser->Push(text.substr(i, bytes), pieces);
  parser->Finish(pieces);
  return Merge(pieces);
}

inline std::vector<Piece> Parse(const ReplyParserOptions& options, std::string_view text) {
  return ParseCut(options, text, std::max<size_t>(text.size(), 1));
}

// Returns a reply as "text|think(…)|call NAME{…}|…".
inline std::string Show(const std::vector<Piece>& pieces) {
  std::string shown;
  for (const Piece& piece : pieces) {
    const bool follows = piece.kind == PieceKind::kArguments || piece.kind == PieceKind::kCallEnd;
    if (!shown.empty() && !follows) shown += '|';
    if (piece.kind == PieceKind::kReasoning) shown += "think(" + piece.text + ")";
    if (piece.kind == PieceKind::kCall) shown += "call " + piece.text + piece.id;
    if (piece.kind == PieceKind::kCallEnd) shown += ";";
    if (piece.kind == PieceKind::kText || piece.kind == PieceKind::kArguments) shown += piece.text;
  }
  return shown;
}

inline std::string ShowReply(std::string_view family, std::string_view text,
                             std::string_view tail = {}) {
  static const std::vector<ToolShape> tools = {{.name = "f", .text_arguments = {"s"}},
                                               {.name = "g", .text_arguments = {}}};
  return Show(Parse({.family = family, .calls = true, .tools = tools, .prompt_tail = tail}, text));
}

}  // namespace kvgate::output
