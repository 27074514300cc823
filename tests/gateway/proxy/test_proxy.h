// TestProxy drives requests through gateway/proxy without a socket on the client's side: the fakes
// behind it, a sink in memory in front, and whatever upstreams the test has.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/proxy/handler/router.h"
#include "gateway/proxy/request/environment.h"
#include "gateway/proxy/request/request_context.h"
#include "tests/gateway/fakes.h"

namespace kvgate::test {

// TestSink keeps what it is sent. It may be slow, and its client may leave.
class TestSink final : public proxy::request::ResponseSink {
 public:
  using Milliseconds = std::chrono::milliseconds;
  explicit TestSink(boost::asio::io_context& io)
      : ResponseSink(io.get_executor()), tick_(io.get_executor()), pause_(io.get_executor()) {}

  int status = 0;
  std::string body;
  std::string left_out;
  std::vector<std::pair<std::string, std::string>> fields;  // of a forwarded head
  size_t num_pieces = 0;
  bool is_complete = false;
  bool is_cut = false;
  Milliseconds write_delay{0};           // before each piece is taken
  std::optional<size_t> leaves_at = {};  // the piece at which the client leaves
  void Leave() { SetLeft(); }
  void Cancel() { SetCancelled(); }
  void End() { TellEnd(); }

  upstream::wire::Task<bool> Send(proxy::request::Response response,
                                  proxy::request::ReplyInfo info) override {
    if (is_gone()) co_return false;
    status = response.status;
    body = std::move(response.body);
    left_out = info.left_out;
    is_complete = true;
    co_return true;
  }
  void Begin(const proxy::request::AnswerHead& head) override {
    status = head.status;
    left_out = head.info.left_out;
    if (head.fields == nullptr) return;
    for (const auto& field : *head.fields) fields.emplace_back(field.name, field.value);
  }
  upstream::wire::Task<bool> Write(std::string_view piece, bool is_last) override {
    if (leaves_at == num_pieces) SetLeft();
    if (is_gone()) co_return false;
    if (write_delay > Milliseconds(0)) {
      pause_.expires_after(write_delay);
      co_await pause_.async_wait(upstream::wire::kAwait);
    }
    body += piece;
    ++num_pieces;
    is_complete = is_last;
    co_return true;
  }
  void Cut() override { is_cut = true; }

 private:
  void OnWatch() override {
    tick_.expires_after(Milliseconds(20));
    tick_.async_wait([this](const boost::system::error_code& code) {
      if (code || !is_watched()) return;
      TellTick(std::chrono::steady_clock::now());
      if (is_watched()) OnWatch();
    });
  }

  boost::asio::steady_timer tick_;
  boost::asio::steady_timer pause_;
};

// As long as the ids that the gateway makes.
inline constexpr const char* kTestRequestId = "0123456789abcdef01234567";

// A request as a caller in this process makes it.
struct TestRequest {
  std::string method = "POST";
  std::string path = "/v1/chat/completions";
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields = {};
};

class TestProxy {
 public:
  struct Setup {
    Script script = {};
    proxy::request::TargetOptions targets = {};
    proxy::request::Options options = {};
    bool has_local = true;
  };
  TestProxy() : TestProxy(Setup()) {}
  explicit TestProxy(Setup setup)
      : gateway(std::move(setup.script)),
        pools_(service::WorkPools::Options{}),
        bodies_({}),
        targets_(Open(setup.targets, setup.has_local)),
        environment_{.options = setup.options,
                     .service = gateway.service,
                     .pools = pools_,
                     .bodies = bodies_,
                     .targets = targets_,
                     .model_lists = lists_} {}

  boost::asio::io_context& io() { return io_; }

  // Serves one request into `sink`. `beside` runs on the sink's executor while it is served.
  void Serve(const TestRequest& request, TestSink& sink, std::function<void()> beside = {}) {
    bool is_done = false;
    boost::asio::co_spawn(io_, Handle(request, sink, is_done), [](std::exception_ptr failure) {
      EXPECT_FALSE(failure) << "the request threw";
    });
    if (beside) boost::asio::post(io_, beside);
    io_.restart();
    while (!is_done) io_.run_one_for(std::chrono::milliseconds(50));
    sink.Watch(nullptr);
    io_.poll();
  }

  Gateway gateway;

 private:
  static std::shared_ptr<const proxy::request::Targets> Open(
      const proxy::request::TargetOptions& options, bool has_local) {
    auto opened = proxy::request::Targets::Open(options, has_local, nullptr);
    EXPECT_TRUE(opened) << opened.error().ToString();
    return *opened;
  }

  upstream::wire::Task<void> Handle(const TestRequest& request, TestSink& sink, bool& is_done) {
    proxy::request::RequestHead head{.request_id = kTestRequestId,
                                     .method = request.method,
                                     .target = request.path,
                                     .fields = {},
                                     .is_loopback = true,
                                     .received_at = std::chrono::steady_clock::now()};
    for (const auto& [name, value] : request.fields) {
      head.fields.push_back({.name = name, .value = value});
    }
    proxy::handler::RouteResult found = proxy::handler::FindRoute(request.method, request.path);
    {
      proxy::request::RequestContext context(environment_, sink, std::move(head), targets_.Get());
      context.body().bytes() = request.body;
      context.place() = found.match->place;
      co_await found.match->handler->Serve(context);
    }
    is_done = true;
  }

  boost::asio::io_context io_;
  service::WorkPools pools_;
  proxy::work::BodyBudget bodies_;
  proxy::request::CurrentTargets targets_;
  upstream::ModelListCache lists_;
  proxy::request::Environment environment_;
};

}  // namespace kvgate::test
