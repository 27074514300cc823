#include "gateway/http/message/response.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iterator>

#include "gateway/protocol/form/errors.h"
#include "gateway/protocol/form/json_writer.h"

namespace kvgate::http::message {
namespace {

void AppendCommon(int status, const HeadOptions& options, std::string& head) {
  fmt::format_to(std::back_inserter(head), "HTTP/1.{} {} {}\r\n", options.http_1_0 ? 0 : 1, status,
                 ReasonPhrase(status));
  fmt::format_to(std::back_inserter(head),
                 "server: kvgate\r\ndate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n",
                 fmt::gmtime(std::time(nullptr)));
  fmt::format_to(std::back_inserter(head), "x-kvgate-request-id: {}\r\n", options.request_id);
  if (!options.dialect_id_name.empty()) {
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", options.dialect_id_name,
                   options.request_id);
  }
  if (!options.left_out.empty()) {
    fmt::format_to(std::back_inserter(head), "x-kvgate-left-out: {}\r\n", options.left_out);
  }
  if (!options.keep_alive) {
    head += "connection: close\r\n";
  } else if (options.http_1_0) {
    head += "connection: keep-alive\r\n";
  }
}

}  // namespace

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 409:
      return "Conflict";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

Response ErrorResponse(const Error& error) {
  // A cancelled request whose client is still there was cancelled by the server's own shutdown.
  const int status = error.code == ErrorCode::kCancelled ? 503 : protocol::form::HttpStatus(error);
  Response response{.status = status,
                    .body = protocol::form::EncodeError(error),
                    .error_message = protocol::form::PublicMessage(error),
                    .error_details = protocol::form::MessagesErrorDetails(error)};
  // 429 and 503 are temporary; if the error does not say when to retry, a second is suggested.
  const int pause = error.retry_after_seconds > 0    ? error.retry_after_seconds
                    : status == 429 || status == 503 ? 1
                                                     : 0;
  if (pause > 0) response.headers.emplace_back("retry-after", fmt::format("{}", pause));
  return response;
}

Response StatusResponse(int status, std::string_view message) {
  std::string body = R"({"error":{"message":)";
  protocol::form::AppendJsonString(message, body);
  body += status >= 500 ? R"(,"type":"server_error")" : R"(,"type":"invalid_request_error")";
  body += R"(,"param":null,"code":null}})";
  return {.status = status, .body = std::move(body), .error_message = std::string(message)};
}

void ToMessagesError(std::string_view request_id, Response& response) {
  if (response.error_message.empty()) return;
  response.body = protocol::form::EncodeMessagesError({.status = response.status,
                                                       .message = response.error_message,
                                                       .request_id = request_id,
                                                       .details = response.error_details});
}

std::string ResponseHead(const Response& response, const HeadOptions& options) {
  std::string head;
  AppendCommon(response.status, options, head);
  fmt::format_to(std::back_inserter(head), "content-type: {}\r\ncontent-length: {}\r\n",
                 response.content_type, response.body.size());
  for (const auto& [name, value] : response.headers) {
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  }
  head += "\r\n";
  return head;
}

std::string StreamHead(const HeadOptions& options) {
  std::string head;
  AppendCommon(200, options, head);
  head +=
      "content-type: text/event-stream; charset=utf-8\r\n"
      "cache-control: no-cache\r\n"
      "x-accel-buffering: no\r\n";
  if (!options.http_1_0) head += "transfer-encoding: chunked\r\n";
  head += "\r\n";
  return head;
}

std::string DownloadHead(const HeadOptions& options, std::string_view file_name) {
  std::string head;
  AppendCommon(200, options, head);
  fmt::format_to(std::back_inserter(head),
                 "content-type: application/octet-stream\r\n"
                 "content-disposition: attachment; filename=\"{}\"\r\n",
                 file_name);
  if (!options.http_1_0) head += "transfer-encoding: chunked\r\n";
  head += "\r\n";
  return head;
}

std::string Chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace kvgate::http::message
