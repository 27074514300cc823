// The same requests through a server and through gateway/proxy without a socket on the client's
// side: providers get the same bytes, clients the same answers, and the accounts say the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "gateway/service/prompts.h"
#include "tests/gateway/http/test_server.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/upstream/model_provider.h"
#include "tests/gateway/upstream/telling_log.h"

namespace kvgate::http {
namespace {

using test::ModelProvider;
using test::TellingLog;
using test::TestProxy;
using test::TestRequest;
using test::TestSink;

// When a client leaves its request.
enum class Leaves { kBeforeHead, kInTheMiddle, kBehindTheEnd };

std::string_view WordOf(Leaves leaves) {
  if (leaves == Leaves::kBeforeHead) return "hold-the-head";
  return leaves == Leaves::kInTheMiddle ? "hold-the-rest" : "";
}

// One gateway with providers of its own.
struct Side {
  ModelProvider openai{"openai"};
  ModelProvider anthropic{"anthropic", "anthropic"};
  service::Prompts prompts{prompt::Optimizer::Options{}};
  TellingLog log;

  int num_held() const { return openai.num_held() + anthropic.num_held(); }
  // True if one more answer than `before` is held, and all of it that came has been passed on.
  bool IsHeld(int before, Leaves leaves) const {
    return num_held() > before && (leaves == Leaves::kBeforeHead || log.HasHeard("Hel"));
  }
  bool IsAllGivenUp() const {
    return openai.num_given_up() == openai.num_held() &&
           anthropic.num_given_up() == anthropic.num_held();
  }

  proxy::request::TargetOptions Targets() const {
    config::UpstreamConfig stable = openai.Config({"stable-*"});
    stable.name = "stable";
    stable.mode = "stabilize";
    return {.upstreams = {openai.Config({"gpt-*"}), stable, anthropic.Config({"claude-*"})},
            .routes = {{.models = {"coder-*"},
                        .targets = {"openai/gpt-5.6-sol"},
                        .fallback = {"anthropic/claude-sonnet-5", "local"}}}};
  }
};

// Conversations of three dialects that grow by a turn a request, with what agents put into them.
class Requests {
 public:
  explicit Requests(uint32_t seed) : random_(seed) {}

  // `last_word` stands in the last turn, which then does not remain in the conversation.
  TestRequest Next(std::string_view last_word = "") {
    Conversation& conversation = conversations_[Pick(std::size(conversations_))];
    if (conversation.turns.empty() || Pick(12) == 0) Begin(conversation);
    const bool streams = Pick(2) == 0;
    std::string word = fmt::format("turn {}", conversation.turns.size());
    if (Pick(10) == 0) word = "fail-openai";
    if (Pick(25) == 0) word = "fail-openai fail-anthropic";
    if (Pick(25) == 0) word = "refuse-me";
    if (!last_word.empty()) word += fmt::format(" {}", last_word);
    conversation.turns.push_back(word);
    TestRequest request{.path = conversation.path, .body = BodyOf(conversation, streams)};
    if (!last_word.empty()) conversation.turns.pop_back();
    request.fields = {{"Host", "localhost"},
                      {"Content-Type", "application/json"},
                      {"Authorization", "Bearer sk-caller"}};
    if (Pick(4) == 0) request.fields.emplace_back("x-kvgate-explain", "1");
    if (Pick(30) == 0) request.fields.emplace_back("x-kvgate-private", "1");
    if (Pick(30) == 0) request.fields.emplace_back("x-kvgate-upstream", "anthropic");
    return request;
  }

 private:
  struct Conversation {
    std::string path;
    std::string model;
    std::string system = {};
    std::vector<std::string> turns = {};
  };

  size_t Pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  void Begin(Conversation& conversation) {
    static constexpr const char* kPaths[] = {"/v1/chat/completions", "/v1/responses",
                                             "/v1/messages"};
    static constexpr const char* kModels[] = {"gpt-5.6-sol", "claude-sonnet-5", "coder-1",
                                              "stable-1", "nobodys"};
    conversation = {.path = kPaths[Pick(3)], .model = kModels[Pick(5)]};
    conversation.system = fmt::format("You are agent {}. ", Pick(5));
    for (size_t i = Pick(200); i > 0; --i) conversation.system += "Do as you are told. ";
  }

