// Measures Optimizer::Prepare on an agent's conversation of about 1 MB whose turns add 2 KB of new
// text each, and prints "MODE  median µs  p99 µs  worst µs". Then it runs conversations of seven
// agents of tests/gateway/prompt/agent_generator.h in the mode stabilize (the first argument times
// 49), and prints the bytes that are learnt of them, and that 10,000 conversations would take. Run
// it on a quiet machine.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/optimizer.h"
#include "tests/gateway/prompt/agent_generator.h"

namespace kvgate::prompt {
namespace {

constexpr size_t kBodyBytes = size_t{1} << 20;
constexpr int kTurns = 200;
constexpr size_t kTurnBytes = 2048;

// Returns text that resembles source files: lines, quotes and indents, escaped for JSON.
std::string Text(size_t bytes, unsigned seed) {
  static constexpr std::string_view kLines[] = {"  if (value == \\\"x\\\") return true;\\n",
                                                "// The next line says why it is so.\\n",
                                                "for (size_t i = 0; i < items.size(); ++i) {\\n",
                                                "    sum += items[i].weight * 3;\\n", "}\\n\\n"};
  std::string text;
  while (text.size() < bytes) {
    seed = seed * 1664525U + 1013904223U;
    text += kLines[seed >> 16 & 3];
    text += fmt::format("name_{} = {};\\n", seed >> 8, seed & 1023);
  }
  return text;
}

class Agent {
 public:
  Agent() {
    for (int i = 0; i < 50; ++i) {
      tools_ +=
          fmt::format(R"({}{{"name":"tool_{}","description":"{}","input_schema":{{"type":"object",)"
                      R"("properties":{{"a":{{"type":"string"}},"b":{{"type":"integer"}}}},)"
                      R"("required":["a"]}}}})",
                      i == 0 ? "" : ",", i, Text(600, i));
    }
    turns_ = R"({"role":"user","content":[{"type":"text","text":"fix it"}]})";
    while (tools_.size() + turns_.size() < kBodyBytes) AddTurn();
  }
  void AddTurn() {
    ++count_;
    turns_ += fmt::format(
        R"(,{{"role":"assistant","content":[{{"type":"text","text":"{}"}},{{"type":"tool_use",)"
        R"("id":"toolu_{}","name":"tool_1","input":{{"a":"x","b":{}}}}}]}},{{"role":"user",)"
        R"("content":[{{"type":"tool_result","tool_use_id":"toolu_{}","content":"{}"}}]}})",
        Text(200, count_), count_, count_, count_, Text(kTurnBytes - 400, count_ + 7));
  }
  std::string Body() const {
    return fmt::format(
        R"({{"model":"claude-opus-5","max_tokens":100,"tools":[{}],"system":[{{"type":"text",)"
        R"("text":"{}Current time: 2026-11-22 10:{:02}:{:02}","cache_control":)"
        R"({{"type":"ephemeral"}}}}],"messages":[{}]}})",
        tools_, Text(16000, 1), count_ / 60 % 60, count_ % 60, turns_);
  }

 private:
  std::string tools_;
  std::string turns_;
  unsigned count_ = 0;
};

void Measure(Mode mode) {
  Optimizer optimizer(Optimizer::Options{});
  Agent agent;
  std::vector<double> times;
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::string body = agent.Body();
    OptimizeArgs args;
    args.body = body;
    args.endpoint = dialect::form::Endpoint::kMessages;
    args.tenant = "bench";
    args.upstream = "bench";
    args.provider = "anthropic";
    args.mode = mode;
    args.now_us = turn * 1'000'000;
    const auto begin = std::chrono::steady_clock::now();
    const Prepared prepared = optimizer.Prepare(args);
    const auto end = std::chrono::steady_clock::now();
    // In the first turns most of the body is new, so they are left out.
    if (turn >= 5) times.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
    agent.AddTurn();
  }
  std::sort(times.begin(), times.end());
  fmt::print("{:<10} median {:.0f}  p99 {:.0f}  worst {:.0f}\n", ModeName(mode),
             times[times.size() / 2], times[times.size() * 99 / 100], times.back());
}

constexpr size_t kNumAgents = 7;
constexpr size_t kNumConversations = 10'000;

// What was learnt of the conversations of some agents.
class Learning {
 public:
  // Sends other conversations of each agent; `is_shared`: all are one tenant's.
  void Run(uint32_t round, bool is_shared) {
    for (uint32_t agent = 1; agent <= kNumAgents; ++agent) {
      const auto endpoint = static_cast<dialect::form::Endpoint>(
          agent % 2 == 0 ? dialect::form::Endpoint::kMessages
                         : dialect::form::Endpoint::kChatCompletions);
      const traffic::AgentTraffic sent =
          traffic::AgentGenerator(agent, endpoint, {.round = round}).Generate();
      for (const traffic::AgentRequest& request : sent.requests) {
        OptimizeArgs args;
        args.body = request.body;
        args.endpoint = endpoint;
        const std::string own = fmt::format("{}-{}-{}", round, agent, request.conversation);
        args.tenant = is_shared ? "one" : std::string_view(own);
        args.session = request.session;
        args.upstream = "bench";
        args.provider = sent.shape.provider;
        args.mode = Mode::kStabilize;
        args.now_us = request.time_us;
        (void)optimizer_.Prepare(args);
        if (!is_shared) tenants_.insert(own);
      }
      num_conversations_ += sent.num_conversations;
    }
  }
  size_t num_conversations() const { return num_conversations_; }
  size_t num_bytes() const { return optimizer_.templates().num_bytes(); }
  // Returns the bytes of `count` tenants that have learnt what these have.
  size_t BytesOf(size_t count) const {
    templates::Templates all({.bytes_max = size_t{1} << 40});
    while (count > 0) {
      for (const std::string& tenant : tenants_) {
        for (templates::Templates::Learnt learnt : optimizer_.templates().List(tenant)) {
          learnt.scope =
              templates::Templates::ScopeOf(fmt::format("{}", count), learnt.scope.model);
          all.Restore(std::move(learnt));
        }
        if (--count == 0) break;
      }
    }
    return all.num_bytes();
  }

 private:
  Optimizer optimizer_{Optimizer::Options{}};
  size_t num_conversations_ = 0;
  std::set<std::string> tenants_;
};

void MeasureTemplates(uint32_t num_rounds) {
  constexpr double kMebibyte = 1 << 20;
  Learning shared;
  for (uint32_t round = 1; round <= num_rounds; ++round) {
    shared.Run(round, true);
    if ((round & (round - 1)) != 0 && round != num_rounds) continue;
    fmt::print("templates  {} conversations of one tenant: {:.2f} MiB\n",
               shared.num_conversations(), static_cast<double>(shared.num_bytes()) / kMebibyte);
  }
  Learning alone;
  alone.Run(1, false);
  fmt::print("templates  {} conversations, each a tenant of its own: {:.2f} MiB; {}: {:.2f} MiB\n",
             alone.num_conversations(), static_cast<double>(alone.num_bytes()) / kMebibyte,
             kNumConversations, static_cast<double>(alone.BytesOf(kNumConversations)) / kMebibyte);
}

}  // namespace
}  // namespace kvgate::prompt

int main(int argc, char** argv) {
  for (const auto mode : {kvgate::prompt::Mode::kObserve, kvgate::prompt::Mode::kPin,
                          kvgate::prompt::Mode::kStabilize}) {
    kvgate::prompt::Measure(mode);
  }
  kvgate::prompt::MeasureTemplates(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 8);
}
