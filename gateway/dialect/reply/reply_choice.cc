#include "gateway/dialect/reply/reply_choice.h"

#include "gateway/dialect/form/client_calls.h"

namespace kvgate::dialect::reply {

using form::DeltaKind;

void ReplyChoice::Add(const form::DeltaEvent& event) {
  if (event.finish) finish_ = event.finish;
  tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
  switch (event.kind) {
    case DeltaKind::kText:
    case DeltaKind::kReasoning:
      if (event.text.empty() && event.seal.empty()) break;
      if (blocks_.empty() || blocks_.back().kind != event.kind || !blocks_.back().seal.empty()) {
        blocks_.push_back({.kind = event.kind});
      }
      blocks_.back().text += event.text;
      blocks_.back().seal = event.seal;
      break;
    case DeltaKind::kCall:
      blocks_.push_back({.kind = event.kind,
                         .call_id = event.call_id,
                         .name = event.text,
                         .space = event.space,
                         .is_custom = event.is_custom});
      break;
    case DeltaKind::kArguments:
      blocks_.back().text += event.text;
      break;
    case DeltaKind::kCallEnd:
      break;
  }
  if (!blocks_.empty() && !event.text.empty()) blocks_.back().tokens_end = tokens_.size();
}

std::string ReplyChoice::Text(DeltaKind kind) const {
  std::string text;
  for (const ReplyBlock& block : blocks_) {
    if (block.kind == kind) text += block.text;
  }
  return text;
}

form::Message ReplyChoice::ToMessage() const {
  form::Message message{.role = "assistant",
                        .content = Text(DeltaKind::kText),
                        .reasoning = Text(DeltaKind::kReasoning)};
  for (const ReplyBlock& block : blocks_) {
    if (block.kind != DeltaKind::kCall) continue;
    message.tool_calls.push_back(
        {.id = block.call_id,
         .name = form::FlatName(block.space, block.name),
         .arguments = block.is_custom ? form::InputArguments(block.text) : block.text});
  }
  return message;
}

}  // namespace kvgate::dialect::reply
