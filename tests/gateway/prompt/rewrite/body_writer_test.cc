// These tests run random conversations whose caller spells everything anew at each turn.
#include "gateway/prompt/rewrite/body_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::rewrite {
namespace {

using namespace test;  // NOLINT: the helpers of these tests

class Jitter {
 public:
  explicit Jitter(unsigned seed) : random_(seed) {}
  size_t Below(size_t n) { return random_() % n; }

  // Returns the value with its keys in another order, and with other spaces, escapes and spellings
  // of numbers.
  std::string Respell(const json& value) {
    if (value.is_string()) return RespellText(value.get<std::string>());
    if (value.is_number_integer() && Below(2) == 0) return value.dump() + ".0";
    if (value.is_array()) {
      std::vector<std::string> items;
      for (const json& item : value) items.push_back(Respell(item));
      return "[" + Joined(items) + "]";
    }
    if (!value.is_object()) return value.dump();
    std::vector<std::string> members;
    for (const auto& [key, member] : value.items()) {
      const bool is_name = key == "type" || key == "role";
      const std::string spelled = is_name ? member.dump() : Respell(member);
      members.push_back(Spaces() + json(key).dump() + Spaces() + ":" + Spaces() + spelled);
    }
    std::shuffle(members.begin(), members.end(), random_);
    return "{" + Joined(members) + Spaces() + "}";
  }

 private:
  std::string Spaces() { return std::string(Below(4) == 0 ? 1 : 0, ' '); }
  std::string RespellText(const std::string& text) {
    std::string out = json(text).dump();
    const size_t at = out.find('e');
    if (Below(2) == 0 && at != std::string::npos && (at == 0 || out[at - 1] != '\\')) {
      out.replace(at, 1, "\\u0065");
    }
    return out;
  }
  std::mt19937 random_;
};

json RandomTurn(Jitter& jitter, int i, Endpoint endpoint) {
  const std::string text = "text of turn " + std::to_string(i) + "\nline";
  const bool user = i % 2 == 0;
  const char* role = user ? "user" : "assistant";
  if (jitter.Below(2) == 0) return {{"role", role}, {"content", text}};
  if (endpoint == Endpoint::kResponses) {
    return {{"role", role},
            {"content", {{{"type", user ? "input_text" : "output_text"}, {"text", text}}}}};
  }
  json blocks = {{{"type", "text"}, {"text", text}}};
  if (!user && endpoint == Endpoint::kMessages) {
    blocks.push_back({{"type", "tool_use"}, {"id", "t"}, {"name", "f"}, {"input", {{"a", i}}}});
  }
  return {{"role", role}, {"content", blocks}};
}

json Tool(int i) {
  return {{"name", "tool_" + std::to_string(i)},
          {"input_schema", {{"type", "object"}, {"maximum", 9007199254740993 + i}}}};
}

class Jittered : public ::testing::TestWithParam<Endpoint> {};

TEST_P(Jittered, G4G14PinSendsTheFirstBytesAndChangesNoMeaning) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Jitter jitter(seed);
    Caller caller(Mode::kPin, "anthropic");
    caller.planner().mark_last = seed % 2 == 0;
    std::vector<json> turns;
    std::string before;
    for (int i = 0; i < 9; i += 2) {
      if (i > 0) turns.push_back(RandomTurn(jitter, i - 1, GetParam()));
      turns.push_back(RandomTurn(jitter, i, GetParam()));
      Request request{.endpoint = GetParam(), .system = "Be brief.\nAnd kind."};
      for (int t = 0; t < 4; ++t) request.tools.push_back(jitter.Respell(Tool(t)));
      std::shuffle(request.tools.begin(), request.tools.end(), std::mt19937(jitter.Below(99)));
      for (const json& turn : turns) request.turns.push_back(jitter.Respell(turn));
      const std::string sent = caller.Send(request);
      if (!caller.planner().mark_last) {
        EXPECT_TRUE(MeansTheSame(sent, request.Body())) << "seed " << seed;
      }
      if (!before.empty()) {
        EXPECT_TRUE(GoesOn(before, sent)) << "seed " << seed;
      }
      before = sent;
    }
  }
}

// The caller's cache breakpoint moves along with its newest turn.
TEST(BodyWriter, G7MarkersStandWhereTheCallerHasThemNow) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Endpoint endpoint = seed % 2 == 0 ? Endpoint::kMessages : Endpoint::kChatCompletions;
    Jitter jitter(seed);
    Caller caller(Mode::kPin, "anthropic");
    std::vector<std::string> texts;
    std::string before;
    for (int i = 0; i < 5; ++i) {
      texts.push_back("text " + std::to_string(i));
      Request request{.endpoint = endpoint};
      for (size_t t = 0; t < texts.size(); ++t) {
        if (t > 0) request.turns.push_back(Turn("assistant", "done"));
        json block = {{"type", "text"}, {"text", texts[t]}};
        if (t + 1 == texts.size()) block["cache_control"] = {{"type", "ephemeral"}};
        request.turns.push_back(jitter.Respell({{"role", "user"}, {"content", {block}}}));
      }
      const std::string sent = caller.Send(request);
      EXPECT_TRUE(MeansTheSame(sent, request.Body())) << "seed " << seed;
      const json parsed = json::parse(sent);
      EXPECT_TRUE(parsed["messages"].back()["content"][0].contains("cache_control"));
      for (size_t t = 0; t + 1 < parsed["messages"].size(); ++t) {
        EXPECT_EQ(parsed["messages"][t].dump().find("cache_control"), std::string::npos);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dialects, Jittered,
                         ::testing::Values(Endpoint::kMessages, Endpoint::kChatCompletions,
                                           Endpoint::kResponses),
                         DialectOf);

// Lines that move or are held change the string that its caller sends; what the provider has is a
// list.
TEST(BodyWriter, AStringThatWentOutAsAListStaysOneWhileItsLinesChange) {
  for (const bool is_known : {true, false}) {
    Caller caller(Mode::kStabilize);
    caller.planner().mark_system = true;
    const auto system = [&](std::string_view minute) {
      const std::string time = "2026-11-22T10:" + std::string(minute) + ":00Z";
      return is_known ? "You are an agent.\nCurrent time: " + time
                      : "You are an agent.\nWhat was there at " + time + " counts.";
    };
    Request request{.endpoint = Endpoint::kChatCompletions,
                    .system = system("31"),
                    .turns = {Turn("user", "fix the bug")}};
    std::string before = caller.Send(request);
    EXPECT_TRUE(json::parse(before)["messages"][0]["content"].is_array()) << before;
    const auto planned = [&] { return caller.planner().seen.back()[0].prefix; };
    const parse::Identity prefix = planned();
    for (const std::string_view minute : {"32", "33", "33"}) {
      request.system = system(minute);
      request.turns.push_back(Turn("assistant", "I did."));
      request.turns.push_back(Turn("user", "more"));
      const std::string after = caller.Send(request);
      EXPECT_TRUE(GoesOn(before, after));
      EXPECT_EQ(planned(), prefix) << "to the provider it is the same text";
      before = after;
    }
    // Without a breakpoint it stays what it was.
    caller.planner().drop_breakpoints = true;
    request.system = system("34");
    request.turns.push_back(Turn("assistant", "I did."));
    request.turns.push_back(Turn("user", "more"));
    const json sent = json::parse(caller.Send(request));
    EXPECT_EQ(sent["messages"][0]["content"].size(), 1U) << sent;
  }
}

}  // namespace
}  // namespace kvgate::prompt::rewrite
