// BreakGenerator makes pairs of requests with one planted break at a random place, with a known
// cause, path and loss. Those that only an Optimizer can relate to each other go through one.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/prompt/diagnose/prefix_break.h"
#include "gateway/prompt/optimizer.h"
#include "tests/gateway/prompt/agent_bodies.h"
#include "tests/gateway/prompt/cache_model.h"
#include "tests/gateway/prompt/sent_request.h"

namespace kvgate::prompt::diagnose {

struct Target {
  dialect::form::Endpoint endpoint;
  std::string_view provider;
  std::string_view model;
  CacheModel cache;
};
inline const std::array<Target, 4> kTargets = {{
    {dialect::form::Endpoint::kMessages,
     "anthropic",
     "claude-opus-5",
     {.needs_breakpoints = true, .minimum = 512}},
    {dialect::form::Endpoint::kChatCompletions, "openai", "gpt-6-sol", {}},
    {dialect::form::Endpoint::kResponses, "openai", "gpt-5.5", {.step = 128, .minimum = 2048}},
    {dialect::form::Endpoint::kChatCompletions,
     "deepseek",
     "deepseek-v4",
     {.tools_after_system = true, .step = 64, .minimum = 64}},
}};

// The planted break, and what the diagnosis should say.
struct Planted {
  BreakCause cause = BreakCause::kNone;
  std::string path = {};
  std::string volatile_kind = {};
};

class BreakGenerator {
 public:
  BreakGenerator(const Target& target, uint32_t seed)
      : target_(target), bodies_(target.endpoint, seed) {
    before_ = bodies_.Conversation(3 + Below(12), 2 + Below(8));
    before_["model"] = target.model;
    now_ = before_;
    for (size_t i = 1 + Below(2); i > 0; --i) bodies_.GoOn(now_);
    // Fields that no cache depends on change all the time.
    now_["max_tokens"] = 1000 + Below(1000);
    now_["metadata"] = {{"trace", bodies_.Words(3)}};
    if (Below(2) == 0) before_["temperature"] = 0.5;
  }

  static constexpr size_t kNumPlants = 38;
  // Returns nullopt if the target cannot have such a break. REQUIRES: plant < kNumPlants; called
  // once.
  std::optional<Planted> Plant(size_t plant);

  // The usage of the request that broke, and what it truly lost; known once Find has been called.
  const ledger::reply::TokenUsage& usage() const { return usage_; }
  int64_t lost_tokens() const { return lost_tokens_; }
  // The loss up to which a provider's counts tell nothing: one block of its cache.
  int64_t block_tokens() const { return target_.cache.step > 1 ? target_.cache.step : 128; }

  // Serves both requests from the target's cache model and returns the diagnosis.
  PrefixBreak Find(bool keep_text = true) {
    const OrderedJson before_body = Marked(before_);
    const OrderedJson now_body = Marked(now_);
    history::SentRequest before = Sent(before_body, upstream_before_);
    history::SentRequest now = Sent(now_body, upstream_now_);
    before.time_us = 1'000'000'000;
    now.time_us = before.time_us + gap_seconds_ * 1'000'000;
    const auto stops_before = target_.cache.Stops(before, settings_before_);
    const auto stops_now = target_.cache.Stops(now, settings_now_);
    const auto first = target_.cache.Use({}, stops_before);
    before.input_tokens = first.input_tokens();
    before.cached_tokens = first.cache_read_tokens;
    before.written_tokens = target_.cache.step == 1 ? first.cache_write_tokens : 0;
    usage_ = target_.cache.Use(evicted_ ? decltype(stops_before)() : stops_before, stops_now);
    lost_tokens_ = first_seen_ ? 0 : TrueLoss(before, now);
    if (goes_through_) {
      return FindThrough({before_body.dump(), first, before.time_us},
                         {now_body.dump(), usage_, now.time_us});
    }
    const std::optional<ledger::reply::TokenUsage> usage = usage_;
    return FindBreak({.before = first_seen_ ? nullptr : &before,
                      .now = now,
                      .row = ledger::Prices::Builtin().Find(target_.provider, target_.model),
                      .usage = usage,
                      .provider = target_.provider,
                      .keep_text = keep_text});
  }

