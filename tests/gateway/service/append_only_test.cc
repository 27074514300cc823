// Conversations of made-up agents through Prompts and a BranchStore, which are made anew at random
// requests, as after kill -9: whatever happened in between, each request extends the one before.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "gateway/service/branches/branch_store.h"
#include "gateway/service/prompts.h"
#include "tests/gateway/prompt/conversations.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::service {
namespace {

using branches::BranchStore;
using dialect::form::Endpoint;
using nlohmann::json;
using nlohmann::ordered_json;
using store::MemoryMetaStore;

// A gateway whose process can end at any moment. What it has kept lives in `meta`.
class Gateway {
 public:
  explicit Gateway(MemoryMetaStore& meta) : meta_(meta) { Start(); }
  ~Gateway() { End(); }
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  void Start(bool keeps = true) {
    branches_ =
        std::make_unique<BranchStore>(BranchStore::Options{.meta = meta_,
                                                           .enabled = keeps,
                                                           .bytes_max = bytes_max,
                                                           .interval = std::chrono::hours(1)});
    prompts_ = std::make_unique<Prompts>(
        prompt::Optimizer::Options{.memory_bytes = memory_bytes},
        Prompts::Parts{.branches = branches_.get(), .metrics = &metrics_});
  }
  void End() {
    prompts_ = nullptr;
    branches_ = nullptr;
  }
  void Restart(bool keeps = true) {
    End();
    Start(keeps);
  }

  // Returns what goes out, and lets the answer end well.
  std::string Send(const std::string& body) {
    config::UpstreamConfig upstream;
    upstream.name = "up";
    upstream.mode = mode;
    upstream.rules_off = rules_off;
    const upstream::wire::HeaderFields fields = {{"x-kvgate-session", session}};
    Prompts::Args args{.body = body,
                       .endpoint = endpoint,
                       .tenant = tenant,
                       .upstream = upstream,
                       .provider = provider,
                       .fields = fields,
                       .credential = "Bearer sk-1"};
    Result<Prompts::Prompt> prompt = prompts_->Prepare(args);
    if (prompt && prompt->recall) {
      if (!is_slow) prompt->recall();
      args.is_recalled = true;
      prompt = prompts_->Prepare(args);
    }
    EXPECT_TRUE(prompt);
    if (prompt->write) {
      if (!is_slow) prompts_->Commit(*prompt->write);
      prompts_->GoOut(*prompt->write);
    }
    ledger::RequestRecord record;
    record.status = status;
    prompts_->Complete(record, {}, *prompt->preparation);
    last_mode = record.mode;
    return prompt->body.value_or(body);
  }

  uint64_t Rewrites(std::string_view cause) {
    return metrics_.prefix_rewrites.With({cause}).value();
  }
  uint64_t num_lost() const { return metrics_.requests_with_lost_state.value(); }
  branches::BranchStore& branches() { return *branches_; }

  std::string mode = "stabilize";
  std::vector<std::string> rules_off;
  std::string tenant = "t";
  std::string session;
  std::string provider = "anthropic";
  Endpoint endpoint = Endpoint::kMessages;
  uint64_t bytes_max = uint64_t{16} << 20;
  size_t memory_bytes = size_t{64} << 20;
  int status = 200;
  bool is_slow = false;  // the disk does not answer
  std::string last_mode;

