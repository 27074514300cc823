#include "gateway/cli/agents/relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace kvgate::cli::agents {
namespace {

constexpr std::string_view kHeader = "\nx-kvgate-request-id:";

Error Refused(std::string_view what) {
  return MakeError(ErrorCode::kUnavailable, "cli",
                   fmt::format("{}: {}", what, std::strerror(errno)));
}

void SetNoDelay(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

// Closes with a reset, so that the other side learns that the answer was cut.
void Reset(int socket) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

// One direction of a connection.
struct Flow {
  Flow(int source, int target) : from(source), to(target) {}

  int from;
  int to;
  std::array<char, 64 * 1024> bytes = {};
  size_t begin = 0;
  size_t end = 0;
  bool has_ended = false;  // nothing more will come
  bool is_closed = false;  // and all of it has been passed on

  short Wanted(int socket) const {
    if (socket == from && begin == end && !has_ended) return POLLIN;
    return static_cast<short>(socket == to && begin < end ? POLLOUT : 0);
  }

  // Moves what can be moved without waiting. Returns false once the connection is broken.
  bool Move(const std::function<void(std::string_view)>& seen) {
    if (begin == end && !has_ended) {
      const ssize_t size = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (size < 0) return errno == EAGAIN || errno == EINTR;
      has_ended = size == 0;
      begin = 0;
      end = static_cast<size_t>(size);
      if (seen && size > 0) seen({bytes.data(), end});
    }
    if (begin < end) {
      const ssize_t size = send(to, bytes.data() + begin, end - begin, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (size < 0) return errno == EAGAIN || errno == EINTR;
      begin += static_cast<size_t>(size);
    }
    if (has_ended && begin == end && !is_closed) {
      is_closed = true;
      shutdown(to, SHUT_WR);
    }
    return true;
  }
};

// Passes bytes in both directions until both have ended, one side is gone, or `stop` is readable.
// Returns true if both have ended.
bool PassBytes(int client, int server, int stop,
               const std::function<void(std::string_view)>& seen) {
  const auto up = std::make_unique<Flow>(client, server);
  const auto down = std::make_unique<Flow>(server, client);
  while (!(up->is_closed && down->is_closed)) {
    const auto client_wants = static_cast<short>(up->Wanted(client) | down->Wanted(client));
    const auto server_wants = static_cast<short>(up->Wanted(server) | down->Wanted(server));
    // A socket that has ended and is not waited for would wake this loop again and again.
    std::array<pollfd, 3> polled = {
        {{client_wants == 0 && down->is_closed ? -1 : client, client_wants, 0},
         {server_wants == 0 && down->has_ended ? -1 : server, server_wants, 0},
         {stop, POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return false;
    if (polled[2].revents != 0) return false;
    if (((polled[0].revents | polled[1].revents) & (POLLERR | POLLNVAL)) != 0) return false;
    // A client that has hung up reads no answer.
    if ((polled[0].revents & POLLHUP) != 0 && !down->is_closed) return false;
    if (!up->Move(nullptr) || !down->Move(seen)) return false;
  }
  return true;
}

}  // namespace

void RequestIdScanner::Push(std::string_view piece, const std::function<void(std::string)>& found) {
  while (!piece.empty()) {
    if (!in_value_ && num_matched_ == 0) {
      const size_t line = piece.find('\n');
      if (line == std::string_view::npos) return;
      piece.remove_prefix(line);
    }
    const char byte = piece.front();
    piece.remove_prefix(1);
    if (in_value_) {
      if (byte == '\r' || byte == '\n' || id_.size() == kIdBytesMax) {
        if (!id_.empty() && id_.size() < kIdBytesMax) found(std::exchange(id_, {}));
        in_value_ = false;
        num_matched_ = byte == '\n' ? 1 : 0;
      } else if (byte != ' ') {
        id_ += byte;
      }
      continue;
    }
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
    num_matched_ = lower == kHeader[num_matched_] ? num_matched_ + 1 : byte == '\n' ? 1 : 0;
    if (num_matched_ == kHeader.size()) {
      num_matched_ = 0;
      in_value_ = true;
      id_.clear();
    }
  }
}

Result<int> ConnectTcp(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &found);
  if (code != 0) {
    return MakeError(ErrorCode::kUnavailable, "cli",
                     fmt::format("{}: {}", host, gai_strerror(code)));
  }
  Error failure = Refused(host);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int made = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (made >= 0 && connect(made, at->ai_addr, at->ai_addrlen) == 0) {
      freeaddrinfo(found);
      SetNoDelay(made);
      return made;
    }
    failure = Refused(fmt::format("{}:{}", host, port));
    if (made >= 0) close(made);
  }
  freeaddrinfo(found);
  return failure;
}

Result<std::unique_ptr<Relay>> Relay::Open(Dial dial) {
  std::unique_ptr<Relay> relay(new Relay(std::move(dial)));
  relay->listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  relay->stop_ = eventfd(0, EFD_CLOEXEC);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (relay->stop_ < 0 || relay->listener_ < 0 || bind(relay->listener_, generic, size) != 0 ||
      listen(relay->listener_, SOMAXCONN) != 0 ||
      getsockname(relay->listener_, generic, &size) != 0) {
    return Refused("no port of 127.0.0.1 can be listened on");
  }
  relay->origin_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  try {
    relay->thread_ = std::thread([&self = *relay] { self.Accept(); });
  } catch (const std::system_error& failure) {
    return MakeError(ErrorCode::kOverloaded, "cli",
                     fmt::format("the system refuses a thread: {}", failure.what()));
  }
  return relay;
}

Relay::~Relay() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  freed_.notify_all();
  if (stop_ >= 0) eventfd_write(stop_, 1);
  if (thread_.joinable()) thread_.join();
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return num_connections_ == 0; });
  }
  if (listener_ >= 0) close(listener_);
  if (stop_ >= 0) close(stop_);
}

void Relay::Accept() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      freed_.wait(lock, [this] { return stopping_ || num_connections_ < kConnectionsMax; });
      if (stopping_) return;
    }
    std::array<pollfd, 2> polled = {{{listener_, POLLIN, 0}, {stop_, POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[1].revents != 0) return;
    if ((polled[0].revents & POLLIN) == 0) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    SetNoDelay(client);
    const std::lock_guard lock(mutex_);
    ++num_connections_;
    try {
      std::thread([this, client] { Serve(client); }).detach();  // the destructor waits for it
    } catch (const std::system_error&) {
      close(client);
      --num_connections_;
    }
  }
}

void Relay::Serve(int client) {
  const Result<int> server = dial_();
  if (server) {
    RequestIdScanner scanner;
    const bool is_whole = PassBytes(client, *server, stop_, [&](std::string_view piece) {
      scanner.Push(piece, [this](std::string id) { Note(std::move(id)); });
    });
    if (!is_whole) {
      Reset(client);
      Reset(*server);
    }
    close(*server);
  } else {
    const std::lock_guard lock(mutex_);
    failure_ = server.error().detail;  // known before the client sees the end
    Reset(client);
  }
  close(client);
  const std::lock_guard lock(mutex_);
  --num_connections_;
  freed_.notify_all();
}

void Relay::Note(std::string id) {
  const std::lock_guard lock(mutex_);
  if (ids_.size() < kIdsMax) ids_.insert(std::move(id));
}

std::set<std::string> Relay::request_ids() const {
  const std::lock_guard lock(mutex_);
  return ids_;
}

std::string Relay::last_failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace kvgate::cli::agents
