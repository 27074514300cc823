// An AgentShape is what all conversations of one agent share: the instructions, tools and slots
// that its authors wrote, and the habits of the client around them. It is made from one seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gateway/dialect/form/dialect.h"
#include "tests/gateway/prompt/prompt_author.h"
#include "tests/gateway/prompt/volatile_slot.h"

namespace kvgate::prompt::traffic {

using OrderedJson = nlohmann::ordered_json;
using dialect::form::Endpoint;

// A line of a prompt; that of a slot may hold several lines of text.
struct Line {
  std::shared_ptr<const std::string> text;
  int slot = -1;  // index in the shape's slots; -1: constant
};
using Lines = std::vector<Line>;

inline Line ConstantLine(std::string text) {
  return {.text = std::make_shared<const std::string>(std::move(text))};
}

// What becomes of the reminder that the client puts into the newest turn of the user's side.
enum class ReminderHabit : uint8_t {
  kNone,
  kStays,     // each turn keeps its own
  kMoves,     // one text, always in the newest turn
  kNewest,    // with a value of its time, and only in the newest turn
  kVanishes,  // comes for some calls, then goes
};
inline constexpr size_t kNumReminderHabits = 5;

enum class Naming : uint8_t { kNone, kHeader, kField };

struct ToolShape {
  std::string name;
  Lines description;
  OrderedJson schema;
};

struct AgentShape {
  std::string model;
  std::string provider;
  std::vector<VolatileSlot> slots;
  std::vector<Lines> system;  // by block
  std::vector<ToolShape> tools;
  Lines context;  // in front of the first words of a conversation; empty: none
  int reminder_slot = -1;
  ReminderHabit reminder = ReminderHabit::kNone;
  std::string reminder_tag;
  Naming naming = Naming::kNone;
  bool joins_texts = false;  // a turn's texts are one string
  bool marks = false;        // the client sets its own breakpoints
  bool shuffles_tools = false;
  bool shuffles_keys = false;
  bool uses_system_blocks = false;
  size_t percent_edits = 0;    // of the requests: the client edits or deletes
  size_t percent_results = 0;  // of the turns: a tool's result, not the user's words
  size_t turns_max = 0;        // older turns are dropped; 0: never
  size_t compacts_after = 0;   // turns; 0: never

  // Returns true if a client that knows its slots puts this one behind the stable prefix.
  bool IsVolatile(int slot) const {
    return slot >= 0 && slot != reminder_slot &&
           slots[static_cast<size_t>(slot)].rate() != Rate::kConversation;
  }
};

class AgentAuthor {
 public:
  AgentAuthor(RandomText& random, Endpoint endpoint) : random_(random), endpoint_(endpoint) {}

  AgentShape Write(bool binds_thinking) {
    AgentShape shape;
    ChooseModel(shape, binds_thinking);
    const auto layout = static_cast<PromptLayout>(random_.Below(kNumPromptLayouts));
    PromptAuthor author(random_, layout);
    // Most prompts are nearer to 5K tokens than to 25K.
    const size_t tokens = 5000 + std::min(random_.Below(20'000), random_.Below(20'000));
    const size_t num_blocks = endpoint_ == Endpoint::kResponses ? 1 : random_.Between(1, 3);
    shape.system.resize(num_blocks);
    for (Lines& block : shape.system) {
      for (std::string& line : author.Write(tokens * 4 / num_blocks)) {
        block.push_back(ConstantLine(std::move(line)));
      }
    }
    shape.uses_system_blocks = num_blocks > 1 || random_.Chance(50);
    for (size_t i = random_.Between(3, 12); i > 0; --i) shape.tools.push_back(Tool());
    AddSlots(shape);
    ChooseHabits(shape, binds_thinking);
    return shape;
  }

 private:
  void ChooseModel(AgentShape& shape, bool binds_thinking) {
    shape.provider = endpoint_ == Endpoint::kMessages ? "anthropic" : "openai";
    if (endpoint_ == Endpoint::kMessages) {
      shape.model = binds_thinking ? "claude-opus-5-5" : "claude-opus-5-20260801";
    } else {
      shape.model = random_.Chance(50) ? "gpt-6-sol" : "gpt-5.5";
    }
    shape.marks = endpoint_ == Endpoint::kMessages && random_.Chance(60);
  }

