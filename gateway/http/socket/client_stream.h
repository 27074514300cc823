// ClientStream: the bytes of one client connection, plain or TLS, as a stream that Asio's composed
// operations take. Used on its own thread.
//
// A client that has left is detected on the TCP socket, which TLS does not change. On closing,
// TLS's close_notify is sent, but the client's is not waited for.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "gateway/http/socket/client_socket.h"
#include "gateway/http/socket/listener_tls.h"
#include "gateway/http/socket/task.h"

namespace kvgate::http::socket {

class ClientStream {
 public:
  using Lower = ClientSocket;
  using executor_type = Lower::executor_type;
  using Clock = std::chrono::steady_clock;

  explicit ClientStream(boost::asio::ip::tcp::socket socket) : lower_(std::move(socket)) {}

  executor_type get_executor() { return lower_.get_executor(); }
  boost::asio::ip::tcp::socket& socket() { return lower_.socket(); }
  // The socket below TLS; it carries the bytes as they are on the wire.
  Lower& lower() { return lower_; }

  // Bounds every operation that waits from now on; the connection is closed when the time is over.
  void ExpireAfter(std::chrono::milliseconds time) { lower_.ExpireAfter(time); }
  void ExpireAt(Clock::time_point time) { lower_.ExpireAt(time); }
  void ExpireNever() { lower_.ExpireNever(); }
  // Pending operations end with an error.
  void Cancel() { lower_.Cancel(); }
  void Close() { lower_.Close(); }

  // Performs the server's side of a handshake whose first bytes have already been read. Afterwards
  // all reads and writes go through TLS.
  Task<boost::system::error_code> Handshake(const ListenerTls& tls,
                                            boost::asio::const_buffer first_bytes);
  // Ends the sending side in a way that a client can tell from a truncated connection.
  Task<void> EndSending();
  // Sends a few bytes without waiting. REQUIRES: nobody else is writing and the socket has room.
  // `text` and `owner` must live until the bytes are sent. Returns false if they cannot be sent.
  bool SendNow(std::string_view text, std::shared_ptr<void> owner);
  // Makes the close a TCP reset, so that the client does not take a truncated answer for a complete
  // one.
  void ResetAtEnd();

  // See upstream::wire::WriteAll.
  size_t TryWrite(const upstream::wire::WriteBuffers& buffers) {
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

}  // namespace kvgate::http::socket