 private:
  size_t Below(size_t bound) { return bodies_.Below(bound); }
  OrderedJson& Turns(OrderedJson& body) { return bodies_.Turns(body); }
  std::string Field() const { return bodies_.turns_field(); }
  static std::string At(const std::string& field, size_t index) {
    return field + "[" + std::to_string(index) + "]";
  }

  OrderedJson Marked(OrderedJson body) const {
    if (!target_.cache.needs_breakpoints || !marked_) return body;
    const OrderedJson breakpoint = {{"type", "ephemeral"}};
    if (!body["tools"].empty()) body["tools"].back()["cache_control"] = breakpoint;
    if (!body["system"].empty()) body["system"].back()["cache_control"] = breakpoint;
    body["messages"].back()["content"].back()["cache_control"] = breakpoint;
    return body;
  }

  history::SentRequest Sent(const OrderedJson& body, const std::string& upstream) {
    history::SentRequest sent = SentAs(target_.endpoint, body.dump());
    sent.upstream = upstream;
    sent.ttl_seconds = 300;
    return sent;
  }

  struct Exchange {
    std::string body;
    ledger::reply::TokenUsage usage;
    int64_t time_us = 0;
  };
  // Sends both requests through an Optimizer, which has to find out how they belong together.
  PrefixBreak FindThrough(const Exchange& before, const Exchange& now) const {
    Optimizer optimizer({});
    PrefixBreak found;
    for (const Exchange* exchange : {&before, &now}) {
      const Prepared prepared = optimizer.Prepare({.body = exchange->body,
                                                   .endpoint = target_.endpoint,
                                                   .tenant = "tenant",
                                                   .session = "",
                                                   .upstream = "main",
                                                   .provider = target_.provider,
                                                   .mode = Mode::kObserve,
                                                   .now_us = exchange->time_us});
      found = optimizer.Finish(prepared, {.usage = exchange->usage, .provider_reason = {}})
                  .prefix_break;
    }
    return found;
  }

  // Returns the share of a segment's tokens that are sent again although it was edited: what its
  // bytes begin and end with. JSON alone is no likeness.
  static double ShareKept(const std::string& before, const std::string& now) {
    size_t front = 0;
    const size_t most = std::min(before.size(), now.size());
    while (front < most && before[front] == now[front]) ++front;
    size_t back = 0;
    while (back < most - front && before[before.size() - back - 1] == now[now.size() - back - 1]) {
      ++back;
    }
    const double share = static_cast<double>(front + back) / static_cast<double>(now.size());
    return 2 * (front + back) < std::max(before.size(), now.size()) ? 0 : share;
  }

  // Counts in the provider's own tokens what the first request had of the second one, and the
  // second one did not read.
  int64_t TrueLoss(const history::SentRequest& before, const history::SentRequest& now) const {
    const auto is_turn = [](const history::SentSegment& segment) {
      return segment.place.section == parse::Section::kMessages;
    };
    std::map<parse::Identity, int> known;
    for (const history::SentSegment& segment : before.segments) {
      if (!is_turn(segment) || same_conversation_) ++known[segment.same];
    }
    int64_t again = 0;
    for (const history::SentSegment& segment : now.segments) {
      const int64_t tokens = CacheModel::TokensOf(segment);
      if (is_turn(segment) && !same_conversation_) continue;
      if (known[segment.same]-- > 0) {
        again += tokens;
        continue;
      }
      for (const history::SentSegment& other : before.segments) {
        if (!(other.place == segment.place) || other.content != segment.content) continue;
        again += static_cast<int64_t>(static_cast<double>(tokens) *
                                      ShareKept(*other.bytes, *segment.bytes));
      }
    }
    if (again < target_.cache.minimum && usage_.cache_read_tokens == 0) return 0;
    return std::max<int64_t>(0, again - usage_.cache_read_tokens);
  }

