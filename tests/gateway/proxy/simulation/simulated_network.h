// SimulatedNetwork is what a gateway's upstreams are connected to: providers in this process, at
// the other ends of socket pairs, whose hosts, connections and answers fail by chance. A pair of
// local sockets hands over bytes and ends within the system call, so a run can be repeated; its
// small buffers hold a writer back as a slow network does.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/upstream/wire/dialer.h"
#include "tests/gateway/proxy/simulation/simulated_reply.h"
#include "tests/gateway/proxy/simulation/simulated_time.h"

namespace kvgate::test {

// One request that a provider got, and what it said.
struct SimulatedExchange {
  SimulatedTime::Time began_at;
  std::string provider;
  int request = -1;  // its number; -1: too little of it came to tell
  std::string head;
  std::string body;
  bool is_received = false;  // as a whole
  SimulatedReply reply;
};

class SimulatedNetwork {
 public:
  struct Behaviour {
    uint64_t fault_percent = 60;
    ReplyMaker::Timeouts timeouts = {};
    std::chrono::milliseconds connect_timeout{500};
  };
  using Note = std::function<void(std::string)>;
  // `note` is told of all that happens.
  SimulatedNetwork(SimulatedTime& time, SimulatedChance& chance, Note note)
      : time_(time), chance_(chance), note_(std::move(note)), maker_(chance) {}

  // The provider at that host.
  void Add(const std::string& host, Behaviour behaviour) { hosts_[host] = behaviour; }
  upstream::wire::MakeDialer MakeDialer() {
    return [this](const upstream::wire::DialedHost& host) {
      return std::make_unique<Line>(*this, host.host);
    };
  }
  // From now on nothing goes wrong.
  void Heal() { is_healed_ = true; }

  const std::vector<std::unique_ptr<SimulatedExchange>>& exchanges() const { return exchanges_; }
  const std::array<uint64_t, kNumFaults>& num_faults() const { return num_faults_; }
  uint64_t num_dials() const { return num_dials_; }
  int num_connections() const { return num_connections_; }

 private:
  template <typename T>
  using Task = upstream::wire::Task<T>;
  using Duration = SimulatedTime::Duration;
  using End = SimulatedReply::End;

  class Line final : public upstream::wire::Dialer {
   public:
    Line(SimulatedNetwork& network, std::string host) : network_(network), host_(std::move(host)) {}
    Task<Result<void>> Dial(upstream::wire::Channel& channel, SteadyClock::time_point) override {
      const Result<void> dialed = co_await network_.Dial(host_, channel);
      co_return dialed;
    }

   private:
    SimulatedNetwork& network_;
    const std::string host_;
  };

  // The provider's end of a connection.
  struct Connection {
    Connection(SimulatedTime& time, std::string at)
        : host(std::move(at)), socket(time.io()), pause(time.io()) {}
    const std::string host;
    boost::asio::local::stream_protocol::socket socket;
    upstream::wire::Timer pause;
    std::string pending;         // of the request that is coming
    bool has_last_byte = false;  // it is left unread, so that closing is a reset
    size_t num_requests = 0;
  };

  bool Fails(const Behaviour& behaviour) {
    return !is_healed_ && chance_.Percent(behaviour.fault_percent);
  }
  Fault Draw(Fault first, Fault last) {
    const auto from = static_cast<uint64_t>(first);
    return static_cast<Fault>(from + chance_.Below(static_cast<uint64_t>(last) - from + 1));
  }
  void Count(Fault fault) { ++num_faults_[static_cast<size_t>(fault)]; }

  Task<Result<void>> Dial(std::string host, upstream::wire::Channel& channel) {
    const auto failed = [](std::string_view why) {
      return MakeError(ErrorCode::kUnavailable, "upstream", fmt::format("it {}", why));
    };
    ++num_dials_;
    const Behaviour behaviour = hosts_.at(host);
    const bool fails = behaviour.fault_percent > 0 && Fails(behaviour) && chance_.Percent(20);
    const Fault fault = fails ? Draw(Fault::kRefusedConnection, Fault::kSilentHost) : Fault::kNone;
    Duration time = chance_.Time(std::chrono::milliseconds(0), behaviour.connect_timeout / 2);
    if (fault == Fault::kSilentHost) time = behaviour.connect_timeout * 4;
    if (fails) Count(fault);
    note_(fmt::format("dial {} {}", host, kFaultNames[static_cast<size_t>(fault)]));
    const bool has_slept = co_await time_.Sleep(channel.pause(), time);
    if (!has_slept) co_return failed("was given up");
    if (fault == Fault::kUnknownHost) co_return failed("has no address");
    if (fails) co_return failed("refuses connections");
    Connect(host, channel);
    co_return Result<void>();
  }

