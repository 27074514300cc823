// What HTTP demands of a request's head beyond what the parser checks (RFC 9112, 3 and 6): one
// reading of where the message ends and whom it is for, so that nobody in front of this server or
// behind it can read it another way.
#pragma once

#include <boost/beast/http/message.hpp>
#include <optional>
#include <string_view>

#include "gateway/http/message/response.h"

namespace kvgate::http {

// The refusal, or nothing. After one the connection must be closed: what follows may be a body.
//   400 more than one Content-Length, or one that is no number; a Transfer-Encoding beside one, in
//       HTTP/1.0, or not ending in chunked; more than one Host, or one that is none; a target that
//       is neither a path nor a URL of the same host, has a fragment, or climbs by "." and "..".
//   417 an expectation other than 100-continue.
//   501 another transfer coding than chunked; CONNECT, and TRACE, which would show an upstream's
//       credential.
std::optional<Response> CheckMessage(const boost::beast::http::request_header<>& head);

// 426 to who asks for a WebSocket under /v1, which no path of ours speaks: clients that try one
// first take that for an answer and go on with HTTP, where they retry anything else.
std::optional<Response> CheckUpgrade(const boost::beast::http::request_header<>& head);

}  // namespace kvgate::http
