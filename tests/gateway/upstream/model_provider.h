// ModelProvider answers like a provider of models in its dialect, from the request alone: one body
// or a stream of events, or a failure if the prompt says so. It keeps what it got. A prompt with
// "hold-the-head" gets no answer, and one with "hold-the-rest" an answer that stops behind its
// first word: then it waits until the other side gives the connection up.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/config/config.h"
#include "tests/gateway/upstream/scripted_upstream.h"

namespace kvgate::test {

class ModelProvider {
 public:
  explicit ModelProvider(std::string name, std::string dialect = "openai")
      : name_(std::move(name)), dialect_(std::move(dialect)), server_([this](Peer& peer, int) {
          for (std::string request = peer.ReadRequest(); !request.empty();
               request = peer.ReadRequest()) {
            const std::string answer = AnswerTo(request);
            const bool holds = Has(answer, kWord) && Has(request, "hold-the-");
            const std::string sent = holds ? BeginningOf(answer, request) : answer;
            if (!peer.Send(sent)) return;
            if (!holds) continue;
            ++num_held_;
            if (peer.WaitForEnd(kHoldLimit)) ++num_given_up_;
            return;
          }
        }) {}

  config::UpstreamConfig Config(std::vector<std::string> models) const {
    config::UpstreamConfig config;
    config.name = name_;
    config.dialect = dialect_;
    config.provider = dialect_ == "anthropic" ? "anthropic" : "openai";
    config.base_url = dialect_ == "anthropic" ? fmt::format("http://127.0.0.1:{}", server_.port())
                                              : server_.url();
    config.models = std::move(models);
    config.breaker_failures = 0;
    return config;
  }
  // Returns the requests so far, with its own port taken out.
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // Returns those since it was last called.
  std::vector<std::string> TakeRequests() {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }
  // From now on whole chat answers say that a prompt has a token for each byte of its request.
  void CountBytes() { counts_bytes_ = true; }
  // How many answers it held, and how many of their connections were given up.
  int num_held() const { return num_held_.load(); }
  int num_given_up() const { return num_given_up_.load(); }

 private:
  // Far above what a busy machine needs.
  static constexpr std::chrono::seconds kHoldLimit{60};

  static constexpr std::string_view kWord = "Hel";  // the first of every answer but failures

  // What is sent of an answer that is held: nothing, or as far as its first word, with the chunk
  // that this is in.
  static std::string BeginningOf(const std::string& answer, std::string_view request) {
    if (Has(request, "hold-the-head")) return "";
    const size_t word = answer.find(kWord);
    const size_t line = answer.find("\r\n", word);
    return answer.substr(0, line == std::string::npos ? word + kWord.size() : line + 2);
  }
  static bool Has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  }
  static std::string Whole(int status, std::string_view body) {
    return fmt::format(
        "HTTP/1.1 {} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n"
        "x-request-id: up-1\r\n\r\n{}",
        status, body.size(), body);
  }
  static std::string Events(const std::vector<std::string>& events) {
    std::string answer =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    for (const std::string& event : events) {
      answer += fmt::format("{:x}\r\n{}\r\n", event.size(), event);
    }
    return answer + "0\r\n\r\n";
  }

  std::string AnswerTo(std::string request) {
    const std::string port = fmt::format(":{}", server_.port());
    if (const size_t at = request.find(port); at != std::string::npos)
      request.erase(at, port.size());
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    if (Has(request, "fail-" + name_)) {
      return Whole(503, R"({"error":{"message":"busy","type":"overloaded"}})");
    }
    if (Has(request, "refuse-me")) {
      return Whole(400, R"({"type":"error","error":{"message":"no","type":"bad_request"}})");
    }
    const bool streams = Has(request, R"("stream":true)");
    if (Has(request.substr(0, 64), "/messages")) return streams ? MessageEvents() : Message();
    if (Has(request.substr(0, 64), "/responses")) return streams ? ResponseEvents() : Response();
    if (streams) return ChatEvents();
    return Chat(
        counts_bytes_
            ? fmt::format(R"("usage":{{"prompt_tokens":{},"completion_tokens":2}})", request.size())
            : std::string(kChatUsage));
  }