  // Changes one text somewhere in a value and appends its path to `path`. Returns false if there is
  // none.
  bool EditLeaf(OrderedJson& value, std::string& path) {
    if (value.is_string()) {
      const std::string text = value.get<std::string>();
      value = text.substr(0, text.size() / 2) + " changed " + bodies_.Words(2) + " " +
              text.substr(text.size() / 2);
      return true;
    }
    if (!value.is_structured() || value.empty()) return false;
    for (int tries = 0; tries < 20; ++tries) {
      const size_t index = Below(value.size());
      auto item = value.begin();
      std::advance(item, index);
      const std::string step = value.is_array() ? At("", index) : "." + item.key();
      for (const char* fixed : {".type", ".role", ".id", ".name", ".tool_use_id", ".call_id",
                                ".tool_call_id", ".cache_control"}) {
        if (step == fixed) goto next;
      }
      {
        std::string inner = path + step;
        if (EditLeaf(*item, inner)) {
          path = inner;
          return true;
        }
      }
    next:;
    }
    return false;
  }

  // --- tools ---
  Planted ToolAdded() {
    const size_t at = Below(now_["tools"].size() + 1);
    now_["tools"].insert(now_["tools"].begin() + static_cast<std::ptrdiff_t>(at),
                         bodies_.Tool("new_tool"));
    return {BreakCause::kToolAdded, At("tools", at)};
  }
  Planted ToolRemoved() {
    const size_t at = Below(now_["tools"].size());
    now_["tools"].erase(at);
    return {BreakCause::kToolRemoved, At("tools", at)};
  }
  Planted ToolChanged() {
    const size_t at = Below(now_["tools"].size());
    std::string path = At("tools", at);
    EXPECT_TRUE(EditLeaf(now_["tools"][at], path));
    return {BreakCause::kToolChanged, path};
  }
  Planted ToolKeysReordered() {
    const size_t at = Below(now_["tools"].size());
    OrderedJson& tool = now_["tools"][at];
    std::string path = At("tools", at) + (bodies_.IsChat() ? ".function" : "");
    OrderedJson& named = bodies_.IsChat() ? tool["function"] : tool;
    const char* schema = bodies_.IsMessages() ? "input_schema" : "parameters";
    OrderedJson& properties = named[schema]["properties"];
    OrderedJson turned;
    for (auto item = properties.rbegin(); item != properties.rend(); ++item) {
      turned[item.key()] = *item;
    }
    properties = turned;
    return {BreakCause::kToolChanged, path + "." + schema + ".properties"};
  }
  Planted ToolsReordered() {
    const size_t at = Below(now_["tools"].size() - 1);
    const size_t other = at + 1 + Below(now_["tools"].size() - at - 1);
    std::swap(now_["tools"][at], now_["tools"][other]);
    return {BreakCause::kToolsReordered, At("tools", at)};
  }

  // --- system ---
  // Returns the text that is, or is a part of, the system prompt, and its path.
  std::pair<OrderedJson*, std::string> SystemText(OrderedJson& body, size_t block) {
    if (bodies_.IsMessages())
      return {&body["system"][block]["text"], At("system", block) + ".text"};
    if (bodies_.IsResponses()) return {&body["instructions"], "instructions"};
    return {&body["messages"][0]["content"], "messages[0].content"};
  }
  Planted SystemChanged() {
    const auto [text, path] = SystemText(now_, Below(3));
    std::string unused;
    EditLeaf(*text, unused);
    return {BreakCause::kSystemChanged, path};
  }
  Planted SystemVolatile() {
    static constexpr std::array<std::array<const char*, 3>, 3> kLines = {{
        {"Current time: 2026-11-22T10:15:07Z", "Current time: 2026-11-22T10:17:41Z", "time"},
        {"Run: 0d9fce3a-7a53-4a39-9f2a-0a6d1b4f7e11", "Run: 5b8de0aa-1f0c-4d57-8a4e-6e41b0c2d9f3",
         "uuid"},
        {"<total_tokens>150000 tokens left</total_tokens>",
         "<total_tokens>148211 tokens left</total_tokens>", "counter"},
    }};
    const auto& line = kLines[Below(kLines.size())];
    const size_t block = Below(3);
    const auto [was, path] = SystemText(before_, block);
    const auto [is, unused] = SystemText(now_, block);
    const std::string front = bodies_.Words(40);
    const std::string back = bodies_.Words(40);
    *was = front + "\n" + line[0] + "\n" + back;
    *is = front + "\n" + line[1] + "\n" + back;
    return {BreakCause::kSystemChanged, path, line[2]};
  }
  std::optional<Planted> SystemBlock(bool added) {
    if (!bodies_.IsMessages()) return std::nullopt;
    const size_t at = Below(now_["system"].size());
    if (added) {
      const OrderedJson block = {{"type", "text"}, {"text", bodies_.Words(30)}};
      now_["system"].insert(now_["system"].begin() + static_cast<std::ptrdiff_t>(at), block);
    } else {
      now_["system"].erase(at);
    }
    return Planted{BreakCause::kSystemChanged, At("system", at)};
  }

