#include "engine/text/grammar/rules/char_dfa.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/utf8.h"

namespace kvgate::grammar::rules {
namespace {

constexpr uint32_t kFar = uint32_t{1} << 30;

// Partitions the characters into classes that no character set of the patterns divides.
class Alphabet {
 public:
  // `work_max`: steps that building may take; if it needs more, the result must not be used.
  Alphabet(std::span<const TextCondition> conditions, uint64_t work_max) : work_max_(work_max) {
    for (const TextCondition& condition : conditions) {
      for (const PatternBranch& branch : condition.pattern.branches) {
        for (const PatternPart& part : branch) AddSets(part.nfa);
      }
    }
    Split();
    for (auto& entry : classes_of_) {
      auto& classes = entry.second;
      ForEachInterval(entry.first, [&](size_t at) { classes.push_back(class_of_[at]); });
      std::sort(classes.begin(), classes.end());
      classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    }
    std::vector<std::vector<CharRange>> ranges(num_classes_);
    for (size_t at = 0; at < begins_.size(); ++at) {
      ranges[class_of_[at]].push_back(
          {begins_[at], at + 1 == begins_.size() ? kLastChar : begins_[at + 1] - 1});
    }
    for (std::vector<CharRange>& of_class : ranges) {
      classes_.push_back(CharSet::OfRanges(std::move(of_class)));
    }
  }

  const std::vector<CharSet>& classes() const { return classes_; }
  const std::vector<uint32_t>& ClassesOf(const CharSet& set) const { return classes_of_.at(set); }
  std::vector<std::pair<char32_t, uint32_t>> Begins() const {
    std::vector<std::pair<char32_t, uint32_t>> begins;
    for (size_t at = 0; at < begins_.size(); ++at) begins.emplace_back(begins_[at], class_of_[at]);
    return begins;
  }
  uint64_t work() const { return work_; }

 private:
  void AddSets(const CharNfa& nfa) {
    for (const CharNfa::State& state : nfa.states) {
      for (const CharNfa::Edge& edge : state.edges) classes_of_.try_emplace(edge.characters);
    }
    work_ += nfa.states.size();
  }

  // Calls the function for each interval in the set. Intervals lie between the points where some
  // set begins or ends.
  template <typename Function>
  void ForEachInterval(const CharSet& set, Function function) {
    for (const CharRange& range : set.ranges()) {
      const auto first = std::lower_bound(begins_.begin(), begins_.end(), range.first);
      for (auto at = first; at != begins_.end() && *at <= range.last; ++at) {
        if (++work_ > work_max_) return;
        function(static_cast<size_t>(at - begins_.begin()));
      }
    }
  }

  // Starts with all intervals in one class; each set splits the classes that it partly covers.
  void Split() {
    begins_ = {0};
    for (const auto& [set, unused] : classes_of_) {
      for (const CharRange& range : set.ranges()) {
        begins_.push_back(range.first);
        if (range.last < kLastChar) begins_.push_back(range.last + 1);
      }
    }
    std::sort(begins_.begin(), begins_.end());
    begins_.erase(std::unique(begins_.begin(), begins_.end()), begins_.end());
    class_of_.assign(begins_.size(), 0);
    uint32_t num_classes = 1;
    for (const auto& [set, unused] : classes_of_) {
      std::unordered_map<uint32_t, uint32_t> inside;  // by class: the number of its part in the set
      ForEachInterval(set, [&](size_t at) {
        const auto [part, is_new] = inside.try_emplace(class_of_[at], num_classes);
        if (is_new) ++num_classes;
        class_of_[at] = part->second;
      });
    }
    // Renumbers by first character; a class that lies wholly in a set has abandoned its old number.
    std::unordered_map<uint32_t, uint32_t> numbers;
    for (uint32_t& of_interval : class_of_) {
      of_interval = numbers.try_emplace(of_interval, numbers.size()).first->second;
    }
    num_classes_ = numbers.size();
  }

