#include "engine/text/output/reply_parser.h"

#include <utility>

#include "engine/text/output/channel_parser.h"
#include "engine/text/output/families.h"
#include "engine/text/output/json_scan.h"
#include "engine/text/output/recipient_parser.h"
#include "engine/text/output/tag_parser.h"

namespace kvgate::output {

void ReplyParser::Push(std::string_view text, std::vector<Piece>& out) {
  for (const char byte : text) Step(byte);
  for (Piece& piece : std::exchange(pieces_, {})) out.push_back(std::move(piece));
}

void ReplyParser::Finish(std::vector<Piece>& out) {
  End();
  for (Piece& piece : std::exchange(pieces_, {})) out.push_back(std::move(piece));
}

void ReplyParser::Emit(PieceKind kind, std::string_view text) {
  if (text.empty()) return;
  if (pieces_.empty() || pieces_.back().kind != kind) pieces_.push_back({.kind = kind});
  pieces_.back().text += text;
}

void ReplyParser::EmitCall(std::string_view name, std::string_view id) {
  pieces_.push_back({.kind = PieceKind::kCall, .text = std::string(name), .id = std::string(id)});
}

namespace {

std::unique_ptr<ReplyParser> Make(const Family& family, const ReplyParserOptions& options) {
  switch (family.shape) {
    case ReplyShape::kTags:
      return std::make_unique<TagParser>(family, options);
    case ReplyShape::kChannels:
      return std::make_unique<ChannelParser>(options);
    case ReplyShape::kRecipients:
      return std::make_unique<RecipientParser>(options);
  }
  return nullptr;
}

}  // namespace

bool OpensReasoning(std::string_view family, std::string_view prompt_tail) {
  const Family& known = FamilyNamed(family);
  return known.shape == ReplyShape::kTags &&
         TrimBlanks(prompt_tail).ends_with(known.reasoning.open);
}

std::unique_ptr<ReplyParser> MakeReplyParser(const ReplyParserOptions& options) {
  return Make(FamilyNamed(options.family.empty() ? "generic" : options.family), options);
}

}  // namespace kvgate::output