 private:
  MemoryMetaStore& meta_;
  metrics::Registry registry_;
  metrics::PromptMetrics metrics_{registry_};
  std::unique_ptr<BranchStore> branches_;
  std::unique_ptr<Prompts> prompts_;
};

// Returns a value without cache breakpoints; a text is equal as a string and as the only block.
json Rendered(json value) {
  if (value.is_array()) {
    for (json& item : value) item = Rendered(item);
  }
  if (!value.is_object()) return value;
  value.erase("cache_control");
  for (auto& [key, member] : value.items()) {
    if (key == "content" && member.is_string()) {
      member = json::array({{{"type", "text"}, {"text", member}}});
    }
    member = Rendered(member);
  }
  return value;
}

// A provider that binds thinking: each block's signature holds for the prompt in front of it, and
// thinking may be removed from either end, but not from the middle.
class BindingProvider {
 public:
  // Returns an assistant's message, or nullopt for a 400.
  std::optional<ordered_json> Answer(const std::string& body) {
    const json request = Rendered(json::parse(body));
    std::string prefix =
        request.value("tools", json()).dump() + request.value("system", json()).dump();
    for (const json& message : request["messages"]) {
      if (message["role"] == "assistant") {
        for (const json& block : message["content"]) {
          if (block["type"] == "thinking" && block["signature"] != SignatureOf(prefix)) {
            return std::nullopt;
          }
        }
      }
      prefix += WithoutThinking(message).dump();
    }
    ++num_answers_;
    const std::string number = std::to_string(num_answers_);
    return ordered_json{
        {"role", "assistant"},
        {"content",
         {{{"type", "thinking"},
           {"thinking", "I think " + number},
           {"signature", SignatureOf(prefix)}},
          {{"type", "text"}, {"text", "Answer " + number}},
          {{"type", "tool_use"},
           {"id", "call_" + number},
           {"name", "read"},
           {"input", {{"path", "/f" + number}, {"from", num_answers_}, {"more", true}}}}}}};
  }

 private:
  static json WithoutThinking(json message) {
    json content = json::array();
    for (const json& block : message["content"]) {
      if (block["type"] != "thinking") content.push_back(block);
    }
    message["content"] = std::move(content);
    return message;
  }
  static std::string SignatureOf(const std::string& prefix) {
    const auto [low, high] = Xxh3(std::as_bytes(std::span(prefix)));
    return std::to_string(low) + "." + std::to_string(high);
  }

  int num_answers_ = 0;
};

struct Habits {
  bool has_clock = false;       // its system prompt says another time in each request
  bool shuffles_tools = false;  // its tools come in another order, with other orders of keys
  bool shuffles_calls = false;  // and so do its calls' arguments
  bool moves_reminder = false;  // a reminder stands in the newest turn only
};

// An agent that only adds to its conversation; the way in which it writes it down changes.
class Agent {
 public:
  Agent(unsigned seed, const Habits& habits) : random_(seed), habits_(habits), seed_(seed) {
    AddUser();
  }

  std::string Body() {
    ordered_json tools = ordered_json::array();
    for (const char* name : {"read", "write", "search", "run"}) {
      tools.push_back(Shuffled(
          ordered_json{
              {"name", name},
              {"description", std::string("Does ") + name + std::string(200, name[0])},
              {"input_schema", {{"type", "object"}, {"properties", ordered_json::object()}}}},
          habits_.shuffles_tools));
    }
    if (habits_.shuffles_tools) std::shuffle(tools.begin(), tools.end(), random_);
    ordered_json messages = ordered_json::array();
    for (size_t i = 0; i < turns_.size(); ++i) {
      ordered_json turn = turns_[i];
      if (turn["role"] == "assistant") {
        for (ordered_json& block : turn["content"]) {
          if (block["type"] == "tool_use") {
            block["input"] = Shuffled(block["input"], habits_.shuffles_calls);
          }
        }
      } else if (habits_.moves_reminder && i + 1 == turns_.size()) {
        turn["content"].push_back(
            {{"type", "text"},
             {"text", "<system-reminder>Remember the rules of this project.</system-reminder>"}});
      }
      messages.push_back(std::move(turn));
    }
    std::string system = "You are an agent of team " + std::to_string(seed_) + ".\n" + fixed_;
    if (habits_.has_clock) {
      system += "\nCurrent time: 2026-11-25 15:" + std::to_string(10 + num_bodies_ % 50) + ":00";
    }
    ++num_bodies_;
    return ordered_json{{"model", model},
                        {"max_tokens", 100},
                        {"tools", tools},
                        {"system", {{{"type", "text"}, {"text", system}}}},
                        {"messages", messages}}
        .dump();
  }