  const uint64_t work_max_;
  uint64_t work_ = 0;
  std::map<CharSet, std::vector<uint32_t>> classes_of_;  // by set
  std::vector<char32_t> begins_;                         // of the intervals
  std::vector<uint32_t> class_of_;                       // by interval
  size_t num_classes_ = 0;
  std::vector<CharSet> classes_;
};

// Subset construction over the parts of all conditions at once: a state is a set of their states.
class SubsetBuilder {
 public:
  SubsetBuilder(std::span<const TextCondition> conditions, const DfaLimits& limits)
      : conditions_(conditions),
        limits_(limits),
        alphabet_(conditions, limits.work_max),
        work_(alphabet_.work()) {
    if (work_ > limits_.work_max) return;  // Build returns the error
    for (const TextCondition& condition : conditions_) {
      for (const PatternBranch& branch : condition.pattern.branches) {
        for (const PatternPart& part : branch) AddPart(part.nfa);
      }
    }
  }

  Result<CharDfa> Build() {
    const auto too_large = [](uint64_t limit, std::string_view what) {
      return MakeError(ErrorCode::kTooLarge, "grammar.schema",
                       fmt::format("needs more than {} {}", limit, what));
    };
    if (work_ > limits_.work_max) return too_large(limits_.work_max, "steps for its alphabet");
    CharDfa dfa;
    dfa.classes = alphabet_.classes();
    dfa.begins = alphabet_.Begins();
    std::vector<uint32_t> start;
    for (const Part& part : parts_) start.push_back(part.begin);
    StateOf(std::move(start), dfa);
    for (size_t i = 0; i < subsets_.size(); ++i) {
      if (dfa.states.size() > limits_.states_max) return too_large(limits_.states_max, "states");
      if (work_ > limits_.work_max) break;
      Expand(i, dfa);
    }
    if (work_ > limits_.work_max) return too_large(limits_.work_max, "steps for its states");
    dfa.work = work_;
    return dfa;
  }

 private:
  struct Part {
    uint32_t begin = 0;  // its states
    uint32_t end = 0;
    uint32_t accept = 0;
  };
  struct Step {
    const std::vector<uint32_t>* classes = nullptr;  // the alphabet's
    uint32_t target = 0;
  };

  void AddPart(const CharNfa& nfa) {
    const auto begin = static_cast<uint32_t>(steps_.size());
    for (const CharNfa::State& state : nfa.states) {
      std::vector<Step>& steps = steps_.emplace_back();
      for (const CharNfa::Edge& edge : state.edges) {
        steps.push_back(
            {.classes = &alphabet_.ClassesOf(edge.characters), .target = begin + edge.target});
      }
      std::vector<uint32_t>& empty = empty_steps_.emplace_back();
      for (const uint32_t target : state.empty_edges) empty.push_back(begin + target);
    }
    seen_.resize(steps_.size(), 0);
    parts_.push_back({.begin = begin,
                      .end = static_cast<uint32_t>(steps_.size()),
                      .accept = begin + nfa.accept});
  }

  // Adds all states that are reached without a character, and sorts.
  void Close(std::vector<uint32_t>& subset) {
    ++round_;
    for (const uint32_t state : subset) seen_[state] = round_;
    for (size_t i = 0; i < subset.size(); ++i) {
      for (const uint32_t next : empty_steps_[subset[i]]) {
        if (seen_[next] != round_) subset.push_back(next);
        seen_[next] = round_;
      }
    }
    work_ += subset.size();
    std::sort(subset.begin(), subset.end());
  }

  // Returns true if a text may end here or, with `later`, if it may possibly end after more
  // characters.
  bool Accepts(const std::vector<uint32_t>& subset, bool later) {
    size_t at = 0;
    work_ += parts_.size();
    for (const TextCondition& condition : conditions_) {
      bool any = false;
      for (const PatternBranch& branch : condition.pattern.branches) {
        bool all = true;
        for (const PatternPart& pattern : branch) {
          const Part& part = parts_[at++];
          const auto first = std::lower_bound(subset.begin(), subset.end(), part.begin);
          const bool alive = first != subset.end() && *first < part.end;
          const bool accepted = std::binary_search(subset.begin(), subset.end(), part.accept);
          all = all && (later ? alive || pattern.negated : accepted != pattern.negated);
        }
        any = any || all;
      }
      if (later ? !any && !condition.negated : any == condition.negated) return false;
    }
    return true;
  }

