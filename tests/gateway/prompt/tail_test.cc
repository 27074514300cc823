#include "gateway/prompt/tail.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests

// All texts of a body, decoded, a line each.
std::string AllTexts(const json& value) {
  if (value.is_string()) return value.get<std::string>() + "\n";
  std::string texts;
  if (value.is_structured()) {
    for (const json& part : value) texts += AllTexts(part);
  }
  return texts;
}

// What stands between line ends and tags.
std::vector<std::string> PiecesOf(const std::string& text) {
  std::vector<std::string> pieces(1);
  bool in_tag = false;
  for (const char c : text) {
    if (c == '<') in_tag = true;
    if (c == '\n' || c == '<') {
      pieces.emplace_back();
    } else if (!in_tag && c != '\r') {
      pieces.back() += c;
    }
    if (c == '>') in_tag = false;
  }
  for (std::string& piece : pieces) {
    while (piece.ends_with(' ')) piece.pop_back();
    piece.erase(0, piece.find_first_not_of(' '));
  }
  std::erase(pieces, "");
  return pieces;
}

// A conversation whose turns hold what agents and people write, and whose caller rewrites them.
class Writer {
 public:
  Writer(uint32_t seed, Endpoint endpoint) : random_(seed), endpoint_(endpoint) {}

  struct Said {
    std::string role;  // "result": of a tool
    std::vector<std::string> texts;
  };

  size_t Below(size_t bound) { return random_() % bound; }
  std::string Number(int digits) {
    std::string text;
    for (int i = 0; i < digits; ++i) text += static_cast<char>('0' + Below(10));
    return text;
  }
  std::string Time() {
    return "2026-1" + Number(1) + "-1" + Number(1) + " 1" + Number(1) + ":3" + Number(1);
  }
  std::string Uuid() { return "0f8fad5b-d9cb-469f-a165-" + Number(12); }
  std::string Word() {
    static constexpr const char* kWords[] = {"use", "tabs", "spaces", "call", "Bob", "é", "plan"};
    return kWords[Below(std::size(kWords))];
  }
  std::string Words() { return Word() + " " + Word() + Number(2) + " " + Word(); }
  std::string Line() {
    switch (Below(14)) {
      case 0:
        return "Current date: " + Time();
      case 1:
        return Time();
      case 2:
        return Uuid();
      case 3:
        return "Request id: " + Uuid();
      case 4:
        return "Token usage: " + Number(5) + "/200000; " + Number(5) + " remaining";
      case 5:
        return "<total_tokens>" + Number(5) + " tokens left</total_tokens>";
      case 6:
        return "<system-reminder>\n" + Line() + "\n" + Words() + "\n</system-reminder>";
      case 7:
        return "<system-reminder>" + Line() + "</system-reminder>";
      case 8:
        return "<environment_details>\nCurrent Mode: " + Word() + "\n" + Line() +
               "\n</environment_details>";
      case 9:
        return "gitStatus: now\nStatus:\nM " + Word() + ".c\n";
      case 10:
        return Word() + " at 1" + Number(1) + ":30 " + Word();
      case 11:
        return "USD budget: $0." + Number(2) + "/1.00";
      default:
        return Words();
    }
  }
  std::string Text() {
    std::string text = Line();
    for (size_t i = Below(4); i > 0; --i) text += "\n" + Line();
    return text;
  }
  Said Turn(const std::string& role) {
    Said said{.role = role, .texts = {Text()}};
    if (role == "user" && Below(3) == 0) said.texts.push_back(Text());
    return said;
  }

  // One byte, one value, one line or one block, somewhere in a text.
  void Edit(std::vector<Said>& turns) {
    Said& turn = turns[Below(turns.size())];
    std::string& text = turn.texts[Below(turn.texts.size())];
    const size_t at = Below(text.size());
    switch (Below(6)) {
      case 0:
        text = Text();
        break;
      case 1:
        text += "\n" + Line();
        break;
      case 2:
        text = Line() + "\n" + text;
        break;
      case 3:
        if (turn.role == "user") turn.texts.insert(turn.texts.begin(), Line());
        break;
      default:
        for (size_t i = 0; i < text.size(); ++i) {
          char& c = text[(at + i) % text.size()];
          if (c < '0' || c > '9') continue;
          c = static_cast<char>('0' + (c - '0' + 1 + Below(8)) % 10);
          break;
        }
    }
  }
  std::string Body(const std::vector<Said>& turns, const std::string& system) {
    Request request{.endpoint = endpoint_, .system = system};
    for (const Said& said : turns) request.turns.push_back(Json(said));
    return request.Body();
  }

