// HttpLink: one blocking connection of a command to a server, plain or TLS: bytes in, bytes out.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <kvgate/result.h>

struct ssl_st;
struct ssl_ctx_st;

namespace kvgate::cli {

class HttpLink {
 public:
  struct Target {
    bool tls = false;
    std::string host;  // without brackets
    std::string port;
    // The certificate to be shown, in hex. Empty: one that this machine's roots vouch for, and
    // $SSL_CERT_FILE's, and that names the host.
    std::string certificate_sha256 = {};
  };
  // kUnavailable: nobody there, or a certificate that does not hold; the detail is the reason.
  static Result<std::unique_ptr<HttpLink>> Connect(const Target& target);
  ~HttpLink();
  HttpLink(const HttpLink&) = delete;
  HttpLink& operator=(const HttpLink&) = delete;

  // All of them; false: the server has ended the connection.
  bool Send(std::string_view bytes);
  // What has come, at most so much; 0: the end. Nothing: not within a tenth of a second.
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

}  // namespace kvgate::cli