  uint32_t StateOf(std::vector<uint32_t> subset, CharDfa& dfa) {
    Close(subset);
    if (!Accepts(subset, true)) return CharDfa::kDead;
    const auto [at, is_new] =
        known_.try_emplace(std::move(subset), static_cast<uint32_t>(dfa.states.size()));
    if (is_new) {
      subsets_.push_back(&at->first);
      dfa.states.push_back({.next = {}, .accepts = Accepts(at->first, false)});
    }
    return at->second;
  }

  void Expand(size_t index, CharDfa& dfa) {
    const size_t num_classes = dfa.classes.size();
    std::vector<std::vector<uint32_t>> targets(num_classes);
    for (const uint32_t state : *subsets_[index]) {
      for (const Step& step : steps_[state]) {
        for (const uint32_t symbol : *step.classes) targets[symbol].push_back(step.target);
        work_ += step.classes->size();
      }
    }
    std::vector<uint32_t> next;
    for (std::vector<uint32_t>& target : targets) {
      if (work_ > limits_.work_max) return;
      std::sort(target.begin(), target.end());
      target.erase(std::unique(target.begin(), target.end()), target.end());
      next.push_back(StateOf(std::move(target), dfa));
    }
    work_ += num_classes;
    dfa.states[index].next = std::move(next);
  }

  const std::span<const TextCondition> conditions_;
  const DfaLimits& limits_;
  const Alphabet alphabet_;
  std::vector<Part> parts_;                         // in the order of conditions and branches
  std::vector<std::vector<Step>> steps_;            // by state of all parts
  std::vector<std::vector<uint32_t>> empty_steps_;  // by state of all parts
  std::vector<uint64_t> seen_;                      // by state: the last round of Close that saw it
  uint64_t round_ = 0;
  uint64_t work_;
  std::map<std::vector<uint32_t>, uint32_t> known_;
  std::vector<const std::vector<uint32_t>*> subsets_;  // by DFA state
};

// Removes the states that cannot reach an accepting one, and sets min_rest.
void Prune(CharDfa& dfa) {
  std::vector<std::vector<uint32_t>> sources(dfa.states.size());
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < dfa.states.size(); ++i) {
    CharDfa::State& state = dfa.states[i];
    state.min_rest = state.accepts ? 0 : kFar;
    if (state.accepts) order.push_back(i);
    for (const uint32_t next : state.next) {
      if (next != CharDfa::kDead) sources[next].push_back(i);
    }
  }
  for (size_t at = 0; at < order.size(); ++at) {
    for (const uint32_t source : sources[order[at]]) {
      if (dfa.states[source].min_rest != kFar) continue;
      dfa.states[source].min_rest = dfa.states[order[at]].min_rest + 1;
      order.push_back(source);
    }
  }
  std::vector<uint32_t> renamed(dfa.states.size(), CharDfa::kDead);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < dfa.states.size(); ++i) {
    if (dfa.states[i].min_rest != kFar) renamed[i] = kept++;
  }
  const bool is_empty = dfa.states.empty() || renamed[0] == CharDfa::kDead;
  std::vector<CharDfa::State> states;
  for (uint32_t i = 0; i < dfa.states.size() && !is_empty; ++i) {
    if (renamed[i] == CharDfa::kDead) continue;
    for (uint32_t& next : dfa.states[i].next) {
      if (next != CharDfa::kDead) next = renamed[next];
    }
    states.push_back(std::move(dfa.states[i]));
  }
  dfa.states = std::move(states);
}

