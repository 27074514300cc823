// Checks of a request's head that HTTP demands beyond what the parser does (RFC 9112, 3 and 6).
// They leave one reading of where the message ends and which host it is for, so that no proxy or
// upstream can read it differently (request smuggling).
#pragma once

#include <boost/beast/core/string_type.hpp>
#include <boost/beast/http/message.hpp>
#include <optional>
#include <string_view>

#include "gateway/proxy/request/response.h"

namespace kvgate::http::message {

// Converts Beast's view of a text to the standard's.
inline std::string_view ToView(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// Returns the refusal, or nullopt if the head is valid. After a refusal the connection must be
// closed, because the bytes that follow may be a body.
//   400 more than one Content-Length, or one that is no number; a Transfer-Encoding beside one, in
//       HTTP/1.0, or not ending in chunked; more than one Host, or an invalid one; a target that is
//       neither a path nor a URL of the same host, has a fragment, or contains "." or "..".
//   417 an expectation other than 100-continue.
//   501 a transfer coding other than chunked; CONNECT; TRACE, which would show an upstream's
//       credential.
std::optional<proxy::request::Response> CheckMessage(
    const boost::beast::http::request_header<>& head);

// Returns 426 for a request for a WebSocket under /v1, which no route here speaks. Clients that try
// a WebSocket first then fall back to HTTP, whereas they would retry after other errors.
std::optional<proxy::request::Response> CheckUpgrade(
    const boost::beast::http::request_header<>& head);

}  // namespace kvgate::http::message
