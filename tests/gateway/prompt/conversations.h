// These helpers are conversations that the tests of gateway/prompt send through an Optimizer, and
// checks of its output: bodies put together from parts, equality as parsed, common prefixes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/prompt/optimizer.h"

namespace kvgate::prompt::test {

using dialect::form::Endpoint;
using nlohmann::json;

// FakePlanner keeps the caller's breakpoints. A test may ask it to mark the last block or the
// system prompt, to drop all breakpoints, or to set a key.
class FakePlanner final : public planner::Planner {
 public:
  planner::Plan Make(const planner::PlanArgs& args) override {
    seen.emplace_back(args.segments.begin(), args.segments.end());
    return Preview(args);
  }
  planner::Plan Preview(const planner::PlanArgs& args) const override {
    planner::Plan plan;
    plan.automatic = args.automatic;
    plan.prompt_cache_key = args.caller_has_key ? "" : key;
    for (size_t i = 0; i < args.segments.size(); ++i) {
      if (args.segments[i].breakpoint)
        plan.breakpoints.push_back({i, *args.segments[i].breakpoint});
    }
    if (mark_last && plan.breakpoints.empty()) {
      for (size_t i = args.segments.size(); i-- > 0;) {
        if (!args.segments[i].markable || args.segments[i].is_volatile) continue;
        plan.breakpoints.push_back(
            {i, {.kind = parse::BreakpointKind::kCacheControl, .ttl_seconds = 300}});
        break;
      }
    }
    for (size_t i = 0; mark_system && i < args.segments.size(); ++i) {
      if (args.segments[i].role != parse::Role::kSystem || !args.segments[i].markable) continue;
      plan.breakpoints.push_back({i, {.kind = parse::BreakpointKind::kBreakpoint}});
    }
    if (drop_breakpoints) plan.breakpoints.clear();
    return plan;
  }
  void Learn(const Outcome& outcome) override { learnt.push_back(outcome); }
  void Forget(const parse::Identity& conversation, uint64_t) override {
    forgotten.push_back(conversation);
  }

  bool mark_last = false;
  bool mark_system = false;
  bool drop_breakpoints = false;
  std::string key;
  std::vector<std::vector<planner::PlanSegment>> seen;
  std::vector<Outcome> learnt;
  std::vector<parse::Identity> forgotten;
};

inline std::string Quoted(std::string_view text) { return json(text).dump(); }

// Returns {"role": …, "content": "…"}.
inline std::string Turn(std::string_view role, std::string_view text) {
  return "{\"role\":\"" + std::string(role) + "\",\"content\":" + Quoted(text) + "}";
}
inline std::string Block(std::string_view text, std::string_view breakpoint = "") {
  return "{\"type\":\"text\",\"text\":" + Quoted(text) + std::string(breakpoint) + "}";
}
inline std::string Joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ",") + part;
  return out;
}
inline std::string TurnOf(std::string_view role, const std::vector<std::string>& blocks) {
  return "{\"role\":\"" + std::string(role) + "\",\"content\":[" + Joined(blocks) + "]}";
}
inline constexpr std::string_view kBreakpoint = ",\"cache_control\":{\"type\":\"ephemeral\"}";

// The parts of a request as JSON; each dialect puts them in its own places.
struct Request {
  Endpoint endpoint = Endpoint::kMessages;
  std::vector<std::string> tools = {};
  std::string system = {};  // the text; empty: no system prompt
  std::vector<std::string> system_blocks = {};
  std::vector<std::string> turns = {};
  std::string more = {};  // members in front, such as "\"temperature\":1,"
  std::string model = "m";

  std::string Body() const {
    std::string body = "{\"model\":" + Quoted(model) + "," + more;
    if (!tools.empty()) body += "\"tools\":[" + Joined(tools) + "],";
    std::vector<std::string> all = turns;
    if (!system.empty() && endpoint == Endpoint::kMessages) {
      body += "\"system\":" + Quoted(system) + ",";
    } else if (!system.empty() && endpoint == Endpoint::kResponses) {
      body += "\"instructions\":" + Quoted(system) + ",";
    } else if (!system.empty()) {
      all.insert(all.begin(), Turn("system", system));
    }
    if (!system_blocks.empty()) body += "\"system\":[" + Joined(system_blocks) + "],";
    const std::string name = endpoint == Endpoint::kResponses ? "input" : "messages";
    return body + "\"" + name + "\":[" + Joined(all) + "]}";
  }
};

