// ListenerTls: what the listener shows to clients that speak TLS: its certificate, its key, and the
// rules of a handshake. TLS 1.2 and newer, forward secrecy, authenticated ciphers, http/1.1 by
// ALPN; sessions resume by tickets, whose key lives as long as this; no renegotiation, no
// compression, no early data.
//
// Read once, when it is opened. Thread-safe. OpenSSL in its source only, no Boost.
#pragma once

#include <memory>
#include <string>

#include <kvgate/result.h>

struct ssl_ctx_st;
struct x509_st;

namespace kvgate::http {

// In hex.
std::string CertificateSha256(const x509_st* certificate);

class ListenerTls {
 public:
  struct Options {
    std::string cert_file;            // PEM: the certificate, then its chain; empty: no TLS
    std::string key_file;             // PEM, not encrypted
    std::string min_version = "1.2";  // or "1.3"
  };
  // Null where neither file is named. kInvalidArgument, which names the key of the configuration:
  // one without the other, not readable, not a certificate or a key, not belonging together,
  // expired or not valid yet.
  static Result<std::unique_ptr<ListenerTls>> Open(const Options& options);

  // Each connection makes its own SSL of it.
  ssl_ctx_st* context() const { return context_.get(); }
  // SHA-256 of the certificate, in hex: who finds this server otherwise than by a name that a
  // certificate could hold, knows it by this.
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

}  // namespace kvgate::http
