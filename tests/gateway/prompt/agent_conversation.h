// An AgentConversation is one conversation of an agent, as its client holds it: it goes on, is
// edited, forked and compacted, and writes its request in one of three dialects.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/agent_shape.h"

namespace kvgate::prompt::traffic {

enum class Part : uint8_t { kContext, kReminder, kWords, kResult, kThinking, kAnswer, kCall };

struct Piece {
  Part part = Part::kWords;
  Lines lines;
  std::string id;  // of a call and its result, of thinking; of a reminder that moves
};

enum class Speaker : uint8_t { kUser, kAssistant, kTool };

struct Turn {
  size_t id = 0;  // stays the turn's own when it is edited
  Speaker speaker = Speaker::kUser;
  std::vector<Piece> pieces;
};

// What a client asks with, before it is written in a dialect.
struct AgentPrompt {
  std::vector<Lines> tools;  // descriptions, in the shape's order
  std::vector<Lines> system;
  std::vector<Turn> turns;
};

inline std::string TextOf(const Lines& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) text += (i > 0 ? "\n" : "") + *lines[i].text;
  return text;
}

class AgentConversation {
 public:
  AgentConversation(const AgentShape& shape, Endpoint endpoint, RandomText& random, int64_t seconds)
      : shape_(&shape), endpoint_(endpoint), random_(&random), name_("s-" + random.Hex(16)) {
    moment_ = {.seconds = seconds, .call = 1};
    for (const VolatileSlot& slot : shape.slots) values_.push_back(slot.Begin(random, moment_));
    system_ = shape.system;
    AddTurn(Speaker::kUser);
    if (!shape.context.empty()) {
      turns_.back().pieces.push_back({.part = Part::kContext, .lines = shape.context, .id = ""});
    }
    AddPiece(Part::kWords, Words());
    PlaceReminder();
  }

  const std::string& name() const { return name_; }
  const std::vector<Turn>& turns() const { return turns_; }

  // Takes the answer to the last request, named `answer`, and adds what follows it.
  void GoOn(size_t answer, bool with_thinking) {
    AddTurn(Speaker::kAssistant);
    if (with_thinking) {
      turns_.back().pieces.push_back({.part = Part::kThinking,
                                      .lines = {ConstantLine(random_->Sentence(12))},
                                      .id = "sig-" + std::to_string(answer)});
    }
    AddPiece(Part::kAnswer, random_->Sentence(random_->Between(10, 60)));
    const bool calls = random_->Chance(shape_->percent_results);
    if (calls) {
      const std::string id = "call_" + random_->Hex(10);
      turns_.back().pieces.push_back(
          {.part = Part::kCall, .lines = {ConstantLine(random_->Words(4))}, .id = id});
      AddTurn(Speaker::kTool);
      turns_.back().pieces.push_back(
          {.part = Part::kResult, .lines = {ConstantLine(Result())}, .id = id});
    } else {
      AddTurn(Speaker::kUser);
      AddPiece(Part::kWords, Words());
    }
  }
  // Time passes until the next request, which writes its values anew.
  void Advance(int64_t seconds) {
    moment_.seconds = seconds;
    ++moment_.call;
    for (size_t i = 0; i < values_.size(); ++i) {
      shape_->slots[i].Renew(values_[i], *random_, moment_);
    }
    PlaceReminder();
  }

