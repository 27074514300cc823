#include "engine/text/output/recipient_parser.h"

#include <utility>

namespace kvgate::output {
namespace {

constexpr std::string_view kMark = ">>>";
constexpr size_t kNameBytesMax = 256;

}  // namespace

RecipientParser::RecipientParser(const ReplyParserOptions& options)
    : calls_(options.calls),
      state_(TrimBlanks(options.prompt_tail).ends_with(kMark) ? State::kName : State::kText) {}

void RecipientParser::Step(char byte) {
  switch (state_) {
    case State::kName:
      if (byte != '\n' && pending_.size() < kNameBytesMax) {
        pending_ += byte;
        return;
      }
      name_ = std::exchange(pending_, {});
      told_ = false;
      scan_ = {};
      state_ = name_ == "all" || name_.empty() || !calls_ || byte != '\n' ? State::kText
                                                                          : State::kArguments;
      // If this is not a call, the recipient is part of the text.
      if (state_ == State::kText && name_ != "all") Say(name_ + byte);
      return;
    case State::kText:
      return StepText(byte);
    case State::kArguments: {
      if (!told_ && IsBlank(byte)) return;
      std::string text;
      const bool object = told_ || byte == '{';
      const ScanStatus status = object ? scan_.Step(byte, text) : ScanStatus::kFailed;
      if (status == ScanStatus::kFailed) {
        if (told_) {
          EmitCallEnd();
        } else {
          Say(name_ + "\n");
        }
        state_ = State::kText;
        return StepText(byte);
      }
      if (!std::exchange(told_, true)) EmitCall(name_, {});
      Emit(PieceKind::kArguments, text);
      if (status == ScanStatus::kDone) {
        EmitCallEnd();
        told_ = false;
        state_ = State::kText;
      }
      return;
    }
  }
}

// Blanks before a mark are dropped.
void RecipientParser::StepText(char byte) {
  pending_ += byte;
  while (!pending_.empty()) {
    if (pending_ == kMark) {
      pending_.clear();
      blanks_.clear();
      state_ = State::kName;
      return;
    }
    if (kMark.starts_with(pending_)) return;
    const char first = pending_.front();
    pending_.erase(0, 1);
    Say(std::string_view(&first, 1));
  }
}

void RecipientParser::Say(std::string_view text) {
  for (const char byte : text) {
    if (IsBlank(byte)) {
      blanks_ += byte;
      continue;
    }
    Emit(PieceKind::kText, std::exchange(blanks_, {}));
    Emit(PieceKind::kText, std::string_view(&byte, 1));
  }
}

void RecipientParser::End() {
  if (state_ == State::kArguments) {
    if (told_) {
      EmitCallEnd();
    } else if (!name_.empty()) {
      EmitCall(name_, {});  // a call without arguments
      Emit(PieceKind::kArguments, "{}");
      EmitCallEnd();
    }
    return;
  }
  Say(std::exchange(pending_, {}));
  Emit(PieceKind::kText, std::exchange(blanks_, {}));
}

}  // namespace kvgate::output