 private:
  std::string Json(const Said& said) const {
    if (said.role == "result") {
      if (endpoint_ == Endpoint::kChatCompletions) {
        return R"({"role":"tool","tool_call_id":"c","content":)" + Quoted(said.texts[0]) + "}";
      }
      return TurnOf("user", {R"({"type":"tool_result","tool_use_id":"c","content":)" +
                             Quoted(said.texts[0]) + "}"});
    }
    if (said.texts.size() == 1 && said.role != "user")
      return testing::Turn(said.role, said.texts[0]);
    if (said.texts.size() == 1 && said.texts[0].size() % 2 == 0) {
      return testing::Turn(said.role, said.texts[0]);
    }
    std::vector<std::string> blocks;
    for (const std::string& text : said.texts) blocks.push_back(Block(text));
    return TurnOf(said.role, blocks);
  }

  std::mt19937 random_;
  const Endpoint endpoint_;
};

class Tail : public ::testing::TestWithParam<Endpoint> {};

TEST_P(Tail, AllThatACallerWritesIsInWhatIsSent) {
  size_t num_held = 0;
  size_t num_kept = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Writer writer(seed, GetParam());
    Caller caller(Mode::kStabilize, "openai");
    caller.session = "s";
    std::vector<Writer::Said> turns = {writer.Turn("user")};
    for (int step = 0; step < 8; ++step) {
      const bool ends_with_user = turns.back().role == "user";
      const std::string system =
          "Be brief.\nCurrent time: " + (ends_with_user ? writer.Time() : "2026-11-22 10:00");
      const std::string body = writer.Body(turns, ends_with_user ? system : "Be brief.");
      const std::string sent = AllTexts(json::parse(caller.SendBody(GetParam(), body)));
      for (const Writer::Said& turn : turns) {
        for (const std::string& text : turn.texts) {
          for (const std::string& piece : PiecesOf(text)) {
            ASSERT_NE(sent.find(piece), std::string::npos)
                << "seed " << seed << " step " << step << ": " << piece << "\nof " << body
                << "\nsent " << sent;
          }
        }
      }
      num_held += caller.Used(Rule::kVolatileHeld) ? 1 : 0;
      num_kept += caller.Used(Rule::kReminderKept) ? 1 : 0;
      if (writer.Below(3) > 0) writer.Edit(turns);
      if (writer.Below(4) > 0) {
        turns.push_back(writer.Turn("assistant"));
        turns.push_back(writer.Turn(writer.Below(3) == 0 ? "result" : "user"));
      }
    }
  }
  // The rules have been at work all the while.
  EXPECT_GT(num_held, 20U);
  EXPECT_GT(num_kept, 20U);
}

TEST_P(Tail, AValueThatComesBackIsSaidAgain) {
  Caller caller(Mode::kStabilize, "openai");
  caller.session = "s";
  Request request{.endpoint = GetParam()};
  const auto send = [&](const std::string& day) {
    request.turns.front() = Turn("user", "Current date: 2026-11-" + day + "\nPlan my week.");
    return caller.Send(request);
  };
  request.turns = {""};
  std::string before = send("22");
  for (const char* day : {"23", "22", "22", "24"}) {
    request.turns.push_back(Turn("assistant", "done"));
    request.turns.push_back(Turn("user", "more"));
    const bool is_new = before.rfind("2026-11-") == std::string::npos ||
                        before.substr(before.rfind("2026-11-") + 8, 2) != day;
    const std::string after = send(day);
    EXPECT_TRUE(GoesOn(before, after));
    const std::string told = "more\\n\\nCurrent date: 2026-11-" + std::string(day);
    EXPECT_EQ(after.find(told, before.size() - 2) != std::string::npos, is_new) << after;
    before = after;
  }
}