// Merges equivalent states (Moore's algorithm). Large automata are left as they are, to bound the
// work.
void Minimise(CharDfa& dfa) {
  constexpr size_t kStatesMax = 600;
  constexpr uint64_t kStepsMax = 5'000'000;
  if (dfa.states.size() > kStatesMax) return;
  uint64_t steps = 0;
  std::vector<uint32_t> group;
  for (const CharDfa::State& state : dfa.states) group.push_back(state.accepts ? 1 : 0);
  size_t num_groups = 0;
  std::map<std::vector<uint32_t>, uint32_t> groups;
  do {
    steps += dfa.states.size() * (dfa.classes.size() + 1);
    if (steps > kStepsMax) return;
    num_groups = groups.size();
    groups.clear();
    std::vector<uint32_t> finer;
    for (size_t i = 0; i < dfa.states.size(); ++i) {
      std::vector<uint32_t> key = {group[i]};
      for (const uint32_t next : dfa.states[i].next) {
        key.push_back(next == CharDfa::kDead ? next : group[next]);
      }
      finer.push_back(
          groups.try_emplace(std::move(key), static_cast<uint32_t>(groups.size())).first->second);
    }
    group = std::move(finer);
  } while (groups.size() != num_groups);
  std::vector<CharDfa::State> states(num_groups);
  for (size_t i = dfa.states.size();
       i-- > 0;) {  // numbered in order of appearance, so group 0 has the start
    CharDfa::State& state = dfa.states[i];
    for (uint32_t& next : state.next) {
      if (next != CharDfa::kDead) next = group[next];
    }
    states[group[i]] = std::move(state);
  }
  dfa.states = std::move(states);
}

// Builds one rule for each pair of a state and the number of characters so far.
class TextRules {
 public:
  TextRules(Grammar& grammar, JsonParts& parts, const CharDfa& dfa, const TextOptions& options)
      : grammar_(grammar), parts_(parts), dfa_(dfa), options_(options), length_(options.length) {}

  Result<ExprId> Make() {
    if (dfa_.empty() || length_.min > length_.max) return grammar_.Nothing();
    const std::optional<uint32_t> length_max = dfa_.LengthMax();
    if (length_max && *length_max < length_.min) return grammar_.Nothing();
    if (length_max && *length_max <= length_.max) length_.max = kUnbounded;
    if (dfa_.states[0].min_rest >= length_.min) length_.min = 0;
    KVGATE_TRY_VOID(Cap());
    if (dfa_.states[0].min_rest > length_.max) return grammar_.Nothing();
    const RuleId start = RuleOf(0, 0);
    while (!pending_.empty() && !grammar_.is_full()) {
      const auto [state, count] = pending_.back();
      pending_.pop_back();
      grammar_.SetBody(rules_.at({state, count}), BodyOf(state, count));
    }
    return grammar_.Rule(start);
  }

 private:
  // Lowers the maximum length to what the rule limit can count.
  Result<void> Cap() {
    const size_t counts = options_.rules_max / dfa_.states.size();
    const uint32_t least = std::max(length_.min, dfa_.states[0].min_rest);
    const bool counts_up = length_.max != kUnbounded || length_.min > 0;
    if (counts_up && counts < size_t{least} + 1) {
      return MakeError(ErrorCode::kTooLarge, "grammar.schema",
                       fmt::format("with its length needs more than {} rules", options_.rules_max));
    }
    if (length_.max != kUnbounded) {
      length_.max = static_cast<uint32_t>(std::min<size_t>(length_.max, counts));
    }
    return {};
  }

  RuleId RuleOf(uint32_t state, uint32_t count) {
    const auto [at, is_new] = rules_.try_emplace({state, count});
    if (is_new) {
      at->second = grammar_.AddRule("text");
      pending_.emplace_back(state, count);
    }
    return at->second;
  }