  void Connect(const std::string& host, upstream::wire::Channel& channel) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const int buffer_bytes = chance_.Percent(30) ? 8 * 1024 : 64 * 1024;
    for (const int end : ends) {
      ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
    }
    channel.Close();
    boost::system::error_code code;
    channel.socket().assign(boost::asio::ip::tcp::v4(), ends[0], code);
    ASSERT_FALSE(code) << code.message();
    auto connection = std::make_shared<Connection>(time_, host);
    connection->socket.assign(boost::asio::local::stream_protocol(), ends[1], code);
    ASSERT_FALSE(code) << code.message();
    ++num_connections_;
    boost::asio::co_spawn(time_.io(), Serve(std::move(connection)), [this](std::exception_ptr e) {
      EXPECT_FALSE(e) << "a provider threw";
      --num_connections_;
    });
  }

  Task<void> Serve(std::shared_ptr<Connection> connection) {
    bool goes_on = true;
    while (goes_on) goes_on = co_await Answer(*connection);
    if (!connection->has_last_byte) co_return;
    // What is unread makes the end a reset.
    note_("reset");
  }

  // Answers one request. Returns false at the end of the connection.
  Task<bool> Answer(Connection& connection) {
    const Behaviour behaviour = hosts_.at(connection.host);
    bool has_come = co_await Readable(connection);
    if (!has_come) co_return false;
    exchanges_.push_back(std::make_unique<SimulatedExchange>());
    SimulatedExchange& exchange = *exchanges_.back();
    exchange.began_at = time_.now();
    exchange.provider = connection.host;
    Fault fault = Fault::kNone;
    if (Fails(behaviour)) fault = Draw(Fault::kResetAtOnce, Fault::kHalfClosed);
    if (fault == Fault::kClosedAtReuse && connection.num_requests == 0) fault = Fault::kNone;
    ++connection.num_requests;
    Count(fault);
    if (fault == Fault::kResetAtOnce || fault == Fault::kClosedAtReuse) {
      exchange.reply = {.fault = fault, .has_head = false, .is_whole = false, .is_sound = false};
      Peek(connection, exchange);
      connection.has_last_byte = true;
      co_return false;
    }
    bool is_open = co_await ReadRequest(connection, fault == Fault::kEarlyAnswer);
    TakeRequest(connection, exchange);
    note_(fmt::format("{} gets {} ({} bytes, {}) and says {}", connection.host, exchange.request,
                      exchange.body.size(), exchange.is_received ? "all" : "some",
                      kFaultNames[static_cast<size_t>(fault)]));
    if (!is_open) co_return false;
    exchange.reply = maker_.Make(fault, AskedBy(exchange), behaviour.timeouts);
    is_open = co_await Play(connection, exchange.reply);
    co_return is_open;
  }

  // Returns false if the other side has ended the connection.
  Task<bool> Readable(Connection& connection) {
    auto [code] = co_await connection.socket.async_wait(
        boost::asio::local::stream_protocol::socket::wait_read, upstream::wire::kAwait);
    char byte = 0;
    co_return !code && ::recv(connection.socket.native_handle(), &byte, 1, MSG_PEEK) == 1;
  }

  // A request's length, if its head has come; else 0.
  static size_t LengthOf(std::string_view bytes) {
    const size_t end = bytes.find("\r\n\r\n");
    if (end == std::string_view::npos) return 0;
    size_t length = 0;
    constexpr std::string_view kName = "Content-Length: ";
    if (const size_t at = bytes.find(kName); at < end) {
      std::from_chars(bytes.data() + at + kName.size(), bytes.data() + end, length);
    }
    return end + 4 + length;
  }

  // Reads a request but for its last byte, or only its head. Returns false if it has no end.
  Task<bool> ReadRequest(Connection& connection, bool head_only) {
    const int fd = connection.socket.native_handle();
    std::vector<char> bytes(64 * 1024);
    while (true) {
      const ssize_t peeked = ::recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
      if (peeked == 0) co_return false;
      if (peeked < 0) {
        auto [code] = co_await connection.socket.async_wait(
            boost::asio::local::stream_protocol::socket::wait_read, upstream::wire::kAwait);
        if (code) co_return false;
        continue;
      }
      const size_t had = connection.pending.size();
      connection.pending.append(bytes.data(), static_cast<size_t>(peeked));
      const size_t length = LengthOf(connection.pending);
      const bool is_whole = length != 0 && connection.pending.size() >= length;
      connection.has_last_byte = is_whole || (head_only && length != 0);
      const size_t unread = connection.has_last_byte ? 1 : 0;
      if (is_whole) connection.pending.resize(length);
      const size_t taken = connection.pending.size() - had - unread;
      if (taken > 0) (void)!::recv(fd, bytes.data(), taken, 0);
      if (connection.has_last_byte) co_return true;
    }
  }

