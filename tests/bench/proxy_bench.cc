// The two ends of `scripts/bench proxy`: a provider that answers at once, and a closed-loop client
// that measures its waiting time. They use blocking sockets and one thread per connection, so that
// only the kernel is between the clock and the measured system.
//
//   proxy_bench upstream
//       prints its port and serves until its standard input ends. A request with
//       "x-bench-events: N" gets N events, "x-bench-gap-us: G" apart, each with the time of its
//       writing; any other request gets an answer of 700 bytes.
//   proxy_bench client --port P --body-bytes N [--connections C] [--seconds S] [--events N]
//                      [--gap-us G] [--header "Name: value"]...
//       prints one JSON object: requests, rps, latency percentiles in microseconds; with events
//       the time to the first one, the delay of each, and the gaps between them.
//       the time to the first one, what each came late by, and the gaps between them.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kUsage =
    "usage: proxy_bench upstream | client --port P --body-bytes N [--connections C] [--seconds S]\n"
    "       [--events N] [--gap-us G] [--header 'Name: value']...\n";

int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

int64_t ToInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    throw std::runtime_error(fmt::format("'{}' is no whole number", text));
  }
  return value;
}

// A connected socket with the bytes that were read beyond the last message.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(size));
    }
    return true;
  }
  // Appends more bytes to text(); returns false at the end of the stream.
  bool ReadSome() {
    buffer_.resize(end_ + kPiece);
    const ssize_t size = ::recv(fd_, buffer_.data() + end_, kPiece, 0);
    if (size <= 0) return false;
    end_ += static_cast<size_t>(size);
    return true;
  }
  std::string_view text() const { return {buffer_.data(), end_}; }
  void Drop(size_t size) {
    std::memmove(buffer_.data(), buffer_.data() + size, end_ - size);
    end_ -= size;
  }
  // Reads until text() has a whole head and returns its length, or 0 if the stream ends first.
  size_t ReadHead() {
    while (true) {
      const size_t at = text().find("\r\n\r\n");
      if (at != std::string_view::npos) return at + 4;
      if (!ReadSome()) return 0;
    }
  }
  // Reads and discards `size` bytes; returns false if the stream ends first.
  bool Skip(size_t size) {
    while (size > end_) {
      size -= end_;
      end_ = 0;
      if (!ReadSome()) return false;
    }
    Drop(size);
    return true;
  }

 private:
  static constexpr size_t kPiece = 256 * 1024;
  const int fd_;
  std::string buffer_;
  size_t end_ = 0;
};

// Returns "" if there is no such header. Names match in any case.
std::string_view Header(std::string_view head, std::string_view name) {
  size_t line = head.find("\r\n");
  while (line != std::string_view::npos && line + 2 + name.size() < head.size()) {
    const size_t begin = line + 2;
    line = head.find("\r\n", begin);
    const std::string_view text = head.substr(begin, line - begin);
    const bool same = text.size() > name.size() && text[name.size()] == ':' &&
                      std::equal(name.begin(), name.end(), text.begin(), [](char a, char b) {
                        return std::tolower(static_cast<unsigned char>(a)) ==
                               std::tolower(static_cast<unsigned char>(b));
                      });
    if (!same) continue;
    const size_t value = text.find_first_not_of(' ', name.size() + 1);
    return value == std::string_view::npos ? "" : text.substr(value);
  }
  return "";
}

// --- the provider -----------------------------------------------------------------------------

std::string WholeAnswer() {
  const std::string body = fmt::format(
      R"({{"id":"chatcmpl-1","object":"chat.completion","created":1770000000,"model":"bench-1",)"
      R"("choices":[{{"index":0,"message":{{"role":"assistant","content":"{}"}},)"
      R"("finish_reason":"stop"}}],"usage":{{"prompt_tokens":250,"completion_tokens":90,)"
      R"("total_tokens":340,"prompt_tokens_details":{{"cached_tokens":128}}}}}})",
      std::string(400, 'w'));
  return fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req_1\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
}

