#include "gateway/dialect/messages/messages_reply.h"

#include <algorithm>

#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::messages {

using translate::kSealedRedacted;
using translate::kSealedThinking;
using translate::RawJson;
using translate::RawObject;
using translate::ReadError;
using translate::ReplyUsage;
using translate::ReplyWriter;
using translate::UpstreamReply;

namespace {

using form::FinishReason;

class MessagesReply final : public UpstreamReply {
 public:
  using UpstreamReply::UpstreamReply;

  void OnEvent(const RawObject& event) override {
    const std::string type = event.String("type");
    if (type == "message_start") {
      const RawObject message(event["message"]);
      writer_.Begin(message.String("model"));
      Usage(RawObject(message["usage"]));
    } else if (type == "content_block_start") {
      Open(RawObject(event["content_block"]));
    } else if (type == "content_block_delta") {
      Delta(RawObject(event["delta"]));
    } else if (type == "content_block_stop") {
      Close();
    } else if (type == "message_delta") {
      Usage(RawObject(event["usage"]));
      Stop(RawObject(event["delta"]));
    } else if (type == "message_stop") {
      Close();
      writer_.Finish(reason_, stop_string_);
    } else if (type == "ping") {
      writer_.Ping();
    } else if (type == "error" || event["error"]) {
      writer_.Fail(ReadError(0, RawObject(event["error"])));
    }
  }

  void OnBody(const RawObject& body) override {
    if (!body["content"].is_array()) {
      writer_.Fail(
          {.status = 502, .type = "api_error", .message = "The upstream's answer has no content."});
      return;
    }
    writer_.Begin(body.String("model"));
    Usage(RawObject(body["usage"]));
    for (const RawJson& value : body["content"].Elements()) {
      const RawObject block(value);
      Open(block);
      if (kind_ == Kind::kThinking) signature_ = block.String("signature");
      Close();
    }
    Stop(body);
    writer_.Finish(reason_, stop_string_);
  }

  void OnStreamEnd() override {}

 private:
  enum class Kind : uint8_t { kNone, kText, kThinking, kCall };

  // Passes on what a block already contains: all of it in a whole answer, mostly nothing in a
  // stream.
  void Open(const RawObject& block) {
    Close();
    const std::string type = block.String("type");
    if (type == "text") {
      kind_ = Kind::kText;
      writer_.Text(block.String("text"));
    } else if (type == "thinking") {
      kind_ = Kind::kThinking;
      Think(block.String("thinking"));
    } else if (type == "redacted_thinking") {
      writer_.Seal(std::string(kSealedRedacted) + block.String("data"));
    } else if (type == "tool_use") {
      kind_ = Kind::kCall;
      writer_.BeginCall(block.String("id"), block.String("name"));
      input_ = block["input"].Members().empty() ? "" : block["input"].text();
    }
  }

  void Delta(const RawObject& delta) {
    const std::string type = delta.String("type");
    if (type == "text_delta" && kind_ == Kind::kText) {
      writer_.Text(delta.String("text"));
    } else if (type == "thinking_delta" && kind_ == Kind::kThinking) {
      Think(delta.String("thinking"));
    } else if (type == "signature_delta" && kind_ == Kind::kThinking) {
      signature_ += delta.String("signature");
    } else if (type == "input_json_delta" && kind_ == Kind::kCall) {
      writer_.Arguments(delta.String("partial_json"));
    }
  }

  void Think(const std::string& text) {
    thinking_ += text;
    writer_.Reasoning(text);
  }

  void Close() {
    if (kind_ == Kind::kThinking && !signature_.empty()) {
      writer_.Seal(std::string(kSealedThinking) + signature_ + ":" + thinking_);
    }
    if (kind_ == Kind::kCall) {
      if (!writer_.has_arguments()) writer_.Arguments(input_);
      writer_.EndCall();
    }
    kind_ = Kind::kNone;
    signature_.clear();
    thinking_.clear();
    input_.clear();
  }

  void Stop(const RawObject& delta) {
    const std::string reason = delta.String("stop_reason");
    if (reason == "max_tokens" || reason == "model_context_window_exceeded") {
      reason_ = FinishReason::kLength;
    } else if (reason == "tool_use") {
      reason_ = FinishReason::kToolCalls;
    } else if (reason == "refusal") {
      reason_ = FinishReason::kRefusal;
    }
    if (reason == "stop_sequence") stop_string_ = delta.String("stop_sequence");
  }

  // Events repeat counts or add new ones, so the larger value holds. Cache reads and writes are not
  // part of input_tokens here, but the other dialects count them in it.
  void Usage(const RawObject& usage) {
    const auto take = [&](std::string_view name, int64_t& to) {
      to = std::max(to, usage[name].Integer().value_or(0));
    };
    take("input_tokens", num_input_tokens_);
    take("cache_read_input_tokens", usage_.num_cached_tokens);
    take("cache_creation_input_tokens", usage_.num_written_tokens);
    take("output_tokens", usage_.num_output_tokens);
    const RawObject details(usage["output_tokens_details"]);
    usage_.num_reasoning_tokens =
        std::max(usage_.num_reasoning_tokens, details["thinking_tokens"].Integer().value_or(0));
    usage_.num_prompt_tokens =
        Sum(Sum(num_input_tokens_, usage_.num_cached_tokens), usage_.num_written_tokens);
    writer_.SetUsage(usage_);
  }

  // Adds counts without overflow, because an upstream may send any values.
  static int64_t Sum(int64_t a, int64_t b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
  }

  Kind kind_ = Kind::kNone;  // of the open block; kNone if it is ignored
  std::string thinking_;
  std::string signature_;
  std::string input_;
  int64_t num_input_tokens_ = 0;
  ReplyUsage usage_;
  FinishReason reason_ = FinishReason::kStop;
  std::string stop_string_;
};

}  // namespace

std::unique_ptr<UpstreamReply> MakeMessagesReply(ReplyWriter& writer) {
  return std::make_unique<MessagesReply>(writer);
}

}  // namespace kvgate::dialect::messages