  // --- turns ---
  // The last turns of the first request are left alone, because a break there loses little.
  size_t FirstTurn() const { return bodies_.IsChat() ? 1 : 0; }
  size_t SomeTurn() {
    const size_t end = Turns(before_).size() - 2;
    return FirstTurn() + Below(end - FirstTurn());
  }
  Planted HistoryEdited() {
    const size_t at = SomeTurn();
    std::string path = At(Field(), at);
    EXPECT_TRUE(EditLeaf(Turns(now_)[at], path));
    return {BreakCause::kHistoryEdited, path};
  }
  // Reasoning that was sent before is left out.
  std::optional<Planted> ReasoningDropped() {
    if (!bodies_.IsChat()) return std::nullopt;
    for (size_t at = SomeTurn(); at < Turns(before_).size() - 2; ++at) {
      if (Turns(before_)[at]["role"] != "assistant") continue;
      Turns(before_)[at]["reasoning_content"] = bodies_.Words(30);
      return Planted{BreakCause::kHistoryEdited, At(Field(), at) + ".reasoning_content"};
    }
    return std::nullopt;
  }
  // A block that was sent before, such as one that held a breakpoint, is gone.
  std::optional<Planted> BlockRemoved() {
    if (!bodies_.IsMessages()) return std::nullopt;
    const size_t at = SomeTurn();
    OrderedJson& content = Turns(before_)[at]["content"];
    const size_t block = Below(content.size() + 1);
    const OrderedJson anchor = {{"type", "text"}, {"text", bodies_.Words(12)}};
    content.insert(content.begin() + static_cast<std::ptrdiff_t>(block), anchor);
    return Planted{BreakCause::kHistoryEdited,
                   At(Field(), at) + ".content[" + std::to_string(block) + "]"};
  }
  // A turn is inserted.
  Planted TurnInserted() {
    const size_t at = SomeTurn();
    Turns(now_).insert(Turns(now_).begin() + static_cast<std::ptrdiff_t>(at),
                       bodies_.Text("user", bodies_.Words(40)));
    return {BreakCause::kHistoryEdited, At(Field(), at)};
  }
  Planted TurnsDropped() {
    const size_t first = FirstTurn() + Below(2);
    const size_t count = 1 + Below(Turns(before_).size() - first - 2);
    for (size_t i = 0; i < count; ++i) Turns(now_).erase(first);
    return {BreakCause::kHistoryTruncated, At(Field(), first)};
  }
  Planted Compacted() {
    const size_t first = FirstTurn();
    const size_t count = 2 + Below(Turns(before_).size() - first - 3);
    for (size_t i = 0; i < count; ++i) Turns(now_).erase(first);
    Turns(now_).insert(Turns(now_).begin() + static_cast<std::ptrdiff_t>(first),
                       bodies_.Text("user", "Summary: " + bodies_.Words(60)));
    return {BreakCause::kCompacted, At(Field(), first)};
  }
  Planted Rewound() {
    const size_t left = SomeTurn();
    while (Turns(now_).size() > left) Turns(now_).erase(left);
    bodies_.AddUser(now_);
    // A cache without breakpoints can read all that is left.
    if (!target_.cache.needs_breakpoints) return {};
    return {BreakCause::kHistoryTruncated, At(Field(), left)};
  }
  // A reminder is in a later turn than before.
  std::optional<Planted> BlockMoved() {
    const std::string text = "<system-reminder>" + bodies_.Words(40) + "</system-reminder>";
    if (bodies_.IsChat()) {
      const OrderedJson reminder = {{"role", "system"}, {"content", text}};
      const size_t at = FirstTurn() + 1 + Below(Turns(before_).size() - FirstTurn() - 2);
      Turns(before_).insert(Turns(before_).begin() + static_cast<std::ptrdiff_t>(at), reminder);
      Turns(now_).push_back(reminder);
      return Planted{BreakCause::kBlockMoved, At(Field(), at), "reminder"};
    }
    const char* type = bodies_.IsMessages() ? "text" : "input_text";
    const OrderedJson reminder = {{"type", type}, {"text", text}};
    OrderedJson& content = Turns(before_)[0]["content"];
    const size_t block = Below(2);
    content.insert(content.begin() + static_cast<std::ptrdiff_t>(block), reminder);
    Turns(now_).back()["content"].push_back(reminder);
    return Planted{BreakCause::kBlockMoved, At(Field(), 0) + At(".content", block), "reminder"};
  }

