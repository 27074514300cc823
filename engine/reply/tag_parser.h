// TagParser: replies in which marks open and close reasoning and calls, and all else is text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/reply/call_body.h"
#include "engine/reply/families.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::reply {

class TagParser final : public ReplyParser, private CallSink {
 public:
  // `family` outlives it.
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
  // Whether `pending_` is a mark, may become one, or neither.
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
  std::string pending_;       // what may be the beginning of a mark
  std::string blanks_;        // that were read and may stand at a seam
  bool at_seam_ = false;      // blanks that come now are not text
  bool has_said_ = false;     // there has been text
  bool is_thinking_ = false;  // the reasoning has begun to say something
  bool may_be_bare_ = true;   // an object that begins now may be a call
  // Of the call under way.
  const CallForm* form_ = nullptr;
  std::unique_ptr<CallBody> body_;
  std::string unsure_;  // what the body got since it last told something
  bool told_ = false;
  size_t num_closed_ = 0;  // of form_->close
};

}  // namespace kvgate::reply
