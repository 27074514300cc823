#include "store/remote/resp_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

#include "base/check.h"

namespace kvgate::store::remote {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::string_view kClientName = "kvgate";
// What a server says of itself needs as much.
constexpr size_t kReplyBytesMin = 64 << 10;
constexpr size_t kQuotedBytesMax = 120;

bool IsEnd(const error_code& code) {
  return code == asio::error::eof || code == asio::ssl::error::stream_truncated ||
         code == asio::error::connection_reset || code == asio::error::broken_pipe;
}

std::string_view FirstWord(std::string_view text) { return text.substr(0, text.find(' ')); }

// What may be repeated of a server's text.
std::string Quoted(std::string_view text) {
  std::string quoted(text.substr(0, kQuotedBytesMax));
  std::ranges::replace_if(
      quoted, [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return quoted;
}

// What may be repeated of a server's answer to a command that has the password: older servers quote
// the commands that they do not know, with their arguments.
std::string QuotedWithoutArguments(std::string_view text, std::string_view password) {
  text = text.substr(0, text.find_first_of("`'\",:"));
  const bool has_secret = !password.empty() && text.find(password) != std::string_view::npos;
  return has_secret ? std::string() : Quoted(text);
}

std::string TextOf(const RespReply& map, std::string_view key) {
  for (size_t at = 0; at + 1 < map.items.size(); at += 2) {
    if (map.items[at].text == key) return Quoted(map.items[at + 1].text);
  }
  return {};
}

}  // namespace

struct RespConnection::Io {
  // Destroyed in the opposite order: without the socket, handlers are dropped and not called.
  asio::io_context context{1};  // one thread at a time
  tcp::socket socket{context};
  std::optional<asio::ssl::stream<tcp::socket&>> tls;
};

RespConnection::RespConnection(const Setup& setup, const RespEndpoint& endpoint)
    : setup_(setup),
      endpoint_(endpoint),
      io_(std::make_unique<Io>()),
      reader_(std::max(setup.reply_bytes_max, kReplyBytesMin)) {}

RespConnection::~RespConnection() = default;

Result<std::unique_ptr<RespConnection>> RespConnection::Open(const Setup& setup,
                                                             const RespEndpoint& endpoint,
                                                             TimePoint deadline) {
  std::unique_ptr<RespConnection> made;
  try {
    made.reset(new RespConnection(setup, endpoint));
  } catch (const boost::system::system_error& error) {  // no descriptors are left
    return MakeError(
        ErrorCode::kUnavailable, "store.remote",
        fmt::format("{}: no connection can be made: {}", endpoint.ToString(), error.what()));
  }
  KVGATE_TRY_VOID(made->Connect(deadline));
  if (setup.tls != nullptr) KVGATE_TRY_VOID(made->ProveServer(deadline));
  KVGATE_TRY_VOID(made->Login(deadline));
  ++setup.traffic->num_connects;
  return made;
}

Result<void> RespConnection::Connect(TimePoint deadline) {
  auto addresses = setup_.lookup.Find(endpoint_.host, deadline);
  if (!addresses) {
    return Failed(addresses.error().code, "its name was not found: " + addresses.error().detail);
  }
  error_code last = asio::error::host_not_found;
  for (size_t index = 0; index < addresses->size(); ++index) {
    const auto address = asio::ip::make_address((*addresses)[index], last);
    if (last) continue;
    const tcp::endpoint peer(address, endpoint_.port);
    Close();
    io_->socket.open(peer.protocol(), last);
    if (last) continue;
    ::fcntl(io_->socket.native_handle(), F_SETFD, FD_CLOEXEC);
    io_->context.restart();
    io_->socket.async_connect(peer, [&last](const error_code& code) { last = code; });
    // An address that does not answer leaves time for those behind it.
    const TimePoint now = std::chrono::steady_clock::now();
    const auto share = (deadline - now) / static_cast<int64_t>(addresses->size() - index);
    if (!Run(now + share)) last = asio::error::timed_out;
    if (last) continue;
    io_->socket.set_option(tcp::no_delay(true), last);
    is_closed_ = false;
    return {};
  }
  return Failed(last == asio::error::timed_out ? ErrorCode::kDeadline : ErrorCode::kUnavailable,
                "it cannot be reached: " + last.message());
}

Result<void> RespConnection::ProveServer(TimePoint deadline) {
  SSL* const session = setup_.tls->MakeSession(endpoint_.host);
  if (session == nullptr) {
    return Failed(ErrorCode::kUnavailable, "no certificate can have such a name");
  }
  io_->tls.emplace(io_->socket, session);
  error_code ended = asio::error::timed_out;
  io_->context.restart();
  io_->tls->async_handshake(asio::ssl::stream_base::client,
                            [&ended](const error_code& code) { ended = code; });
  if (!Run(deadline)) return Failed(ErrorCode::kDeadline, "its TLS handshake took too long");
  if (!ended) return {};
  const std::string refusal = TlsContext::Refusal(session);
  return Failed(ErrorCode::kUnavailable, refusal.empty()
                                             ? "its TLS handshake failed: " + ended.message()
                                             : "its certificate is refused: " + refusal);
}

Result<void> RespConnection::Login(TimePoint deadline) {
  const bool has_credentials = !setup_.user.empty() || !setup_.password.empty();
  const std::string database = std::to_string(setup_.database);
  std::vector<RespCommand> commands{{.words = {"HELLO", "3"}}};
  if (has_credentials) {
    const std::string_view user = setup_.user.empty() ? "default" : std::string_view(setup_.user);
    commands[0].words.insert(commands[0].words.end(), {"AUTH", user, setup_.password});
  }
  commands[0].words.insert(commands[0].words.end(), {"SETNAME", kClientName});
  if (setup_.database != 0) commands.push_back({.words = {"SELECT", database}});
  Start(commands);
  KVGATE_TRY(const std::vector<RespReply> replies, Finish(deadline));
  const RespReply& hello = replies[0];
  if (hello.is_error()) {
    const std::string_view code = FirstWord(hello.text);
    if (code == "WRONGPASS" || (code == "NOAUTH" && !has_credentials)) {
      return CredentialsRefused(code);
    }
    if (code == "LOADING") {
      return Failed(ErrorCode::kUnavailable, "it still loads its data (LOADING)");
    }
    return LoginWithoutHello(hello, deadline);
  }
  ReadGreeting(hello);
  return setup_.database == 0 ? Result<void>() : CheckSelected(replies[1]);
}

Result<void> RespConnection::LoginWithoutHello(const RespReply& refusal, TimePoint deadline) {
  const bool has_credentials = !setup_.user.empty() || !setup_.password.empty();
  const std::string database = std::to_string(setup_.database);
  std::vector<RespCommand> commands;
  if (has_credentials) {
    commands.push_back({.words = {"AUTH"}});
    if (!setup_.user.empty()) commands[0].words.push_back(setup_.user);
    commands[0].words.push_back(setup_.password);
  }
  commands.push_back({.words = {"CLIENT", "SETNAME", kClientName}});
  if (setup_.database != 0) commands.push_back({.words = {"SELECT", database}});
  Start(commands);
  auto replies = Finish(deadline);
  if (!replies) {
    // A server that takes no more clients says so, whatever it is asked, and hangs up.
    Error error = std::move(replies).error();
    const std::string said = QuotedWithoutArguments(refusal.text, setup_.password);
    if (!said.empty()) error.detail += fmt::format(" (to HELLO it said: {})", said);
    return error;
  }
  // Only AUTH, which comes first, says whether the credentials are right; without it, any command
  // is refused.
  const RespReply& first = replies->front();
  if (first.is_error() && (has_credentials || FirstWord(first.text) == "NOAUTH")) {
    return CredentialsRefused(FirstWord(first.text));
  }
  return setup_.database == 0 ? Result<void>() : CheckSelected(replies->back());
}

Result<void> RespConnection::CheckSelected(const RespReply& reply) const {
  if (!reply.is_error()) return {};
  return Failed(ErrorCode::kUnavailable, fmt::format("it does not select database {}: {}",
                                                     setup_.database, Quoted(reply.text)));
}

void RespConnection::ReadGreeting(const RespReply& reply) {
  const std::string name = TextOf(reply, "server");
  if (!name.empty()) server_ = fmt::format("{} {}", name, TextOf(reply, "version"));
  is_cluster_ = TextOf(reply, "mode") == "cluster";
}

bool RespConnection::Run(TimePoint deadline) {
  io_->context.run_until(deadline);
  if (io_->context.stopped()) return true;  // because there is no more work
  Close();
  io_->context.run();
  return false;
}

void RespConnection::Start(std::span<const RespCommand> commands) {
  request_.emplace(commands);
  num_wanted_ = commands.size();
  replies_.clear();
  replies_.reserve(num_wanted_);
  failure_.reset();
  bytes_of_reply_ = 0;
  io_->context.restart();
  // Asio sends at once what the socket takes, so the server works while the caller turns to others.
  // No handler runs here, because nothing would end that while the server goes on sending.
  Write();
  Read();
}

Result<std::vector<RespReply>> RespConnection::Finish(TimePoint deadline) {
  if (!Run(deadline)) {
    failure_ = Failed(ErrorCode::kDeadline,
                      fmt::format("it has answered {} of {} commands in the time that there was",
                                  replies_.size(), num_wanted_));
  }
  request_.reset();
  if (failure_) {
    Close();
    return *std::move(failure_);
  }
  return std::move(replies_);
}

void RespConnection::Write() {
  std::vector<asio::const_buffer> buffers;
  for (const std::string_view piece : request_->pieces()) {
    buffers.emplace_back(piece.data(), piece.size());
  }
  is_writing_ = true;
  // A failure is not told here: the server may have said why before it closed the connection, and
  // if it has not, reading fails too.
  auto ended = [this](const error_code&, size_t size) {
    is_writing_ = false;
    setup_.traffic->bytes_sent += size;
  };
  if (io_->tls) {
    asio::async_write(*io_->tls, buffers, std::move(ended));
  } else {
    asio::async_write(io_->socket, buffers, std::move(ended));
  }
}

void RespConnection::Read() {
  const std::span<char> space = reader_.Space();
  auto ended = [this](const error_code& code, size_t size) {
    if (code) {
      is_closed_ = IsEnd(code);
      failure_ = Failed(ErrorCode::kUnavailable,
                        is_closed_ ? fmt::format("it closed the connection after {} of {} replies",
                                                 replies_.size(), num_wanted_)
                                   : code.message());
      return Close();
    }
    setup_.traffic->bytes_received += size;
    bytes_of_reply_ += size;
    reader_.Add(size);
    TakeReplies();
  };
  const asio::mutable_buffer buffer(space.data(), space.size());
  if (io_->tls) {
    io_->tls->async_read_some(buffer, std::move(ended));
  } else {
    io_->socket.async_read_some(buffer, std::move(ended));
  }
}

void RespConnection::TakeReplies() {
  RespReply reply;
  while (true) {
    // After the last reply this reads pushes that have come with it.
    const Result<bool> is_whole = reader_.Next(reply);
    if (!is_whole) {
      failure_ = Failed(is_whole.error().code, is_whole.error().detail);
      return Close();
    }
    if (!*is_whole) break;
    // A reply that nobody asked for: what follows would be taken for another command's.
    if (replies_.size() == num_wanted_) return Close();
    replies_.push_back(std::move(reply));
  }
  if (replies_.size() < num_wanted_) return Read();
  // All was answered before it was sent: this connection's state is anyone's guess.
  if (is_writing_) Close();
}

bool RespConnection::IsReady() {
  if (!io_->socket.is_open() || is_writing_ || !reader_.is_between_replies()) return false;
  // Bytes that TLS holds already were not asked for either.
  if (io_->tls && SSL_has_pending(io_->tls->native_handle()) == 1) return false;
  pollfd state{.fd = io_->socket.native_handle(), .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) == 0;
}

void RespConnection::Close() {
  error_code ignored;
  io_->socket.close(ignored);
}

Error RespConnection::Failed(ErrorCode code, std::string_view what) const {
  Error error = MakeError(code, "store.remote", fmt::format("{}: {}", endpoint_.ToString(), what));
  error.retryable = code != ErrorCode::kDataLoss;
  return error;
}

Error RespConnection::CredentialsRefused(std::string_view code) const {
  Error error = Failed(
      ErrorCode::kUnavailable,
      code == "NOAUTH"
          ? std::string("it wants a password (NOAUTH): give that of the store in the environment")
          : fmt::format("it refuses the credentials ({}): check the user in the URL of the store "
                        "and the password in the environment",
                        QuotedWithoutArguments(code, setup_.password)));
  error.retryable = false;
  return error;
}

}  // namespace kvgate::store::remote
