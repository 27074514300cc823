// The Responses dialect: bodies in, numbered events or one response object out.
//
// A conversation is a list of items. Those of a body and those of the responses before it are kept
// as JSON (who stores them need not read them) and become messages of the one form here: reasoning
// and calls belong to the assistant's turn that they stand beside.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/completion.h"
#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/reply_encoder.h"

namespace kvgate::protocol {

struct ResponsesRequest {
  CompletionRequest request;  // without its prompt: see BuildPrompt
  std::string previous_response_id;
  std::string conversation;  // its id; empty: none
  bool store = true;
  std::string instructions;
  std::vector<std::string> input;  // the items of this body, each with an id
  std::string echo;  // what a response repeats of its request: members of an object, ",…" each
};

// kInvalidArgument or kUnsupported, with the field at fault. Rules: field_reader.h.
Result<ResponsesRequest> DecodeResponses(std::string_view body, const DecodeLimits& limits);

// Puts the prompt together: instructions, the items before, the input. An error of an input item
// names it: "input[2].content".
Result<void> BuildPrompt(std::span<const std::string> before, const DecodeLimits& limits,
                         ResponsesRequest& request);

class ResponsesEncoder final : public ReplyEncoder {
 public:
  ResponsesEncoder(ReplyOptions options, std::string echo);

  void OnStart(const PromptUsage& usage, std::string& out) override;
  void OnDelta(const DeltaEvent& event, std::string& out) override;
  void OnFinish(const FinishEvent& event, std::string& out) override;

  // Once it has finished without an error: the items of the answer, and the whole response.
  const std::vector<std::string>& items() const { return items_; }
  const std::string& response() const { return response_; }

 private:
  struct OpenItem {
    ReplyBlock block;
    std::string id;
  };
  class Event;

  void Open(const DeltaEvent& event, std::string& out);
  void Extend(const DeltaEvent& event, std::string& out);
  void Close(bool complete, std::string& out);
  void CloseContent(const OpenItem& item, std::string& out);
  static void WriteItem(const OpenItem& item, std::string_view status, JsonWriter& json);
  static void WritePart(const ReplyBlock& block, std::string_view text, JsonWriter& json);
  void WriteResponse(std::string_view status, const FinishEvent* finish, JsonWriter& json) const;
  void SendResponse(std::string_view name, std::string_view status, const FinishEvent* finish,
                    std::string& out);

  const std::string echo_;
  int64_t sequence_ = 0;
  bool stream_;
  std::optional<OpenItem> open_;
  std::vector<std::string> items_;
  std::string response_;
};

}  // namespace kvgate::protocol
