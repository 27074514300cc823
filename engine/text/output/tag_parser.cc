#include "engine/text/output/tag_parser.h"

#include <algorithm>
#include <utility>

#include "engine/text/output/json_scan.h"

namespace kvgate::output {

TagParser::TagParser(const Family& family, const ReplyParserOptions& options)
    : family_(family), calls_(options.calls), tools_(options.tools) {
  const std::string_view tail = TrimBlanks(options.prompt_tail);
  if (tail.ends_with(family_.reasoning.open)) state_ = State::kReasoning;
}

void TagParser::Step(char byte) {
  switch (state_) {
    case State::kText:
      return StepText(byte);
    case State::kReasoning:
      return StepReasoning(byte);
    case State::kBody:
      return StepBody(byte);
    case State::kClosing:
      return StepClosing(byte);
  }
}

// --- text -------------------------------------------------------------------------------------

void TagParser::StepText(char byte) {
  const bool bare = calls_ && may_be_bare_ && pending_.empty();
  if (bare && byte == '{') {
    for (const CallForm& form : family_.forms) {
      if (form.syntax != CallSyntax::kBare) continue;
      OpenBody(form);
      return StepBody(byte);
    }
  }
  // Separates consecutive bare calls.
  if (bare && at_seam_ && byte == ';') {
    blanks_ += byte;
    return;
  }
  pending_ += byte;
  while (!pending_.empty()) {
    const Fit fit = FitMark();
    if (fit == Fit::kWhole) return TakeMark();
    if (fit == Fit::kPrefix) return;
    const char first = pending_.front();
    pending_.erase(0, 1);
    Say(first);
  }
}

TagParser::Fit TagParser::FitMark() {
  Fit fit = Fit::kNone;
  const auto look = [&](std::string_view mark) {
    if (mark.empty() || !mark.starts_with(pending_)) return;
    fit = std::max(fit, mark == pending_ ? Fit::kWhole : Fit::kPrefix);
  };
  if (!has_said_) look(family_.reasoning.open);
  for (const std::string_view mark : family_.silent) look(mark);
  if (calls_) {
    for (const CallForm& form : family_.forms) look(form.open);
  }
  return fit;
}

void TagParser::TakeMark() {
  const std::string mark = std::exchange(pending_, {});
  if (!has_said_ && mark == family_.reasoning.open) {
    blanks_.clear();
    is_thinking_ = false;
    state_ = State::kReasoning;
    return;
  }
  for (const CallForm& form : family_.forms) {
    if (calls_ && form.open == mark) return OpenBody(form);
  }
  blanks_.clear();  // blanks around a dropped mark are dropped
  at_seam_ = true;
}

void TagParser::Say(char byte) {
  if (IsBlank(byte)) {
    blanks_ += byte;
    return;
  }
  const std::string blanks = std::exchange(blanks_, {});
  // A separator of bare calls that no call follows is text after all.
  Emit(PieceKind::kText, at_seam_ ? TrimBlanks(blanks) : std::string_view(blanks));
  Emit(PieceKind::kText, std::string_view(&byte, 1));
  at_seam_ = false;
  has_said_ = true;
  may_be_bare_ = false;
}

// --- reasoning --------------------------------------------------------------------------------

void TagParser::StepReasoning(char byte) {
  const std::string_view close = family_.reasoning.close;
  pending_ += byte;
  while (!pending_.empty()) {
    if (pending_ == close) {
      pending_.clear();
      blanks_.clear();
      at_seam_ = true;
      state_ = State::kText;
      return;
    }
    if (close.starts_with(pending_)) return;
    const char first = pending_.front();
    pending_.erase(0, 1);
    Think(first);
  }
}

void TagParser::Think(char byte) {
  if (IsBlank(byte)) {
    blanks_ += byte;
    return;
  }
  if (is_thinking_) Emit(PieceKind::kReasoning, blanks_);
  blanks_.clear();
  is_thinking_ = true;
  Emit(PieceKind::kReasoning, std::string_view(&byte, 1));
}

// --- calls ------------------------------------------------------------------------------------

void TagParser::OpenBody(const CallForm& form) {
  form_ = &form;
  body_ = MakeCallBody(form, *this, tools_);
  unsure_.clear();
  told_ = false;
  state_ = State::kBody;
}

void TagParser::StepBody(char byte) {
  unsure_ += byte;
  const BodyStatus status = body_->Step(byte);
  switch (status) {
    case BodyStatus::kMore:
      return;
    case BodyStatus::kFailed:
      return FailBody();
    case BodyStatus::kDone:
    case BodyStatus::kDoneBefore:
      EndBody();
      if (status == BodyStatus::kDoneBefore) Step(byte);
      return;
  }
}

// Bytes that were not reported become text: all from the mark on, or the rest after the error.
void TagParser::FailBody() {
  std::string rest = std::exchange(unsure_, {});
  body_->End();
  body_.reset();
  state_ = State::kText;
  may_be_bare_ = false;
  if (told_) {
    at_seam_ = true;
  } else {
    for (const char byte : form_->open) Say(byte);
  }
  Again(std::move(rest));
}

void TagParser::EndBody() {
  body_.reset();
  num_closed_ = 0;
  at_seam_ = true;
  state_ = State::kClosing;
}

void TagParser::Again(std::string bytes) {
  for (const char byte : bytes) Step(byte);
}

// The marks after a call come in a fixed order; each is optional.
void TagParser::StepClosing(char byte) {
  if (pending_.empty() && IsBlank(byte)) return;
  pending_ += byte;
  for (size_t i = num_closed_; i < form_->close.size(); ++i) {
    const std::string_view mark = form_->close[i];
    if (mark.empty() || !mark.starts_with(pending_)) continue;
    if (mark == pending_) {
      pending_.clear();
      num_closed_ = i + 1;
    }
    return;
  }
  state_ = State::kText;
  Again(std::exchange(pending_, {}));
}

void TagParser::BeginCall(std::string_view name, std::string_view id) {
  blanks_.clear();
  unsure_.clear();
  told_ = true;
  has_said_ = true;
  EmitCall(name, id);
}

void TagParser::AddArguments(std::string_view text) {
  unsure_.clear();
  Emit(PieceKind::kArguments, text);
}

void TagParser::EndCall() { EmitCallEnd(); }

// --- the end ----------------------------------------------------------------------------------

void TagParser::End() {
  const std::string pending = std::exchange(pending_, {});
  switch (state_) {
    case State::kText:
      for (const char byte : pending) Say(byte);
      break;
    case State::kReasoning:
      for (const char byte : pending) Think(byte);
      return;
    case State::kBody: {
      const std::string unsure = unsure_;
      body_->End();
      if (told_) return;
      for (const char byte : form_->open) Say(byte);
      for (const char byte : unsure) Say(byte);
      break;
    }
    case State::kClosing:  // at most part of a mark is pending
      return;
  }
  if (!at_seam_) Emit(PieceKind::kText, std::exchange(blanks_, {}));
}

}  // namespace kvgate::output
