// The heads of responses, and the framing of their bodies, as HTTP/1 writes them.
#pragma once

#include <string>
#include <string_view>

#include "gateway/proxy/request/response.h"

namespace kvgate::http::message {

struct HeadOptions {
  std::string_view request_id;
  std::string_view dialect_id_name = {};  // the dialect's own request id header; empty: none
  bool keep_alive = true;
  bool http_1_0 = false;
  std::string_view left_out = {};    // ignored parts of the request: x-kvgate-left-out
  std::string_view compaction = {};  // of the request's session: x-kvgate-compaction
  std::string_view prompt = {};      // that it was answered with: x-kvgate-prompt
};

// An interim response; every HTTP/1.1 client skips it even if it did not ask for it.
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Status line and headers of a whole response, content-length included, up to the empty line.
std::string ResponseHead(const proxy::request::Response& response, const HeadOptions& options);
// The head of a stream of server-sent events: chunked, or until close for HTTP/1.0.
std::string StreamHead(const HeadOptions& options);
// The head of a download of unknown length, to be saved under `file_name`.
std::string DownloadHead(const HeadOptions& options, std::string_view file_name);
// One chunk of a chunked body; an empty one ends the body.
std::string Chunk(std::string_view data);

// "Not Found" for 404.
std::string_view ReasonPhrase(int status);

}  // namespace kvgate::http::message
