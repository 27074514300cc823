// Which headers pass, and the bytes of the heads that are written: everything end to end in its
// order and spelling, nothing that belongs to one connection (RFC 9110, 7.6.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/upstream/dialect.h"

namespace kvgate::upstream {

struct HeaderField {
  std::string_view name;
  std::string_view value;
};
using HeaderFields = std::vector<HeaderField>;

// Names compare without case. Most differ in their length.
bool SameBytes(std::string_view a, std::string_view b);  // REQUIRES: of one length
inline bool SameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && SameBytes(a, b);
}
// The first field of that name; empty: none.
std::string_view FindHeader(const HeaderFields& fields, std::string_view name);
// Belongs to one connection by its own name.
bool IsHopByHop(std::string_view name);

struct RequestHeadArgs {
  std::string_view method;
  std::string_view target;  // as it goes into the request line
  std::string_view host;    // with the port where it is not the scheme's
  const HeaderFields& fields;
  uint64_t body_bytes = 0;
  HeaderFields added = {};     // behind them
  bool drop_encoding = false;  // the body goes out without the content-encoding that it came in
  bool drop_accept_encoding = false;  // the answer is to be read
  // Replaces the caller's credential, in the dialect's place; empty: it is passed on.
  std::string_view api_key = {};
  Dialect dialect = Dialect::kOpenAi;
  // The caller's credential is this gateway's own key: it never leaves.
  bool drop_credential = false;
};
// Request line, headers and the empty line. Left out beside hop-by-hop ones: Expect (answered here)
// and x-kvgate-*.
std::string RequestHead(const RequestHeadArgs& args);

struct ResponseHeadArgs {
  int status = 0;
  std::string_view reason;
  const HeaderFields& fields;
  std::string_view request_id;  // ours
  bool keep_alive = true;
  bool http_1_0 = false;
  bool chunked = false;  // the body follows in chunks
};
// A length that was said several times is said once, and not at all with a 204.
// Status line, headers and the empty line.
std::string ForwardedHead(const ResponseHeadArgs& args);

// "/v1/chat/completions?a=b" under a base path: openai's "/v1" is the base URL's own.
std::string UpstreamTarget(std::string_view base_path, Dialect dialect, std::string_view target);

}  // namespace kvgate::upstream
