#include "gateway/dialect/responses/responses_reply.h"

#include <algorithm>

#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::responses {

using translate::kSealedItem;
using translate::RawJson;
using translate::RawObject;
using translate::ReadError;
using translate::ReplyWriter;
using translate::UpstreamReply;

namespace {

using form::FinishReason;

class ResponsesReply final : public UpstreamReply {
 public:
  using UpstreamReply::UpstreamReply;

  void OnEvent(const RawObject& event) override {
    const std::string type = event.String("type");
    if (type == "error" || event["error"]) {
      writer_.Fail(ReadError(0, event["error"] ? RawObject(event["error"]) : event));
    } else if (event["response"]) {
      OnResponse(type, RawObject(event["response"]));
    } else if (type == "response.output_item.added") {
      Open(RawObject(event["item"]));
    } else if (type == "response.output_item.done") {
      Close(RawObject(event["item"]));
    } else if (type == "response.function_call_arguments.done") {
      if (!writer_.has_arguments()) writer_.Arguments(event.String("arguments"));
    } else {
      OnDelta(type, event);
    }
  }

  void OnBody(const RawObject& body) override {
    if (!body["output"].is_array()) {
      writer_.Fail(
          {.status = 502, .type = "api_error", .message = "The upstream's answer has no output."});
      return;
    }
    writer_.Begin(body.String("model"));
    Output(body);
    End(body);
  }

  void OnStreamEnd() override {}

 private:
  void OnResponse(const std::string& type, const RawObject& response) {
    writer_.Begin(response.String("model"));
    const bool ends = type == "response.completed" || type == "response.incomplete" ||
                      type == "response.failed" || type == "response.cancelled";
    if (!ends) return;
    // A server may send only the final event.
    if (!any_item_) Output(response);
    End(response);
  }

  void OnDelta(const std::string& type, const RawObject& event) {
    if (type == "response.output_text.delta") {
      Text(event.String("delta"));
    } else if (type == "response.refusal.delta") {
      refused_ = true;
      Text(event.String("delta"));
    } else if (type == "response.reasoning_summary_text.delta") {
      Reasoning(event.String("delta"), true);
    } else if (type == "response.reasoning_text.delta") {
      Reasoning(event.String("delta"), false);
    } else if (type == "response.reasoning_summary_part.added") {
      if (said_ && by_summary_) writer_.Reasoning("\n\n");
    } else if (type == "response.function_call_arguments.delta") {
      writer_.Arguments(event.String("delta"));
    } else if (type == "response.queued" || type == "keepalive") {
      writer_.Ping();
    }
  }

  void Text(const std::string& text) {
    said_ = said_ || !text.empty();
    writer_.Text(text);
  }

  // If an item has both reasoning and a summary of it, only the one that came first is passed on.
  void Reasoning(const std::string& text, bool by_summary) {
    if (said_ && by_summary != by_summary_) return;
    said_ = said_ || !text.empty();
    by_summary_ = by_summary;
    writer_.Reasoning(text);
  }

  void Open(const RawObject& item) {
    any_item_ = true;
    said_ = false;
    if (item.String("type") != "function_call") return;
    writer_.BeginCall(item.String("call_id"), item.String("name"));
    writer_.Arguments(item.String("arguments"));
  }

  // Passes on what no delta has contained.
  void Close(const RawObject& item) {
    const std::string type = item.String("type");
    if (type == "function_call") {
      if (!writer_.has_arguments()) writer_.Arguments(item.String("arguments"));
      writer_.EndCall();
    } else if (type == "message") {
      if (!said_) Parts(item["content"]);
    } else if (type == "reasoning") {
      if (!said_) Thoughts(item);
      const std::string encrypted = item.String("encrypted_content");
      if (!encrypted.empty()) {
        writer_.Seal(std::string(kSealedItem) + item.String("id") + ":" + encrypted);
      }
    }
    said_ = false;
  }

  void Parts(const RawJson& content) {
    for (const RawJson& value : content.Elements()) {
      const RawObject part(value);
      refused_ = refused_ || part["refusal"];
      Text(part["refusal"] ? part.String("refusal") : part.String("text"));
    }
  }

  void Thoughts(const RawObject& item) {
    const bool by_summary = item["content"].Elements().empty();
    for (const RawJson& part : item[by_summary ? "summary" : "content"].Elements()) {
      if (said_ && by_summary) writer_.Reasoning("\n\n");
      Reasoning(RawObject(part).String("text"), by_summary);
    }
  }

  void Output(const RawObject& response) {
    for (const RawJson& value : response["output"].Elements()) {
      const RawObject item(value);
      Open(item);
      Close(item);
    }
  }

  void End(const RawObject& response) {
    Usage(RawObject(response["usage"]));
    const std::string status = response.String("status");
    if (status == "failed" || status == "cancelled" || response["error"]) {
      writer_.Fail(ReadError(0, RawObject(response["error"])));
      return;
    }
    FinishReason reason = refused_ ? FinishReason::kRefusal : FinishReason::kStop;
    if (status == "incomplete") {
      const std::string why = RawObject(response["incomplete_details"]).String("reason");
      reason = why == "content_filter" ? FinishReason::kRefusal : FinishReason::kLength;
    }
    writer_.Finish(reason);
  }

  void Usage(const RawObject& usage) {
    const auto take = [](const RawObject& from, std::string_view name) {
      return std::max<int64_t>(from[name].Integer().value_or(0), 0);
    };
    const RawObject input(usage["input_tokens_details"]);
    const RawObject output(usage["output_tokens_details"]);
    writer_.SetUsage({.num_prompt_tokens = take(usage, "input_tokens"),
                      .num_cached_tokens = take(input, "cached_tokens"),
                      .num_written_tokens = take(input, "cache_write_tokens"),
                      .num_output_tokens = take(usage, "output_tokens"),
                      .num_reasoning_tokens = take(output, "reasoning_tokens")});
  }

  bool any_item_ = false;
  bool said_ = false;  // the open item has produced output
  bool by_summary_ = false;
  bool refused_ = false;
};

}  // namespace

std::unique_ptr<UpstreamReply> MakeResponsesReply(ReplyWriter& writer) {
  return std::make_unique<ResponsesReply>(writer);
}

}  // namespace kvgate::dialect::responses
