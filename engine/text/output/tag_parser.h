// TagParser: parses replies in which marks open and close reasoning and calls; everything else is
// text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/output/call_body.h"
#include "engine/text/output/families.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::output {

class TagParser final : public ReplyParser, private CallSink {
 public:
  // `family` must outlive the parser.
  TagParser(const Family& family, const ReplyParserOptions& options);

 private:
  enum class State : uint8_t { kText, kReasoning, kBody, kClosing };

  void Step(char byte) override;
  void End() override;

  void BeginCall(std::string_view name, std::string_view id) override;
  void AddArguments(std::string_view text) override;
  void EndCall() override;

  void StepText(char byte);
  void StepReasoning(char byte);
  void StepBody(char byte);
  void StepClosing(char byte);
  // Tells if `pending_` is a mark, a prefix of one, or neither.
  enum class Fit : uint8_t { kNone, kPrefix, kWhole };
  Fit FitMark();
  void TakeMark();
  void Say(char byte);
  void Think(char byte);
  void OpenBody(const CallForm& form);
  void FailBody();
  void EndBody();
  void Again(std::string bytes);

  const Family& family_;
  const bool calls_;
  const std::vector<ToolShape> tools_;
  State state_ = State::kText;
  std::string pending_;       // may be the beginning of a mark
  std::string blanks_;        // unreported blanks, dropped if a mark follows
  bool at_seam_ = false;      // blanks that follow are not text
  bool has_said_ = false;     // some text was reported
  bool is_thinking_ = false;  // some reasoning was reported
  bool may_be_bare_ = true;   // an object that begins here may be a bare call
  // State of the current call.
  const CallForm* form_ = nullptr;
  std::unique_ptr<CallBody> body_;
  std::string unsure_;  // bytes since the body last reported something
  bool told_ = false;
  size_t num_closed_ = 0;  // number of marks of form_->close consumed
};

}  // namespace kvgate::output
