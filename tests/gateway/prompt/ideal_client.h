// An IdealClient asks what an agent asks, but knows which of its text is volatile: it sends tools
// and keys in one order, leaves volatile lines out of the stable prefix, says each new value behind
// the newest turn, and keeps a reminder where it stood first. What its provider then reads from the
// cache is the most that the agent could have got.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/agent_generator.h"
#include "tests/gateway/prompt/rendered_prompt.h"

namespace kvgate::prompt::traffic {

class IdealClient {
 public:
  explicit IdealClient(const AgentTraffic& traffic) : traffic_(traffic) {}

  RenderedPrompt Ask(const AgentRequest& request) {
    if (request.parent >= 0) {
      memories_[request.conversation] = memories_[static_cast<size_t>(request.parent)];
    }
    Memory& memory = memories_[request.conversation];
    if (request.is_compacted) memory = {};
    RenderedPrompt prompt;
    std::map<int, std::string> values;
    const AgentShape& shape = traffic_.shape;
    for (size_t i = 0; i < shape.tools.size(); ++i) {
      const std::string text = Stable(request.prompt.tools[i], values);
      Add(prompt, parse::Section::kTools, parse::Role::kNone,
          shape.tools[i].name + text + shape.tools[i].schema.dump());
    }
    prompt.blocks.back().is_marked = traffic_.endpoint == Endpoint::kMessages;
    for (const Lines& block : request.prompt.system) {
      Add(prompt, parse::Section::kSystem, parse::Role::kSystem, Stable(block, values));
    }
    const size_t num_front = prompt.blocks.size();
    AddTurns(request, memory, values, prompt);
    // The instructions of Responses hold no breakpoint; the first input is the next that can.
    const bool is_responses = traffic_.endpoint == Endpoint::kResponses;
    prompt.blocks[is_responses ? num_front : num_front - 1].is_marked = HasBreakpoints();
    prompt.blocks.back().is_marked = HasBreakpoints();
    if (shape.naming == Naming::kField && traffic_.endpoint != Endpoint::kMessages) {
      prompt.cache_key = request.prompt.turns.empty() ? "" : NameOf(request);
    }
    return prompt;
  }

 private:
  struct Said {
    size_t turn = 0;  // the turn behind which it was said
    int slot = 0;
    std::string text;
  };
  struct Memory {
    std::vector<Said> said;
    std::map<std::string, size_t> reminders;  // the turn in which each stood first
  };

  bool HasBreakpoints() const {
    return traffic_.endpoint == Endpoint::kMessages || traffic_.shape.model.starts_with("gpt-6");
  }
  // A helper shares the name of the conversation that called it.
  std::string NameOf(const AgentRequest& request) {
    const auto [found, is_new] = names_.try_emplace(request.conversation, request.conversation);
    if (is_new && request.parent >= 0) {
      found->second = names_.at(static_cast<size_t>(request.parent));
    }
    return std::to_string(found->second);
  }
  static void Add(RenderedPrompt& prompt, parse::Section section, parse::Role role,
                  std::string bytes) {
    prompt.blocks.push_back({.section = section, .role = role, .bytes = std::move(bytes)});
  }
  // Returns the lines that are not volatile, and notes the values of the others.
  std::string Stable(const Lines& lines, std::map<int, std::string>& values) const {
    std::string text;
    for (const Line& line : lines) {
      if (traffic_.shape.IsVolatile(line.slot)) {
        values[line.slot] = *line.text;
      } else {
        text += *line.text + "\n";
      }
    }
    return text;
  }
  static parse::Role RoleOf(const Turn& turn) {
    if (turn.speaker == Speaker::kAssistant) return parse::Role::kAssistant;
    return turn.speaker == Speaker::kTool ? parse::Role::kTool : parse::Role::kUser;
  }

  void AddTurns(const AgentRequest& request, Memory& memory, std::map<int, std::string>& values,
                RenderedPrompt& prompt) {
    const std::vector<Turn>& turns = request.prompt.turns;
    std::set<size_t> present;
    for (const Turn& turn : turns) present.insert(turn.id);
    std::erase_if(memory.said, [&](const Said& said) { return !present.contains(said.turn); });
    std::map<size_t, std::vector<const Piece*>> kept;  // reminders, by the turn of their place
    for (const Turn& turn : turns) {
      for (const Piece& piece : turn.pieces) {
        if (piece.id != "moves") continue;
        size_t& place = memory.reminders.try_emplace(piece.id, turn.id).first->second;
        if (!present.contains(place)) place = turn.id;
        kept[place].push_back(&piece);
      }
    }
    for (size_t i = 0; i < turns.size(); ++i) {
      for (const Piece& piece : turns[i].pieces) {
        if (piece.id != "moves") AddPiece(turns[i], piece, values, prompt);
      }
      for (const Piece* piece : kept[turns[i].id]) AddPiece(turns[i], *piece, values, prompt);
      if (i + 1 == turns.size()) SayNews(turns[i].id, values, memory);
      for (const Said& said : memory.said) {
        if (said.turn != turns[i].id) continue;
        Add(prompt, parse::Section::kMessages, parse::Role::kUser, said.text);
      }
    }
  }
  void AddPiece(const Turn& turn, const Piece& piece, std::map<int, std::string>& values,
                RenderedPrompt& prompt) const {
    const AgentShape& shape = traffic_.shape;
    if (piece.part == Part::kReminder && shape.reminder == ReminderHabit::kNewest) {
      values[shape.reminder_slot] = TextOf(piece.lines);
      return;
    }
    Add(prompt, parse::Section::kMessages, RoleOf(turn),
        std::to_string(static_cast<int>(piece.part)) + piece.id + Stable(piece.lines, values));
  }
  // Says the values that differ from those said last, behind the newest turn.
  static void SayNews(size_t turn, const std::map<int, std::string>& values, Memory& memory) {
    for (const auto& value : values) {
      const auto last = std::find_if(memory.said.rbegin(), memory.said.rend(),
                                     [&](const Said& said) { return said.slot == value.first; });
      if (last != memory.said.rend() && last->text == value.second) continue;
      memory.said.push_back({.turn = turn, .slot = value.first, .text = value.second});
    }
  }

  const AgentTraffic& traffic_;
  std::map<size_t, Memory> memories_;  // by conversation
  std::map<size_t, size_t> names_;
};

}  // namespace kvgate::prompt::traffic
