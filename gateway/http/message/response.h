// A response as data, and its bytes on the wire.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::http {

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string error_message = {};  // of an error: what its body says, for another dialect's body
  std::string error_details = {};  // … and what that tells beside it, as JSON
};

// An error in the OpenAI form, with its status; with retry-after where trying again may help.
Response ErrorResponse(const Error& error);
// The same where HTTP itself is the matter and no ErrorCode has the status: 405, 415, 421, 431.
Response StatusResponse(int status, std::string_view message);
// Puts an error into the Messages form; leaves other responses alone.
void ToMessagesError(std::string_view request_id, Response& response);

struct HeadOptions {
  std::string_view request_id;
  std::string_view dialect_id_name = {};  // the dialect's own header for it; empty: none
  bool keep_alive = true;
  bool http_1_0 = false;
  std::string_view left_out = {};  // what of the request nobody looked at: x-kvgate-left-out
};

// An interim answer: every HTTP/1.1 client skips those that it did not wait for.
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Status line and headers of a whole response, content-length included, up to the empty line.
std::string ResponseHead(const Response& response, const HeadOptions& options);
// The same for a stream of server-sent events: chunked, or until close for HTTP/1.0.
std::string StreamHead(const HeadOptions& options);
// The same for bytes of a length that is not known yet, to be kept as a file of that name.
std::string DownloadHead(const HeadOptions& options, std::string_view file_name);
// One chunk of a chunked body; the empty one ends it.
std::string Chunk(std::string_view data);

// "Not Found"
std::string_view ReasonPhrase(int status);

}  // namespace kvgate::http