  std::string BodyOf(const Conversation& conversation, bool streams) {
    const std::string stream = streams ? R"(,"stream":true)" : "";
    const std::string now = fmt::format("Today's date: 2026-03-{:02}\\n", 1 + Pick(28));
    std::string turns;
    for (size_t i = 0; i < conversation.turns.size(); ++i) {
      if (i > 0) turns += fmt::format(R"(,{{"role":"assistant","content":"Hello"}},)");
      turns += fmt::format(R"({{"role":"user","content":"{}"}})", conversation.turns[i]);
    }
    if (conversation.path == "/v1/messages") {
      return fmt::format(R"({{"model":"{}","max_tokens":20,"system":"{}{}","messages":[{}]{}}})",
                         conversation.model, now, conversation.system, turns, stream);
    }
    if (conversation.path == "/v1/responses") {
      return fmt::format(R"({{"model":"{}","instructions":"{}{}","input":[{}]{}}})",
                         conversation.model, now, conversation.system, turns, stream);
    }
    return fmt::format(R"({{"model":"{}","messages":[{{"role":"system","content":"{}{}"}},{}]{}}})",
                       conversation.model, now, conversation.system, turns, stream);
  }

  std::mt19937 random_;
  Conversation conversations_[6];
};

// Ids and times that are made for each answer anew.
std::string WithoutIds(std::string text, std::string_view id) {
  for (size_t at = 0; (at = text.find(id, at)) != std::string::npos;)
    text.replace(at, id.size(), "ID");
  for (const std::string_view time : {"\"created", "\"completed_at"}) {
    for (size_t at = 0; (at = text.find(time, at)) != std::string::npos; ++at) {
      const size_t begin = text.find(':', at) + 1;
      size_t end = begin;
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
      text.replace(begin, end - begin, "0");
    }
  }
  return text;
}

std::string Wire(const TestRequest& request) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.path);
  for (const auto& [name, value] : request.fields) text += fmt::format("{}: {}\r\n", name, value);
  return text + fmt::format("Content-Length: {}\r\n\r\n{}", request.body.size(), request.body);
}

// A server and the proxy alone, which are asked the same.
struct Pair {
  size_t num_asked = 0;  // requests that OpenAI's provider got
  Side with;
  Side without;
  const Script script = {.pieces = {"Hello"}};  // two pieces may go out as one
  TestServer server{{.script = script,
                     .options = {.poll_interval = milliseconds(5)},
                     .host = {.requests = {.exchange_log = &with.log, .prompts = &with.prompts},
                              .targets = with.Targets()}}};
  TestProxy proxy{{.script = script,
                   .targets = without.Targets(),
                   .options = {.exchange_log = &without.log, .prompts = &without.prompts}}};

  // Compares what accounts were told, and what the providers got.
  void Compare() {
    const std::vector<std::string> told = without.log.Take();
    std::vector<std::string> by_server;
    ASSERT_TRUE(test::WaitUntil(
        [&] {
          for (std::string& text : with.log.Take()) by_server.push_back(std::move(text));
          return by_server.size() >= told.size();
        },
        "the server's account is closed"));
    ASSERT_EQ(told, by_server);
    const std::vector<std::string> asked = with.openai.TakeRequests();
    ASSERT_EQ(without.openai.TakeRequests(), asked);
    ASSERT_EQ(without.anthropic.TakeRequests(), with.anthropic.TakeRequests());
    num_asked += asked.size();
  }
};

TEST(SocketlessTest, ARequestIsTheSameWithASocketAndWithout) {
  Pair pair;
  RawClient client(pair.server.port());
  Requests requests(1);
  for (int i = 0; i < 1000; ++i) {
    TestRequest request = requests.Next();
    ASSERT_TRUE(client.Send(Wire(request))) << i;
    const RawResponse expected = client.ReadResponse();
    // As a client's library sends it.
    request.fields.emplace_back("Content-Length", std::to_string(request.body.size()));
    TestSink sink(pair.proxy.io());
    pair.proxy.Serve(request, sink);
    ASSERT_EQ(sink.status, expected.status) << i << ": " << expected.body << sink.body;
    ASSERT_EQ(sink.is_complete, expected.complete) << i;
    const std::string id = expected.headers.at("x-kvgate-request-id");
    ASSERT_EQ(WithoutIds(sink.body, test::kTestRequestId), WithoutIds(expected.body, id)) << i;
    ASSERT_NO_FATAL_FAILURE(pair.Compare()) << i;
  }
  EXPECT_GT(pair.num_asked, 200u);
}

// Calls `then` on the executor once `condition` holds, which it looks for every millisecond.
void When(boost::asio::io_context& io, std::function<bool()> condition,
          std::function<void()> then) {
  if (condition()) {
    then();
    return;
  }
  auto timer = std::make_shared<boost::asio::steady_timer>(io, milliseconds(1));
  timer->async_wait([&io, timer, condition = std::move(condition), then = std::move(then)](
                        const auto&) mutable { When(io, std::move(condition), std::move(then)); });
}

