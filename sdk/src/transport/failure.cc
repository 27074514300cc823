#include "sdk/src/transport/failure.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kvgate::sdk::transport {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kContextCode = "context_length_exceeded";
// How much of an answer that is no JSON is shown.
constexpr size_t kShownBytesMax = 300;

kvgate_status StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kDataLoss:  // of a file that was named
      return KVGATE_INVALID_ARGUMENT;
    case ErrorCode::kUnauthenticated:
      return KVGATE_UNAUTHENTICATED;
    case ErrorCode::kPermissionDenied:
      return KVGATE_PERMISSION_DENIED;
    case ErrorCode::kNotFound:
      return KVGATE_NOT_FOUND;
    case ErrorCode::kTooLarge:
      return KVGATE_TOO_LARGE;
    case ErrorCode::kRateLimited:
      return KVGATE_RATE_LIMITED;
    case ErrorCode::kOverloaded:
      return KVGATE_OVERLOADED;
    case ErrorCode::kUnavailable:
    case ErrorCode::kIo:
      return KVGATE_UNAVAILABLE;
    case ErrorCode::kDeadline:
      return KVGATE_DEADLINE_EXCEEDED;
    case ErrorCode::kCancelled:
      return KVGATE_CANCELLED;
    case ErrorCode::kInternal:
      break;
  }
  return KVGATE_INTERNAL;
}

kvgate_status StatusOf(int http_status) {
  switch (http_status) {
    case 401:
      return KVGATE_UNAUTHENTICATED;
    case 403:
      return KVGATE_PERMISSION_DENIED;
    case 404:
      return KVGATE_NOT_FOUND;
    case 409:
      return KVGATE_CONFLICT;
    case 413:
      return KVGATE_TOO_LARGE;
    case 429:
      return KVGATE_RATE_LIMITED;
    case 499:
      return KVGATE_CANCELLED;
    case 502:
      return KVGATE_UNAVAILABLE;
    case 503:
    case 529:
      return KVGATE_OVERLOADED;
    case 504:
      return KVGATE_DEADLINE_EXCEEDED;
    default:
      break;
  }
  return http_status < 500 ? KVGATE_INVALID_ARGUMENT : KVGATE_INTERNAL;
}

// The status of an error that came without one: its code or type says it.
kvgate_status StatusOf(std::string_view word) {
  static constexpr struct {
    std::string_view word;
    kvgate_status status;
  } kWords[] = {{"invalid_request_error", KVGATE_INVALID_ARGUMENT},
                {"authentication_error", KVGATE_UNAUTHENTICATED},
                {"permission_error", KVGATE_PERMISSION_DENIED},
                {"not_found_error", KVGATE_NOT_FOUND},
                {"not_found", KVGATE_NOT_FOUND},
                {"model_not_found", KVGATE_NOT_FOUND},
                {"request_too_large", KVGATE_TOO_LARGE},
                {"rate_limit_error", KVGATE_RATE_LIMITED},
                {"rate_limit_exceeded", KVGATE_RATE_LIMITED},
                {"overloaded_error", KVGATE_OVERLOADED},
                {"overloaded", KVGATE_OVERLOADED},
                {"unavailable", KVGATE_UNAVAILABLE},
                {"timeout_error", KVGATE_DEADLINE_EXCEEDED}};
  for (const auto& row : kWords) {
    if (row.word == word) return row.status;
  }
  return KVGATE_INTERNAL;
}

std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// What both forms of an error body say; false if it is neither.
bool ReadError(std::string_view body, Failure& failure, std::string& type) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return false;
  const auto error = json.find("error");
  if (error == json.end()) return false;
  if (error->is_string()) {
    failure.message = error->get<std::string>();
    return true;
  }
  if (!error->is_object()) return false;
  failure.message = TextOf(*error, "message");
  failure.field = TextOf(*error, "param");
  failure.code = TextOf(*error, "code");
  type = TextOf(*error, "type");
  return true;
}

void Specialize(Failure& failure) {
  if (failure.code == kContextCode) failure.status = KVGATE_CONTEXT_EXCEEDED;
  if (failure.code == "unavailable") failure.status = KVGATE_UNAVAILABLE;
}

}  // namespace

Failure ToFailure(const Error& error) {
  return {.status = StatusOf(error.code),
          .message = error.ToString(),
          .field = error.field,
          .retry_after_ms = static_cast<uint32_t>(error.retry_after_seconds) * 1000};
}

Failure ToFailure(int http_status, std::string_view body) {
  Failure failure{.status = StatusOf(http_status), .message = {}, .http_status = http_status};
  std::string type;
  if (!ReadError(body, failure, type)) {
    failure.message = fmt::format("the answer has the status {}: {}", http_status,
                                  body.substr(0, kShownBytesMax));
  }
  Specialize(failure);
  return failure;
}

Failure StreamFailure(std::string_view event) {
  Failure failure;
  std::string type;
  if (!ReadError(event, failure, type)) failure.message = "the stream ended with an error";
  failure.status = StatusOf(std::string_view(type));
  if (const kvgate_status by_code = StatusOf(std::string_view(failure.code));
      by_code != KVGATE_INTERNAL) {
    failure.status = by_code;
  }
  Specialize(failure);
  return failure;
}

}  // namespace kvgate::sdk::transport