  // Each of these changes or takes away text that is not a slot's.
  void EditWords() {
    for (Turn& turn : turns_) {
      if (turn.speaker != Speaker::kUser || random_->Chance(50)) continue;
      for (Piece& piece : turn.pieces) {
        if (piece.part == Part::kWords) piece.lines = {ConstantLine(Words())};
      }
      return;
    }
  }
  void RemoveRound() {
    std::vector<size_t> rounds;
    for (size_t i = 1; i + 2 < turns_.size(); ++i) {
      if (turns_[i].speaker == Speaker::kAssistant) rounds.push_back(i);
    }
    if (rounds.empty()) return;
    const auto first = turns_.begin() + static_cast<ptrdiff_t>(random_->Pick(rounds));
    turns_.erase(first, first + 2);
  }
  void ReplaceInstruction() {
    Line& line = SomeInstruction();
    line = ConstantLine("Permission " + random_->Hex(8) + ": " + random_->Sentence(9));
  }
  void RemoveInstruction() {
    Lines& block = random_->Pick(system_);
    for (size_t i = random_->Below(block.size()); i < block.size(); ++i) {
      if (block[i].slot >= 0 || block[i].text->size() < 20) continue;
      block.erase(block.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
  }
  // Drops the rounds behind the first turn until at most `num_turns` turns are left.
  bool DropOldTurns(size_t num_turns) {
    const size_t before = turns_.size();
    while (turns_.size() > num_turns && turns_.size() > 3) {
      turns_.erase(turns_.begin() + 1, turns_.begin() + 3);
    }
    return turns_.size() < before;
  }
  void Compact() {
    turns_.clear();
    AddTurn(Speaker::kUser);
    if (!shape_->context.empty()) {
      turns_.back().pieces.push_back({.part = Part::kContext, .lines = shape_->context, .id = ""});
    }
    AddPiece(Part::kWords, "The conversation so far: " + random_->Sentence(120));
    PlaceReminder();
  }
  void DropThinking() {
    for (Turn& turn : turns_) {
      std::erase_if(turn.pieces, [](const Piece& piece) { return piece.part == Part::kThinking; });
    }
  }
  // Returns a conversation that begins with all turns of this one; a helper shares its name.
  AgentConversation Fork() const { return *this; }

  AgentPrompt Prompt() const {
    AgentPrompt prompt;
    for (const ToolShape& tool : shape_->tools) prompt.tools.push_back(Filled(tool.description));
    for (const Lines& block : system_) prompt.system.push_back(Filled(block));
    prompt.turns = turns_;
    for (Turn& turn : prompt.turns) {
      for (Piece& piece : turn.pieces) piece.lines = Filled(piece.lines);
    }
    return prompt;
  }

 private:
  void AddTurn(Speaker speaker) {
    turns_.push_back({.id = ++num_turns_, .speaker = speaker, .pieces = {}});
  }
  void AddPiece(Part part, std::string text) {
    turns_.back().pieces.push_back(
        {.part = part, .lines = {ConstantLine(std::move(text))}, .id = ""});
  }
  Line& SomeInstruction() {
    while (true) {
      Lines& block = random_->Pick(system_);
      Line& line = random_->Pick(block);
      if (line.slot < 0 && line.text->size() >= 20) return line;
    }
  }

  std::string Words() {
    if (random_->Chance(15)) return "continue";
    std::string text = random_->Sentence(random_->Between(5, 40));
    if (random_->Chance(20)) {
      text += " It was due at " + TimeText(random_->Below(kNumTimeStyles), moment_.seconds) + ".";
    }
    if (random_->Chance(20)) {
      text += "\n```js\nconst id = \"" + random_->Uuid() + "\";  // 2026-11-25 10:31:07\n```";
    }
    return text;
  }
  std::string Result() {
    if (random_->Chance(15)) return "ok";
    std::string text;
    for (size_t i = random_->Between(2, 12); i > 0; --i) {
      text += TimeText(1, moment_.seconds - static_cast<int64_t>(i)) + " [" + random_->Hex(8) +
              "] " + random_->Words(9) + "\n";
    }
    return text + "exit code 0 after " + random_->Digits(3) + " ms";
  }

  // Brings the reminder to the newest turn, as far as the dialect lets it stand there.
  void PlaceReminder() {
    if (shape_->reminder == ReminderHabit::kNone) return;
    if (shape_->reminder != ReminderHabit::kStays) {
      for (Turn& turn : turns_) {
        std::erase_if(turn.pieces,
                      [](const Piece& piece) { return piece.part == Part::kReminder; });
      }
    }
    if (shape_->reminder == ReminderHabit::kVanishes && moment_.call % 7 > 3) return;
    const auto holds = [&](const Turn& turn) {
      return turn.speaker == Speaker::kUser ||
             (turn.speaker == Speaker::kTool && endpoint_ == Endpoint::kMessages);
    };
    const auto turn = std::find_if(turns_.rbegin(), turns_.rend(), holds);
    if (turn == turns_.rend()) return;
    Piece reminder = {.part = Part::kReminder, .lines = ReminderLines(), .id = ""};
    if (shape_->reminder == ReminderHabit::kMoves) reminder.id = "moves";
    const bool is_there = std::any_of(turn->pieces.begin(), turn->pieces.end(),
                                      [](const Piece& p) { return p.part == Part::kReminder; });
    if (!is_there) turn->pieces.push_back(std::move(reminder));
  }
  Lines ReminderLines() {
    const std::string& tag = shape_->reminder_tag;
    if (shape_->reminder_slot < 0) {
      return {ConstantLine("<" + tag + ">Plan mode is on for " + name_ + ".</" + tag + ">")};
    }
    if (shape_->reminder == ReminderHabit::kNewest) {
      return {ConstantLine("<" + tag + ">"),
              {.text = nullptr, .slot = shape_->reminder_slot},
              ConstantLine("</" + tag + ">")};
    }
    const auto slot = static_cast<size_t>(shape_->reminder_slot);
    return {
        ConstantLine("<" + tag + ">" + shape_->slots[slot].Text(values_[slot]) + "</" + tag + ">")};
  }

  Lines Filled(const Lines& lines) const {
    Lines filled = lines;
    for (Line& line : filled) {
      if (line.slot < 0) continue;
      const auto slot = static_cast<size_t>(line.slot);
      line.text = std::make_shared<const std::string>(shape_->slots[slot].Text(values_[slot]));
    }
    return filled;
  }

  const AgentShape* shape_;
  Endpoint endpoint_;
  RandomText* random_;
  std::string name_;
  Moment moment_;
  std::vector<std::vector<std::string>> values_;  // by slot
  std::vector<Lines> system_;
  std::vector<Turn> turns_;
  size_t num_turns_ = 0;
};

}  // namespace kvgate::prompt::traffic
