// Rules for which headers are forwarded, and the encoding of the forwarded heads. End-to-end
// headers keep their order and spelling; those that belong to one connection are dropped (RFC 9110,
// 7.6.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect/form/dialect.h"

namespace kvgate::upstream::wire {

struct HeaderField {
  std::string_view name;
  std::string_view value;
};
using HeaderFields = std::vector<HeaderField>;

// Header names compare without case. The size is compared first, because most names differ in it.
bool SameBytes(std::string_view a, std::string_view b);  // REQUIRES: equal sizes
inline bool SameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && SameBytes(a, b);
}
// Returns the value of the first field of that name; empty if there is none.
std::string_view FindHeader(const HeaderFields& fields, std::string_view name);
// True if a header of this name always belongs to one connection.
bool IsHopByHop(std::string_view name);

// True if a caller's credential for a provider may stand in a header of this name.
bool IsCredential(std::string_view name);
// The header in which a server of that API takes a credential.
std::string_view CredentialHeader(dialect::form::Api api);

struct RequestHeadArgs {
  std::string_view method;
  std::string_view target;  // as written in the request line
  std::string_view host;    // with the port if it is not the scheme's default
  const HeaderFields& fields;
  uint64_t body_bytes = 0;
  HeaderFields added = {};            // appended after `fields`
  bool drop_encoding = false;         // the body goes out without its original content-encoding
  bool drop_accept_encoding = false;  // the answer will be parsed
  // Replaces the caller's credential, in the header that the dialect uses; empty: the caller's is
  // passed on.
  std::string_view api_key = {};
  dialect::form::Api dialect = dialect::form::Api::kOpenAi;
  // The caller's credential is this gateway's own key, which must not be sent out.
  bool drop_credential = false;
};
// Builds the request line, headers and the empty line. Besides hop-by-hop headers it drops Expect
// (answered by the gateway) and x-kvgate-*.
std::string RequestHead(const RequestHeadArgs& args);

struct ResponseHeadArgs {
  int status = 0;
  std::string_view reason;
  const HeaderFields& fields;
  std::string_view request_id;       // the gateway's own
  std::string_view compaction = {};  // of the request's session; empty: it has none
  std::string_view prompt = {};      // the gateway's, NAME@VERSION; empty: none
  bool keep_alive = true;
  bool http_1_0 = false;
  bool chunked = false;  // the body follows in chunks
};
// Builds the status line, headers and the empty line. A length that appears several times is
// written once, and not at all with a 204.
std::string ForwardedHead(const ResponseHeadArgs& args);

// Puts "/v1/chat/completions?a=b" under a base path. For openai the "/v1" is dropped, since the
// base URL contains it, and for gemini the "/v1beta" if it does.
std::string UpstreamTarget(std::string_view base_path, dialect::form::Api dialect,
                           std::string_view target);

}  // namespace kvgate::upstream::wire
