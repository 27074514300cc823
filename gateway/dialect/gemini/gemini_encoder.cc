#include "gateway/dialect/gemini/gemini_encoder.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/json_text.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::dialect::gemini {

using form::DeltaKind;
using form::FinishReason;
using form::JsonWriter;
using reply::AppendSseEvent;
using reply::ReplyBlock;
using reply::ReplyChoice;
using reply::ReplyEncoder;
using reply::ReplyOptions;

namespace {

// A chunk without a word. Google's client for Python takes a comment for an answer that is no JSON.
constexpr std::string_view kPing =
    "data: "
    "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"},\"index\":0}]}"
    "\n\n";

// Calls end an answer as any text does.
std::string_view ReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "MAX_TOKENS";
    case FinishReason::kRefusal:
      return "SAFETY";
    case FinishReason::kStop:
    case FinishReason::kToolCalls:
      break;
  }
  return "STOP";
}

class GeminiEncoder final : public ReplyEncoder {
 public:
  explicit GeminiEncoder(ReplyOptions options) : ReplyEncoder(std::move(options)) {
    for (int i = 0; i < options_.num_choices; ++i) seals_.emplace_back();
    for (int i = 0; i < options_.num_choices; ++i) calls_.emplace_back();
  }

  std::string_view ping() const override { return kPing; }

  void OnStart(const form::PromptUsage& usage, std::string&) override {
    stats_.num_prompt_tokens = usage.num_prompt_tokens;
    stats_.num_cached_tokens = usage.num_cached_tokens;
  }

  void OnDelta(const form::DeltaEvent& event, std::string& out) override {
    Keep(event);
    if (!options_.stream) return;
    std::string part;
    JsonWriter json(part);
    TakePart(event, json);
    if (part.empty() && !event.finish) return;
    std::string chunk;
    JsonWriter answer(chunk);
    answer.BeginObject().Key("candidates").BeginArray();
    WriteCandidate(event.choice, part, event.finish, answer);
    answer.EndArray();
    WriteTail(answer);
    answer.EndObject();
    AppendSseEvent(chunk, out);
  }

