#include "engine/text/output/channel_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvgate::output {
namespace {

constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kRecipient = "to=";
// A longer header counts as text.
constexpr size_t kHeaderBytesMax = 512;
// Marks that end a message, or begin the header of the next one.
constexpr std::array<std::string_view, 5> kEnds = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                                   "<|channel|>"};
// Possible beginnings of a reply; the prompt has already opened the assistant's turn.
constexpr std::array<std::string_view, 4> kBeginnings = {"<|start|>", "<|channel|>", "<|message|>",
                                                         " to="};

// Returns the word after `mark` in a header.
std::string_view WordBehind(std::string_view header, std::string_view mark) {
  const size_t found = header.find(mark);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = header.substr(found + mark.size());
  return rest.substr(0, rest.find_first_of(" <\t\r\n"));
}

template <size_t kSize>
bool IsViable(std::string_view text, const std::array<std::string_view, kSize>& marks) {
  return std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return mark.starts_with(text); });
}

}  // namespace

void ChannelParser::Step(char byte) {
  switch (state_) {
    case State::kBegin:
      header_ += byte;
      if (std::find(kBeginnings.begin(), kBeginnings.end(), header_) != kBeginnings.end()) {
        state_ = State::kHeader;
        if (header_ == kMessage) OpenMessage();
      } else if (!IsViable(header_, kBeginnings)) {  // text without a header
        state_ = State::kMessage;
        for (const char first : std::exchange(header_, {})) StepMessage(first);
      }
      return;
    case State::kHeader:
      return StepHeader(byte);
    case State::kMessage:
      return StepMessage(byte);
  }
}

void ChannelParser::StepHeader(char byte) {
  header_ += byte;
  if (header_.ends_with(kMessage)) return OpenMessage();
  if (header_.size() < kHeaderBytesMax) return;
  kind_ = PieceKind::kText;
  state_ = State::kMessage;
  std::string text;
  text.swap(header_);
  Add(std::move(text));
}

void ChannelParser::OpenMessage() {
  const std::string header = std::exchange(header_, {});
  std::string_view recipient = WordBehind(header, kRecipient);
  constexpr std::string_view kFunctions = "functions.";
  state_ = State::kMessage;
  has_content_ = false;
  if (calls_ && recipient.starts_with(kFunctions) && recipient.size() > kFunctions.size()) {
    kind_ = PieceKind::kArguments;
    EmitCall(recipient.substr(kFunctions.size()), {});
    return;
  }
  kind_ = WordBehind(header, kChannel) == "analysis" ? PieceKind::kReasoning : PieceKind::kText;
}

void ChannelParser::StepMessage(char byte) {
  pending_ += byte;
  while (!pending_.empty()) {
    if (std::find(kEnds.begin(), kEnds.end(), pending_) != kEnds.end()) {
      CloseMessage();
      header_ = std::exchange(pending_, {});
      state_ = State::kHeader;
      return;
    }
    if (IsViable(pending_, kEnds)) return;
    Add(std::string_view(pending_).substr(0, 1));
    pending_.erase(0, 1);
  }
}

void ChannelParser::Add(std::string_view text) {
  if (kind_ == PieceKind::kArguments && !has_content_ && TrimBlanks(text).empty()) return;
  has_content_ = true;
  Emit(kind_, text);
}

void ChannelParser::CloseMessage() {
  if (kind_ != PieceKind::kArguments) return;
  if (!has_content_) Emit(PieceKind::kArguments, "{}");
  EmitCallEnd();
  kind_ = PieceKind::kText;
}

void ChannelParser::End() {
  // An unfinished header is dropped, but a prefix that only resembled one is text.
  const std::string rest = std::exchange(state_ == State::kBegin ? header_ : pending_, {});
  if (state_ != State::kHeader && !rest.empty()) Add(rest);
  CloseMessage();
}

}  // namespace kvgate::output