  // Takes the answer and says something more.
  void GoOn(const ordered_json& answer) {
    turns_.push_back(answer);
    ordered_json content = ordered_json::array();
    for (const ordered_json& block : answer["content"]) {
      if (block["type"] != "tool_use") continue;
      content.push_back({{"type", "tool_result"},
                         {"tool_use_id", block["id"]},
                         {"content", "Found " + Words(30)}});
    }
    turns_.push_back({{"role", "user"}, {"content", content}});
    if (Below(3) == 0) {
      turns_.back()["content"].push_back({{"type", "text"}, {"text", "Now " + Words(12)}});
    }
  }
  bool LastIsUsers() const { return turns_.back()["role"] == "user"; }
  std::vector<ordered_json>& turns() { return turns_; }

  std::string model = "claude-sonnet-5-5";

 private:
  size_t Below(size_t bound) { return random_() % bound; }
  std::string Words(size_t count) {
    std::string words;
    for (size_t i = 0; i < count; ++i)
      words += (i > 0 ? " word" : "word") + std::to_string(Below(97));
    return words;
  }
  void AddUser() {
    turns_.push_back(
        {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Please " + Words(20)}}}}});
  }
  ordered_json Shuffled(const ordered_json& object, bool does) {
    if (!does) return object;
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    std::shuffle(keys.begin(), keys.end(), random_);
    ordered_json out;
    for (const std::string& key : keys) out[key] = object[key];
    return out;
  }

  std::mt19937 random_;
  const Habits habits_;
  const unsigned seed_;
  const std::string fixed_ = std::string("Follow the rules. ") + std::string(3000, 'r');
  int num_bodies_ = 0;
  std::vector<ordered_json> turns_;
};

class AppendOnlyTest : public testing::Test {
 protected:
  // Sends a conversation of `requests` requests. The gateway ends in front of some.
  void Converse(unsigned seed, const std::string& mode, const Habits& habits, int requests = 12) {
    SCOPED_TRACE(mode + " seed " + std::to_string(seed));
    Gateway gateway(meta_);
    gateway.mode = mode;
    gateway.tenant = std::to_string(++num_tenants_);  // others have begun with the same words
    std::mt19937 random(seed);
    Agent agent(seed, habits);
    BindingProvider provider;
    std::string before;
    for (int i = 0; i < requests; ++i) {
      SCOPED_TRACE(i);
      if (random() % 3 == 0) gateway.Restart();
      const std::string sent = gateway.Send(agent.Body());
      EXPECT_EQ(gateway.last_mode, mode);
      if (!before.empty()) {
        EXPECT_TRUE(prompt::test::GoesOn(before, WithTurnsLast(sent)));
      }
      before = WithTurnsLast(sent);
      const auto answer = provider.Answer(sent);
      ASSERT_TRUE(answer) << "the provider refuses the request";
      agent.GoOn(*answer);
    }
    EXPECT_EQ(gateway.Rewrites("gateway"), 0U);
    EXPECT_EQ(gateway.num_lost(), 0U);
  }
  // Without cache breakpoints, a body ends with its turns.
  static std::string WithTurnsLast(std::string body) {
    static constexpr std::string_view kMember = ",\"cache_control\":{";
    for (size_t at; (at = body.find(kMember)) != std::string::npos;) {
      body.erase(at, body.find('}', at) + 1 - at);
    }
    EXPECT_TRUE(body.ends_with("]}")) << body.substr(body.size() - 80);
    return body;
  }

  MemoryMetaStore meta_;
  int num_tenants_ = 0;
};

TEST_F(AppendOnlyTest, EachRequestExtendsTheOneBeforeWhereverTheGatewayWasKilled) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Converse(seed, "pin", {});
    Converse(seed, "pin", {.shuffles_tools = true});
    Converse(seed, "stabilize", {.has_clock = true});
    Converse(seed, "stabilize", {.has_clock = true, .shuffles_tools = true});
    Converse(seed, "stabilize", {.has_clock = true, .moves_reminder = true});
  }
}

// The first call's arguments come in an order that was not kept, because nobody knew yet that this
// client shuffles them; from then on all bytes are kept.
TEST_F(AppendOnlyTest, AClientThatSpellsItsCallsAnewIsRecognised) {
  for (const std::string mode : {"pin", "stabilize"}) {
    for (unsigned seed = 1; seed <= 10; ++seed) {
      Converse(seed, mode, {.shuffles_tools = true, .shuffles_calls = true});
    }
  }
}

TEST_F(AppendOnlyTest, ARunningConversationKeepsTheModeAndTheRulesItBeganWith) {
  Gateway gateway(meta_);
  Agent agent(1, {.has_clock = true});
  BindingProvider provider;
  std::string before = WithTurnsLast(gateway.Send(agent.Body()));
  for (const std::string mode : {"pin", "observe", "stabilize"}) {
    gateway.mode = mode;
    gateway.rules_off = mode == "stabilize" ? std::vector<std::string>{"volatile_moved"}
                                            : std::vector<std::string>{};
    gateway.Restart();
    agent.GoOn(*provider.Answer(before));
    const std::string sent = WithTurnsLast(gateway.Send(agent.Body()));
    EXPECT_EQ(gateway.last_mode, "stabilize");
    EXPECT_TRUE(prompt::test::GoesOn(before, sent));
    before = sent;
  }
  gateway.mode = "pin";
  Agent other(2, {});
  gateway.Send(other.Body());
  EXPECT_EQ(gateway.last_mode, "pin");
}

TEST_F(AppendOnlyTest, WhatMemoryHasNoRoomForIsReadAgain) {
  Gateway gateway(meta_);
  gateway.memory_bytes = 160 << 10;
  gateway.Restart();
  std::vector<Agent> agents;
  std::vector<std::string> before(12);
  for (unsigned i = 0; i < before.size(); ++i) agents.emplace_back(i, Habits{.has_clock = true});
  std::vector<BindingProvider> providers(before.size());
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < agents.size(); ++i) {
      const std::string sent = gateway.Send(agents[i].Body());
      if (round > 0) {
        EXPECT_TRUE(prompt::test::GoesOn(before[i], WithTurnsLast(sent)));
      }
      before[i] = WithTurnsLast(sent);
      const auto answer = providers[i].Answer(sent);
      ASSERT_TRUE(answer);
      agents[i].GoOn(*answer);
    }
  }
  EXPECT_GT(gateway.branches().stats().num_recalled, 0U);
  EXPECT_EQ(gateway.Rewrites("gateway"), 0U);
}