inline std::string DialectOf(const ::testing::TestParamInfo<Endpoint>& test) {
  if (test.param == Endpoint::kMessages) return "messages";
  return test.param == Endpoint::kResponses ? "responses" : "chat";
}

// Caller is an optimizer with one caller in front of it.
class Caller {
 public:
  explicit Caller(Mode mode, std::string provider = "openai")
      : mode_(mode), provider_(std::move(provider)) {
    auto planner = std::make_unique<FakePlanner>();
    planner_ = planner.get();
    optimizer_ = std::make_unique<Optimizer>(Optimizer::Options{}, std::move(planner));
  }

  // Returns the body that goes out, and checks everything that a caller may rely on.
  std::string Send(const Request& request) { return SendBody(request.endpoint, request.Body()); }
  std::string SendBody(Endpoint endpoint, const std::string& body) {
    OptimizeArgs args;
    args.body = body;
    args.endpoint = endpoint;
    args.tenant = tenant;
    args.session = session;
    args.upstream = "up";
    args.provider = provider_;
    args.mode = mode_;
    args.rules_off = rules_off;
    args.ttl_supported = ttl_supported;
    args.no_system_turn = no_system_turn;
    args.now_us = now_us_ += step_us;
    last = optimizer_->Prepare(args);
    EXPECT_EQ(last.unreadable, "");
    const std::string sent = last.body.value_or(body);
    EXPECT_EQ(last.body.has_value(), !last.edits.empty());
    EXPECT_TRUE(json::accept(sent)) << sent;
    EXPECT_EQ(parse::ApplyEdits(body, last.edits, {0, static_cast<uint32_t>(body.size())}), sent);
    if (mode_ == Mode::kObserve) {
      EXPECT_EQ(sent, body);
    }
    return sent;
  }
  bool Used(parse::Rule rule) const {
    for (const parse::Edit& edit : last.edits) {
      if (edit.rule == rule) return true;
    }
    return false;
  }
  FakePlanner& planner() { return *planner_; }
  Optimizer& optimizer() { return *optimizer_; }

  std::string tenant = "tenant";
  std::string session;
  uint32_t rules_off = 0;
  bool ttl_supported = true;
  bool no_system_turn = false;
  int64_t step_us = 1;  // between two requests
  Prepared last;

 private:
  Mode mode_;
  std::string provider_;
  std::unique_ptr<Optimizer> optimizer_;
  FakePlanner* planner_ = nullptr;
  int64_t now_us_ = 1'000'000;
};

// Returns the body without cache breakpoints, which are not a part of a cached prefix.
inline std::string Unmarked(std::string body) {
  for (size_t at; (at = body.find(kBreakpoint)) != std::string::npos;)
    body.erase(at, kBreakpoint.size());
  return body;
}

// Succeeds if the prompt of `after` begins with all of `before`'s; both bodies end with their
// turns.
inline ::testing::AssertionResult GoesOn(const std::string& before, const std::string& after) {
  const std::string front = Unmarked(before);
  const std::string now = Unmarked(after);
  const size_t end = front.size() - 2;  // "]}"
  if (now.compare(0, end, front, 0, end) == 0) return ::testing::AssertionSuccess();
  size_t at = 0;
  while (at < now.size() && now[at] == front[at]) ++at;
  return ::testing::AssertionFailure()
         << "differs at byte " << at << ":\n  " << front.substr(at > 40 ? at - 40 : 0, 160)
         << "\n  " << now.substr(at > 40 ? at - 40 : 0, 160);
}

// Returns a form in which bodies that mean the same are equal: keys in any order, one kind of
// newline, tools as a set, and calls' arguments as parsed.
inline json Meaning(json value, bool is_tools = false) {
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    for (size_t at; (at = text.find("\r\n")) != std::string::npos;) text.erase(at, 1);
    return text;
  }
  if (value.is_array()) {
    for (json& item : value) item = Meaning(item);
    if (is_tools) std::sort(value.begin(), value.end());
  }
  if (!value.is_object()) return value;
  for (auto& [key, member] : value.items()) {
    if (key == "arguments" && member.is_string()) {
      const json inside = json::parse(member.get<std::string>(), nullptr, false);
      if (inside.is_object()) {
        member = inside;
        continue;
      }
    }
    member = Meaning(member, key == "tools");
  }
  return value;
}
inline ::testing::AssertionResult MeansTheSame(const std::string& a, const std::string& b) {
  const json left = Meaning(json::parse(a));
  const json right = Meaning(json::parse(b));
  if (left == right) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << json::diff(left, right).dump();
}

}  // namespace kvgate::prompt::test