  ExprId BodyOf(uint32_t index, uint32_t count) {
    const uint32_t then = length_.max == kUnbounded ? std::min(count + 1, length_.min) : count + 1;
    const CharDfa::State& state = dfa_.states[index];
    std::map<uint32_t, std::vector<CharRange>> ranges;  // by target
    for (size_t symbol = 0; symbol < state.next.size(); ++symbol) {
      const uint32_t next = state.next[symbol];
      if (next == CharDfa::kDead || then > length_.max) continue;
      if (length_.max != kUnbounded && dfa_.states[next].min_rest > length_.max - then) continue;
      const std::span<const CharRange> own = dfa_.classes[symbol].ranges();
      ranges[next].insert(ranges[next].end(), own.begin(), own.end());
    }
    std::vector<ExprId> alternatives;
    if (state.accepts && count >= length_.min) alternatives.push_back(grammar_.Empty());
    for (auto& [next, of_target] : ranges) {
      alternatives.push_back(grammar_.Sequence(
          {CharOf(CharSet::OfRanges(std::move(of_target))), grammar_.Rule(RuleOf(next, then))}));
    }
    return grammar_.Choice(alternatives);
  }

  ExprId CharOf(const CharSet& set) {
    if (options_.spelling == Spelling::kPlain) return grammar_.Chars(set);
    const auto [at, is_new] = characters_.try_emplace(set);
    if (is_new) at->second = parts_.StringChar(set);
    return at->second;
  }

  Grammar& grammar_;
  JsonParts& parts_;
  const CharDfa& dfa_;
  const TextOptions& options_;
  RepeatCount length_;
  std::map<std::pair<uint32_t, uint32_t>, RuleId> rules_;
  std::vector<std::pair<uint32_t, uint32_t>> pending_;
  std::map<CharSet, ExprId> characters_;
};

}  // namespace

uint32_t CharDfa::ClassOf(char32_t character) const {
  const auto behind =
      std::upper_bound(begins.begin(), begins.end(), character,
                       [](char32_t wanted, const auto& begin) { return wanted < begin.first; });
  return std::prev(behind)->second;  // the first range begins at 0
}

bool CharDfa::Takes(std::string_view text) const {
  if (empty()) return false;
  uint32_t state = 0;
  while (!text.empty() && state != kDead) {
    const Utf8Step step = NextUtf8(text);
    text.remove_prefix(step.length);
    const bool is_character = step.code_point < 0xD800 || step.code_point > 0xDFFF;
    state = is_character ? states[state].next[ClassOf(step.code_point)] : kDead;
  }
  return state != kDead && states[state].accepts;
}

// Every state can reach an accepting one, so a cycle means that the length is unbounded.
std::optional<uint32_t> CharDfa::LengthMax() const {
  std::vector<uint32_t> num_sources(states.size(), 0);
  for (const State& state : states) {
    for (const uint32_t next : state.next) num_sources[next == kDead ? 0 : next] += next != kDead;
  }
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < states.size(); ++i) {
    if (num_sources[i] == 0) order.push_back(i);
  }
  std::vector<uint32_t> length(states.size(), 0);
  uint32_t longest = 0;
  for (size_t at = 0; at < order.size(); ++at) {
    const State& state = states[order[at]];
    longest = std::max(longest, length[order[at]]);
    for (const uint32_t next : state.next) {
      if (next == kDead) continue;
      length[next] = std::max(length[next], length[order[at]] + 1);
      if (--num_sources[next] == 0) order.push_back(next);
    }
  }
  if (order.size() < states.size()) return std::nullopt;
  return longest;
}

Result<CharDfa> MakeDfa(std::span<const TextCondition> conditions, const DfaLimits& limits) {
  KVGATE_TRY(CharDfa dfa, SubsetBuilder(conditions, limits).Build());
  Prune(dfa);
  Minimise(dfa);
  return dfa;
}

Result<ExprId> AddTexts(Grammar& grammar, JsonParts& parts, const CharDfa& dfa,
                        const TextOptions& options) {
  return TextRules(grammar, parts, dfa, options).Make();
}

}  // namespace kvgate::grammar::rules