  // --- parameters ---
  struct Setting {
    const char* path;  // one name, or two with a dot between
    const char* before;
    const char* now;
    parse::Section from;
  };
  Planted ParameterChanged() {
    static const std::vector<Setting> kMessages = {
        {"tool_choice", R"({"type":"auto"})", R"({"type":"any"})", parse::Section::kMessages},
        {"thinking", R"({"type":"enabled","budget_tokens":1024})", "", parse::Section::kMessages},
        {"output_config.effort", "\"medium\"", "\"high\"", parse::Section::kMessages},
        {"speed", "", "\"fast\"", parse::Section::kSystem}};
    static const std::vector<Setting> kResponses = {
        {"reasoning.effort", "\"low\"", "\"high\"", parse::Section::kTools},
        {"text.verbosity", "\"low\"", "\"high\"", parse::Section::kTools},
        {"text.format", "", R"({"type":"json_object"})", parse::Section::kSystem},
        {"service_tier", "", "\"flex\"", parse::Section::kTools},
        {"parallel_tool_calls", "", "false", parse::Section::kTools},
        {"prompt_cache_key", "\"a\"", "\"b\"", parse::Section::kTools}};
    static const std::vector<Setting> kChat = {
        {"reasoning_effort", "\"low\"", "\"high\"", parse::Section::kTools},
        {"response_format", "", R"({"type":"json_object"})", parse::Section::kSystem},
        {"prompt_cache_key", "\"a\"", "\"b\"", parse::Section::kTools}};
    const auto& settings = bodies_.IsMessages()    ? kMessages
                           : bodies_.IsResponses() ? kResponses
                                                   : kChat;
    Setting setting = settings[Below(settings.size())];
    if (target_.cache.tools_after_system) setting.from = parse::Section::kSystem;
    Set(before_, setting.path, setting.before);
    Set(now_, setting.path, setting.now);
    settings_before_[static_cast<size_t>(setting.from)] = setting.before;
    settings_now_[static_cast<size_t>(setting.from)] = setting.now;
    const bool both = *setting.before != '\0' && *setting.now == '{';
    return {BreakCause::kParameterChanged, std::string(setting.path) + (both ? ".type" : "")};
  }
  static void Set(OrderedJson& body, const std::string& path, const std::string& value) {
    if (value.empty()) return;
    const size_t dot = path.find('.');
    OrderedJson& outer = body[path.substr(0, dot)];
    (dot == std::string::npos ? outer : outer[path.substr(dot + 1)]) = OrderedJson::parse(value);
  }
  std::optional<Planted> SearchToggled() {
    if (!bodies_.IsMessages()) return std::nullopt;
    now_["tools"].push_back({{"type", "web_search_20250305"}, {"name", "web_search"}});
    settings_now_[static_cast<size_t>(parse::Section::kSystem)] = "search";
    return Planted{BreakCause::kParameterChanged, At("tools", now_["tools"].size() - 1)};
  }

