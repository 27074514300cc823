// Measures what the SDK adds. `sdk_bench MODEL [ROUNDS]` alternates, in one run, between decoding
// with the engine alone, streaming a chat through an embedded client (how many microseconds a token
// does the way to the program's event add?) and reading events from loopback with a remote client.
// It also counts the copies of a large prompt on its way into an embedded gateway.
#include <fmt/format.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/modelfile/hf_folder.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "sdk/include/kvgate.h"
#include "tests/base/temp_folder.h"
#include "tests/bench/engine_step.h"

// Allocations that could hold a copy of the prompt that is under way.
std::atomic<size_t> g_counted_from{SIZE_MAX};
std::atomic<int> g_num_counted{0};

void* operator new(size_t size) {
  if (size >= g_counted_from.load(std::memory_order_relaxed)) ++g_num_counted;
  void* const made = std::malloc(size);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}
void operator delete(void* freed) noexcept { std::free(freed); }
void operator delete(void* freed, size_t /*size*/) noexcept { std::free(freed); }

namespace {

using namespace kvgate;  // NOLINT: a program of its own
using Clock = std::chrono::steady_clock;
using test::DecodeMicroseconds;
using test::Microseconds;

constexpr double kAddedMicrosecondsMax = 20;
constexpr double kEventsPerSecondMin = 100'000;
constexpr int kTokens = 400;

[[noreturn]] void End(const std::string& why) {
  fmt::print("{}\n", why);
  std::exit(1);
}

[[noreturn]] void End(kvgate_error* error) { End(kvgate_error_message(error)); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

kvgate_client* Open(const std::string& model, const std::string& folder) {
  const std::string config =
      "[engine]\ndevice = \"cpu\"\nthreads = 1\nkv_memory = \"64MiB\"\n[limits]\nbody = \"8MiB\"\n";
  kvgate_open_options options{};
  options.struct_size = sizeof options;
  options.model = model.c_str();
  options.data_dir = folder.c_str();
  options.config_toml = config.c_str();
  kvgate_client* client = nullptr;
  kvgate_error* error = nullptr;
  if (kvgate_open(&options, &client, &error) != KVGATE_OK) End(error);
  return client;
}

struct Streamed {
  double microseconds = 0;  // from the first event to the end
  int64_t num_tokens = 0;
  int64_t num_events = 0;
};

Streamed Stream(kvgate_client* client, std::string_view body) {
  kvgate_stream* stream = nullptr;
  kvgate_error* error = nullptr;
  if (kvgate_chat(client, body.data(), body.size(), nullptr, &stream, &error) != KVGATE_OK) {
    End(error);
  }
  Streamed streamed;
  Clock::time_point began{};
  kvgate_event event{};
  event.struct_size = sizeof event;
  kvgate_status status = KVGATE_OK;
  while ((status = kvgate_stream_next(stream, &event, &error)) == KVGATE_OK) {
    if (began == Clock::time_point()) began = Clock::now();
    ++streamed.num_events;
    if (event.kind == KVGATE_EVENT_USAGE) streamed.num_tokens = event.output_tokens;
  }
  if (status != KVGATE_END) End(error);
  streamed.microseconds = Microseconds(began);
  kvgate_stream_free(stream);
  return streamed;
}

// A token's time as the program sees it: from the engine, decoded, as an event.
double ChatMicroseconds(kvgate_client* client, int seed) {
  const std::string body =
      fmt::format(R"({{"model":"local","max_tokens":{},"ignore_eos":true,"seed":{},)"
                  R"("messages":[{{"role":"user","content":"{}"}}]}})",
                  kTokens, seed, seed % 10);
  const Streamed streamed = Stream(client, body);
  return streamed.microseconds / static_cast<double>(std::max<int64_t>(streamed.num_tokens - 1, 1));
}

// A server on loopback that answers each connection with a stream of events, as fast as it can.
class EventServer {
 public:
  explicit EventServer(int num_events) : num_events_(num_events) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, raw, size) != 0 || ::listen(listener_, 4) != 0) End("no listener");
    ::getsockname(listener_, raw, &size);
    url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  ~EventServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  const std::string& url() const { return url_; }

