// A TrafficJudge compares what a client asked with what was sent for it, over all conversations of
// an agent: nothing may be missing, nothing that was taken back may be there, words and results
// stay as they are, no conversation's text reaches another, and turns of the system's own say what
// its system prompt says.
#pragma once

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/agent_generator.h"

namespace kvgate::prompt::traffic {

// Appends all strings of a body, decoded, each followed by a newline; tools and system come first,
// because they do so in a prompt.
inline void AppendTexts(const OrderedJson& value, std::string& texts) {
  if (value.is_string()) {
    texts += value.get_ref<const std::string&>();
    texts += '\n';
  }
  if (value.is_array()) {
    for (const OrderedJson& item : value) AppendTexts(item, texts);
  }
  if (!value.is_object()) return;
  const auto is_front = [](const std::string& key) {
    return key == "tools" || key == "system" || key == "instructions";
  };
  for (const bool front : {true, false}) {
    for (const auto& [key, member] : value.items()) {
      if (is_front(key) == front) AppendTexts(member, texts);
    }
  }
}

// Returns the lines of a text without the white space around them.
inline std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    lines.push_back(line);
  }
  return lines;
}

// Returns the words of a line that are long and hold a digit, and so are one conversation's own.
inline std::vector<std::string_view> TokensOf(std::string_view line) {
  constexpr size_t kTokenBytes = 8;
  const auto is_in_token = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
  };
  std::vector<std::string_view> tokens;
  for (size_t begin = 0; begin < line.size();) {
    size_t end = begin;
    while (end < line.size() && is_in_token(line[end])) ++end;
    const std::string_view token = line.substr(begin, end - begin);
    if (token.size() >= kTokenBytes && token.find_first_of("0123456789") != token.npos) {
      tokens.push_back(token);
    }
    begin = std::max(end, begin + 1);
  }
  return tokens;
}

class TrafficJudge {
 public:
  explicit TrafficJudge(size_t num_conversations) : said_(num_conversations) {}

  struct Sent {
    const OrderedJson& asked;
    const OrderedJson& body;
    const std::vector<std::string>& notes;
  };
  // Returns what is wrong with a request that was sent, in words; empty if nothing is.
  std::vector<std::string> Judge(const AgentRequest& request, const Sent& sent) {
    faults_.clear();
    Note(request);
    asked_.clear();
    text_.clear();
    AppendTexts(sent.asked, asked_);
    AppendTexts(sent.body, text_);
    const std::vector<std::string_view> asked = LinesOf(asked_);
    const std::vector<std::string_view> lines = LinesOf(text_);
    const std::unordered_set<std::string_view> now(asked.begin(), asked.end());
    FindMissing(request, asked, {lines.begin(), lines.end()}, sent.notes);
    FindWithdrawn(request, now, lines);
    FindChangedPieces(request);
    FindForeignTurns(request, sent);
    return faults_;
  }
  size_t num_held() const { return num_held_; }

 private:
  // What a conversation has said so far.
  struct Said {
    std::unordered_map<std::string, int> lines;  // and tokens, with the slots that they belong to
    std::unordered_set<std::shared_ptr<const std::string>> constants;  // whose lines are among them
    std::unordered_set<std::string> system;  // lines that its system prompt has ever said
    std::unordered_set<std::shared_ptr<const std::string>> system_constants;
    bool leaves_thinking = false;  // the notes have said that thinking is left out
  };

  // Remembers what the client says at present, by conversation.
  void Note(const AgentRequest& request) {
    Said& said = said_[request.conversation];
    if (request.parent >= 0) said = said_[static_cast<size_t>(request.parent)];
    slots_now_.clear();
    const auto note = [&](const Lines& lines) {
      for (const Line& line : lines) {
        if (line.slot < 0 && !said.constants.insert(line.text).second) continue;
        for (const std::string_view part : LinesOf(*line.text)) {
          said.lines.try_emplace(std::string(part), line.slot);
          owned_.insert(std::string(part));
          for (const std::string_view token : TokensOf(part)) {
            said.lines.try_emplace(std::string(token), line.slot);
            owned_.insert(std::string(token));
          }
          if (line.slot >= 0) slots_now_[line.slot].emplace_back(part);
        }
      }
    };
    for (const Lines& tool : request.prompt.tools) note(tool);
    for (const Lines& block : request.prompt.system) {
      note(block);
      for (const Line& line : block) {
        if (line.slot < 0 && !said.system_constants.insert(line.text).second) continue;
        for (const std::string_view part : LinesOf(*line.text)) said.system.emplace(part);
      }
    }
    for (const Turn& turn : request.prompt.turns) {
      for (const Piece& piece : turn.pieces) note(piece.lines);
    }
  }

  void FindMissing(const AgentRequest& request, const std::vector<std::string_view>& asked,
                   const std::unordered_set<std::string_view>& lines,
                   const std::vector<std::string>& notes) {
    const auto says = [&](std::string_view word) {
      return std::any_of(notes.begin(), notes.end(),
                         [&](const std::string& note) { return note.find(word) != note.npos; });
    };
    const bool holds = says("held_stale");
    bool& leaves_thinking = said_[request.conversation].leaves_thinking;
    leaves_thinking = leaves_thinking || says("thinking behind segment");
    std::unordered_set<std::string_view> thinking;
    if (leaves_thinking) thinking = ThinkingOf(request);
    for (const std::string_view line : asked) {
      if (lines.contains(line) || text_.find(line) != text_.npos) continue;
      if (thinking.contains(line)) continue;
      const auto& said = said_[request.conversation].lines;
      const auto own = said.find(std::string(line));
      const bool is_slots = own != said.end() && own->second >= 0;
      if (holds && is_slots) {
        ++num_held_;
      } else {
        Fault("is missing", line);
      }
    }
  }

