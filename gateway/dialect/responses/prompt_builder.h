// PromptBuilder turns the items of a conversation in the Responses dialect into messages.
//
// Reasoning and calls join the assistant turn that they are next to. All items of one answer made
// by this gateway are one turn, as the model wrote it, so that the next prompt begins with it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/responses/response_items.h"

namespace kvgate::dialect::responses {

class PromptBuilder {
 public:
  // `limits` must outlive it.
  explicit PromptBuilder(const form::DecodeLimits& limits) : limits_(limits) {}

  // Adds the text as the first turn; an empty text adds none.
  void AddInstructions(std::string text);
  // REQUIRES: no references. Errors name the item by `field`: "input[2].content".
  Result<void> Add(std::span<const responses::ResponsesItem> items, std::string_view field);
  std::vector<form::Message> Take() { return std::move(messages_); }
  // Moves into the request the tools that items brought, as if they had been in "tools", unless it
  // has one of that name, and adds what was left out.
  void TakeTools(form::CompletionRequest& request);

 private:
  class Reader;

  const form::DecodeLimits& limits_;
  std::vector<form::Message> messages_;
  std::string answer_;           // request id of the answer whose turn is last; else empty
  std::set<std::string> calls_;  // ids of all calls so far
  std::vector<form::Tool> tools_;
  std::vector<std::string> left_out_;
  int num_items_ = 0;
};

}  // namespace kvgate::dialect::responses