  void Peek(Connection& connection, SimulatedExchange& exchange) {
    std::vector<char> bytes(64 * 1024);
    const ssize_t size =
        ::recv(connection.socket.native_handle(), bytes.data(), bytes.size(), MSG_PEEK);
    connection.pending.assign(bytes.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
    TakeRequest(connection, exchange);
    note_(fmt::format("{} gets some of {} and ends", connection.host, exchange.request));
  }

  static void TakeRequest(Connection& connection, SimulatedExchange& exchange) {
    const std::string bytes = std::exchange(connection.pending, {});
    const size_t length = LengthOf(bytes);
    const size_t head = std::min(bytes.size(), bytes.find("\r\n\r\n"));
    exchange.head = bytes.substr(0, head);
    exchange.body = bytes.substr(std::min(bytes.size(), head + 4));
    exchange.is_received = length != 0 && bytes.size() >= length;
    constexpr std::string_view kName = "x-sim-request: ";
    if (const size_t at = exchange.head.find(kName); at != std::string::npos) {
      std::from_chars(exchange.head.data() + at + kName.size(),
                      exchange.head.data() + exchange.head.size(), exchange.request);
    }
  }

  static std::string FieldOf(const SimulatedExchange& exchange, std::string_view name) {
    const size_t at = exchange.head.find(name);
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size();
    return exchange.head.substr(begin, exchange.head.find("\r\n", begin) - begin);
  }

  static AskedReply AskedBy(const SimulatedExchange& exchange) {
    const std::string_view line(exchange.head.data(), exchange.head.find("\r\n"));
    AskedReply asked{.number = exchange.request};
    if (line.find("/messages") != std::string_view::npos) asked.form = AskedReply::Form::kMessages;
    if (line.find("/responses") != std::string_view::npos) {
      asked.form = AskedReply::Form::kResponses;
    }
    asked.marker = FieldOf(exchange, "x-sim-marker: ");
    const bool has_key = exchange.head.find("x-api-key: ") != std::string::npos;
    asked.credential = FieldOf(exchange, has_key ? "x-api-key: " : "Authorization: ");
    asked.is_stream = exchange.head.find("x-sim-stream: 1") != std::string::npos;
    return asked;
  }

  // Sends the reply. Returns false at the end of the connection.
  Task<bool> Play(Connection& connection, const SimulatedReply& reply) {
    for (const SimulatedReply::Step& step : reply.steps) {
      if (step.pause > Duration(0)) co_await time_.Sleep(connection.pause, step.pause);
      auto [code, size] = co_await boost::asio::async_write(
          connection.socket, boost::asio::buffer(step.bytes), upstream::wire::kAwait);
      if (code) co_return false;
    }
    if (reply.is_early) {
      co_await time_.Sleep(connection.pause, std::chrono::milliseconds(400));
      co_return false;
    }
    if (reply.end == End::kReset) co_return false;
    char byte = 0;
    if (std::exchange(connection.has_last_byte, false)) {
      (void)!::recv(connection.socket.native_handle(), &byte, 1, 0);
    }
    if (reply.end == End::kHalfClose) {
      boost::system::error_code ignored;
      connection.socket.shutdown(boost::asio::local::stream_protocol::socket::shutdown_send,
                                 ignored);
    }
    if (reply.end == End::kHold || reply.end == End::kHalfClose) {
      bool has_more = true;
      while (has_more) {
        has_more = co_await Readable(connection);
        if (has_more) (void)!::recv(connection.socket.native_handle(), &byte, 1, 0);
      }
      co_return false;
    }
    co_return reply.end == End::kKeep;
  }

  SimulatedTime& time_;
  SimulatedChance& chance_;
  const Note note_;
  ReplyMaker maker_;
  std::map<std::string, Behaviour> hosts_;
  bool is_healed_ = false;
  std::vector<std::unique_ptr<SimulatedExchange>> exchanges_;
  std::array<uint64_t, kNumFaults> num_faults_{};
  uint64_t num_dials_ = 0;
  int num_connections_ = 0;
};

}  // namespace kvgate::test
