// ClientStream: the bytes of one client connection, plain or TLS, as a stream that Asio's composed
// operations take. Used on its own thread.
//
// Whether a client has left shows on the socket below, which TLS leaves alone: only the last
// farewell is TLS's own, and it is sent, not waited for.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "gateway/http/client_socket.h"
#include "gateway/http/socket/listener_tls.h"
#include "gateway/http/socket/task.h"

namespace kvgate::http {

class ClientStream {
 public:
  using Lower = ClientSocket;
  using executor_type = Lower::executor_type;
  using Clock = std::chrono::steady_clock;

  explicit ClientStream(boost::asio::ip::tcp::socket socket) : lower_(std::move(socket)) {}

  executor_type get_executor() { return lower_.get_executor(); }
  boost::asio::ip::tcp::socket& socket() { return lower_.socket(); }
  // Past TLS: bytes as they stand on the wire.
  Lower& lower() { return lower_; }

  // For whatever waits from now on. Ends the connection when it is over.
  void ExpireAfter(std::chrono::milliseconds time) { lower_.ExpireAfter(time); }
  void ExpireAt(Clock::time_point time) { lower_.ExpireAt(time); }
  void ExpireNever() { lower_.ExpireNever(); }
  // Whatever waits ends with an error.
  void Cancel() { lower_.Cancel(); }
  void Close() { lower_.Close(); }

  // The server's side of a handshake, whose first bytes have been read; from then on bytes go
  // through TLS.
  Task<boost::system::error_code> Handshake(const ListenerTls& tls,
                                            boost::asio::const_buffer first_bytes);
  // The end of what is sent, which a client can tell from a cut.
  Task<void> EndSending();
  // Sends a few bytes now, while nobody else writes and the socket has room for them; `text` and
  // `owner` last until they are gone. False: they cannot be sent.
  bool SendNow(std::string_view text, std::shared_ptr<void> owner);
  // Closing will be a reset, so that the client does not take what it has got for all.
  void ResetAtEnd();

  // See upstream::WriteAll.
  size_t TryWrite(const upstream::WriteBuffers& buffers) {
    return tls_ ? 0 : lower_.TryWrite(buffers);
  }
  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return lower_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return lower_.async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  Lower lower_;
  std::optional<boost::asio::ssl::stream<Lower&>> tls_;
  bool ends_well_ = true;
};

}  // namespace kvgate::http
