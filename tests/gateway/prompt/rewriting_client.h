// RewritingClient is a made-up client whose turns and system prompt hold what agents and people
// write. Between its requests it rewrites, deletes, inserts and reorders them. It is deterministic
// by seed.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/conversations.h"

namespace kvgate::prompt::test {

// Returns all strings of a body, decoded, one per line: tools, system, turns, the rest.
inline std::string AllTexts(const json& value) {
  if (value.is_string()) return value.get<std::string>() + "\n";
  std::string texts;
  if (!value.is_structured()) return texts;
  for (const char* first : {"tools", "system", "instructions"}) {
    if (value.is_object() && value.contains(first)) texts += AllTexts(value[first]);
  }
  for (const auto& [key, part] : value.items()) {
    if (key != "tools" && key != "system" && key != "instructions") texts += AllTexts(part);
  }
  return texts;
}

// Returns the texts between line ends and tags.
inline std::vector<std::string> PiecesOf(const std::string& text) {
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

// Returns a line of values that programs write, with '#' for each digit, or "" if it is another
// line.
inline std::string FormOf(const std::string& piece) {
  static constexpr std::array<std::string_view, 5> kBeginnings = {
      "Current date: ", "Current time: ", "Request id: ", "Token usage: ", "USD budget: "};
  const bool is_counter = piece.ends_with(" tokens left");
  const bool is_labelled =
      std::any_of(kBeginnings.begin(), kBeginnings.end(),
                  [&](std::string_view beginning) { return piece.starts_with(beginning); });
  if (!is_counter && !is_labelled) return "";
  std::string form = piece;
  std::replace_if(
      form.begin(), form.end(), [](char c) { return c >= '0' && c <= '9'; }, '#');
  return form;
}

class RewritingClient {
 public:
  size_t Below(size_t bound) { return random_() % bound; }
  // Returns a random position, all being equally likely.
  template <typename List>
  auto At(List& list, size_t more = 0) {
    return list.begin() + static_cast<std::ptrdiff_t>(Below(list.size() + more));
  }

  RewritingClient(uint32_t seed, Endpoint endpoint) : random_(seed), endpoint_(endpoint) {
    system_.emplace_back("Be brief.");
    for (size_t i = Below(4); i > 0; --i) system_.insert(At(system_, 1), SystemLine());
    // A conversation is recognized by text that is not volatile.
    turns_.push_back(Turn("user"));
    turns_.back().texts[0].insert(0, "Begin.\n");
  }

  // Only appends turns, and rewrites the values of labelled lines of the system prompt.
  void GoOn() {
    for (std::string& line : system_) {
      if (!FormOf(line).empty() && Below(2) == 0) ChangeValue(line, line.size() - 1);
    }
    Append();
  }
  // Makes any change.
  void Rewrite() {
    for (size_t i = Below(3); i > 0; --i) EditTurns();
    if (Below(2) == 0) EditSystem();
    if (Below(5) > 0) Append();
    if (Below(8) == 0 && turns_.size() > 1) turns_.pop_back();
  }

  std::string Body() const {
    std::string system;
    for (const std::string& line : system_) system += (system.empty() ? "" : "\n") + line;
    Request request{.endpoint = endpoint_, .system = system};
    for (const Said& said : turns_) request.turns.push_back(Json(said));
    return request.Body();
  }
  // Returns its texts, including those of the system prompt.
  std::vector<std::string> texts() const {
    std::vector<std::string> all = system_;
    for (const Said& said : turns_) all.insert(all.end(), said.texts.begin(), said.texts.end());
    return all;
  }
  // Returns true if the client has ever said this line in a kind of system block (a git status, an
  // environment) of which it says one at present.
  bool WasInBlock(const std::string& piece) const {
    return std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& block) {
      const bool is_now = std::any_of(system_.begin(), system_.end(), [&](const std::string& line) {
        return line.starts_with(block.first);
      });
      return is_now && block.second == piece;
    });
  }
  bool ends_with_results() const { return turns_.back().role == "result"; }

