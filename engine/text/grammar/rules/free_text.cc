#include "engine/text/grammar/rules/free_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kvgate::grammar::rules {
namespace {

// Aho-Corasick automaton: a state is the longest beginning of a mark that the text ends with.
class MarkAutomaton {
 public:
  struct State {
    std::array<uint32_t, 256> next = {};
    uint32_t fallback = 0;
    const FreeTextExit* exit = nullptr;
  };

  explicit MarkAutomaton(std::span<const FreeTextExit> exits) : states_(1) {
    for (const FreeTextExit& exit : exits) {
      if (!exit.at_begin) AddMark(exit);
    }
    std::vector<uint32_t> order = {0};
    for (size_t at = 0; at < order.size(); ++at) Link(order[at], order);
    num_free_ = states_.size();
    for (const FreeTextExit& exit : exits) {
      if (exit.at_begin) AddFirst(exit);
    }
  }

  const std::vector<State>& states() const { return states_; }
  uint32_t start() const { return num_free_ < states_.size() ? first_ : 0; }

 private:
  void AddMark(const FreeTextExit& exit) {
    uint32_t state = 0;
    for (const char byte : exit.mark) {
      const auto symbol = static_cast<uint8_t>(byte);
      if (states_[state].next[symbol] == 0) {
        states_[state].next[symbol] = static_cast<uint32_t>(states_.size());
        states_.emplace_back();
      }
      state = states_[state].next[symbol];
    }
    states_[state].exit = &exit;
  }

  void Link(uint32_t index, std::vector<uint32_t>& order) {
    for (size_t symbol = 0; symbol < 256; ++symbol) {
      const uint32_t child = states_[index].next[symbol];
      const uint32_t other = index == 0 ? 0 : states_[states_[index].fallback].next[symbol];
      if (child == 0) {
        states_[index].next[symbol] = other;
      } else {
        states_[child].fallback = other;
        order.push_back(child);
      }
    }
  }

  // Adds a path of copied states for a mark that counts only at the beginning. A byte that leaves
  // the path continues as if the path did not exist.
  void AddFirst(const FreeTextExit& exit) {
    if (num_free_ == states_.size()) {
      first_ = static_cast<uint32_t>(states_.size());
      states_.push_back(states_[0]);
    }
    uint32_t state = first_;
    for (const char byte : exit.mark) {
      const auto symbol = static_cast<uint8_t>(byte);
      const uint32_t next = states_[state].next[symbol];
      if (next < num_free_) {
        states_[state].next[symbol] = static_cast<uint32_t>(states_.size());
        State copy = states_[next];
        states_.push_back(copy);
      }
      state = states_[state].next[symbol];
    }
    states_[state].exit = &exit;
  }

  std::vector<State> states_;
  size_t num_free_ = 0;
  uint32_t first_ = 0;
};

}  // namespace

ExprId FreeText(Grammar& grammar, const FreeTextOptions& options) {
  const MarkAutomaton automaton(options.exits);
  std::vector<RuleId> rules;
  for (const MarkAutomaton::State& state : automaton.states()) {
    rules.push_back(state.exit == nullptr ? grammar.AddRule("free text") : RuleId{});
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    const MarkAutomaton::State& state = automaton.states()[i];
    if (state.exit != nullptr) continue;
    std::vector<ExprId> alternatives;
    if (options.may_end) alternatives.push_back(grammar.Empty());
    for (size_t first = 0; first < 256;) {
      const uint32_t next = state.next[first];
      size_t last = first;
      while (last < 255 && state.next[last + 1] == next) ++last;
      const FreeTextExit* const exit = automaton.states()[next].exit;
      alternatives.push_back(
          grammar.Sequence({grammar.Bytes(static_cast<uint8_t>(first), static_cast<uint8_t>(last)),
                            exit != nullptr ? exit->then : grammar.Rule(rules[next])}));
      first = last + 1;
    }
    grammar.SetBody(rules[i], grammar.Choice(alternatives));
  }
  return grammar.Rule(rules[automaton.start()]);
}

}  // namespace kvgate::grammar::rules
