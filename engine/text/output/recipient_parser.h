// RecipientParser: parses replies in parts, each of which begins with a line that names the
// recipient (Functionary 3.2): ">>>all" and text, or ">>>NAME" and arguments. The prompt ends with
// the first ">>>".
#pragma once

#include <string>
#include <string_view>

#include "engine/text/output/json_scan.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::output {

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
  std::string name_;     // recipient of the current part
  std::string pending_;  // the current line, or what may begin a mark
  std::string blanks_;   // blanks before a possible mark
  JsonScan scan_;
  bool told_ = false;  // the part was reported as a call
};

}  // namespace kvgate::output