 private:
  struct Said {
    std::string role;  // "result" for a tool's
    std::vector<std::string> texts;
    int form = 0;  // the form of the content
  };

  std::string Number(int digits) {
    std::string text;
    for (int i = 0; i < digits; ++i) text += static_cast<char>('0' + Below(10));
    return text;
  }
  std::string Time() {
    const std::string month(1, static_cast<char>('0' + Below(3)));
    return "2026-1" + month + "-1" + Number(1) + " 1" + Number(1) + ":3" + Number(1);
  }
  std::string Uuid() { return "0f8fad5b-d9cb-469f-a165-" + Number(12); }
  std::string Word() {
    static constexpr const char* kWords[] = {"use", "tabs", "spaces", "call", "Bob", "é", "plan"};
    return kWords[Below(std::size(kWords))];
  }
  std::string Words() { return Word() + " " + Word() + Number(2) + " " + Word(); }
  std::string Line() {
    switch (Below(15)) {
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
        return "<system-reminder>Current date: " + Time() + "</system-reminder>";
      case 8:
        return "<environment_details>\nCurrent Mode: " + Word() + "\n" + Line() +
               "\n</environment_details>";
      case 9:
        return "gitStatus: now\nStatus:\nM " + Word() + ".c\n";
      case 10:
        return Word() + " at 1" + Number(1) + ":30 " + Word();
      case 11:
        return "USD budget: $0." + Number(2) + "/1.00";
      case 12:
        return "<info-msg>Current time: " + Time() + "</info-msg>";
      default:
        return Words();
    }
  }
  std::string SystemLine() {
    static constexpr std::array<const char*, 4> kBlocks = {"Working directory: ", "gitStatus: now",
                                                           "<env>", "<environment_details>"};
    std::string line;
    switch (Below(8)) {
      case 0:
        line = "Working directory: /srv/" + Word() + Number(1);
        break;
      case 1:
        line = "gitStatus: now\nStatus:\nM " + Word() + Number(2) + ".c\n";
        break;
      case 2:
        line = "<env>\n" + Words() + "\n</env>";
        break;
      case 3:
        line = "Current time: " + Time();
        break;
      case 4:
        line = "Request id: " + Uuid();
        break;
      case 5:
        line = Line();
        break;
      default:
        line = Words();
    }
    for (const char* block : kBlocks) {
      if (!line.starts_with(block)) continue;
      for (const std::string& piece : PiecesOf(line)) blocks_.insert({block, piece});
    }
    return line;
  }
  std::string Text() {
    std::string text = Line();
    for (size_t i = Below(4); i > 0; --i) text += "\n" + Line();
    return text;
  }
  Said Turn(const std::string& role) {
    Said said{.role = role, .texts = {Text()}, .form = static_cast<int>(Below(4))};
    if (role == "user" && Below(3) == 0) said.texts.push_back(Text());
    // Some results have no text, and some are followed by a user's words.
    if (role == "result" && said.form == 3) said.texts.clear();
    if (role == "result" && said.form == 2 && endpoint_ == Endpoint::kMessages) {
      said.texts.push_back(Text());
    }
    return said;
  }
  void Append() {
    turns_.push_back(Turn("assistant"));
    turns_.push_back(Turn(Below(2) == 0 ? "result" : "user"));
  }

