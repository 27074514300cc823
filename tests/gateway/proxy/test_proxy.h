// TestProxy drives requests through gateway/proxy without a socket on the client's side: the fakes
// behind it, a sink in memory in front, and whatever upstreams the test has.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
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
  std::string compaction;
  std::string prompt;
  std::vector<std::pair<std::string, std::string>> fields;  // of a forwarded head, or a response
  size_t num_pieces = 0;
  bool is_complete = false;
  bool is_cut = false;
  Milliseconds write_delay{0};           // before each piece is taken
  std::optional<size_t> leaves_at = {};  // the piece at which the client leaves
  void Leave() { SetLeft(); }
  void Cancel() { SetCancelled(); }
  void End() { SetToEnd(); }

  upstream::wire::Task<bool> Send(proxy::request::Response response,
                                  proxy::request::ReplyInfo info) override {
    if (is_gone()) co_return false;
    status = response.status;
    body = std::move(response.body);
    fields = std::move(response.headers);
    left_out = info.left_out;
    compaction = info.compaction;
    prompt = info.prompt;
    is_complete = true;
    co_return true;
  }
  void Begin(const proxy::request::AnswerHead& head) override {
    status = head.status;
    left_out = head.info.left_out;
    compaction = head.info.compaction;
    prompt = head.info.prompt;
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
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> fields = {};
  proxy::request::BodySource* source = nullptr;  // for routes that take their body in pieces
  std::string id = kTestRequestId;
};

class TestProxy {
 public:
  struct Setup {
    Script script = {};
    proxy::request::TargetOptions targets = {};
    proxy::request::Options options = {};
    bool has_local = true;  // routes may name the local engine
    store::kv::KvStore* kv = nullptr;
    store::meta::TurnStore* turns = nullptr;
    service::WorkPools::Options pools = {};
    proxy::work::BodyBudget::Options bodies = {};
  };
  TestProxy() : TestProxy(Setup()) {}
  explicit TestProxy(Setup setup)
      : gateway(std::move(setup.script), setup.kv, setup.turns, nullptr, nullptr,
                setup.options.sessions),
        pools_(setup.pools),
        bodies_(setup.bodies),
        current_(OpenTargets(setup.targets, setup.has_local)),
        targets_(current_),
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
    Begin(request, sink, is_done);
    if (beside) boost::asio::post(io_, beside);
    RunUntil(is_done);
    sink.Watch(nullptr);
    io_.poll();
  }
  // Begins to serve one of several requests; RunUntil goes on with all of them. All that is given
  // must outlive it.
  void Begin(const TestRequest& request, TestSink& sink, bool& is_done) {
    boost::asio::co_spawn(io_, Handle(request, sink, is_done), [](std::exception_ptr failure) {
      EXPECT_FALSE(failure) << "the request threw";
    });
  }
  void RunUntil(const bool& is_done) {
    const auto deadline = std::chrono::steady_clock::now() + kHangLimit;
    while (!is_done) {
      io_.run_one_for(std::chrono::milliseconds(50));
      // What hangs still uses the caller's variables, so the test cannot go on.
      KVGATE_CHECK(std::chrono::steady_clock::now() < deadline, "a request hangs");
    }
  }

  // The context of a request, for tests of what handlers are made of.
  std::unique_ptr<proxy::request::RequestContext> Open(const TestRequest& request, TestSink& sink) {
    auto context = std::make_unique<proxy::request::RequestContext>(
        environment_, sink, HeadOf(request), targets_.Get());
    context->body().bytes() = request.body;
    if (auto found = proxy::handler::FindRoute(request.method, request.path); found.match) {
      context->place() = std::move(found.match->place);
    }
    return context;
  }
  // Runs a coroutine on the sinks' executor to its end, and returns what it returns. `beside` runs
  // there meanwhile.
  template <typename T>
  T Run(upstream::wire::Task<T> task, std::function<void()> beside = {}) {
    std::optional<T> result;
    bool is_done = false;
    RunTask(Keep(std::move(task), result, is_done), is_done, std::move(beside));
    return *std::move(result);
  }
  void Run(upstream::wire::Task<void> task, std::function<void()> beside = {}) {
    bool is_done = false;
    RunTask(Await(std::move(task), is_done), is_done, std::move(beside));
  }

  const proxy::request::Targets& targets() const { return *current_; }
  service::WorkPools& pools() { return pools_; }
  const proxy::work::BodyBudget& bodies() const { return bodies_; }
  proxy::request::Environment& environment() { return environment_; }

  Gateway gateway;

 private:
  static std::shared_ptr<const proxy::request::Targets> OpenTargets(
      const proxy::request::TargetOptions& options, bool has_local) {
    auto opened = proxy::request::Targets::Open(options, has_local, nullptr);
    EXPECT_TRUE(opened) << opened.error().ToString();
    return *opened;
  }

  // No test is right because of it: it is far above what a busy machine needs.
  static constexpr std::chrono::seconds kHangLimit{60};

  static proxy::request::RequestHead HeadOf(const TestRequest& request) {
    proxy::request::RequestHead head{.request_id = request.id,
                                     .method = request.method,
                                     .target = request.path,
                                     .fields = {},
                                     .is_head = request.method == "HEAD",
                                     .is_loopback = true,
                                     .received_at = std::chrono::steady_clock::now()};
    for (const auto& [name, value] : request.fields) {
      head.fields.push_back({.name = name, .value = value});
    }
    return head;
  }

  upstream::wire::Task<void> Handle(const TestRequest& request, TestSink& sink, bool& is_done) {
    const proxy::handler::RouteResult found =
        proxy::handler::FindRoute(request.method, request.path);
    {
      const auto context = Open(request, sink);
      context->body().source() = request.source;
      co_await found.match->handler->Serve(*context);
    }
    is_done = true;
  }

  template <typename T>
  static upstream::wire::Task<void> Keep(upstream::wire::Task<T> task, std::optional<T>& result,
                                         bool& is_done) {
    T value = co_await std::move(task);
    result.emplace(std::move(value));
    is_done = true;
  }
  static upstream::wire::Task<void> Await(upstream::wire::Task<void> task, bool& is_done) {
    co_await std::move(task);
    is_done = true;
  }
  void RunTask(upstream::wire::Task<void> task, const bool& is_done, std::function<void()> beside) {
    std::exception_ptr thrown;
    bool has_thrown = false;
    boost::asio::co_spawn(io_, std::move(task), [&](std::exception_ptr failure) {
      thrown = failure;
      has_thrown = failure != nullptr;
    });
    if (beside) boost::asio::post(io_, std::move(beside));
    while (!is_done && !has_thrown) io_.run_one_for(std::chrono::milliseconds(50));
    if (thrown) std::rethrow_exception(thrown);
    io_.poll();
  }

  boost::asio::io_context io_;
  // A worker may be all that is awaited.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{
      io_.get_executor()};
  service::WorkPools pools_;
  proxy::work::BodyBudget bodies_;
  const std::shared_ptr<const proxy::request::Targets> current_;
  proxy::request::CurrentTargets targets_;
  upstream::ModelListCache lists_;
  proxy::request::Environment environment_;
};

}  // namespace kvgate::test
