// MaskTable: for the states of one grammar, which tokens of the vocabulary may come next; each
// computed once. Not thread-safe.
//
// A mask is computed by walking the token trie and the states together. It is remembered for the
// canonical state (StateTable::Canonical), so that it serves every depth of nesting and every count
// that is far from its bounds. What the canonical state cannot decide (tokens that leave the upper
// frames, or are longer than its horizon) is a short list of subtrees that are walked each time.
//
// Memory is bounded: beyond it all is forgotten but the states that users stand in; and what one
// answer may take at once is, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/text/grammar/mask/compiled_grammar.h"
#include "engine/grammar/state_table.h"

namespace kvgate::grammar {

class MaskTable {
 public:
  struct Options {
    size_t bytes_max = size_t{8} << 20;          // of states and masks that are kept
    size_t answer_bytes_max = size_t{48} << 20;  // of states, while one answer is worked on
    uint64_t mask_work_max = 1'000'000;          // of one answer; some 50 ms
  };
  MaskTable(std::shared_ptr<const CompiledGrammar> grammar, const Options& options);

  // Who stands in a state. Its state is renumbered when the table forgets.
  struct User {
    StateId state = StateTable::kDead;
  };
  // The user begins at the start; it must be removed before its end. False: a limit came before,
  // and it is none.
  bool Add(User& user);
  void Remove(User& user);

  // What comes next may take so much work: no more than mask_work_max.
  void SetWork(uint64_t work_max);
  uint64_t work_max() const { return options_.mask_work_max; }
  // That was done by the thread the table was lent to.
  uint64_t lent_work() const { return lent_work_; }
  void AddLentWork(uint64_t work) { lent_work_ += work; }
  // What is kept from now on: no more than the options say.
  void SetKeptBytes(size_t bytes) { kept_bytes_max_ = std::min(bytes, options_.bytes_max); }
  bool is_large() const { return bytes() > kept_bytes_max_; }
  // Forgets, where there is more than may be kept. True: it did.
  bool Tidy();
  // Forgets all but where its users stand, and gives out what was forgotten: to free it takes time.
  struct Forgotten;
  std::shared_ptr<const Forgotten> Forget();
  // Where its users stand takes more than may be kept: there is nothing to forget.
  std::optional<Error> FindExcess() const;
  // Why it stopped. REQUIRES: it did, with all the work that there may be.
  Error TooMuch() const;

  // The state's mask, see Matcher::FillMask; `bytes_left` in place of tokens. True, and the mask is
  // as it was: every token may come.
  Result<bool> FillMask(User& user, std::span<uint64_t> mask, uint32_t bytes_left);
  // The same with the work that SetWork left; absent: it was too little.
  std::optional<bool> TryFillMask(User& user, std::span<uint64_t> mask, uint32_t bytes_left);

  StateTable& states() { return *states_; }
  const CompiledGrammar& grammar() const { return *grammar_; }
  const std::shared_ptr<const CompiledGrammar>& shared_grammar() const { return grammar_; }
  size_t num_masks() const { return masks_.size(); }
  size_t bytes() const { return states_->bytes() + mask_bytes_; }

 private:
  struct Mask {
    std::vector<uint64_t> words;      // where many tokens may come
    std::vector<TokenId> tokens;      // else
    std::vector<uint32_t> undecided;  // roots of subtrees of the trie
    bool is_all = false;              // all tokens with bytes may come
    // By how much a token that may come can lengthen the shortest way to an end.
    uint32_t growth = 0;
  };
  struct Walk;

  const Mask* MaskOf(StateId canonical);
  void WalkSubtree(Walk& walk, uint32_t root);
  StateId StateBefore(StateId state, uint32_t node);
  void FillExactly(StateId state, std::span<uint64_t> mask, uint32_t bytes_left);
  void LimitBytes(std::span<uint64_t> mask, StateId state, uint32_t bytes_left);

  const std::shared_ptr<const CompiledGrammar> grammar_;
  const Options options_;
  size_t kept_bytes_max_ = options_.bytes_max;
  std::unique_ptr<StateTable> states_;
  std::unordered_map<StateId, Mask> masks_;  // by canonical state
  size_t mask_bytes_ = 0;
  uint64_t lent_work_ = 0;
  uint64_t num_walked_ = 0;  // nodes of the trie
  std::vector<User*> users_;
  std::vector<StateId> path_;  // scratch: the states along a path of the trie, by depth
};

}  // namespace kvgate::grammar