  // --- causes that no bytes show ---
  Planted ModelChanged() {
    now_["model"] = std::string(target_.model) + "-mini";
    settings_now_.fill("model");
    return {BreakCause::kModelChanged, "model"};
  }
  Planted UpstreamChanged() {
    upstream_now_ = "second";
    settings_now_.fill("upstream");
    return {BreakCause::kUpstreamChanged, ""};
  }
  Planted Evicted(bool late) {
    evicted_ = true;
    if (late) gap_seconds_ = 301 + static_cast<int64_t>(Below(10'000));
    return {late ? BreakCause::kTtlLapsed : BreakCause::kProviderMiss, ""};
  }
  std::optional<Planted> TooShort() {
    if (target_.cache.tools_after_system) return std::nullopt;
    before_ = bodies_.Conversation(0, 0);
    for (OrderedJson* body : {&before_}) {
      (*body)["model"] = target_.model;
      const auto [text, path] = SystemText(*body, 0);
      *text = bodies_.Words(20);
      if (bodies_.IsMessages()) {
        while ((*body)["system"].size() > 1) (*body)["system"].erase(1);
      }
    }
    now_ = before_;
    Turns(now_).push_back(bodies_.Text("assistant", bodies_.Words(8)));
    Turns(now_).push_back(bodies_.Text("user", bodies_.Words(8)));
    return Planted{BreakCause::kBelowMinimum, ""};
  }
  std::optional<Planted> Unmarked() {
    if (!target_.cache.needs_breakpoints) return std::nullopt;
    marked_ = false;
    return Planted{BreakCause::kNotMarked, ""};
  }
  Planted FirstSeen() {
    first_seen_ = evicted_ = true;
    return {BreakCause::kFirstSeen, ""};
  }

  // --- what only the requests before tell ---
  std::optional<Planted> PlantThrough(size_t plant);
  // Nothing names the conversation, and its first turn is gone, so that its key is another one.
  Planted WindowMoved() {
    const size_t first = FirstTurn();
    constexpr size_t kKept = 4;  // one of them is the assistant's
    const size_t count = 1 + Below(Turns(before_).size() - first - kKept);
    for (size_t i = 0; i < count; ++i) Turns(now_).erase(first);
    goes_through_ = true;
    return {BreakCause::kHistoryTruncated, At(Field(), first)};
  }
  Planted FirstTurnRewritten() {
    const size_t at = FirstTurn();
    Turns(before_)[at] = Turns(now_)[at] = bodies_.Text("user", bodies_.Words(60));
    std::string path = At(Field(), at);
    EXPECT_TRUE(EditLeaf(Turns(now_)[at], path));
    goes_through_ = true;
    return {BreakCause::kHistoryEdited, path};
  }
  // The agent replaces its turns by a summary, and keeps the newest of them.
  Planted CompactedByAgent() {
    const size_t first = FirstTurn();
    constexpr size_t kKept = 4;
    const size_t count = Turns(before_).size() - first - kKept;
    for (size_t i = 0; i < count; ++i) Turns(now_).erase(first);
    Turns(now_).insert(Turns(now_).begin() + static_cast<std::ptrdiff_t>(first),
                       bodies_.Text("user", "<summary>" + bodies_.Words(60) + "</summary>"));
    goes_through_ = true;
    return {BreakCause::kCompacted, At(Field(), first)};
  }

  // Makes the second request the first one of another conversation of the same agent. The providers
  // that find whole turns only need not read across conversations.
  bool BeginAnother() {
    if (target_.cache.tools_after_system) return false;
    while (before_["tools"].size() < 8) {
      const OrderedJson tool = bodies_.Tool("more" + std::to_string(before_["tools"].size()));
      before_["tools"].push_back(tool);
    }
    now_["tools"] = before_["tools"];
    OrderedJson& turns = Turns(now_);
    while (turns.size() > FirstTurn()) turns.erase(turns.size() - 1);
    turns.push_back(bodies_.Text("user", bodies_.Words(70)));
    if (Below(2) == 0) bodies_.GoOn(now_);
    goes_through_ = true;
    same_conversation_ = false;
    return true;
  }
  std::optional<Planted> AnotherEvicted(bool late) {
    if (!BeginAnother()) return std::nullopt;
    const Planted planted = Evicted(late);
    // The Optimizer knows how long each of these providers keeps an entry.
    if (late) gap_seconds_ = 1801 + static_cast<int64_t>(Below(10'000));
    return planted;
  }
  std::optional<Planted> AnotherSystemChanged() {
    if (!BeginAnother()) return std::nullopt;
    return SystemChanged();
  }
  std::optional<Planted> AnotherToolAdded() {
    if (!BeginAnother()) return std::nullopt;
    return ToolAdded();
  }
  std::optional<Planted> AnotherKey() {
    if (bodies_.IsMessages() || !BeginAnother()) return std::nullopt;
    Set(before_, "prompt_cache_key", "\"one\"");
    Set(now_, "prompt_cache_key", "\"two\"");
    settings_before_[static_cast<size_t>(parse::Section::kTools)] = "one";
    settings_now_[static_cast<size_t>(parse::Section::kTools)] = "two";
    return Planted{BreakCause::kParameterChanged, "prompt_cache_key"};
  }
  std::optional<Planted> AnotherHit() {
    if (!BeginAnother()) return std::nullopt;
    return Planted{};
  }
  // The same prompt is sent once more by a conversation of its own: all but a block is read.
  Planted SentOnceMore() {
    now_ = before_;
    goes_through_ = true;
    return {};
  }
  Planted EvictedUnnamed() {
    goes_through_ = true;
    return Evicted(false);
  }

  const Target& target_;
  AgentBodies bodies_;
  OrderedJson before_;
  OrderedJson now_;
  std::array<std::string, 3> settings_before_;
  std::array<std::string, 3> settings_now_;
  std::string upstream_before_ = "main";
  std::string upstream_now_ = "main";
  int64_t gap_seconds_ = 20;
  bool evicted_ = false;
  bool first_seen_ = false;
  bool marked_ = true;
  bool goes_through_ = false;  // through an Optimizer
  bool same_conversation_ = true;
  ledger::reply::TokenUsage usage_;
  int64_t lost_tokens_ = 0;
};

inline std::optional<Planted> BreakGenerator::Plant(size_t plant) {
  switch (plant) {
    case 0:
      return ToolAdded();
    case 1:
      return ToolRemoved();
    case 2:
      return ToolChanged();
    case 3:
      return ToolKeysReordered();
    case 4:
      return ToolsReordered();
    case 5:
      return SystemChanged();
    case 6:
      return SystemVolatile();
    case 7:
      return SystemBlock(true);
    case 8:
      return SystemBlock(false);
    case 9:
      return HistoryEdited();
    case 10:
      return ReasoningDropped();
    case 11:
      return BlockRemoved();
    case 12:
      return TurnInserted();
    case 13:
      return TurnsDropped();
    case 14:
      return Compacted();
    case 15:
      return Rewound();
    case 16:
      return BlockMoved();
    case 17:
      return ParameterChanged();
    case 18:
      return SearchToggled();
    case 19:
      return ModelChanged();
    case 20:
      return UpstreamChanged();
    case 21:
      return Evicted(true);
    case 22:
      return Evicted(false);
    case 23:
      return TooShort();
    case 24:
      return Unmarked();
    case 25:
      return FirstSeen();
    case 26:
      return Planted{};
    default:
      return PlantThrough(plant);
  }
}

inline std::optional<Planted> BreakGenerator::PlantThrough(size_t plant) {
  switch (plant) {
    case 27:
      return WindowMoved();
    case 28:
      return FirstTurnRewritten();
    case 29:
      return CompactedByAgent();
    case 30:
      return AnotherEvicted(false);
    case 31:
      return AnotherEvicted(true);
    case 32:
      return AnotherSystemChanged();
    case 33:
      return AnotherToolAdded();
    case 34:
      return AnotherKey();
    case 35:
      return AnotherHit();
    case 36:
      return SentOnceMore();
    default:
      return EvictedUnnamed();
  }
}

}  // namespace kvgate::prompt::diagnose
