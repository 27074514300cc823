#include "gateway/dialect/translate/error_translator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::dialect::translate {
namespace {

using form::Dialect;

constexpr size_t kMessageBytesMax = 4096;
constexpr int kOverloaded = 529;

// The names of each error in the dialects. Lookups by status, type or code take the first matching
// row.
struct Row {
  int status;
  std::string_view anthropic;
  std::string_view openai;
  std::string_view code;  // OpenAI's code; empty: none
};
constexpr std::array<Row, 15> kRows = {{
    {400, "invalid_request_error", "invalid_request_error", ""},
    {401, "authentication_error", "authentication_error", "invalid_api_key"},
    {402, "billing_error", "insufficient_quota", "insufficient_quota"},
    {403, "permission_error", "permission_error", ""},
    {404, "not_found_error", "invalid_request_error", "not_found"},
    {404, "not_found_error", "not_found_error", "model_not_found"},
    {413, "request_too_large", "invalid_request_error", "request_too_large"},
    {429, "rate_limit_error", "rate_limit_error", "rate_limit_exceeded"},
    {429, "rate_limit_error", "tokens", ""},
    {429, "rate_limit_error", "requests", ""},
    {500, "api_error", "server_error", ""},
    {500, "api_error", "api_error", ""},
    {503, "overloaded_error", "server_error", "overloaded"},
    {504, "timeout_error", "server_error", "timeout"},
    {529, "overloaded_error", "server_error", "overloaded"},
}};
constexpr std::string_view kContextLength = "context_length_exceeded";
constexpr std::string_view kPromptTooLong = "prompt is too long";
// Other servers use these words for the same error, some of them without OpenAI's code.
constexpr std::string_view kOverflowWords[] = {
    kPromptTooLong, "exceed context limit", "maximum context length", "exceeds the context window",
    "exceeds the available context size"};

const Row& RowOf(int status) {
  for (const Row& row : kRows) {
    if (row.status == status) return row;
  }
  return status >= 500 ? kRows[10] : kRows[0];
}

int StatusOf(const UpstreamError& error) {
  for (const Row& row : kRows) {
    if (!row.code.empty() && row.code == error.code) return row.status;
  }
  if (error.code == "server_error") return 500;
  for (const Row& row : kRows) {
    const bool own = row.anthropic == error.type || row.openai == error.type;
    if (own && row.openai != "server_error") return row.status;
    if (own) return row.anthropic == error.type ? row.status : 500;
  }
  return 500;
}

// Returns a text to show to the client; of an HTML page only the beginning.
std::string Shortened(std::string_view text) {
  std::string kept(text.substr(0, kMessageBytesMax));
  return kept.empty() ? "The upstream answered with an error and no text." : kept;
}

bool IsContextLength(const UpstreamError& error) {
  if (error.code == kContextLength) return true;
  const auto says = [&](std::string_view words) {
    return error.message.find(words) != std::string::npos;
  };
  return (error.status == 400 || error.status == 413) && std::ranges::any_of(kOverflowWords, says);
}

// Returns the number that follows these words.
std::optional<int64_t> NumberBehind(std::string_view text, std::string_view words) {
  const size_t found = text.find(words);
  if (found == std::string_view::npos) return std::nullopt;
  text.remove_prefix(found + words.size());
  int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

// Extracts the prompt's length and its limit from the messages of the known servers.
std::optional<form::ContextOverflow> OverflowOf(std::string_view message) {
  std::optional<int64_t> most = NumberBehind(message, "maximum context length is ");
  std::optional<int64_t> has = NumberBehind(message, "resulted in ");
  if (!has) has = NumberBehind(message, "you requested ");
  if (!most) {
    most = NumberBehind(message, " tokens > ");
    has = NumberBehind(message, "prompt is too long: ");
  }
  if (!most || !has || *has <= *most) return std::nullopt;
  return form::ContextOverflow{.num_tokens = *has, .tokens_max = *most};
}

// Uses the client dialect's wording if the numbers are known. Otherwise it keeps the provider's
// text, preceded by the words that tell Messages clients to compact the conversation.
std::string OverflowMessage(const std::string& message, Dialect to) {
  if (const auto overflow = OverflowOf(message)) {
    return form::ContextLengthMessage(to, *overflow);
  }
  if (to != Dialect::kMessages || message.find(kPromptTooLong) != std::string::npos) return message;
  return std::string(kPromptTooLong) + ": " + message;
}

}  // namespace

UpstreamError ReadError(int status, const RawObject& error) {
  const std::string own = error.String("type");
  const RawJson message = error["message"];
  UpstreamError read{.status = status,
                     .type = own,
                     .message = Shortened(message ? message.String() : ""),
                     .code = error.String("code"),
                     .param = error.String("param")};
  if (status == 0) read.status = StatusOf(read);
  return read;
}

UpstreamError ReadErrorBody(int status, std::string_view body) {
  const Result<RawJson> json = RawJson::Parse(body);
  if (json && json->is_object()) {
    const RawObject object(*json);
    const RawJson error = object["error"];
    if (error.is_object()) return ReadError(status, RawObject(error));
    if (error.is_string()) return {.status = status, .message = Shortened(error.String())};
    if (object["message"]) return ReadError(status, object);
  }
  return {.status = status, .message = Shortened(body)};
}

TranslatedError TranslateError(const UpstreamError& error, Dialect to,
                               std::string_view request_id) {
  const Row& row = RowOf(error.status);
  TranslatedError told{.status = error.status, .body = {}};
  form::JsonWriter json(told.body);
  const bool overflows = IsContextLength(error);
  const std::string message = overflows ? OverflowMessage(error.message, to) : error.message;
  if (to == Dialect::kMessages) {
    json.BeginObject().Key("type").String("error").Key("error").BeginObject();
    json.Key("type").String(row.anthropic).Key("message").String(message).EndObject();
    json.Key("request_id").String(request_id).EndObject();
    return told;
  }
  if (told.status == kOverloaded) told.status = 503;
  if (to == Dialect::kGemini) {
    told.body = form::EncodeGeminiError(told.status, message);
    return told;
  }
  std::string_view code = error.code.empty() ? row.code : std::string_view(error.code);
  if (overflows) code = kContextLength;
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(message).Key("type").String(row.openai).Key("param");
  error.param.empty() ? json.Null() : json.String(error.param);
  json.Key("code");
  code.empty() ? json.Null() : json.String(code);
  json.EndObject().EndObject();
  return told;
}

Error ToError(const UpstreamError& error) {
  ErrorCode code = ErrorCode::kUnavailable;
  if (error.status == 429) code = ErrorCode::kRateLimited;
  if (error.status == 503 || error.status == kOverloaded) code = ErrorCode::kOverloaded;
  if (error.status == 504) code = ErrorCode::kDeadline;
  if (error.status >= 400 && error.status < 429) code = ErrorCode::kInvalidArgument;
  return MakeError(code, "upstream", error.message, error.param);
}

}  // namespace kvgate::dialect::translate
