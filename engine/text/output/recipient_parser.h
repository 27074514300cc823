// RecipientParser: replies in parts that each begin with a line that says to whom
// (Functionary 3.2):
// ">>>all" and text, or ">>>NAME" and arguments. The prompt has written the first ">>>".
#pragma once

#include <string>
#include <string_view>

#include "engine/reply/json_scan.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::reply {

class RecipientParser final : public ReplyParser {
 public:
  explicit RecipientParser(const ReplyParserOptions& options);

 private:
  enum class State : uint8_t { kName, kText, kArguments };

  void Step(char byte) override;
  void End() override;
  void StepText(char byte);
  void Say(std::string_view text);

  const bool calls_;
  State state_;
  std::string name_;     // of the part whose arguments are awaited
  std::string pending_;  // the line under way, or what may be the beginning of a mark
  std::string blanks_;   // before what may be a mark
  JsonScan scan_;
  bool told_ = false;  // the part is a call
};

}  // namespace kvgate::reply