TEST_F(AppendOnlyTest, AnEditGoesOutAsWrittenAndCountsAsTheClients) {
  Gateway gateway(meta_);
  Agent agent(3, {});
  BindingProvider provider;
  for (int i = 0; i < 3; ++i) agent.GoOn(*provider.Answer(gateway.Send(agent.Body())));
  agent.turns()[2]["content"][0]["content"] = "cleared";
  gateway.Restart();
  // Thinking behind the edit was made for what stood there before.
  json expected = json::parse(agent.Body());
  for (size_t i = 3; i < expected["messages"].size(); ++i) {
    json kept = json::array();
    for (const json& block : expected["messages"][i]["content"]) {
      if (block["type"] != "thinking") kept.push_back(block);
    }
    expected["messages"][i]["content"] = kept;
  }
  const std::string sent = WithTurnsLast(gateway.Send(agent.Body()));
  EXPECT_EQ(json::parse(sent), expected);
  EXPECT_NE(sent.find("\"thinking\""), std::string::npos) << "what stands in front of it stays";
  EXPECT_TRUE(provider.Answer(sent));
  EXPECT_EQ(gateway.Rewrites("client"), 1U);
  EXPECT_EQ(gateway.Rewrites("gateway"), 0U);
}

// What goes out of a conversation whose state is lost is the client's, without thinking where the
// provider binds it.
void ExpectLost(Gateway& gateway, Agent& agent, BindingProvider& provider) {
  for (int i = 0; i < 3; ++i) {
    const uint64_t lost = gateway.num_lost();
    const json received = json::parse(agent.Body());
    const std::string sent = gateway.Send(received.dump());
    EXPECT_EQ(gateway.last_mode, "observe");
    EXPECT_EQ(gateway.num_lost(), lost + 1);
    EXPECT_EQ(sent.find("\"thinking\""), std::string::npos);
    json expected = received;
    for (json& message : expected["messages"]) {
      json kept = json::array();
      for (const json& block : message["content"]) {
        if (block["type"] != "thinking") kept.push_back(block);
      }
      message["content"] = kept;
    }
    EXPECT_EQ(json::parse(sent), expected);
    const auto answer = provider.Answer(sent);
    ASSERT_TRUE(answer);
    agent.GoOn(*answer);
    gateway.Restart();
  }
}

