#include "gateway/dialect/gemini/gemini_reply.h"

#include <algorithm>
#include <optional>

#include "gateway/dialect/gemini/call_signature.h"

namespace kvgate::dialect::gemini {

using form::FinishReason;
using translate::RawJson;
using translate::RawObject;
using translate::ReplyUsage;
using translate::ReplyWriter;
using translate::UpstreamError;
using translate::UpstreamReply;

namespace {

class GeminiReply final : public UpstreamReply {
 public:
  using UpstreamReply::UpstreamReply;

  void OnEvent(const RawObject& event) override {
    if (event["error"]) {
      Fail(RawObject(event["error"]));
      return;
    }
    writer_.Begin(event.String("modelVersion"));
    if (const RawJson usage = event["usageMetadata"]) Usage(RawObject(usage));
    // A prompt that is refused has no candidate.
    if (RawObject(event["promptFeedback"])["blockReason"]) finish_ = FinishReason::kRefusal;
    for (const RawJson& value : event["candidates"].Elements()) {
      const RawObject candidate(value);
      if (candidate["index"].Integer().value_or(0) != 0) continue;
      for (const RawJson& part : RawObject(candidate["content"])["parts"].Elements()) {
        Said(RawObject(part));
      }
      if (const RawJson reason = candidate["finishReason"]) finish_ = ReasonOf(reason.String());
    }
  }

  void OnBody(const RawObject& body) override {
    if (!body["candidates"].is_array() && !body["promptFeedback"] && !body["error"]) {
      writer_.Fail({.status = 502,
                    .type = "api_error",
                    .message = "The upstream's answer has no candidates."});
      return;
    }
    OnEvent(body);
    writer_.Finish(finish_.value_or(FinishReason::kStop));
  }

  // Counts may follow the event that ends the candidate.
  void OnStreamEnd() override {
    if (finish_) writer_.Finish(*finish_);
  }

 private:
  static FinishReason ReasonOf(std::string_view reason) {
    if (reason == "MAX_TOKENS") return FinishReason::kLength;
    static constexpr std::string_view kRefusals[] = {
        "SAFETY", "RECITATION",   "BLOCKLIST", "PROHIBITED_CONTENT",
        "SPII",   "IMAGE_SAFETY", "LANGUAGE",  "IMAGE_PROHIBITED_CONTENT"};
    const bool refused =
        std::find(std::begin(kRefusals), std::end(kRefusals), reason) != std::end(kRefusals);
    return refused ? FinishReason::kRefusal : FinishReason::kStop;
  }

  void Fail(const RawObject& error) {
    UpstreamError read = translate::ReadError(
        static_cast<int>(std::clamp<int64_t>(error["code"].Integer().value_or(0), 0, 599)), error);
    writer_.Fail(read);
  }

  void Said(const RawObject& part) {
    if (const RawJson call = part["functionCall"]) {
      Call(RawObject(call), part.String("thoughtSignature"));
    } else if (part["thought"].is_true()) {
      writer_.Reasoning(part.String("text"));
    } else {
      writer_.Text(part.String("text"));
    }
  }

  // A call comes whole. One without an id gets one, which its signature needs.
  void Call(const RawObject& call, const std::string& signature) {
    SignedId id{.id = call.String("id"), .signature = signature};
    if (id.id.empty()) id.id = writer_.OwnCallId();
    writer_.BeginCall(JoinCallId(id), call.String("name"));
    const RawJson args = call["args"];
    writer_.Arguments(args ? args.text() : "{}");
    writer_.EndCall();
  }

  void Usage(const RawObject& usage) {
    const auto take = [&](std::string_view name, int64_t& to) {
      to = std::max(to, usage[name].Integer().value_or(0));
    };
    take("promptTokenCount", usage_.num_prompt_tokens);
    take("cachedContentTokenCount", usage_.num_cached_tokens);
    take("thoughtsTokenCount", usage_.num_reasoning_tokens);
    take("candidatesTokenCount", num_candidate_tokens_);
    // The dialect does not count thoughts among the tokens of the answer, the others do.
    if (__builtin_add_overflow(num_candidate_tokens_, usage_.num_reasoning_tokens,
                               &usage_.num_output_tokens)) {
      usage_.num_output_tokens = INT64_MAX;
    }
    writer_.SetUsage(usage_);
  }

  ReplyUsage usage_;
  int64_t num_candidate_tokens_ = 0;
  std::optional<FinishReason> finish_;
};

}  // namespace

std::unique_ptr<UpstreamReply> MakeGeminiReply(ReplyWriter& writer) {
  return std::make_unique<GeminiReply>(writer);
}

}  // namespace kvgate::dialect::gemini
