// HttpClient: one blocking request to a kvgate server, for the command line. The body is passed on
// as it arrives and a flag can end the wait; it does no more than the commands need.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::cli::server {

struct HttpRequest {
  std::string method = "GET";
  std::string url;        // "http://127.0.0.1:8080/v1/models", or https
  std::string body = {};  // sent as application/json
  // If set, this file is sent instead of `body`, as application/octet-stream, piece by piece.
  std::filesystem::path body_file = {};
  // Pins the certificate of a server found by its data directory (see ServerAddress); empty: it is
  // verified by name.
  std::string certificate_sha256 = {};
  std::string authorization = {};  // the header's value; empty: not sent
  std::string api_key = {};        // x-api-key; empty: not sent
  std::string session = {};        // x-kvgate-session; empty: not sent
  std::string admin_token = {};    // for a server found by its data directory; empty: not sent
  // Called after each piece of body_file with the number of bytes sent so far.
  std::function<void(uint64_t done, uint64_t total)> on_sent = {};
  // Called with each piece of a body whose status is 200; by default pieces are collected in the
  // reply.
  std::function<void(std::string_view)> on_data = {};
  // Checked ten times a second; once it is set the request ends with kCancelled.
  const std::atomic<bool>* stop = nullptr;
};

struct HttpReply {
  int status = 0;
  std::string body;
};

// Fails with kUnavailable if no server answers or it closes the connection, with kInvalidArgument
// for an invalid URL, and with kIo for body_file.
Result<HttpReply> FetchHttp(const HttpRequest& request);

// Like FetchHttp, but any status other than 200 is an error with the server's own message.
Result<std::string> FetchOk(const HttpRequest& request);

}  // namespace kvgate::cli::server
