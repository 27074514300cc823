#include "gateway/http/socket/client_socket.h"

#include <algorithm>

namespace kvgate::http::socket {
namespace {

// While requests come and go the timer fires this often, so a deadline that is nearer than the
// previous one can usually be set without rearming the timer.
constexpr std::chrono::seconds kLookInterval{1};

}  // namespace

ClientSocket::ClientSocket(Socket socket) : state_(std::make_shared<State>(std::move(socket))) {}

ClientSocket::~ClientSocket() { Close(); }

void ClientSocket::ExpireAt(Clock::time_point time) {
  state_->deadline = time;
  state_->moved = true;
  if (time < state_->rings_at) Arm(state_, std::min(time, Clock::now() + kLookInterval));
}

void ClientSocket::Cancel() {
  boost::system::error_code ignored;
  state_->socket.cancel(ignored);
}

void ClientSocket::Close() {
  boost::system::error_code ignored;
  state_->socket.close(ignored);
  state_->deadline = Clock::time_point::max();
  state_->timer.cancel();
}

void ClientSocket::Arm(const std::shared_ptr<State>& state, Clock::time_point at) {
  state->rings_at = at;
  state->timer.expires_at(at);
  state->timer.async_wait([state](const boost::system::error_code& code) {
    if (!code) OnRing(state);
  });
}

void ClientSocket::OnRing(const std::shared_ptr<State>& state) {
  const Clock::time_point now = Clock::now();
  state->rings_at = Clock::time_point::max();
  if (now >= state->deadline) {
    boost::system::error_code ignored;
    state->socket.close(ignored);
    state->deadline = Clock::time_point::max();
  } else if (std::exchange(state->moved, false)) {
    if (state->socket.is_open()) Arm(state, std::min(state->deadline, now + kLookInterval));
  } else if (state->deadline != Clock::time_point::max()) {
    Arm(state, state->deadline);
  }
}

}  // namespace kvgate::http::socket