bool WriteEvents(Socket& socket, int64_t count, std::chrono::microseconds gap) {
  if (!socket.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n")) {
    return false;
  }
  Clock::time_point due = Clock::now();
  for (int64_t i = 0; i < count; ++i) {
    std::this_thread::sleep_until(due);
    due += gap;
    const std::string event = fmt::format(
        R"(data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"bench-1",)"
        R"("sent_us":{:020},"choices":[{{"index":0,"delta":{{"content":"word "}}}}]}})"
        "\n\n",
        NowUs());
    if (!socket.Write(fmt::format("{:x}\r\n{}\r\n", event.size(), event))) return false;
  }
  return socket.Write("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
}

void ServeConnection(int fd) {
  Socket socket(fd);
  const std::string answer = WholeAnswer();
  while (const size_t head_size = socket.ReadHead()) {
    const std::string head(socket.text().substr(0, head_size));
    const std::string_view length = Header(head, "content-length");
    socket.Drop(head_size);
    if (!length.empty() && !socket.Skip(static_cast<size_t>(ToInteger(length)))) return;
    const std::string_view events = Header(head, "x-bench-events");
    bool written = false;
    if (events.empty()) {
      written = socket.Write(answer);
    } else {
      const std::chrono::microseconds gap(ToInteger(Header(head, "x-bench-gap-us")));
      written = WriteEvents(socket, ToInteger(events), gap);
    }
    if (!written) return;
  }
}

int RunUpstream() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, name, size) != 0 || ::listen(listener, 512) != 0 ||
      ::getsockname(listener, name, &size) != 0) {
    throw std::runtime_error(fmt::format("cannot listen: {}", std::strerror(errno)));
  }
  fmt::print("{}\n", ntohs(address.sin_port));
  std::fflush(stdout);
  while (true) {
    pollfd waits[2] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                       {.fd = listener, .events = POLLIN, .revents = 0}};
    ::poll(waits, 2, -1);
    if (waits[0].revents != 0) std::_Exit(0);
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) std::thread(ServeConnection, fd).detach();
  }
}

// --- the client -------------------------------------------------------------------------------

struct ClientArgs {
  uint16_t port = 0;
  int64_t body_bytes = 1024;
  int connections = 1;
  double seconds = 2;
  int64_t events = 0;
  int64_t gap_us = 1000;
  std::string headers;
};

// The clients' measurements, in microseconds.
struct Samples {
  std::vector<double> latency;
  std::vector<double> first_event;  // from the start of writing the request
  std::vector<double> late;         // per event: time read minus time written
  std::vector<double> gap;          // between events read
};

// Returns a conversation of exactly `bytes` bytes, unless that is less than the minimum.
std::string Body(int64_t bytes) {
  constexpr std::string_view kWords =
      "The gateway reads \\\"this\\\" line;\\nit holds what an agent's prompt holds: words, code, "
      "tabs\\t and \\u00e9. ";
  std::string body = R"({"model":"bench-1","temperature":0.5,"messages":[{"role":"system",)"
                     R"("content":")";
  const std::string end = R"("},{"role":"user","content":"What is next?"}]})";
  while (static_cast<int64_t>(body.size() + kWords.size() + end.size()) < bytes) body += kWords;
  while (static_cast<int64_t>(body.size() + end.size()) < bytes) body += '.';
  return body + end;
}

int Connect(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error(fmt::format("cannot connect: {}", std::strerror(errno)));
  }
  return fd;
}

double ToUs(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// Reads a chunked answer event by event.
void ReadEvents(Socket& socket, Clock::time_point begin, Samples& samples) {
  constexpr std::string_view kSent = "\"sent_us\":";
  std::optional<int64_t> last;
  std::string line;
  while (true) {
    const int64_t now = NowUs();
    const std::string_view text = socket.text();
    size_t at = 0;
    size_t used = 0;
    bool first = true;
    while ((at = text.find("\n\n", used)) != std::string_view::npos) {
      const std::string_view event = text.substr(used, at - used);
      used = at + 2;
      const size_t sent = event.find(kSent);
      if (sent == std::string_view::npos) continue;
      std::string_view digits = event.substr(sent + kSent.size(), 20);
      while (digits.starts_with('0')) digits.remove_prefix(1);
      samples.late.push_back(static_cast<double>(now - ToInteger(digits)));
      if (!last) samples.first_event.push_back(ToUs(Clock::now() - begin));
      // If several events were read together, only the first has a gap; the others had already
      // arrived.
      if (last && first) samples.gap.push_back(static_cast<double>(now - *last));
      last = now;
      first = false;
    }
    const bool done = text.substr(used).find("0\r\n\r\n") != std::string_view::npos;
    socket.Drop(done ? text.size() : used);
    if (done) return;
    if (!socket.ReadSome()) throw std::runtime_error("the stream broke off");
  }
}

void Load(const ClientArgs& args, const std::string& request, Clock::time_point from,
          Clock::time_point to, Samples& samples) {
  Socket socket(Connect(args.port));
  while (true) {
    const Clock::time_point begin = Clock::now();
    if (begin >= to) return;
    if (!socket.Write(request)) throw std::runtime_error("writing a request failed");
    const size_t head_size = socket.ReadHead();
    const std::string_view head = socket.text().substr(0, head_size);
    if (!head.starts_with("HTTP/1.1 200 ")) {
      throw std::runtime_error(fmt::format("an answer is not 200: {}", head.substr(0, 300)));
    }
    Samples warming;
    Samples& out = begin < from ? warming : samples;
    if (args.events > 0) {
      socket.Drop(head_size);
      ReadEvents(socket, begin, out);
    } else if (!socket.Skip(head_size +
                            static_cast<size_t>(ToInteger(Header(head, "content-length"))))) {
      throw std::runtime_error("an answer broke off");
    }
    out.latency.push_back(ToUs(Clock::now() - begin));
  }
}

std::string Percentiles(std::string_view name, std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    if (values.empty()) return 0.0;
    const auto last = static_cast<double>(values.size() - 1);
    return values[static_cast<size_t>(share * last)];
  };
  return fmt::format(R"("{}":{{"count":{},"p50":{:.1f},"p90":{:.1f},"p99":{:.1f},"max":{:.1f}}})",
                     name, values.size(), at(0.5), at(0.9), at(0.99), at(1));
}