  // Changes the first digit from byte `at` on, searching cyclically.
  void ChangeValue(std::string& text, size_t at) {
    for (size_t i = 0; i < text.size(); ++i) {
      char& c = text[(at + i) % text.size()];
      if (c < '0' || c > '9') continue;
      c = static_cast<char>('0' + (c - '0' + 1 + Below(8)) % 10);
      return;
    }
  }
  static void DropLine(std::string& text, size_t at) {
    const size_t begin = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
    const size_t end = text.find('\n', at);
    const std::string left =
        text.substr(0, begin) + (end == std::string::npos ? "" : text.substr(end + 1));
    if (!left.empty()) text = left;
  }
  // Changes one byte, value, line, block or turn somewhere.
  void EditTurns() {
    switch (Below(12)) {
      case 0:
        if (turns_.size() > 2) turns_.erase(At(turns_));
        return;
      case 1:
        turns_.insert(At(turns_, 1), Turn(Below(3) == 0 ? "assistant" : "user"));
        return;
      case 2:
        std::swap(*At(turns_), *At(turns_));
        return;
      default:
        EditTurn(*At(turns_));
    }
  }
  void EditTurn(Said& turn) {
    if (turn.texts.empty()) return;
    const auto chosen = At(turn.texts);
    std::string& text = *chosen;
    const size_t at = Below(text.size());
    switch (Below(9)) {
      case 0:
        text = Text();
        return;
      case 1:
        text += "\n" + Line();
        return;
      case 2:
        text = Line() + "\n" + text;
        return;
      case 3:
        if (turn.role == "user") turn.texts.insert(At(turn.texts, 1), Line());
        return;
      case 4:
        if (turn.texts.size() > 1) turn.texts.erase(chosen);
        return;
      case 5:
        DropLine(text, at);
        return;
      case 6: {  // its text moves to the last turn
        if (turns_.back().role != "user" || &turns_.back() == &turn) return;
        turns_.back().texts.push_back(text);
        if (turn.texts.size() > 1) turn.texts.erase(chosen);
        return;
      }
      default:
        ChangeValue(text, at);
    }
  }
  void EditSystem() {
    if (system_.empty() || Below(4) == 0) {
      system_.insert(At(system_, 1), SystemLine());
      return;
    }
    const auto line = At(system_);
    switch (Below(4)) {
      case 0:
        system_.erase(line);
        return;
      case 1:
        std::swap(*line, *At(system_));
        return;
      case 2:
        *line = SystemLine();
        return;
      default:
        if (!FormOf(*line).empty()) ChangeValue(*line, 0);
    }
  }

  std::string BlockOf(const std::string& role, const std::string& text) const {
    if (endpoint_ != Endpoint::kResponses) return Block(text);
    const char* type = role == "assistant" ? "output_text" : "input_text";
    return R"({"type":")" + std::string(type) + R"(","text":)" + Quoted(text) + "}";
  }
  std::string ResultJson(const Said& said) const {
    const std::string image =
        R"([{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}])";
    const std::string text = said.texts.empty() ? image : Quoted(said.texts[0]);
    const bool as_list = said.form == 1 && !said.texts.empty();
    const std::string content = as_list ? "[" + BlockOf("user", said.texts[0]) + "]" : text;
    if (endpoint_ == Endpoint::kChatCompletions) {
      return R"({"role":"tool","tool_call_id":"c","content":)" + content + "}";
    }
    if (endpoint_ == Endpoint::kResponses) {
      return R"({"type":"function_call_output","call_id":"c","output":)" + content + "}";
    }
    std::vector<std::string> blocks = {R"({"type":"tool_result","tool_use_id":"c","content":)" +
                                       content + "}"};
    for (size_t i = 1; i < said.texts.size(); ++i) blocks.push_back(Block(said.texts[i]));
    return TurnOf("user", blocks);
  }
  std::string Json(const Said& said) const {
    if (said.role == "result") return ResultJson(said);
    if (said.texts.size() == 1 && (said.role != "user" || said.form % 2 == 0)) {
      return test::Turn(said.role, said.texts[0]);
    }
    std::vector<std::string> blocks;
    for (const std::string& text : said.texts) blocks.push_back(BlockOf(said.role, text));
    return TurnOf(said.role, blocks);
  }

  std::mt19937 random_;
  const Endpoint endpoint_;
  std::vector<std::string> system_;
  std::vector<Said> turns_;
  std::set<std::pair<std::string, std::string>> blocks_;
};

}  // namespace kvgate::prompt::test
