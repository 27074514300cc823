// PromptBuilder: the items of a conversation in the Responses dialect as turns of the one form.
//
// Reasoning and calls belong to the assistant's turn that they stand beside. All items of one
// answer of ours are one turn, as the model wrote it: so the next prompt begins with it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/form/response_items.h"

namespace kvgate::protocol {

class PromptBuilder {
 public:
  // `limits` outlives it.
  explicit PromptBuilder(const DecodeLimits& limits) : limits_(limits) {}

  // As the first turn; nothing where the text is empty.
  void AddInstructions(std::string text);
  // REQUIRES: no references. An error names its item by `field`: "input[2].content".
  Result<void> Add(std::span<const ResponsesItem> items, std::string_view field);
  std::vector<Message> Take() { return std::move(messages_); }
  // The tools that items brought, as if they had stood in "tools", and what was left out: into the
  // request, where it has none of that name.
  void TakeTools(CompletionRequest& request);

 private:
  class Reader;

  const DecodeLimits& limits_;
  std::vector<Message> messages_;
  std::string answer_;           // whose turn is open at the end: a request's id, or empty
  std::set<std::string> calls_;  // the ids of all so far
  std::vector<Tool> tools_;
  std::vector<std::string> left_out_;
};

}  // namespace kvgate::protocol