  ToolShape Tool() {
    ToolShape tool;
    tool.name = random_.Word() + "_" + random_.Word() + "_" + random_.Digits(2);
    for (size_t i = random_.Between(1, 5); i > 0; --i) {
      tool.description.push_back(ConstantLine(random_.Sentence(random_.Between(10, 25))));
    }
    OrderedJson properties;
    for (size_t i = random_.Between(1, 4); i > 0; --i) {
      properties[random_.Word() + "_" + std::to_string(i)] = {{"type", "string"},
                                                              {"description", random_.Words(9)}};
    }
    tool.schema = {{"type", "object"},
                   {"properties", properties},
                   {"required", OrderedJson::array({properties.begin().key()})},
                   {"additionalProperties", false}};
    return tool;
  }

  int AddSlot(AgentShape& shape, Rate rate) {
    shape.slots.emplace_back(random_, rate);
    return static_cast<int>(shape.slots.size()) - 1;
  }
  Rate ChooseRate() {
    static constexpr std::array<Rate, 6> kRates = {Rate::kEachCall,  Rate::kEachCall,
                                                   Rate::kEachCall,  Rate::kSomeCalls,
                                                   Rate::kSomeCalls, Rate::kRarely};
    return random_.Pick(kRates);
  }
  // Puts a slot on a line of its own, outside of code.
  void Insert(Lines& lines, int slot) {
    size_t at = random_.Below(lines.size() + 1);
    const auto fences_before = [&](size_t end) {
      return std::count_if(
          lines.begin(), lines.begin() + static_cast<ptrdiff_t>(end),
          [](const Line& line) { return line.text && line.text->starts_with("```"); });
    };
    while (at < lines.size() && fences_before(at) % 2 == 1) ++at;
    lines.insert(lines.begin() + static_cast<ptrdiff_t>(at), Line{.text = nullptr, .slot = slot});
  }
  void AddSlots(AgentShape& shape) {
    for (size_t i = random_.Between(1, 4); i > 0; --i) {
      Insert(shape.system[random_.Below(shape.system.size())], AddSlot(shape, ChooseRate()));
    }
    for (size_t i = random_.Below(3); i > 0; --i) {
      Insert(shape.system[random_.Below(shape.system.size())], AddSlot(shape, Rate::kConversation));
    }
    if (random_.Chance(12)) {
      Insert(shape.tools[random_.Below(shape.tools.size())].description,
             AddSlot(shape, ChooseRate()));
    }
    if (random_.Chance(40)) {
      PromptAuthor author(random_, PromptLayout::kMarkdown);
      for (std::string& line : author.Write(random_.Between(400, 6000))) {
        shape.context.push_back(ConstantLine(std::move(line)));
      }
      if (random_.Chance(60)) Insert(shape.context, AddSlot(shape, ChooseRate()));
    }
  }
  void ChooseHabits(AgentShape& shape, bool binds_thinking) {
    // A client that takes reminders back keeps no thinking for long.
    const size_t num_habits = binds_thinking && random_.Chance(70) ? 2 : kNumReminderHabits;
    shape.reminder = static_cast<ReminderHabit>(random_.Below(num_habits));
    if (shape.reminder == ReminderHabit::kNewest || shape.reminder == ReminderHabit::kStays) {
      shape.reminder_slot = AddSlot(shape, Rate::kEachCall);
    }
    shape.reminder_tag = random_.Word() + "-notice";
    shape.naming = static_cast<Naming>(random_.Below(3));
    shape.joins_texts = random_.Chance(40);
    shape.shuffles_tools = random_.Chance(35);
    shape.shuffles_keys = random_.Chance(30);
    shape.percent_edits = random_.Chance(40) ? random_.Between(3, 12) : 0;
    shape.percent_results = random_.Between(20, 80);
    if (random_.Chance(20)) shape.turns_max = random_.Between(10, 18);
    if (random_.Chance(25)) shape.compacts_after = random_.Between(12, 20);
  }

  RandomText& random_;
  const Endpoint endpoint_;
};

}  // namespace kvgate::prompt::traffic