  // Returns the lines in which a request says its thinking.
  static std::unordered_set<std::string_view> ThinkingOf(const AgentRequest& request) {
    std::unordered_set<std::string_view> thinking = {"thinking"};
    for (const Turn& turn : request.prompt.turns) {
      for (const Piece& piece : turn.pieces) {
        if (piece.part != Part::kThinking) continue;
        thinking.insert(piece.id);
        for (const Line& line : piece.lines) thinking.insert(*line.text);
      }
    }
    return thinking;
  }

  void FindWithdrawn(const AgentRequest& request, const std::unordered_set<std::string_view>& now,
                     const std::vector<std::string_view>& lines) {
    const auto& said = said_[request.conversation].lines;
    for (const std::string_view line : lines) {
      if (now.contains(line)) continue;
      const std::string key(line);
      const auto own = said.find(key);
      if (own != said.end()) {
        JudgeEarlier(line, own->second);
        continue;
      }
      if (owned_.contains(key)) {
        Fault("comes from another conversation", line);
        continue;
      }
      // These are words of the gateway. It may hold a line of this client, but of no other.
      for (const std::string_view token : TokensOf(line)) {
        if (asked_.find(token) != asked_.npos) continue;
        const std::string name(token);
        const auto mine = said.find(name);
        if (mine != said.end() ? mine->second < 0 : owned_.contains(name)) {
          Fault("holds \"" + name + "\", which its client does not say", line);
        }
      }
    }
  }
  // An earlier value of a slot may be sent if its present one follows.
  void JudgeEarlier(std::string_view line, int slot) {
    if (slot < 0) return Fault("was taken back, and is sent", line);
    const auto present = slots_now_.find(slot);
    if (present == slots_now_.end()) return Fault("was taken back, and is sent", line);
    const size_t last = LastLine(line);
    const bool is_replaced =
        std::any_of(present->second.begin(), present->second.end(), [&](const std::string& value) {
          const size_t at = LastLine(value);
          return at == text_.npos || at > last;  // one that is missing is a fault of its own
        });
    if (!is_replaced) Fault("stands behind the value that replaced it", line);
  }
  // Returns where the text says the line last, by itself if it does so anywhere: "1" is no line of
  // "call 12".
  size_t LastLine(std::string_view line) const {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    for (size_t at = text_.rfind(line); at != text_.npos; at = text_.rfind(line, at - 1)) {
      size_t begin = at;
      while (begin > 0 && is_blank(text_[begin - 1])) --begin;
      size_t end = at + line.size();
      while (end < text_.size() && is_blank(text_[end])) ++end;
      const bool is_whole =
          (begin == 0 || text_[begin - 1] == '\n') && (end == text_.size() || text_[end] == '\n');
      if (is_whole) return at;
      if (at == 0) break;
    }
    return text_.rfind(line);
  }

  // Words of users, results and answers are sent whole and in their order.
  void FindChangedPieces(const AgentRequest& request) {
    size_t from = 0;
    for (const Turn& turn : request.prompt.turns) {
      for (const Piece& piece : turn.pieces) {
        const bool is_kept = piece.part == Part::kWords || piece.part == Part::kResult ||
                             piece.part == Part::kAnswer || piece.part == Part::kCall;
        if (!is_kept) continue;
        const std::string text = TextOf(piece.lines);
        const size_t at = text_.find(text, from);
        if (at == text_.npos) {
          Fault("is not whole, or not in its order", text);
        } else {
          from = at + text.size();
        }
      }
    }
  }

  // A model obeys turns of system and developer. One that the client has not written may stand
  // behind a turn of a user or tool only, and its lines are the system prompt's.
  void FindForeignTurns(const AgentRequest& request, const Sent& sent) {
    const char* field = sent.body.contains("input") ? "input" : "messages";
    const OrderedJson& turns = sent.body[field];
    const OrderedJson& asked = sent.asked[field];
    const std::unordered_set<std::string>& system = said_[request.conversation].system;
    for (size_t i = 0; i < turns.size(); ++i) {
      const std::string role = turns[i].value("role", "");
      if (role != "system" && role != "developer") continue;
      if (i < asked.size() && asked[i].value("role", "") == role) continue;  // the client's own
      const OrderedJson before = i > 0 ? turns[i - 1] : OrderedJson::object();
      const std::string last = before.value("role", "");
      const bool is_placed =
          last == "user" || last == "tool" || before.value("type", "") == "function_call_output";
      if (!is_placed) Fault("does not follow a user's or tool's turn", turns[i].dump());
      std::string text;
      AppendTexts(turns[i]["content"], text);
      for (const std::string_view line : LinesOf(text)) {
        if (line == "input_text" || system.contains(std::string(line))) continue;
        Fault("is not the system's, and stands in a turn of the system", line);
      }
    }
  }

  void Fault(std::string_view what, std::string_view text) {
    faults_.push_back("\"" + std::string(text.substr(0, 160)) + "\" " + std::string(what));
  }

  std::vector<Said> said_;                 // by conversation
  std::unordered_set<std::string> owned_;  // lines and tokens that any conversation has said
  std::map<int, std::vector<std::string>> slots_now_;
  std::string asked_;
  std::string text_;
  std::vector<std::string> faults_;
  size_t num_held_ = 0;
};

}  // namespace kvgate::prompt::traffic
