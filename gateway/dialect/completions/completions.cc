#include "gateway/dialect/completions/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "gateway/dialect/form/common_fields.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/field_reader.h"

namespace kvgate::dialect::completions {

using reply::AppendSseEvent;
using reply::FinishReasonName;
using reply::ReplyChoice;
using reply::ReplyEncoder;
using reply::ReplyId;
using reply::ReplyOptions;
using reply::WriteExplain;
using reply::WriteUsage;

using form::DecodeState;
using form::DeltaEvent;
using form::JsonElement;
using form::JsonWriter;
using form::Prompt;
using form::RangeError;
using form::TokenDetail;

namespace {

// --- decoding ---------------------------------------------------------------------------------

Result<Prompt> ReadTokenIds(form::JsonArray array, const std::string& path) {
  if (array.size() == 0) return RangeError(path, "must not be an empty array");
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const JsonElement element : array) {
    KVGATE_TRY(const int64_t id,
               form::ReadInteger(element, form::IndexPath(path, ids.size()),
                                 {.min = 0, .max = std::numeric_limits<TokenId>::max()}));
    ids.push_back(static_cast<TokenId>(id));
  }
  return Prompt(std::move(ids));
}

Result<Prompt> ReadText(JsonElement value, const std::string& path) {
  KVGATE_TRY(std::string text, form::ReadString(value, path));
  return Prompt(std::move(text));
}

// Reads one prompt (a string or token ids) or several (an array of either).
Result<void> ReadPrompt(JsonElement value, const std::string& path, DecodeState& state) {
  form::CompletionRequest& request = state.request;
  state.has_prompt = true;
  if (value.is_string()) {
    KVGATE_TRY(request.prompt, ReadText(value, path));
    return {};
  }
  form::JsonArray array;
  if (value.get(array) != simdjson::SUCCESS) {
    return form::TypeError(path, "a string, an array of strings or an array of token ids", value);
  }
  if (array.size() == 0) return RangeError(path, "must not be an empty array");
  const JsonElement first = array.at(0).value_unsafe();
  if (!first.is_string() && !first.is_array()) {
    KVGATE_TRY(request.prompt, ReadTokenIds(array, path));
    return {};
  }
  if (array.size() > static_cast<size_t>(state.limits.choices_max)) {
    return RangeError(path, fmt::format("must have at most {} prompts", state.limits.choices_max));
  }
  size_t index = 0;
  for (const JsonElement element : array) {
    const std::string element_path = form::IndexPath(path, index);
    Prompt& prompt = index++ == 0 ? request.prompt : request.more_prompts.emplace_back();
    if (first.is_string()) {
      KVGATE_TRY(prompt, ReadText(element, element_path));
    } else {
      KVGATE_TRY(const form::JsonArray ids, form::ReadArray(element, element_path));
      KVGATE_TRY(prompt, ReadTokenIds(ids, element_path));
    }
  }
  return {};
}

Result<void> ReadLogprobs(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number, form::ReadInteger(value, path, {.min = 0, .max = 20}));
  state.request.num_logprobs = static_cast<int>(number);
  return {};
}

Result<void> ReadEcho(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(state.request.echo, form::ReadBool(value, path));
  return {};
}

Result<void> ReadBestOf(JsonElement value, const std::string& path, DecodeState& state) {
  KVGATE_TRY(const int64_t number,
             form::ReadInteger(value, path, {.min = 0, .max = state.limits.choices_max}));
  state.best_of = static_cast<int>(number);
  return {};
}

Result<void> ReadSuffix(JsonElement value, const std::string& path, DecodeState&) {
  KVGATE_TRY(const std::string suffix, form::ReadString(value, path));
  if (!suffix.empty()) return form::UnsupportedError(path, "a suffix is");
  return {};
}

constexpr form::FieldSpec kOwnFields[] = {
    {"prompt", ReadPrompt},  {"logprobs", ReadLogprobs}, {"echo", ReadEcho},
    {"best_of", ReadBestOf}, {"suffix", ReadSuffix},
};

// --- encoding ---------------------------------------------------------------------------------

