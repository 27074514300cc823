#include "gateway/http/message/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iterator>

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
  if (!options.compaction.empty()) {
    fmt::format_to(std::back_inserter(head), "x-kvgate-compaction: {}\r\n", options.compaction);
  }
  if (!options.prompt.empty()) {
    fmt::format_to(std::back_inserter(head), "x-kvgate-prompt: {}\r\n", options.prompt);
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
    case 304:
      return "Not Modified";
    case 308:
      return "Permanent Redirect";
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

std::string ResponseHead(const proxy::request::Response& response, const HeadOptions& options) {
  std::string head;
  AppendCommon(response.status, options, head);
  // A 304 has no body, and a length in its head would be that of the body which it leaves out.
  if (response.status != 304) {
    fmt::format_to(std::back_inserter(head), "content-type: {}\r\ncontent-length: {}\r\n",
                   response.content_type, response.body.size());
  }
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
