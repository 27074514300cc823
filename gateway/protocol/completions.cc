#include "gateway/protocol/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "gateway/protocol/common_fields.h"
#include "gateway/protocol/errors.h"
#include "gateway/protocol/field_reader.h"

namespace kvgate::protocol {
namespace {

// --- decoding ---------------------------------------------------------------------------------

Result<void> ReadTokenIds(JsonArray array, const std::string& path, DecodeState& state) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const JsonElement element : array) {
    KVGATE_TRY(const int64_t id,
               ReadInteger(element, IndexPath(path, ids.size()),
                           {.min = 0, .max = std::numeric_limits<TokenId>::max()}));
    ids.push_back(static_cast<TokenId>(id));
  }
  state.request.prompt = std::move(ids);
  return {};
}

// A string, one string in an array, token ids, or one array of token ids in an array.
Result<void> ReadPrompt(JsonElement value, const std::string& path, DecodeState& state) {
  state.has_prompt = true;
  if (value.is_string()) {
    KVGATE_TRY(state.request.prompt, ReadString(value, path));
    return {};
  }
  JsonArray array;
  if (value.get(array) != simdjson::SUCCESS) {
    return TypeError(path, "a string, an array of one string or an array of token ids", value);
  }
  if (array.size() == 0) return RangeError(path, "must not be an empty array");
  const JsonElement first = array.at(0).value_unsafe();
  if (!first.is_string() && !first.is_array()) return ReadTokenIds(array, path, state);
  if (array.size() > 1) return UnsupportedError(path, "more than one prompt in a request is");
  const std::string first_path = IndexPath(path, 0);
  if (first.is_string()) {
    KVGATE_TRY(state.request.prompt, ReadString(first, first_path));
    return {};
  }
  KVGATE_TRY(const JsonArray ids, ReadArray(first, first_path));
  if (ids.size() == 0) return RangeError(first_path, "must not be an empty array");
  return ReadTokenIds(ids, first_path, state);
}

Result<void> ReadLogprobs(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {.min = 0, .max = 20}));
  state.request.num_logprobs = static_cast<int>(number);
  return {};
}

Result<void> ReadEcho(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.echo, ReadBool(value, path));
  return {};
}

Result<void> ReadBestOf(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const int64_t number, ReadInteger(value, path, {.min = 0, .max = 128}));
  if (number > 1) return UnsupportedError(path, "more than one candidate is");
  return {};
}

Result<void> ReadSuffix(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const std::string suffix, ReadString(value, path));
  if (!suffix.empty()) return UnsupportedError(path, "a suffix is");
  return {};
}

constexpr FieldSpec kOwnFields[] = {
    {"prompt", ReadPrompt},  {"logprobs", ReadLogprobs}, {"echo", ReadEcho},
    {"best_of", ReadBestOf}, {"suffix", ReadSuffix},
};

// --- encoding ---------------------------------------------------------------------------------

