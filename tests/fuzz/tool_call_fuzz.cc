// Fuzzes the parsers of replies: the first byte chooses the family, the second how the text is cut.
// For any text, the pieces do not depend on the cuts, calls open and close in turn, and a text
// without calls is complete.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/text/output/families.h"
#include "engine/text/output/json_scan.h"
#include "tests/engine/text/output/parse.h"

namespace kvgate::output {
namespace {

void CheckCalls(const std::vector<Piece>& pieces) {
  bool open = false;
  bool has_arguments = false;
  for (const Piece& piece : pieces) {
    const bool inside = piece.kind == PieceKind::kArguments || piece.kind == PieceKind::kCallEnd;
    if (inside != open) std::abort();
    if (piece.kind == PieceKind::kCall) {
      if (piece.text.empty()) std::abort();
      open = true;
      has_arguments = false;
    }
    if (piece.kind == PieceKind::kArguments) has_arguments = true;
    if (piece.kind == PieceKind::kCallEnd) {
      if (!has_arguments) std::abort();
      open = false;
    }
  }
  if (open) std::abort();
}

size_t CountLetters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += IsBlank(byte) ? 0 : 1;
  return count;
}

void Check(const Family& family, size_t cut, std::string_view text) {
  const ReplyParserOptions options{
      .family = family.name,
      .calls = true,
      .tools = {{.name = "f", .text_arguments = {"s"}}, {.name = "python", .text_arguments = {}}}};
  const std::vector<Piece> whole = Parse(options, text);
  if (ParseCut(options, text, cut) != whole) std::abort();
  CheckCalls(whole);
  // This holds for families whose breakpoints are not part of the text.
  const bool plain = family.shape == ReplyShape::kTags && family.silent.front().empty();
  if (!plain || whole.size() != 1 || whole.front().kind != PieceKind::kText) return;
  if (text.find(family.reasoning.open) != std::string_view::npos) return;
  if (CountLetters(whole.front().text) != CountLetters(text)) std::abort();
}

}  // namespace
}  // namespace kvgate::output

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto families = kvgate::output::AllFamilies();
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  kvgate::output::Check(families[data[0] % families.size()], 1 + data[1] % 16, text);
  return 0;
}
