// ChannelParser: parses replies that consist of messages with headers (gpt-oss). A header names a
// channel and possibly a recipient: the channel "analysis" is reasoning, and a message to
// "functions.NAME" is a call.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/text/output/json_scan.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::output {

class ChannelParser final : public ReplyParser {
 public:
  explicit ChannelParser(const ReplyParserOptions& options) : calls_(options.calls) {}

 private:
  enum class State : uint8_t { kBegin, kHeader, kMessage };

  void Step(char byte) override;
  void End() override;
  void StepHeader(char byte);
  void StepMessage(char byte);
  void OpenMessage();
  void CloseMessage();
  void Add(std::string_view text);

  const bool calls_;
  State state_ = State::kBegin;
  std::string header_;   // text since the last message
  std::string pending_;  // may be the beginning of a mark
  PieceKind kind_ = PieceKind::kText;
  bool has_content_ = false;
};

}  // namespace kvgate::output