 private:
  void Serve() {
    for (int peer = 0; (peer = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(peer)) {
      char request[4096];
      if (::recv(peer, request, sizeof request, 0) <= 0) continue;
      std::string bytes = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
      for (int i = 0; i < num_events_; ++i) {
        bytes +=
            "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
            "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},"
            "\"finish_reason\":null}]}\n\n";
        if (bytes.size() > 60'000) Send(peer, bytes);
      }
      bytes += "data: [DONE]\n\n";
      Send(peer, bytes);
    }
  }
  static void Send(int peer, std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t size = ::send(peer, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (size <= 0) break;
      sent += static_cast<size_t>(size);
    }
    bytes.clear();
  }

  const int num_events_;
  int listener_ = -1;
  std::string url_;
  std::thread thread_;
};

double EventsPerSecond() {
  constexpr int kEvents = 300'000;
  const EventServer server(kEvents);
  kvgate_connect_options options{};
  options.struct_size = sizeof options;
  options.url = server.url().c_str();
  kvgate_client* client = nullptr;
  kvgate_error* error = nullptr;
  if (kvgate_connect(&options, &client, &error) != KVGATE_OK) End(error);
  const Streamed streamed = Stream(client, "{}");
  kvgate_close(client);
  return static_cast<double>(streamed.num_events) / streamed.microseconds * 1e6;
}

// Copies of a prompt of 16 MB, until the gateway has it: it is refused there for its size, unread.
int PromptCopies(kvgate_client* client) {
  constexpr size_t kPromptBytes = size_t{16} << 20;
  const std::string body = R"({"model":"local","messages":[{"role":"user","content":")" +
                           std::string(kPromptBytes, 'x') + R"("}]})";
  g_num_counted = 0;
  g_counted_from = kPromptBytes;
  kvgate_stream* stream = nullptr;
  kvgate_chat(client, body.data(), body.size(), nullptr, &stream, nullptr);
  kvgate_event event{};
  event.struct_size = sizeof event;
  if (kvgate_stream_next(stream, &event, nullptr) != KVGATE_TOO_LARGE) End("it was not refused");
  g_counted_from = SIZE_MAX;
  kvgate_stream_free(stream);
  return g_num_counted;
}

int Run(const std::string& model, int rounds) {
  const TempFolder temp;
  const std::string folder = temp.path().string();
  std::vector<double> engine_us;
  std::vector<double> chat_us;
  std::vector<double> events;
  int copies = 0;
  {
    auto file = modelfile::OpenModelFile(model);
    const auto tokenizer = tokenizer::Tokenizer::LoadFile(model);
    auto backend = kernels::cpu::MakeCpuBackend({.num_threads = 1, .target = ""});
    if (!file || !tokenizer || !backend) End(model + " is no model with a tokenizer");
    engine::EngineOptions options;
    options.kv_bytes = size_t{64} << 20;
    const auto engine =
        engine::Engine::Open(options, std::move(*file), **backend, **tokenizer, nullptr);
    if (!engine) End(engine.error().ToString());
    kvgate_client* const client = Open(model, folder);
    for (int round = 0; round < rounds; ++round) {
      engine_us.push_back(DecodeMicroseconds(**engine, static_cast<uint64_t>(round), kTokens));
      chat_us.push_back(ChatMicroseconds(client, round));
      events.push_back(EventsPerSecond());
    }
    copies = PromptCopies(client);
    kvgate_close(client);
  }
  const double added = Median(chat_us) - Median(engine_us);
  fmt::print("a token of the engine alone: {:.1f} us; through an embedded client: {:.1f} us\n",
             Median(engine_us), Median(chat_us));
  fmt::print("added: {:.1f} us a token (bound {:.0f})\n", added, kAddedMicrosecondsMax);
  fmt::print("a remote client reads {:.0f} events/s from loopback (bound {:.0f})\n", Median(events),
             kEventsPerSecondMin);
  fmt::print("copies of a large prompt until the gateway has it: {} (bound 1)\n", copies);
  const bool is_kept =
      added <= kAddedMicrosecondsMax && Median(events) >= kEventsPerSecondMin && copies <= 1;
  return is_kept ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("usage: sdk_bench MODEL.gguf [ROUNDS]\n");
    return 2;
  }
  return Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 9);
}
