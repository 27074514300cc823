#include "gateway/dialect/chat/chat_reply.h"

#include <algorithm>

namespace kvgate::dialect::chat {

using translate::RawJson;
using translate::RawObject;
using translate::ReadError;
using translate::ReplyUsage;
using translate::ReplyWriter;
using translate::UpstreamReply;

namespace {

using form::FinishReason;

class ChatReply final : public UpstreamReply {
 public:
  using UpstreamReply::UpstreamReply;

  void OnEvent(const RawObject& event) override {
    if (event["error"]) {
      writer_.Fail(ReadError(0, RawObject(event["error"])));
      return;
    }
    writer_.Begin(event.String("model"));
    if (const RawJson usage = event["usage"]) Usage(RawObject(usage));
    for (const RawJson& value : event["choices"].Elements()) {
      const RawObject choice(value);
      if (choice["index"].Integer().value_or(0) != 0) continue;
      Said(RawObject(choice["delta"]));
      if (const RawJson reason = choice["finish_reason"]) finish_ = ReasonOf(reason.String());
    }
  }

  void OnBody(const RawObject& body) override {
    const std::vector<RawJson> choices = body["choices"].Elements();
    if (choices.empty()) {
      writer_.Fail(
          {.status = 502, .type = "api_error", .message = "The upstream's answer has no choices."});
      return;
    }
    writer_.Begin(body.String("model"));
    if (const RawJson usage = body["usage"]) Usage(RawObject(usage));
    const RawObject choice(choices.front());
    Said(RawObject(choice["message"]));
    Finish(ReasonOf(choice.String("finish_reason")));
  }

  // The choice's end counts, because not every server sends [DONE].
  void OnStreamEnd() override {
    if (finish_) Finish(*finish_);
  }

 private:
  static FinishReason ReasonOf(std::string_view reason) {
    if (reason == "length") return FinishReason::kLength;
    if (reason == "tool_calls" || reason == "function_call") return FinishReason::kToolCalls;
    return reason == "content_filter" ? FinishReason::kRefusal : FinishReason::kStop;
  }

  void Finish(FinishReason reason) {
    writer_.Finish(refused_ && reason == FinishReason::kStop ? FinishReason::kRefusal : reason);
  }

  // Takes a message or a delta, which have the same members.
  void Said(const RawObject& message) {
    const std::string reasoning = message.String("reasoning_content");
    writer_.Reasoning(reasoning.empty() ? message.String("reasoning") : reasoning);
    writer_.Text(message.String("content"));
    const std::string refusal = message.String("refusal");
    refused_ = refused_ || !refusal.empty();
    writer_.Text(refusal);
    for (const RawJson& value : message["tool_calls"].Elements()) Call(RawObject(value));
  }

  // A call's first fragment has its id and name, the others its index. Servers that send whole
  // calls leave out the index.
  void Call(const RawObject& call) {
    const RawObject function(call["function"]);
    const std::string name = function.String("name");
    const std::string id = call.String("id");
    const std::string arguments = function.String("arguments");
    const int64_t index = call["index"].Integer().value_or(name.empty() ? index_ : index_ + 1);
    if (index > index_ && !name.empty()) {
      index_ = index;
      writer_.BeginCall(id, name);
    } else if (index < index_ && !arguments.empty()) {
      writer_.Fail(
          {.status = 502, .type = "api_error", .message = "The upstream's calls overlap."});
    }
    writer_.Arguments(arguments);
  }

  void Usage(const RawObject& usage) {
    const auto take = [](const RawObject& from, std::string_view name, int64_t& to) {
      to = std::max(to, from[name].Integer().value_or(0));
    };
    take(usage, "prompt_tokens", usage_.num_prompt_tokens);
    take(usage, "completion_tokens", usage_.num_output_tokens);
    // DeepSeek uses this name.
    take(usage, "prompt_cache_hit_tokens", usage_.num_cached_tokens);
    const RawObject prompt(usage["prompt_tokens_details"]);
    take(prompt, "cached_tokens", usage_.num_cached_tokens);
    take(prompt, "cache_write_tokens", usage_.num_written_tokens);
    const RawObject output(usage["completion_tokens_details"]);
    take(output, "reasoning_tokens", usage_.num_reasoning_tokens);
    writer_.SetUsage(usage_);
  }

  ReplyUsage usage_;
  std::optional<FinishReason> finish_;
  int64_t index_ = -1;  // of the latest call
  bool refused_ = false;
};

}  // namespace

std::unique_ptr<UpstreamReply> MakeChatReply(ReplyWriter& writer) {
  return std::make_unique<ChatReply>(writer);
}

}  // namespace kvgate::dialect::chat
