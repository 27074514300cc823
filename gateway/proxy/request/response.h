// Response: a whole response of the gateway's own, as data. A transport encodes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/dialect.h"

namespace kvgate::proxy::request {

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string error_message = {};  // for errors: the message, to be put into another dialect's body
  std::string error_details = {};  // for errors: further details as JSON
  // For errors of the gateway's own: why, as a word for the log; it holds nothing of the request.
  std::string reason = {};
};

// An error in the OpenAI form with its HTTP status, and retry-after if a retry may succeed.
Response ErrorResponse(const Error& error);
// The same form for HTTP errors whose status no ErrorCode has: 405, 415, 421, 431.
Response StatusResponse(int status, std::string_view message);
// The refusal of a body that the gateway has to read itself and cannot: its encoding is none that
// it understands, or it is larger without it.
Response EncodingResponse(std::string_view encoding, uint64_t body_bytes_max);
// Writes one line of the log about a request that was refused. `key` is the name of the caller's
// key; empty: it has none.
void LogRefusal(std::string_view request_id, std::string_view route, std::string_view key,
                const Response& response);
// Rewrites an error into the form of that API's clients; other responses stay as they are.
void ToErrorOf(dialect::form::Api api, std::string_view request_id, Response& response);

}  // namespace kvgate::proxy::request
