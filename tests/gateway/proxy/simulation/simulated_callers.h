// SimulatedCallers makes the requests of a few tenants: conversations of three dialects that grow
// by a turn a request, with shared beginnings, dates that change, and bodies of all sizes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/proxy/simulation/simulated_gateway.h"
#include "tests/gateway/proxy/simulation/simulated_reply.h"
#include "tests/gateway/upstream/encoders.h"

namespace kvgate::test {

class SimulatedCallers {
 public:
  using Form = AskedReply::Form;
  using milliseconds = std::chrono::milliseconds;
  static constexpr std::array<const char*, 3> kTenants = {"alice", "bob", "carol"};

  SimulatedCallers(SimulatedTime& time, SimulatedChance& chance, bool has_keys)
      : time_(time), chance_(chance), has_keys_(has_keys) {}

  // The key that a tenant sends, from this environment variable.
  static std::string KeyVariable(std::string_view tenant) {
    return fmt::format("KVGATE_SIMULATED_KEY_{}", tenant);
  }
  static std::string KeyOf(std::string_view tenant) { return fmt::format("kg-{}-key", tenant); }

  std::unique_ptr<SimulatedRequest> Next() {
    Conversation& conversation = conversations_[chance_.Below(conversations_.size())];
    if (conversation.turns.empty() || chance_.Percent(15)) Begin(conversation);
    auto request = std::make_unique<SimulatedRequest>(time_, Manners());
    request->tenant = conversation.tenant;
    request->form = conversation.form;
    request->model = conversation.model;
    Ask(*request, conversation);
    return request;
  }
  // A request to the upstream that never fails, from a client that reads at once.
  std::unique_ptr<SimulatedRequest> NextSteady() {
    auto request = std::make_unique<SimulatedRequest>(time_, SimulatedClient::Manners());
    Conversation conversation{.tenant = "steve", .form = Form::kChat, .model = "steady-1"};
    request->tenant = conversation.tenant;
    request->model = conversation.model;
    request->is_stream = chance_.Percent(50);
    Finish(*request, conversation);
    return request;
  }
  std::unique_ptr<SimulatedRequest> NextHealth() {
    auto request = std::make_unique<SimulatedRequest>(time_, SimulatedClient::Manners());
    request->method = "GET";
    request->path = "/health";
    request->number = ++last_number_;
    request->id = fmt::format("{:024x}", request->number);
    return request;
  }

 private:
  struct Conversation {
    std::string tenant;
    Form form = Form::kChat;
    std::string model;
    std::string system = {};
    std::vector<std::string> turns = {};
  };

  SimulatedClient::Manners Manners() {
    SimulatedClient::Manners manners{.tick = tick};
    if (chance_.Percent(15)) manners.reading = chance_.Time(milliseconds(1), milliseconds(120));
    if (chance_.Percent(8)) manners.leaves_at = chance_.Below(6);
    return manners;
  }

  void Begin(Conversation& conversation) {
    static constexpr std::array<const char*, 4> kModels = {"alpha-1", "beta-1", "gamma-1",
                                                           "coder-1"};
    conversation = {.tenant = kTenants[chance_.Below(kTenants.size())],
                    .form = static_cast<Form>(chance_.Below(3)),
                    .model = kModels[std::min<uint64_t>(3, chance_.Below(6))]};
    conversation.system = fmt::format("You are agent {}. ", chance_.Below(3));
    // Long enough that requests wait for one another's prefix.
    const int num_rules = chance_.Percent(40) ? 260 : 10;
    for (int i = 0; i < num_rules; ++i) conversation.system += "Do as you are told. ";
  }

  void Ask(SimulatedRequest& request, Conversation& conversation) {
    request.is_stream = chance_.Percent(55);
    request.explains = chance_.Percent(5);
    const size_t num_turns = conversation.turns.size();
    if (chance_.Percent(2)) {
      conversation.turns.push_back(std::string(chance_.Percent(20) ? 1'200'000 : 300'000, 'l'));
    } else if (chance_.Percent(8)) {
      conversation.turns.push_back(std::string(20'000 + chance_.Below(80'000), 'm'));
    }
    Finish(request, conversation);
    // A long turn does not stay.
    if (conversation.turns.size() > num_turns + 1) {
      conversation.turns.erase(conversation.turns.end() - 2);
    }
    if (request.explains) request.fields.emplace_back("x-kvgate-explain", "1");
    if (chance_.Percent(5)) {
      request.body = upstream::Encode("gzip", request.body);
      request.fields.emplace_back("Content-Encoding", "gzip");
      request.is_encoded = true;
    }
    if (chance_.Percent(1)) {
      request.body.resize(request.body.size() / 2);
      request.is_damaged = true;
    }
    request.fields.emplace_back("Content-Length", std::to_string(request.body.size()));
  }

  void Finish(SimulatedRequest& request, Conversation& conversation) {
    static constexpr std::array<const char*, 3> kPaths = {"/v1/chat/completions", "/v1/responses",
                                                          "/v1/messages"};
    request.number = ++last_number_;
    request.id = fmt::format("{:024x}", request.number);
    request.marker = fmt::format("ask-{}-{}", request.number, request.tenant);
    request.path = kPaths[static_cast<size_t>(request.form)];
    conversation.turns.push_back(request.marker);
    request.body = BodyOf(conversation, request.is_stream);
    request.fields = {{"Host", "localhost"},
                      {"Content-Type", "application/json"},
                      {"Authorization", "Bearer sk-" + request.tenant},
                      {"x-sim-request", std::to_string(request.number)},
                      {"x-sim-marker", request.marker},
                      {"x-sim-stream", request.is_stream ? "1" : "0"}};
    if (has_keys_) request.fields.emplace_back("x-kvgate-key", KeyOf(request.tenant));
    if (request.model == "steady-1") {
      request.fields.emplace_back("Content-Length", std::to_string(request.body.size()));
    }
  }

  std::string BodyOf(const Conversation& conversation, bool streams) {
    const std::string stream = streams ? R"(,"stream":true)" : "";
    const std::string system =
        fmt::format("Today's date: 2026-03-{:02}\\n{}", 1 + chance_.Below(28), conversation.system);
    std::string turns;
    for (size_t i = 0; i < conversation.turns.size(); ++i) {
      if (i > 0) turns += R"({"role":"assistant","content":"Hello"},)";
      turns += fmt::format(R"({{"role":"user","content":"{}"}},)", conversation.turns[i]);
    }
    turns.pop_back();
    if (conversation.form == Form::kMessages) {
      return fmt::format(R"({{"model":"{}","max_tokens":50,"system":"{}","messages":[{}]{}}})",
                         conversation.model, system, turns, stream);
    }
    if (conversation.form == Form::kResponses) {
      return fmt::format(R"({{"model":"{}","instructions":"{}","input":[{}]{}}})",
                         conversation.model, system, turns, stream);
    }
    return fmt::format(R"({{"model":"{}","messages":[{{"role":"system","content":"{}"}},{}]{}}})",
                       conversation.model, system, turns, stream);
  }

  SimulatedTime& time_;
  SimulatedChance& chance_;
  const bool has_keys_;
  int last_number_ = 0;
  std::array<Conversation, 6> conversations_;

 public:
  SimulatedTime::Duration tick{250'000};  // of the clients
};

}  // namespace kvgate::test
