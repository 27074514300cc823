// HttpLink: one blocking connection from a command to a server, plain or TLS, for raw bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct ssl_st;
struct ssl_ctx_st;

namespace kvgate::cli::server {

class HttpLink {
 public:
  struct Target {
    bool tls = false;
    std::string host;  // without brackets
    std::string port;
    // SHA-256 of the certificate that the server must present, in hex. Empty: the certificate must
    // name the host and be trusted by this machine's roots or $SSL_CERT_FILE's.
    std::string certificate_sha256 = {};
  };
  // Fails with kUnavailable if no server listens or its certificate is invalid; the detail is the
  // reason.
  static Result<std::unique_ptr<HttpLink>> Connect(const Target& target);
  ~HttpLink();
  HttpLink(const HttpLink&) = delete;
  HttpLink& operator=(const HttpLink&) = delete;

  // Sends all bytes. Returns false if the server has closed the connection.
  bool Send(std::string_view bytes);
  // Returns the number of bytes received, at most into.size(); 0 at the end of the stream; nullopt
  // if none arrived within a tenth of a second.
  std::optional<size_t> Receive(std::span<char> into);

 private:
  HttpLink() = default;
  Result<void> ConnectTcp(const Target& target);
  Result<void> StartTls(const Target& target);
  Result<void> Verify(const Target& target);

  int fd_ = -1;
  ssl_ctx_st* context_ = nullptr;
  ssl_st* tls_ = nullptr;  // null: plain
};

}  // namespace kvgate::cli::server
