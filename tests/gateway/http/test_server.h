// TestServer is a server over the fakes, with functions that send requests to it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/gateway/fakes.h"
#include "tests/gateway/http/hosted_server.h"
#include "tests/gateway/http/raw_client.h"
#include "tests/wait_until.h"

namespace kvgate::http {

using std::chrono::milliseconds;
using test::Gateway;
using test::RawClient;
using test::RawResponse;
using test::Script;

struct Setup {
  Script script = {};
  ServerOptions options = {};
  proxy::host::HostOptions host = {};
  store::kv::KvStore* kv = nullptr;
};

struct TestServer {
  explicit TestServer(Setup setup = {})
      : gateway(std::move(setup.script), setup.kv),
        hosted(gateway.service, setup.options, setup.host),
        server(hosted.server) {}
  uint16_t port() const { return server->port(); }

  Gateway gateway;
  HostedServer hosted;
  std::unique_ptr<Server>& server;
};

inline std::string Get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, more);
}

inline std::string Post(std::string_view path, std::string_view body, std::string_view more = "") {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      path, body.size(), more, body);
}

inline constexpr std::string_view kChat =
    R"({"model":"local","messages":[{"role":"user","content":"hi"}]})";
inline constexpr std::string_view kChatStream =
    R"({"model":"local","messages":[{"role":"user","content":"hi"}],"stream":true})";

inline RawResponse Exchange(const TestServer& server, std::string_view request) {
  RawClient client(server.port());
  EXPECT_TRUE(client.Send(request));
  return client.ReadResponse();
}

}  // namespace kvgate::http
