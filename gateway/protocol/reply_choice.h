// ReplyChoice: one answer as its deltas make it: runs of reasoning and text, and calls, in order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gateway/protocol/form/completion.h"

namespace kvgate::protocol {

struct ReplyBlock {
  DeltaKind kind = DeltaKind::kText;  // kText, kReasoning or kCall
  std::string text = {};              // of a call its arguments, or the input of a custom one
  std::string call_id = {};
  std::string name = {};
  std::string space = {};  // of a call: DeltaEvent's
  bool is_custom = false;  // likewise
  std::string seal = {};   // of reasoning: DeltaEvent's; it has one: nothing more is added
  size_t tokens_end = 0;   // of the choice's tokens, those from the block before up to here
};

class ReplyChoice {
 public:
  explicit ReplyChoice(int index = 0) : index_(index) {}

  // Adds what the delta brings.
  void Add(const DeltaEvent& event);
  void Finish(FinishReason reason) { finish_ = reason; }

  int index() const { return index_; }
  const std::vector<ReplyBlock>& blocks() const { return blocks_; }
  const std::vector<TokenDetail>& tokens() const { return tokens_; }
  const std::optional<FinishReason>& finish() const { return finish_; }

  // All runs of that kind as one.
  std::string Text(DeltaKind kind) const;
  // The assistant's turn that this is.
  Message ToMessage() const;

 private:
  int index_;
  std::vector<ReplyBlock> blocks_;
  std::vector<TokenDetail> tokens_;
  std::optional<FinishReason> finish_;
};

}  // namespace kvgate::protocol
