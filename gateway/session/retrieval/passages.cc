#include "gateway/session/retrieval/passages.h"

#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "gateway/session/transcript/spoken.h"

namespace kvgate::session::retrieval {

using transcript::Kind;
using transcript::Message;

namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Where a piece of at most `bytes_max` bytes ends.
size_t EndOf(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text.size();
  const std::string_view most = text.substr(0, bytes_max);
  const size_t least = bytes_max / 4;
  const size_t line = text.substr(0, bytes_max + 1).rfind('\n');
  if (line != std::string_view::npos && line >= least) return line + 1;
  for (size_t i = most.size(); i-- > least;) {
    const bool ends = most[i] == '.' || most[i] == '!' || most[i] == '?' || most[i] == ';';
    if (ends && i + 1 < text.size() && text[i + 1] == ' ') return i + 1;
  }
  const size_t ideographic = most.rfind("\u3002");
  if (ideographic != std::string_view::npos && ideographic >= least) return ideographic + 3;
  const size_t space = most.rfind(' ');
  if (space != std::string_view::npos && space >= least) return space + 1;
  return std::max<size_t>(1, Utf8CutBefore(text, bytes_max));
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

void AddText(const std::string& whole, bool is_user, uint32_t number,
             std::vector<Passage>& passages) {
  const std::string_view text = std::string_view(whole).substr(
      0, Utf8CutBefore(whole, std::min(whole.size(), kMessageBytesMax)));
  const size_t colon = text.find(": ");
  const std::string_view speaker =
      colon == std::string_view::npos ? "" : text.substr(0, std::min<size_t>(colon + 2, 80));
  for (const std::string_view piece : CutUp(text, kPassageBytes)) {
    const bool is_first = piece.data() == text.data();
    passages.push_back({.message = number,
                        .is_user = is_user,
                        .text = std::string(is_first ? "" : speaker) + std::string(piece)});
  }
}

void AddMessage(const Message& message, uint32_t number, std::vector<Passage>& passages) {
  if (message.kind == Kind::kSystem) return;
  AddText(transcript::ToPlainText({&message, 1}), message.kind == Kind::kUser, number, passages);
}

}  // namespace

std::vector<std::string_view> CutUp(std::string_view text, size_t bytes_max) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = EndOf(text, bytes_max);
    const std::string_view piece = Trimmed(text.substr(0, end));
    if (!piece.empty()) pieces.push_back(piece);
    text.remove_prefix(end);
  }
  return pieces;
}

std::vector<Passage> PassagesOf(const log::LoggedTurn& turn) {
  std::vector<Passage> passages;
  uint32_t number = 0;
  for (const Message& message : turn.input) AddMessage(message, number++, passages);
  // What stands in the input as a stub was said there.
  const uint32_t said = number == 0 ? 0 : number - 1;
  for (const Message& message : turn.answer) AddMessage(message, number++, passages);
  for (const log::KeptResult& result : turn.results) {
    AddText("Result: " + result.text, /*is_user=*/false, said, passages);
  }
  return passages;
}

}  // namespace kvgate::session::retrieval
