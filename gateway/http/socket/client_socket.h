// ClientSocket: a client's TCP connection with one deadline on every operation that waits for it.
//
// The deadline moves several times in every request and is almost never reached, so moving it only
// stores a value. The single timer is rearmed only if it would fire too late, and when it fires it
// checks whether the deadline has passed. Used on its own thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "gateway/upstream/wire/write_all.h"

namespace kvgate::http::socket {

class ClientSocket {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;
  using lowest_layer_type = Socket::lowest_layer_type;
  using Clock = std::chrono::steady_clock;

  explicit ClientSocket(Socket socket);
  ~ClientSocket();
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  executor_type get_executor() { return state_->socket.get_executor(); }
  Socket& socket() { return state_->socket; }
  lowest_layer_type& lowest_layer() { return state_->socket.lowest_layer(); }

  // When the deadline passes, the socket is closed and pending operations end with an error.
  void ExpireAfter(std::chrono::milliseconds time) { ExpireAt(Clock::now() + time); }
  void ExpireAt(Clock::time_point time);
  void ExpireNever() { state_->deadline = Clock::time_point::max(); }
  // Pending operations end with an error.
  void Cancel();
  void Close();

  // See upstream::wire::WriteAll.
  size_t TryWrite(const upstream::wire::WriteBuffers& buffers) {
    return upstream::wire::SendNow(state_->socket.native_handle(), buffers);
  }
  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return state_->socket.async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return state_->socket.async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  // Shared with the timer's handler, which may still run after the ClientSocket is gone.
  struct State {
    explicit State(Socket taken) : socket(std::move(taken)), timer(socket.get_executor()) {}
    Socket socket;
    boost::asio::steady_timer timer;
    Clock::time_point deadline = Clock::time_point::max();
    Clock::time_point rings_at = Clock::time_point::max();  // max: it is not armed
    bool moved = false;  // the deadline was set since the timer last fired
  };
  static void Arm(const std::shared_ptr<State>& state, Clock::time_point at);
  static void OnRing(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace kvgate::http::socket
