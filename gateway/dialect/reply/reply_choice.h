// ReplyChoice collects the deltas of one answer: runs of reasoning and text, and calls, in order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gateway/dialect/form/completion.h"

namespace kvgate::dialect::reply {

struct ReplyBlock {
  form::DeltaKind kind = form::DeltaKind::kText;  // kText, kReasoning or kCall
  std::string text = {};  // for a call its arguments, or the input of a custom tool
  std::string call_id = {};
  std::string name = {};
  std::string space = {};  // of a call; see DeltaEvent
  bool is_custom = false;  // of a call; see DeltaEvent
  std::string seal = {};   // of reasoning; see DeltaEvent; a sealed block is complete
  size_t tokens_end = 0;   // end index of this block's tokens in the choice's tokens
};

class ReplyChoice {
 public:
  explicit ReplyChoice(int index = 0) : index_(index) {}

  void Add(const form::DeltaEvent& event);
  void Finish(form::FinishReason reason) { finish_ = reason; }

  int index() const { return index_; }
  const std::vector<ReplyBlock>& blocks() const { return blocks_; }
  const std::vector<form::TokenDetail>& tokens() const { return tokens_; }
  const std::optional<form::FinishReason>& finish() const { return finish_; }

  // Returns all runs of that kind joined.
  std::string Text(form::DeltaKind kind) const;
  // Returns the answer as an assistant turn.
  form::Message ToMessage() const;

 private:
  int index_;
  std::vector<ReplyBlock> blocks_;
  std::vector<form::TokenDetail> tokens_;
  std::optional<form::FinishReason> finish_;
};

}  // namespace kvgate::dialect::reply