TEST_P(Tail, ALineIsSaidAgainWhereTheTextThatSaidItIsGone) {
  Caller caller(Mode::kStabilize, "openai");
  caller.session = "s";
  Request request{.endpoint = GetParam(),
                  .system = "Be brief.\nCurrent date: 2026-11-22",
                  .turns = {Turn("user", "hi"), Turn("assistant", "a"), Turn("user", "look")}};
  EXPECT_NE(caller.Send(request).find("look\\n\\nCurrent date: 2026-11-22"), std::string::npos);
  request.turns.back() = Turn("user", "look there");
  EXPECT_NE(caller.Send(request).find("look there\\n\\nCurrent date: 2026-11-22"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Dialects, Tail,
                         ::testing::Values(Endpoint::kMessages, Endpoint::kChatCompletions),
                         DialectOf);

TEST(TailTest, WhatAUserCorrectsInAnEarlierTurnReachesTheProvider) {
  const std::vector<std::array<std::string, 3>> edits = {
      {"Remind me at 10:30 to call Bob.", "Remind me at 11:45 to call Bob.", "11:45"},
      {"2026-11-22", "2026-11-23", "2026-11-23"},
      {"The train leaves\n2026-11-22 10:30:00\nfrom Berlin.",
       "The train leaves\n2026-11-22 12:45:00\nfrom Berlin.", "12:45"},
      {"Order:\n0f8fad5b-d9cb-469f-a165-70867728950e\nPlease cancel.",
       "Order:\n7c9e6679-7425-40de-944b-e07fc1f90ae7\nPlease cancel.", "7c9e6679"},
      {"Tokens left: 1200\nGo.", "Tokens left: 50\nGo.", "Tokens left: 50"},
      {"<system-reminder>\nUse spaces.\n</system-reminder>\nGo.",
       "<system-reminder>\nUse tabs.\n</system-reminder>\nGo.", "Use tabs"}};
  for (const auto& [first, edited, wanted] : edits) {
    Caller caller(Mode::kStabilize, "openai");
    Request request{.endpoint = Endpoint::kChatCompletions, .turns = {Turn("user", first)}};
    caller.Send(request);
    request.turns = {Turn("user", edited), Turn("assistant", "a"), Turn("user", "What did I say?")};
    EXPECT_EQ(caller.Send(request), request.Body()) << wanted;
  }
}

TEST(TailTest, AnEditedMemoryFileGoesOutAndADayThatPassesIsSaidBehindIt) {
  Caller caller(Mode::kStabilize, "anthropic");
  const auto memory = [](std::string_view rule, std::string_view day) {
    return Block("<system-reminder>\n# claudeMd\n" + std::string(rule) +
                 "\n# currentDate\nToday's date is 2026-11-" + std::string(day) +
                 ".\n</system-reminder>");
  };
  Request request{.turns = {TurnOf("user", {memory("Be brief.", "22"), Block("fix it")})}};
  const std::string before = caller.Send(request);
  request.turns[0] = TurnOf("user", {memory("Be brief.", "23"), Block("fix it")});
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "more"));
  const std::string after = caller.Send(request);
  EXPECT_TRUE(GoesOn(before, after));
  EXPECT_NE(after.find("more\\n\\nToday's date is 2026-11-23."), std::string::npos);
  request.turns[0] = TurnOf("user", {memory("Use tabs.", "23"), Block("fix it")});
  request.turns.push_back(Turn("assistant", "done"));
  request.turns.push_back(Turn("user", "go on"));
  EXPECT_NE(caller.Send(request).find("Use tabs."), std::string::npos);
}

TEST(TailTest, AReminderThatComesToAnEarlierTurnGoesOutUnlessAnotherTurnSaysIt) {
  Caller caller(Mode::kStabilize, "anthropic");
  Request request{.turns = {TurnOf("user", {Block("one"), Block("two")})}};
  caller.Send(request);
  request.turns = {TurnOf("user", {Block("<system-reminder>New rule.</system-reminder>"),
                                   Block("one"), Block("two")}),
                   Turn("assistant", "a"), Turn("user", "more")};
  EXPECT_EQ(caller.Send(request), request.Body());
}

}  // namespace
}  // namespace kvgate::prompt