  static constexpr std::string_view kChatUsage =
      R"("usage":{"prompt_tokens":40,"completion_tokens":2,"total_tokens":42,)"
      R"("prompt_tokens_details":{"cached_tokens":16}})";
  static std::string Chat(std::string_view usage) {
    return Whole(200,
                 fmt::format(R"({{"id":"c1","object":"chat.completion","created":1,)"
                             R"("model":"m","choices":[{{"index":0,"message":{{"role":)"
                             R"("assistant","content":"Hello"}},"finish_reason":"stop"}}],{}}})",
                             usage));
  }
  static std::string ChatEvents() {
    const auto chunk = [](std::string_view delta, std::string_view reason) {
      return fmt::format(R"(data: {{"id":"c1","object":"chat.completion.chunk","created":1,)"
                         R"("model":"m","choices":[{{"index":0,"delta":{},"finish_reason":{}}}]}})"
                         "\n\n",
                         delta, reason);
    };
    return Events({chunk(R"({"role":"assistant","content":""})", "null"),
                   chunk(R"({"content":"Hel"})", "null"), chunk(R"({"content":"lo"})", "null"),
                   chunk("{}", R"("stop")"),
                   fmt::format(R"(data: {{"id":"c1","object":"chat.completion.chunk","created":1,)"
                               R"("model":"m","choices":[],{}}})"
                               "\n\n",
                               kChatUsage),
                   "data: [DONE]\n\n"});
  }
  static std::string Message() {
    return Whole(200, R"({"id":"m1","type":"message","role":"assistant","model":"m","content":)"
                      R"([{"type":"text","text":"Hello"}],"stop_reason":"end_turn",)"
                      R"("stop_sequence":null,"usage":{"input_tokens":24,"output_tokens":2,)"
                      R"("cache_read_input_tokens":16,"cache_creation_input_tokens":0}})");
  }
  static std::string MessageEvents() {
    const auto event = [](std::string_view name, std::string_view data) {
      return fmt::format("event: {}\ndata: {}\n\n", name, data);
    };
    return Events(
        {event("message_start",
               R"({"type":"message_start","message":{"id":"m1","type":"message","role":)"
               R"("assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,)"
               R"("usage":{"input_tokens":24,"output_tokens":1,"cache_read_input_tokens":16,)"
               R"("cache_creation_input_tokens":0}}})"),
         event("content_block_start", R"({"type":"content_block_start","index":0,)"
                                      R"("content_block":{"type":"text","text":""}})"),
         event("content_block_delta", R"({"type":"content_block_delta","index":0,)"
                                      R"("delta":{"type":"text_delta","text":"Hello"}})"),
         event("content_block_stop", R"({"type":"content_block_stop","index":0})"),
         event("message_delta", R"({"type":"message_delta","delta":{"stop_reason":"end_turn",)"
                                R"("stop_sequence":null},"usage":{"output_tokens":2}})"),
         event("message_stop", R"({"type":"message_stop"})")});
  }
  static constexpr std::string_view kResponse =
      R"({"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m",)"
      R"("output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant",)"
      R"("content":[{"type":"output_text","text":"Hello","annotations":[]}]}],)"
      R"("usage":{"input_tokens":40,"input_tokens_details":{"cached_tokens":16},)"
      R"("output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":42}})";
  static std::string Response() { return Whole(200, kResponse); }
  static std::string ResponseEvents() {
    return Events({fmt::format("event: response.output_text.delta\ndata: {}\n\n",
                               R"({"type":"response.output_text.delta","item_id":"msg_1",)"
                               R"("output_index":0,"content_index":0,"delta":"Hello"})"),
                   fmt::format("event: response.completed\ndata: {{\"type\":"
                               "\"response.completed\",\"response\":{}}}\n\n",
                               kResponse)});
  }

  const std::string name_;
  const std::string dialect_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::atomic<bool> counts_bytes_{false};
  std::atomic<int> num_held_{0};
  std::atomic<int> num_given_up_{0};
  ScriptedUpstream server_;  // last: its threads use all of the above
};

}  // namespace kvgate::test
