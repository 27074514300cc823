// ListenerTls: the certificate, the private key and the handshake rules that the listener uses with
// clients that speak TLS. It allows TLS 1.2 and newer, forward secrecy, authenticated ciphers and
// http/1.1 by ALPN. Sessions resume by tickets, whose key lives as long as this object; there is no
// renegotiation, compression or early data.
//
// The files are read once, by Open. Thread-safe. It uses OpenSSL, in its source only, and no Boost.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

struct ssl_ctx_st;
struct x509_st;

namespace kvgate::http::socket {

// The SHA-256 of the certificate's DER form, in hex.
std::string CertificateSha256(const x509_st* certificate);

class ListenerTls {
 public:
  struct Options {
    std::string cert_file;            // PEM: the certificate, then its chain; empty: no TLS
    std::string key_file;             // PEM, not encrypted
    std::string min_version = "1.2";  // or "1.3"
  };
  // Returns null if neither file is named. Fails with kInvalidArgument, naming the configuration
  // key, if only one file is named or a file is unreadable, is no certificate or key, does not
  // match the other, has expired or is not valid yet.
  static Result<std::unique_ptr<ListenerTls>> Open(const Options& options);

  // Each connection makes its own SSL object from this context.
  ssl_ctx_st* context() const { return context_.get(); }
  // The certificate's SHA-256 in hex. A client that finds this server by something other than a
  // name that a certificate can hold recognizes the server by it.
  const std::string& certificate_sha256() const { return certificate_sha256_; }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  explicit ListenerTls(ssl_ctx_st* context) : context_(context) {}
  Result<void> SetRules(const Options& options);
  Result<void> LoadCertificate(const Options& options);
  Result<void> LoadKey(const Options& options);

  std::unique_ptr<ssl_ctx_st, Free> context_;
  std::string certificate_sha256_;
};

}  // namespace kvgate::http::socket