  void OnFinish(const form::FinishEvent& event, std::string& out) override {
    stats_ = event.stats;
    if (event.error) {
      std::string error = form::EncodeGeminiError(form::HttpStatus(*event.error),
                                                  form::PublicMessage(*event.error));
      AppendSseEvent(error, out);
      return;
    }
    const std::vector<int> open = EndOpenChoices(event.reason);
    std::string body;
    JsonWriter json(body);
    json.BeginObject().Key("candidates").BeginArray();
    for (const ReplyChoice& choice : choices_) {
      if (options_.stream && std::find(open.begin(), open.end(), choice.index()) == open.end()) {
        continue;
      }
      const std::string parts = options_.stream ? std::string() : PartsOf(choice);
      WriteCandidate(choice.index(), parts, choice.finish(), json);
    }
    json.EndArray();
    WriteTail(json);
    if (options_.explain) {
      json.Key("kvgate");
      reply::WriteExplain(event.stats, options_.request_id, json);
    }
    json.EndObject();
    if (options_.stream) {
      AppendSseEvent(body, out);
    } else {
      out += body;
    }
  }

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };

  static void WriteCall(const Call& call, JsonWriter& json) {
    json.Key("functionCall").BeginObject().Key("id").String(call.id);
    json.Key("name").String(call.name).Key("args").Raw(form::AsObject(call.arguments));
    json.EndObject();
  }

  // What a provider wants back goes out with the next part.
  static void WriteSeal(std::string& seal, JsonWriter& json) {
    if (seal.empty()) return;
    json.Key("thoughtSignature").String(EncodeBase64(seal));
    seal.clear();
  }

  // Writes the part that a delta of a stream completes, if it completes one.
  void TakePart(const form::DeltaEvent& event, JsonWriter& json) {
    const auto choice = static_cast<size_t>(event.choice);
    std::string& seal = seals_[choice];
    Call& call = calls_[choice];
    switch (event.kind) {
      case DeltaKind::kReasoning:
        if (!event.seal.empty()) seal = event.seal;
        if (event.text.empty() || !options_.thoughts) return;
        json.BeginObject().Key("text").String(event.text).Key("thought").Bool(true).EndObject();
        return;
      case DeltaKind::kText:
        if (event.text.empty()) return;
        json.BeginObject().Key("text").String(event.text);
        WriteSeal(seal, json);
        json.EndObject();
        return;
      case DeltaKind::kCall:
        call = {.id = event.call_id, .name = event.text, .arguments = {}};
        return;
      case DeltaKind::kArguments:
        call.arguments += event.text;
        return;
      case DeltaKind::kCallEnd:
        json.BeginObject();
        WriteCall(call, json);
        WriteSeal(seal, json);
        json.EndObject();
        return;
    }
  }

  std::string PartsOf(const ReplyChoice& choice) const {
    std::string parts;
    JsonWriter json(parts);
    std::string seal;
    for (const ReplyBlock& block : choice.blocks()) {
      if (!block.seal.empty()) seal = block.seal;
      if (block.kind == DeltaKind::kReasoning && (!options_.thoughts || block.text.empty())) {
        continue;
      }
      if (block.kind == DeltaKind::kText && block.text.empty()) continue;
      json.BeginObject();
      if (block.kind == DeltaKind::kCall) {
        WriteCall({.id = block.call_id, .name = block.name, .arguments = block.text}, json);
        WriteSeal(seal, json);
      } else {
        json.Key("text").String(block.text);
        if (block.kind == DeltaKind::kReasoning) {
          json.Key("thought").Bool(true);
        } else {
          WriteSeal(seal, json);
        }
      }
      json.EndObject();
    }
    return parts;
  }

  // `parts` are objects with commas between them; an answer's last chunk may have none.
  static void WriteCandidate(int index, std::string_view parts,
                             const std::optional<FinishReason>& finish, JsonWriter& json) {
    json.BeginObject().Key("content").BeginObject().Key("parts").BeginArray();
    if (!parts.empty()) json.Raw(parts);
    json.EndArray().Key("role").String("model").EndObject();
    if (finish) json.Key("finishReason").String(ReasonName(*finish));
    json.Key("index").Integer(index).EndObject();
  }

  void WriteTail(JsonWriter& json) const {
    json.Key("usageMetadata").BeginObject();
    json.Key("promptTokenCount").Integer(stats_.num_prompt_tokens);
    if (stats_.num_cached_tokens > 0) {
      json.Key("cachedContentTokenCount").Integer(stats_.num_cached_tokens);
    }
    const int64_t said = stats_.num_output_tokens - stats_.num_reasoning_tokens;
    json.Key("candidatesTokenCount").Integer(std::max<int64_t>(said, 0));
    if (stats_.num_reasoning_tokens > 0) {
      json.Key("thoughtsTokenCount").Integer(stats_.num_reasoning_tokens);
    }
    json.Key("totalTokenCount").Integer(stats_.num_prompt_tokens + stats_.num_output_tokens);
    json.Key("promptTokensDetails").BeginArray().BeginObject().Key("modality").String("TEXT");
    json.Key("tokenCount").Integer(stats_.num_prompt_tokens).EndObject().EndArray().EndObject();
    json.Key("modelVersion").String(options_.model);
    json.Key("responseId").String(options_.request_id);
  }

  form::CompletionStats stats_;
  std::vector<std::string> seals_;  // of each choice, until a part takes it
  std::vector<Call> calls_;         // of each choice, while its arguments arrive
};

}  // namespace

std::unique_ptr<ReplyEncoder> MakeGeminiEncoder(ReplyOptions options) {
  return std::make_unique<GeminiEncoder>(std::move(options));
}

std::string EncodeTotalTokens(int64_t num_tokens) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("totalTokens").Integer(num_tokens);
  json.Key("promptTokensDetails").BeginArray().BeginObject().Key("modality").String("TEXT");
  json.Key("tokenCount").Integer(num_tokens).EndObject().EndArray().EndObject();
  return out;
}

}  // namespace kvgate::dialect::gemini
