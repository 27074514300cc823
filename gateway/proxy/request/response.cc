#include "gateway/proxy/request/response.h"

#include <fmt/format.h>

#include "base/log.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::proxy::request {
namespace {

// OpenAI's SDK for JavaScript sleeps as long as it is told, a day too, unless it is told not to try
// again; then its caller gets the refusal at once. Seconds that a caller may be kept waiting.
constexpr int kPauseOfSdksMax = 60;

}  // namespace

Response ErrorResponse(const Error& error) {
  // A cancelled request whose client is still there was cancelled by the server's own shutdown.
  const int status = error.code == ErrorCode::kCancelled ? 503 : dialect::form::HttpStatus(error);
  Response response{.status = status,
                    .body = dialect::form::EncodeError(error),
                    .error_message = dialect::form::PublicMessage(error),
                    .error_details = dialect::form::MessagesErrorDetails(error)};
  response.reason = ErrorCodeName(error.code);
  // 429 and 503 are temporary; if the error does not say when to retry, a second is suggested.
  const int pause = error.retry_after_seconds > 0    ? error.retry_after_seconds
                    : status == 429 || status == 503 ? 1
                                                     : 0;
  if (pause > 0) response.headers.emplace_back("retry-after", fmt::format("{}", pause));
  if (pause > kPauseOfSdksMax) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

Response EncodingResponse(std::string_view encoding, uint64_t body_bytes_max) {
  return StatusResponse(
      415, fmt::format("The body cannot be read in its Content-Encoding '{}', or is larger than {} "
                       "bytes without it; gzip, zstd and br are understood.",
                       encoding, body_bytes_max));
}

Response StatusResponse(int status, std::string_view message) {
  std::string body = R"({"error":{"message":)";
  dialect::form::AppendJsonString(message, body);
  body += status >= 500 ? R"(,"type":"server_error")" : R"(,"type":"invalid_request_error")";
  body += R"(,"param":null,"code":null}})";
  return {.status = status,
          .body = std::move(body),
          .error_message = std::string(message),
          .reason = fmt::format("http_{}", status)};
}

void LogRefusal(std::string_view request_id, std::string_view route, std::string_view key,
                const Response& response) {
  if (response.status < 400 || response.reason.empty()) return;
  KVGATE_LOG(kInfo, "proxy", "request {} refused: {} {}, route {}, key {}", request_id,
             response.status, response.reason, route.empty() ? "unknown" : route,
             key.empty() ? "none" : key);
}

void ToErrorOf(dialect::form::Api api, std::string_view request_id, Response& response) {
  using dialect::form::Api;
  if (response.error_message.empty() || api == Api::kOpenAi) return;
  if (api == Api::kGemini) {
    response.body = dialect::form::EncodeGeminiError(response.status, response.error_message);
    return;
  }
  response.body = dialect::form::EncodeMessagesError({.status = response.status,
                                                      .message = response.error_message,
                                                      .request_id = request_id,
                                                      .details = response.error_details});
}

}  // namespace kvgate::proxy::request