int RunClient(const ClientArgs& args) {
  const std::string body = Body(args.body_bytes);
  std::string headers = args.headers;
  if (args.events > 0) {
    headers +=
        fmt::format("x-bench-events: {}\r\nx-bench-gap-us: {}\r\n", args.events, args.gap_us);
  }
  const std::string request = fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
      "{}Content-Length: {}\r\n\r\n{}",
      headers, body.size(), body);
  // The first fifth of the time is not measured; it warms connections, caches and clocks.
  const auto from = Clock::now() + std::chrono::microseconds(int64_t(args.seconds * 2e5));
  const auto to = from + std::chrono::microseconds(int64_t(args.seconds * 1e6));
  std::vector<Samples> each(static_cast<size_t>(args.connections));
  std::vector<std::thread> threads;
  std::atomic<bool> failed{false};
  for (Samples& samples : each) {
    threads.emplace_back([&] {
      try {
        Load(args, request, from, to, samples);
      } catch (const std::exception& failure) {
        if (!failed.exchange(true)) fmt::print(stderr, "proxy_bench: {}\n", failure.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failed.load()) return 1;
  Samples all;
  const auto join = [](std::vector<double>& to_all, const std::vector<double>& values) {
    to_all.insert(to_all.end(), values.begin(), values.end());
  };
  for (const Samples& samples : each) {
    join(all.latency, samples.latency);
    join(all.first_event, samples.first_event);
    join(all.late, samples.late);
    join(all.gap, samples.gap);
  }
  const double rps = static_cast<double>(all.latency.size()) / args.seconds;
  fmt::print("{{\"rps\":{:.1f},{},{},{},{}}}\n", rps, Percentiles("latency_us", all.latency),
             Percentiles("first_event_us", all.first_event), Percentiles("late_us", all.late),
             Percentiles("gap_us", all.gap));
  return 0;
}

ClientArgs ParseClient(int count, char** words) {
  ClientArgs args;
  for (int i = 0; i + 1 < count; i += 2) {
    const std::string_view flag = words[i];
    const std::string_view value = words[i + 1];
    if (flag == "--port") {
      args.port = static_cast<uint16_t>(ToInteger(value));
    } else if (flag == "--body-bytes") {
      args.body_bytes = ToInteger(value);
    } else if (flag == "--connections") {
      args.connections = static_cast<int>(ToInteger(value));
    } else if (flag == "--seconds") {
      args.seconds = std::atof(words[i + 1]);
    } else if (flag == "--events") {
      args.events = ToInteger(value);
    } else if (flag == "--gap-us") {
      args.gap_us = ToInteger(value);
    } else if (flag == "--header") {
      args.headers += fmt::format("{}\r\n", value);
    } else {
      throw std::runtime_error(fmt::format("unknown flag '{}'", flag));
    }
  }
  if (args.port == 0) throw std::runtime_error("--port is missing");
  return args;
}

}  // namespace

int main(int count, char** words) {
  try {
    const std::string_view what = count > 1 ? words[1] : "";
    if (what == "upstream") return RunUpstream();
    if (what == "client") return RunClient(ParseClient(count - 2, words + 2));
    fmt::print(stderr, "{}", kUsage);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "proxy_bench: {}\n", failure.what());
    return 1;
  }
  return 2;
}
