// AskedUpstream is a proxy with one upstream, which answers as it is told, and one request to it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/proxy/provider/upstream_exchange.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/upstream/scripted_upstream.h"
#include "tests/gateway/upstream/telling_log.h"
#include "tests/wait_until.h"

namespace kvgate::test {

// The operator's key for the upstream.
inline constexpr const char* kOperatorKey = "sk-operator-0123456789";

inline std::string ChatBody(bool stream = false) {
  return std::string(R"({"model":"m-1","messages":[{"role":"user","content":"hi"}])") +
         (stream ? R"(,"stream":true})" : "}");
}

// A whole answer of an upstream.
inline std::string Http(std::string_view status, std::string_view body,
                        std::string_view fields = "content-type: application/json\r\n") {
  return fmt::format("HTTP/1.1 {}\r\n{}content-length: {}\r\n\r\n{}", status, fields, body.size(),
                     body);
}

class AskedUpstream : private proxy::request::Watcher {
 public:
  struct Setup {
    // What the upstream sends: the first part at once, each further one when Go is called, and then
    // the end of the connection, if it is not held until the other side ends it.
    std::vector<std::string> parts = {Http("200 OK", "{}")};
    bool is_held = true;
    TestRequest request = {.body = ChatBody()};
    std::string dialect = "openai";
    bool has_key = false;  // the operator's
    bool has_log = true;
    bool has_spans = false;
    config::UpstreamConfig config = {};
    config::KeyConfig key = {};  // the callers'; without a name there are none
    service::Prompts* prompts = nullptr;
    proxy::work::BodyBudget::Options bodies = {};
  };
  explicit AskedUpstream(Setup setup)
      : server([this, parts = setup.parts, is_held = setup.is_held](Peer& peer, int) {
          Play(peer, parts, is_held);
        }),
        ask(std::move(setup.request)),
        proxy({.targets = {.upstreams = {Config(setup, server.port())},
                           .keys = setup.key.name.empty()
                                       ? std::vector<config::KeyConfig>{}
                                       : std::vector<config::KeyConfig>{setup.key}},
               .options = {.exchange_log = setup.has_log ? &log : nullptr,
                           .prompts = setup.prompts,
                           .has_spans = setup.has_spans},
               .bodies = setup.bodies}),
        sink(proxy.io()),
        request(proxy.Open(ask, sink)) {}
  ~AskedUpstream() override { sink.Watch(nullptr); }

  upstream::Upstream& upstream() { return *proxy.targets().upstreams->Find("up"); }

  // Makes the request for the upstream, under this name of its model; empty: the body's own.
  Result<void> Build(std::string model = {}) {
    EXPECT_TRUE(proxy.Run(request->Scan()));
    exchange.Open(&upstream(), request->model());
    const bool is_renamed = !model.empty();
    outgoing = std::make_unique<proxy::provider::OutgoingRequest>(
        proxy::provider::OutgoingRequest::Args{.request = *request,
                                               .upstream = upstream(),
                                               .model = is_renamed ? model : request->model(),
                                               .is_renamed = is_renamed});
    return proxy.Run(outgoing->Build(exchange.account()));
  }
  // Sends it, and takes the head of the answer.
  Result<void> Ask() {
    KVGATE_TRY_VOID(Build());
    exchange.Connect();
    sink.Watch(this);
    KVGATE_TRY_VOID(proxy.Run(exchange.Send(*outgoing)));
    exchange.TakeHead();
    return {};
  }
  // The upstream sends its next part.
  void Go() { ++num_released_; }
  // The client leaves while the next step waits.
  std::function<void()> Leaving() {
    return [this] { sink.Leave(); };
  }
  // The server gives the request up meanwhile.
  std::function<void()> GivingUp() {
    return [this] { sink.Cancel(); };
  }
  std::vector<std::string> received() {
    const std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  static config::UpstreamConfig Config(const Setup& setup, uint16_t port) {
    ::setenv("KVGATE_TEST_OPERATOR_KEY", kOperatorKey, 1);
    config::UpstreamConfig config = setup.config;
    config.name = "up";
    config.dialect = setup.dialect;
    config.provider = setup.dialect;
    const bool has_version = setup.dialect == "openai";  // in its URL
    config.base_url = fmt::format("http://127.0.0.1:{}{}", port, has_version ? "/v1" : "");
    if (setup.has_key) config.api_key_env = "KVGATE_TEST_OPERATOR_KEY";
    config.breaker_failures = 0;
    return config;
  }
  void OnGone() override { exchange.wire()->Abort(); }

  void Play(Peer& peer, const std::vector<std::string>& parts, bool is_held) {
    for (std::string got = peer.ReadRequest(); !got.empty(); got = peer.ReadRequest()) {
      {
        const std::lock_guard lock(mutex_);
        received_.push_back(std::move(got));
      }
      for (size_t i = 0; i < parts.size(); ++i) {
        while (num_released_.load() < i && !peer.WaitForEnd(std::chrono::milliseconds(1))) {
        }
        if (!peer.Send(parts[i])) return;
      }
      if (!is_held) return;
    }
  }

  std::mutex mutex_;
  std::vector<std::string> received_;
  std::atomic<size_t> num_released_{0};

 public:
  ScriptedUpstream server;
  TellingLog log;
  const TestRequest ask;
  TestProxy proxy;
  TestSink sink;
  std::unique_ptr<proxy::request::RequestContext> request;
  std::unique_ptr<proxy::provider::OutgoingRequest> outgoing;  // outlives the exchange
  proxy::provider::UpstreamExchange exchange{*request};
};

}  // namespace kvgate::test
