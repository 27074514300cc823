// HttpClient: one blocking request to a kvgate server, for the command line. Data is handed on as
// it comes, and a flag can end the wait: what `chat` and `cache` need, nothing more.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <kvgate/result.h>

namespace kvgate::cli {

struct HttpRequest {
  std::string method = "GET";
  std::string url;        // "http://127.0.0.1:8080/v1/models", or https
  std::string body = {};  // sent as application/json
  // In its place: a file, sent as application/octet-stream, piece by piece.
  std::filesystem::path body_file = {};
  // Of a server found by its data directory, see ServerAddress; empty: by its name.
  std::string certificate_sha256 = {};
  std::string authorization = {};  // the header's value, where it is not empty
  std::string api_key = {};        // of x-api-key; likewise
  std::string admin_token = {};    // of a server found by its data directory; likewise
  // Called after each piece of body_file with what has been sent of it.
  std::function<void(uint64_t done, uint64_t total)> on_sent = {};
  // Called with each piece of a body whose status is 200; by default pieces are collected.
  std::function<void(std::string_view)> on_data = {};
  // Looked at ten times a second; when set the request ends with kCancelled.
  const std::atomic<bool>* stop = nullptr;
};

struct HttpReply {
  int status = 0;
  std::string body;
};

// kUnavailable: no server there, or it went away; kInvalidArgument: not such a URL; kIo: body_file.
Result<HttpReply> FetchHttp(const HttpRequest& request);

// The same where anything but 200 is an error, whose detail is the server's own message.
Result<std::string> FetchOk(const HttpRequest& request);

}  // namespace kvgate::cli