// A token's text, or its bytes spelled out where they are a part of a character.
std::string TokenText(const std::string& bytes) {
  if (IsValidUtf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

class CompletionsEncoder final : public ReplyEncoder {
 public:
  using ReplyEncoder::ReplyEncoder;

  void OnStart(std::string& out) override {
    if (!options_.echo.empty()) OnDelta(DeltaEvent{.text = options_.echo, .tokens = {}}, out);
  }

  void OnDelta(const DeltaEvent& event, std::string& out) override {
    if (!options_.stream) {
      text_ += event.text;
      tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
      return;
    }
    if (event.text.empty() && event.tokens.empty()) return;
    WriteChunk(event, "", nullptr, out);
  }

  void OnFinish(const FinishEvent& event, std::string& out) override {
    if (!options_.stream) {
      WriteBody(event, out);
      return;
    }
    if (event.error) {
      AppendSseEvent(EncodeError(*event.error), out);
      return;
    }
    WriteChunk({}, FinishReasonName(event.reason), &event.stats, out);
    if (options_.include_usage) WriteUsageChunk(event, out);
    AppendSseEvent("[DONE]", out);
  }

 private:
  void WriteHead(JsonWriter& json) const {
    json.BeginObject().Key("id").String(ReplyId(options_)).Key("object").String("text_completion");
    json.Key("created").Integer(options_.created_unix).Key("model").String(options_.model);
    json.Key("system_fingerprint").String(options_.system_fingerprint);
    json.Key("choices").BeginArray();
  }

  void WriteExplainIf(bool wanted, const CompletionStats* stats, JsonWriter& json) const {
    if (!wanted || stats == nullptr) return;
    json.Key("kvgate");
    WriteExplain(*stats, options_.request_id, json);
  }

  void WriteChoice(const DeltaEvent& event, std::string_view finish_reason, JsonWriter& json) {
    json.BeginObject().Key("index").Integer(0).Key("text").String(event.text).Key("logprobs");
    WriteLogprobs(event.tokens, json);
    json.Key("finish_reason");
    finish_reason.empty() ? json.Null() : json.String(finish_reason);
    json.EndObject();
  }

  void WriteLogprobs(const std::vector<TokenDetail>& tokens, JsonWriter& json) {
    if (!options_.logprobs) {
      json.Null();
      return;
    }
    json.BeginObject().Key("tokens").BeginArray();
    for (const TokenDetail& detail : tokens) json.String(TokenText(detail.token.bytes));
    json.EndArray().Key("token_logprobs").BeginArray();
    for (const TokenDetail& detail : tokens) json.Number(detail.token.logprob);
    json.EndArray().Key("top_logprobs").BeginArray();
    for (const TokenDetail& detail : tokens) {
      WriteTop(detail.top, json);
    }
    // Offsets count bytes of the answer so far, where each token's own bytes begin.
    json.EndArray().Key("text_offset").BeginArray();
    for (const TokenDetail& detail : tokens) {
      json.Unsigned(text_offset_);
      text_offset_ += detail.token.bytes.size();
    }
    json.EndArray().EndObject();
  }

  // The dialect keys by text; of tokens that spell alike the most likely one stands for all.
  static void WriteTop(const std::vector<TokenLogprob>& top, JsonWriter& json) {
    std::vector<std::string> written;
    json.BeginObject();
    for (const TokenLogprob& token : top) {
      std::string text = TokenText(token.bytes);
      if (std::find(written.begin(), written.end(), text) != written.end()) continue;
      json.Key(text).Number(token.logprob);
      written.push_back(std::move(text));
    }
    json.EndObject();
  }

  void WriteChunk(const DeltaEvent& event, std::string_view finish_reason,
                  const CompletionStats* stats, std::string& out) {
    std::string chunk;
    JsonWriter json(chunk);
    WriteHead(json);
    WriteChoice(event, finish_reason, json);
    json.EndArray();
    if (options_.include_usage) json.Key("usage").Null();
    WriteExplainIf(options_.explain && !options_.include_usage, stats, json);
    json.EndObject();
    AppendSseEvent(chunk, out);
  }

  void WriteUsageChunk(const FinishEvent& event, std::string& out) const {
    std::string chunk;
    JsonWriter json(chunk);
    WriteHead(json);
    json.EndArray().Key("usage");
    WriteUsage(event.stats, json);
    WriteExplainIf(options_.explain, &event.stats, json);
    json.EndObject();
    AppendSseEvent(chunk, out);
  }

  void WriteBody(const FinishEvent& event, std::string& out) {
    JsonWriter json(out);
    WriteHead(json);
    WriteChoice({.text = text_, .tokens = tokens_}, FinishReasonName(event.reason), json);
    json.EndArray().Key("usage");
    WriteUsage(event.stats, json);
    WriteExplainIf(options_.explain, &event.stats, json);
    json.EndObject();
  }

  std::string text_;
  std::vector<TokenDetail> tokens_;
  size_t text_offset_ = 0;
};

}  // namespace

Result<CompletionRequest> DecodeCompletions(std::string_view body, const DecodeLimits& limits) {
  static const std::vector<FieldSpec> fields = WithCommonFields(kOwnFields);
  simdjson::dom::parser parser;
  KVGATE_TRY(const JsonObject object, ParseBody(body, limits, parser));
  DecodeState state{.limits = limits};
  state.request.dialect = Dialect::kCompletions;
  KVGATE_TRY_VOID(ReadFields(object, "", fields, state));
  KVGATE_TRY_VOID(FinishCommonFields(state));
  if (!state.has_prompt) return MissingError("prompt");
  if (state.request.echo && state.request.num_logprobs >= 0) {
    return UnsupportedError("echo", "the prompt's own log-probabilities are");
  }
  return std::move(state.request);
}

std::unique_ptr<ReplyEncoder> MakeCompletionsEncoder(ReplyOptions options) {
  return std::make_unique<CompletionsEncoder>(std::move(options));
}

}  // namespace kvgate::protocol