// Serves a request without a socket whose client leaves as soon as a provider holds the answer.
// Returns true if it left: a request that no provider holds is answered.
bool ServeAndLeave(Pair& pair, const TestRequest& request, Leaves leaves, TestSink& sink) {
  if (leaves == Leaves::kBehindTheEnd) {
    pair.proxy.Serve(request, sink);
    sink.Leave();
    return false;
  }
  // The last look may come during the next request.
  struct State {
    bool has_left = false;
    bool is_served = false;
  };
  const auto state = std::make_shared<State>();
  const auto is_due = [&side = pair.without, state, before = pair.without.num_held(), leaves] {
    return state->is_served || side.IsHeld(before, leaves);
  };
  const auto leave = [&sink, state] {
    if (state->is_served) return;
    state->has_left = true;
    sink.Leave();
  };
  pair.proxy.Serve(request, sink, [&] { When(pair.proxy.io(), is_due, leave); });
  state->is_served = true;
  return state->has_left;
}

// The same through a server. What the client got of the answer is compared where it can tell.
void AskAndLeave(Pair& pair, const TestRequest& request, Leaves leaves, const TestSink& sink) {
  Side& side = pair.with;
  const int before = side.num_held();
  RawClient client(pair.server.port());
  ASSERT_TRUE(client.Send(Wire(request)));
  if (sink.is_complete) {
    const RawResponse whole = client.ReadResponse();
    ASSERT_EQ(whole.status, sink.status);
    return;  // and leaves behind the end
  }
  const bool has_part = sink.body.find("Hel") != std::string::npos;
  if (has_part) {
    ASSERT_TRUE(client.WaitFor("Hel"));
  }
  ASSERT_TRUE(
      test::WaitUntil([&] { return side.IsHeld(before, leaves); }, "a provider holds the answer"));
  if (!has_part) return;
  // A client that goes on reading sees where the answer ends.
  client.ShutdownSend();
  const RawResponse part = client.ReadResponse();
  ASSERT_EQ(part.status, sink.status);
  ASSERT_FALSE(part.complete);
  const std::string id = part.headers.at("x-kvgate-request-id");
  ASSERT_EQ(WithoutIds(part.body, id), WithoutIds(sink.body, test::kTestRequestId));
}

TEST(SocketlessTest, ARequestWhoseClientLeavesIsTheSameWithASocketAndWithout) {
  Pair pair;
  Requests requests(2);
  int num_left[3] = {};
  int num_parts = 0;
  for (int i = 0; i < 240; ++i) {
    const auto leaves = static_cast<Leaves>(i % 3);
    TestRequest request = requests.Next(WordOf(leaves));
    const TestRequest on_wire = request;
    request.fields.emplace_back("Content-Length", std::to_string(request.body.size()));
    TestSink sink(pair.proxy.io());
    const bool has_left = ServeAndLeave(pair, request, leaves, sink);
    ASSERT_NE(has_left, sink.is_complete) << i << " " << sink.body;
    num_left[i % 3] += has_left || leaves == Leaves::kBehindTheEnd ? 1 : 0;
    num_parts += has_left && sink.num_pieces > 0 ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(AskAndLeave(pair, on_wire, leaves, sink)) << i;
    ASSERT_NO_FATAL_FAILURE(pair.Compare()) << i;
    for (const Side* const side : {&pair.with, &pair.without}) {
      ASSERT_TRUE(test::WaitUntil([&] { return side->IsAllGivenUp(); },
                                  "the providers' connections are given up"))
          << i;
    }
    ASSERT_EQ(pair.without.openai.num_held(), pair.with.openai.num_held()) << i;
    ASSERT_EQ(pair.without.anthropic.num_held(), pair.with.anthropic.num_held()) << i;
    ASSERT_EQ(pair.proxy.bodies().bytes(), 0u) << i;
    const auto num_disconnects = [](auto& side) {
      return side.gateway.metrics.client_disconnects.value();
    };
    ASSERT_EQ(num_disconnects(pair.proxy), static_cast<uint64_t>(num_left[0] + num_left[1])) << i;
    ASSERT_TRUE(
        test::WaitUntil([&] { return num_disconnects(pair.server) == num_disconnects(pair.proxy); },
                        "the server counts it too"))
        << i;
  }
  EXPECT_GT(num_left[0], 30);
  EXPECT_GT(num_left[1], 30);
  EXPECT_GT(num_parts, 20);
}

}  // namespace
}  // namespace kvgate::http
