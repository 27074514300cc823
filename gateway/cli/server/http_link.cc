#include "gateway/cli/server/http_link.h"

#include <fmt/format.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "gateway/http/socket/listener_tls.h"

namespace kvgate::cli::server {
namespace {

constexpr int kPollMilliseconds = 100;

Error Failed(std::string why) { return MakeError(ErrorCode::kUnavailable, "cli", std::move(why)); }

// OpenSSL writes to a socket without MSG_NOSIGNAL. While this object lives, a closed connection is
// an error for this thread and not a SIGPIPE. Commands still die of a closed output pipe.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec now{};
    while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace

Result<std::unique_ptr<HttpLink>> HttpLink::Connect(const Target& target) {
  std::unique_ptr<HttpLink> link(new HttpLink);
  KVGATE_TRY_VOID(link->ConnectTcp(target));
  if (target.tls) KVGATE_TRY_VOID(link->StartTls(target));
  return link;
}

HttpLink::~HttpLink() {
  SSL_free(tls_);
  SSL_CTX_free(context_);
  if (fd_ >= 0) ::close(fd_);
}

Result<void> HttpLink::ConnectTcp(const Target& target) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found);
      code != 0) {
    return Failed(::gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  int problem = 0;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    fd_ = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (::connect(fd_, at->ai_addr, at->ai_addrlen) == 0) return {};
    problem = errno;
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  return Failed(std::generic_category().message(problem));
}

Result<void> HttpLink::StartTls(const Target& target) {
  const NoPipeSignal guard;
  context_ = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
  SSL_CTX_set_default_verify_paths(context_);
  // A read that gets only a session ticket returns, so that a wait can be ended.
  SSL_CTX_clear_mode(context_, SSL_MODE_AUTO_RETRY);
  tls_ = SSL_new(context_);
  SSL_set_fd(tls_, fd_);
  if (target.certificate_sha256.empty()) {
    SSL_set_verify(tls_, SSL_VERIFY_PEER, nullptr);
    X509_VERIFY_PARAM* checks = SSL_get0_param(tls_);
    if (X509_VERIFY_PARAM_set1_ip_asc(checks, target.host.c_str()) != 1) {
      SSL_set1_host(tls_, target.host.c_str());
      SSL_set_tlsext_host_name(tls_, target.host.c_str());
    }
  }
  ERR_clear_error();
  if (SSL_connect(tls_) != 1) {
    const long verdict = SSL_get_verify_result(tls_);
    if (verdict != X509_V_OK) {
      return Failed(
          fmt::format("its certificate is not trusted ({}); SSL_CERT_FILE may name one that is",
                      X509_verify_cert_error_string(verdict)));
    }
    const char* reason = ERR_reason_error_string(ERR_get_error());
    return Failed(fmt::format("the TLS handshake failed ({})",
                              reason == nullptr ? "it closed the connection" : reason));
  }
  KVGATE_TRY_VOID(Verify(target));
  const timeval wait{.tv_sec = 0, .tv_usec = kPollMilliseconds * 1000};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  return {};
}

Result<void> HttpLink::Verify(const Target& target) {
  if (target.certificate_sha256.empty()) return {};
  const std::unique_ptr<X509, decltype(&::X509_free)> shown(SSL_get1_peer_certificate(tls_),
                                                            &::X509_free);
  if (shown && http::socket::CertificateSha256(shown.get()) == target.certificate_sha256) return {};
  return Failed("it shows another certificate than the server that holds the data directory");
}

bool HttpLink::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    if (tls_ != nullptr) {
      const NoPipeSignal guard;
      const int sent =
          SSL_write(tls_, bytes.data(), static_cast<int>(std::min(bytes.size(), size_t{1} << 20)));
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::optional<size_t> HttpLink::Receive(std::span<char> into) {
  if (tls_ != nullptr) {
    const NoPipeSignal guard;
    ERR_clear_error();
    const int size = SSL_read(tls_, into.data(), static_cast<int>(into.size()));
    if (size > 0) return static_cast<size_t>(size);
    const bool again = SSL_get_error(tls_, size) == SSL_ERROR_WANT_READ;
    return again ? std::nullopt : std::optional<size_t>(0);
  }
  pollfd state{.fd = fd_, .events = POLLIN, .revents = 0};
  if (::poll(&state, 1, kPollMilliseconds) <= 0) return std::nullopt;
  const ssize_t size = ::recv(fd_, into.data(), into.size(), 0);
  if (size < 0 && errno == EINTR) return std::nullopt;
  return static_cast<size_t>(size < 0 ? 0 : size);
}

}  // namespace kvgate::cli::server
