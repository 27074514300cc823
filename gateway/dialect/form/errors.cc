#include "gateway/dialect/form/errors.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "gateway/dialect/form/json_writer.h"

namespace kvgate::dialect::form {
namespace {

constexpr int kConflict = 409;

std::string_view TypeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUnauthenticated:
      return "authentication_error";
    case ErrorCode::kPermissionDenied:
      return "permission_error";
    case ErrorCode::kRateLimited:
      return "rate_limit_error";
    default:
      return HttpStatus(error) >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string_view MessagesTypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

// Returns the machine-readable code; empty stands for null.
std::string_view CodeOf(const Error& error) {
  if (error.source == kContextLengthSource) return "context_length_exceeded";
  if (error.source == kPreviousResponseSource) return kPreviousResponseSource;
  if (error.source == kLockedSource) return kLockedSource;
  if (error.source == kSessionSource) return kSessionSource;
  switch (error.code) {
    case ErrorCode::kUnsupported:
      return "unsupported_parameter";
    case ErrorCode::kNotFound:
      return error.field == "model" ? "model_not_found" : "not_found";
    case ErrorCode::kUnauthenticated:
      return "invalid_api_key";
    case ErrorCode::kTooLarge:
      return "request_too_large";
    case ErrorCode::kRateLimited:
      return "rate_limit_exceeded";
    case ErrorCode::kOverloaded:
      return "overloaded";
    case ErrorCode::kUnavailable:
      return "unavailable";
    default:
      return "";
  }
}

bool IsInternal(ErrorCode code) {
  return code == ErrorCode::kInternal || code == ErrorCode::kDataLoss || code == ErrorCode::kIo;
}

}  // namespace

int HttpStatus(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kRateLimited:
      return 429;
    case ErrorCode::kOverloaded:
      return 503;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadline:
      return 504;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kDataLoss:
      return 500;
    case ErrorCode::kIo:
      return 500;
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

int HttpStatus(const Error& error) {
  const bool is_conflict = error.source == kLockedSource || error.source == kSessionSource;
  return is_conflict ? kConflict : HttpStatus(error.code);
}

std::string EncodeError(const Error& error) {
  const std::string_view code = CodeOf(error);
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(PublicMessage(error));
  json.Key("type").String(TypeOf(error));
  json.Key("param");
  error.field.empty() ? json.Null() : json.String(error.field);
  json.Key("code");
  code.empty() ? json.Null() : json.String(code);
  json.EndObject().EndObject();
  return out;
}

std::string ContextLengthMessage(Dialect dialect, const ContextOverflow& overflow) {
  const auto [num_tokens, tokens_max] = overflow;
  switch (dialect) {
    case Dialect::kMessages:
      return fmt::format("prompt is too long: {} tokens > {} maximum", num_tokens, tokens_max);
    case Dialect::kResponses:
      return fmt::format(
          "Your input exceeds the context window of this model. Please adjust your "
          "input and try again. (It has {} tokens; at most {} are possible.)",
          num_tokens, tokens_max);
    case Dialect::kGemini:
      return fmt::format(
          "The input token count ({}) exceeds the maximum number of tokens allowed ({}).",
          num_tokens, tokens_max);
    case Dialect::kChatCompletions:
    case Dialect::kCompletions:
      break;
  }
  return fmt::format(
      "This model's maximum context length is {} tokens. However, your {} resulted "
      "in {} tokens. Please reduce the length of the {}.",
      tokens_max, dialect == Dialect::kCompletions ? "prompt" : "messages", num_tokens,
      dialect == Dialect::kCompletions ? "prompt" : "messages");
}

Error ContextLengthError(Dialect dialect, const ContextOverflow& overflow, std::string field) {
  return MakeError(ErrorCode::kInvalidArgument, std::string(kContextLengthSource),
                   ContextLengthMessage(dialect, overflow), std::move(field));
}

Error PromptLimitError(Dialect dialect, const ContextOverflow& overflow) {
  std::string message = fmt::format("This key takes prompts of at most {} tokens; this one has {}.",
                                    overflow.tokens_max, overflow.num_tokens);
  if (dialect == Dialect::kMessages) {
    message = ContextLengthMessage(dialect, overflow) + ". " + message;
  }
  return MakeError(ErrorCode::kInvalidArgument, std::string(kContextLengthSource),
                   std::move(message));
}

std::string PublicMessage(const Error& error) {
  if (!IsInternal(error.code)) return error.detail;
  return "the server failed to answer; its log has the reason under this request's id";
}

std::string MessagesErrorDetails(const Error& error) {
  if (error.source == kThreadSource) {
    return fmt::format(R"({{"error_code":"{}","unsupported":["thread"]}})", kThreadSource);
  }
  if (error.source == kThreadLostSource) {
    return fmt::format(R"({{"error_code":"{}"}})", kThreadLostSource);
  }
  return {};
}

std::string EncodeGeminiError(int status, std::string_view message) {
  static constexpr std::pair<int, std::string_view> kNames[] = {
      {400, "INVALID_ARGUMENT"}, {401, "UNAUTHENTICATED"},   {403, "PERMISSION_DENIED"},
      {404, "NOT_FOUND"},        {405, "UNIMPLEMENTED"},     {409, "ABORTED"},
      {413, "INVALID_ARGUMENT"}, {415, "INVALID_ARGUMENT"},  {429, "RESOURCE_EXHAUSTED"},
      {499, "CANCELLED"},        {500, "INTERNAL"},          {502, "UNAVAILABLE"},
      {503, "UNAVAILABLE"},      {504, "DEADLINE_EXCEEDED"}, {529, "UNAVAILABLE"}};
  std::string_view name = status >= 500 ? "INTERNAL" : "INVALID_ARGUMENT";
  for (const auto& [known, known_name] : kNames) {
    if (known == status) name = known_name;
  }
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("error").BeginObject().Key("code").Integer(status);
  json.Key("message").String(message).Key("status").String(name).EndObject().EndObject();
  return out;
}

std::string EncodeMessagesError(const MessagesError& error) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("type").String("error").Key("error").BeginObject();
  json.Key("type").String(MessagesTypeOf(error.status)).Key("message").String(error.message);
  if (!error.details.empty()) json.Key("details").Raw(error.details);
  json.EndObject().Key("request_id").String(error.request_id).EndObject();
  return out;
}

}  // namespace kvgate::dialect::form