TEST_F(AppendOnlyTest, LostStateGoesOutAsReceivedWithoutThinking) {
  Gateway gateway(meta_);
  Agent agent(4, {.has_clock = true});
  BindingProvider provider;
  for (int i = 0; i < 3; ++i) agent.GoOn(*provider.Answer(gateway.Send(agent.Body())));
  gateway.bytes_max = 1;  // there is no room for it
  gateway.Restart();
  gateway.bytes_max = uint64_t{16} << 20;
  gateway.Restart();
  ExpectLost(gateway, agent, provider);
  // A conversation that begins now is as any other.
  Agent other(5, {.has_clock = true});
  gateway.Send(other.Body());
  EXPECT_EQ(gateway.last_mode, "stabilize");
}

TEST_F(AppendOnlyTest, ARequestThatWasNotWrittenInTimeIsMissedAfterTheRestart) {
  Gateway gateway(meta_);
  Agent agent(6, {.has_clock = true});
  BindingProvider provider;
  for (int i = 0; i < 2; ++i) agent.GoOn(*provider.Answer(gateway.Send(agent.Body())));
  gateway.is_slow = true;
  std::string before = WithTurnsLast(gateway.Send(agent.Body()));
  EXPECT_EQ(gateway.branches().stats().num_lost, 1U);
  EXPECT_FALSE(gateway.branches().CanKeep());
  agent.GoOn(*provider.Answer(before));
  // This process still knows it.
  const std::string sent = WithTurnsLast(gateway.Send(agent.Body()));
  EXPECT_TRUE(prompt::test::GoesOn(before, sent));
  Agent other(7, {.has_clock = true});
  gateway.Send(other.Body());
  EXPECT_EQ(gateway.last_mode, "observe") << "nothing can be kept of it";
  agent.GoOn(*provider.Answer(sent));
  gateway.is_slow = false;
  gateway.Restart();
  ExpectLost(gateway, agent, provider);
}

TEST_F(AppendOnlyTest, NothingIsKeptAndNothingIsChangedWithoutAStore) {
  Gateway gateway(meta_);
  Agent agent(8, {.has_clock = true});
  BindingProvider provider;
  for (int i = 0; i < 2; ++i) agent.GoOn(*provider.Answer(gateway.Send(agent.Body())));
  gateway.Restart(false);
  EXPECT_EQ(meta_.CountRows(store::meta::MetaTable::kPrefixes, "B"), 0U);
  EXPECT_EQ(meta_.CountRows(store::meta::MetaTable::kPrefixes, "C"), 0U);
  const std::string sent = gateway.Send(agent.Body());
  EXPECT_EQ(gateway.last_mode, "observe");
  EXPECT_EQ(gateway.num_lost(), 1U);
  EXPECT_EQ(sent.find("\"thinking\""), std::string::npos);
  Agent other(9, {.has_clock = true});
  const std::string body = other.Body();
  EXPECT_EQ(gateway.Send(body), body);
  EXPECT_EQ(gateway.num_lost(), 1U);
  EXPECT_EQ(meta_.CountRows(store::meta::MetaTable::kPrefixes, "B"), 0U);
}

