// TlsContext: which certificates TLS connections trust. Each session proves the server's name.
//
// All functions may be called from any thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

// OpenSSL's, as its headers declare them.
struct ssl_ctx_st;
struct ssl_st;

namespace kvgate::store::remote {

class TlsContext {
 public:
  // Trusts the certificates in the file, or the system's if it is empty. Fails with
  // kInvalidArgument if the file cannot be read or holds none.
  static Result<std::unique_ptr<TlsContext>> Make(const std::string& ca_file);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // A session for a client, which accepts a certificate for this name or address only. The caller
  // frees it. Returns null if no certificate could have such a name.
  ssl_st* MakeSession(const std::string& host) const;
  // Why the certificate of the session's server was refused; empty if it was not.
  static std::string Refusal(ssl_st* session);

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

}  // namespace kvgate::store::remote
