// Channel: one connection to an upstream, plain or TLS, as a stream for Asio's composed operations.
// It is used by one coroutine at a time, always on the executor that it was made with, which
// belongs to one thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <optional>
#include <utility>

#include "gateway/upstream/wire/timer.h"
#include "gateway/upstream/wire/write_all.h"

namespace kvgate::upstream::wire {

class Channel {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;

  explicit Channel(const executor_type& executor) : socket_(executor), pause_(executor) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  executor_type get_executor() { return socket_.get_executor(); }
  Socket& socket() { return socket_; }
  // For waits on something other than the socket; Close ends them too.
  Timer& pause() { return pause_; }

  // From now on bytes go through TLS; the caller performs the handshake.
  boost::asio::ssl::stream<Socket&>& StartTls(boost::asio::ssl::context& context) {
    return tls_.emplace(socket_, context);
  }
  bool secure() const { return tls_.has_value(); }

  // See WriteAll.
  size_t TryWrite(const WriteBuffers& buffers) {
    return tls_ ? 0 : SendNow(socket_.native_handle(), buffers);
  }
  // Pending operations end with an error.
  void Close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
    pause_.cancel();
  }
  // Like Close, but also drops unsent bytes, which a peer that does not read would keep queued for
  // ever.
  void Reset() {
    boost::system::error_code ignored;
    socket_.set_option(Socket::linger(true, 0), ignored);
    Close();
  }
  // Returns true if neither bytes nor an end of the stream have arrived unexpectedly.
  bool IsQuiet();

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return socket_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return socket_.async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  Socket socket_;
  Timer pause_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace kvgate::upstream::wire