// Nothing says that kvgate has sent it before, so it is right as it was received.
TEST_F(AppendOnlyTest, AConversationThatBeganElsewhereGoesOnAsReceived) {
  Gateway gateway(meta_);
  gateway.mode = "observe";
  Agent agent(10, {});
  BindingProvider provider;
  for (int i = 0; i < 2; ++i) agent.GoOn(*provider.Answer(gateway.Send(agent.Body())));
  EXPECT_EQ(meta_.CountRows(store::meta::MetaTable::kPrefixes, ""), 0U) << "observe keeps nothing";
  gateway.mode = "pin";
  Agent shuffled(12, {.shuffles_tools = true});
  gateway.Send(shuffled.Body());  // another order of the tools becomes the tenant's first
  gateway.Restart();
  const std::string body = agent.Body();
  EXPECT_EQ(WithTurnsLast(gateway.Send(body)), body);
  EXPECT_EQ(gateway.num_lost(), 0U);
}

TEST_F(AppendOnlyTest, ARefusedRequestLeavesWhatWasSentBefore) {
  Gateway gateway(meta_);
  Agent agent(11, {.has_clock = true});
  BindingProvider provider;
  std::string before = WithTurnsLast(gateway.Send(agent.Body()));
  agent.GoOn(*provider.Answer(before));
  for (const bool restarts : {false, true}) {
    gateway.status = 529;
    gateway.Send(agent.Body());
    gateway.status = 200;
    if (restarts) gateway.Restart();
    const std::string sent = WithTurnsLast(gateway.Send(agent.Body()));
    EXPECT_TRUE(prompt::test::GoesOn(before, sent));
    const auto answer = provider.Answer(sent);
    ASSERT_TRUE(answer);
    agent.GoOn(*answer);
    before = sent;
  }
}

// Returns the median microseconds of preparing a request of 1 MB that brings 2 KB, with all that is
// handed over to the disk, but not the disk itself.
double MicrosecondsToPrepare(BranchStore* branches) {
  Prompts prompts(prompt::Optimizer::Options{}, Prompts::Parts{.branches = branches});
  config::UpstreamConfig upstream;
  upstream.name = "up";
  upstream.mode = "stabilize";
  const upstream::wire::HeaderFields fields;
  std::string turns = R"({"role":"user","content":"Begin."})";
  std::vector<double> times;
  for (int i = 0; i < 300; ++i) {
    const size_t bytes = i < 260 ? 4000 : 2000;
    turns +=
        fmt::format(R"(,{{"role":"assistant","content":"{} {}"}})", i, std::string(bytes / 2, 'a'));
    turns += fmt::format(R"(,{{"role":"user","content":"{} {}"}})", i, std::string(bytes / 2, 'u'));
    if (i > 0 && i < 259) continue;
    const std::string body =
        fmt::format(R"({{"model":"claude-opus-5-5","max_tokens":9,"system":"Current time: 10:{}",)"
                    R"("messages":[{}]}})",
                    10 + i % 50, turns);
    const Prompts::Args args{.body = body,
                             .endpoint = Endpoint::kMessages,
                             .tenant = "t",
                             .upstream = upstream,
                             .provider = "anthropic",
                             .fields = fields,
                             .credential = "Bearer sk-1"};
    const auto begin = std::chrono::steady_clock::now();
    Result<Prompts::Prompt> prompt = prompts.Prepare(args);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    EXPECT_TRUE(prompt);
    EXPECT_EQ(prompt->write.has_value(), branches != nullptr);
    if (prompt->write) {
      prompts.Commit(*prompt->write);
      prompts.GoOut(*prompt->write);
    }
    ledger::RequestRecord record;
    record.status = 200;
    prompts.Complete(record, {}, *prompt->preparation);
    if (i > 262) times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

TEST(AppendOnlyTimingTest, KeepingWhatIsNewCostsLessThanPreparingIt) {
  MemoryMetaStore meta;
  BranchStore branches(BranchStore::Options{.meta = meta});
  const double without = MicrosecondsToPrepare(nullptr);
  const double with = MicrosecondsToPrepare(&branches);
  RecordProperty("microseconds_without", std::to_string(without));
  RecordProperty("microseconds_with", std::to_string(with));
  EXPECT_LT(with, 2 * without + 200) << "without: " << without;
  EXPECT_GT(branches.stats().num_branches, 0U);
}

}  // namespace
}  // namespace kvgate::service