// Returns a token's text, or its bytes spelled out if they are a part of a character.
std::string TokenText(const std::string& bytes) {
  if (IsValidUtf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

class CompletionsEncoder final : public ReplyEncoder {
 public:
  using ReplyEncoder::ReplyEncoder;

  void OnStart(const form::PromptUsage&, std::string& out) override {
    if (options_.echo.empty()) return;
    const size_t num_answers = choices_.size() / options_.echo.size();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const DeltaEvent echo = {.text = options_.echo[i / num_answers],
                               .choice = static_cast<int>(i)};
      OnDelta(echo, out);
    }
  }

  void OnDelta(const DeltaEvent& event, std::string& out) override {
    Keep(event);
    if (!options_.stream) return;
    if (!event.text.empty() || !event.tokens.empty()) WriteChunk(event, nullptr, out);
    if (event.finish) WriteChunk({.choice = event.choice, .finish = event.finish}, nullptr, out);
  }

  void OnFinish(const form::FinishEvent& event, std::string& out) override {
    if (options_.stream && event.error) {
      AppendSseEvent(form::EncodeError(*event.error), out);
      return;
    }
    const std::vector<int> ended = EndOpenChoices(event.reason);
    if (!options_.stream) {
      WriteBody(event, out);
      return;
    }
    for (const int choice : ended) {
      const bool last = choice == ended.back();
      WriteChunk({.choice = choice, .finish = event.reason}, last ? &event.stats : nullptr, out);
    }
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

  void WriteExplainIf(bool wanted, const form::CompletionStats* stats, JsonWriter& json) const {
    if (!wanted || stats == nullptr) return;
    json.Key("kvgate");
    WriteExplain(*stats, options_.request_id, json);
  }

  void WriteChoice(const DeltaEvent& event, JsonWriter& json) {
    json.BeginObject().Key("index").Integer(event.choice);
    json.Key("text").String(event.text).Key("logprobs");
    WriteLogprobs(event.tokens, text_offsets_[static_cast<size_t>(event.choice)], json);
    json.Key("finish_reason");
    event.finish ? json.String(FinishReasonName(*event.finish)) : json.Null();
    json.EndObject();
  }

  void WriteLogprobs(const std::vector<TokenDetail>& tokens, size_t& text_offset,
                     JsonWriter& json) {
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
    // Offsets count the bytes of the answer before each token.
    json.EndArray().Key("text_offset").BeginArray();
    for (const TokenDetail& detail : tokens) {
      json.Unsigned(text_offset);
      text_offset += detail.token.bytes.size();
    }
    json.EndArray().EndObject();
  }

  // The dialect uses texts as keys, so only the most likely of tokens with equal text is written.
  static void WriteTop(const std::vector<form::TokenLogprob>& top, JsonWriter& json) {
    std::vector<std::string> written;
    json.BeginObject();
    for (const form::TokenLogprob& token : top) {
      std::string text = TokenText(token.bytes);
      if (std::find(written.begin(), written.end(), text) != written.end()) continue;
      json.Key(text).Number(token.logprob);
      written.push_back(std::move(text));
    }
    json.EndObject();
  }

  // `stats` is set only for the last chunk, which carries the kvgate object.
  void WriteChunk(const DeltaEvent& event, const form::CompletionStats* stats, std::string& out) {
    std::string chunk;
    JsonWriter json(chunk);
    WriteHead(json);
    WriteChoice(event, json);
    json.EndArray();
    if (options_.include_usage) json.Key("usage").Null();
    WriteExplainIf(options_.explain && !options_.include_usage, stats, json);
    json.EndObject();
    AppendSseEvent(chunk, out);
  }

  void WriteUsageChunk(const form::FinishEvent& event, std::string& out) const {
    std::string chunk;
    JsonWriter json(chunk);
    WriteHead(json);
    json.EndArray().Key("usage");
    WriteUsage(event.stats, json);
    WriteExplainIf(options_.explain, &event.stats, json);
    json.EndObject();
    AppendSseEvent(chunk, out);
  }

  void WriteBody(const form::FinishEvent& event, std::string& out) {
    JsonWriter json(out);
    WriteHead(json);
    for (const ReplyChoice& choice : choices_) {
      WriteChoice({.text = choice.Text(form::DeltaKind::kText),
                   .tokens = choice.tokens(),
                   .choice = choice.index(),
                   .finish = choice.finish()},
                  json);
    }
    json.EndArray().Key("usage");
    WriteUsage(event.stats, json);
    WriteExplainIf(options_.explain, &event.stats, json);
    json.EndObject();
  }

  std::vector<size_t> text_offsets_ = std::vector<size_t>(choices_.size());
};

}  // namespace

Result<form::CompletionRequest> DecodeCompletions(std::string_view body,
                                                  const form::DecodeLimits& limits) {
  static const std::vector<form::FieldSpec> fields = form::WithCommonFields(kOwnFields);
  simdjson::dom::parser parser;
  KVGATE_TRY(const form::JsonObject object, form::ParseBody(body, limits, parser));
  DecodeState state{.limits = limits};
  state.request.dialect = form::Dialect::kCompletions;
  KVGATE_TRY_VOID(form::ReadFields(object, "", fields, state));
  KVGATE_TRY_VOID(form::FinishCommonFields(state));
  if (!state.has_prompt) return form::MissingError("prompt");
  const int num_choices = state.request.num_choices;
  if (state.best_of > 0 && state.best_of != num_choices) {
    return form::UnsupportedError("best_of", "a number of candidates other than n is");
  }
  const auto num_prompts = static_cast<int>(state.request.more_prompts.size()) + 1;
  if (num_choices * num_prompts > limits.choices_max) {
    return RangeError(
        "n", fmt::format("must be at most {} where there are {} prompts: a request "
                         "has at most {} answers",
                         limits.choices_max / num_prompts, num_prompts, limits.choices_max));
  }
  if (state.request.echo && state.request.num_logprobs >= 0) {
    return form::UnsupportedError("echo", "the prompt's own log-probabilities are");
  }
  return std::move(state.request);
}

std::unique_ptr<ReplyEncoder> MakeCompletionsEncoder(ReplyOptions options) {
  return std::make_unique<CompletionsEncoder>(std::move(options));
}

}  // namespace kvgate::dialect::completions
