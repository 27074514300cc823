// MaskTable: for each state of one grammar, the set of tokens that may come next, computed once.
// Not thread-safe.
//
// A mask is computed by walking the token trie and the state table together. It is cached for the
// canonical state (StateTable::Canonical), so it serves every nesting depth and every repetition
// count far from its bounds. Tokens that the canonical state cannot decide (they pop below its top
// frames, or are longer than its horizon) are kept as a short list of trie subtrees, which are
// walked each time.
//
// Memory is bounded: above the limit everything is dropped except the states that users are in. The
// memory of a single answer is bounded too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/text/grammar/mask/compiled_grammar.h"
#include "engine/text/grammar/mask/state_table.h"

namespace kvgate::grammar::mask {

class MaskTable {
 public:
  struct Options {
    size_t bytes_max = size_t{8} << 20;          // states and masks that are kept
    size_t answer_bytes_max = size_t{48} << 20;  // states while one answer is computed
    uint64_t mask_work_max = 1'000'000;          // steps for one answer; about 50 ms
  };
  MaskTable(std::shared_ptr<const CompiledGrammar> grammar, const Options& options);

  // A text that is in some state. The table renumbers the state when it drops its other states.
  struct User {
    StateId state = StateTable::kDead;
  };
  // Puts the user in the start state. The user must be removed before it is destroyed. Returns
  // false, without adding it, if a limit was reached first.
  bool Add(User& user);
  void Remove(User& user);

  // Allows this much work from here on, at most mask_work_max.
  void SetWork(uint64_t work_max);
  uint64_t work_max() const { return options_.mask_work_max; }
  // Work done while the table was lent to the worker thread.
  uint64_t lent_work() const { return lent_work_; }
  void AddLentWork(uint64_t work) { lent_work_ += work; }
  // Sets the memory that may be kept, at most Options::bytes_max.
  void SetKeptBytes(size_t bytes) { kept_bytes_max_ = std::min(bytes, options_.bytes_max); }
  bool is_large() const { return bytes() > kept_bytes_max_; }
  // Drops cached states and masks if they exceed the limit. Returns true if it did.
  bool Tidy();
  // Drops everything except the states of the users, and returns it so that the caller decides
  // which thread pays for freeing it.
  struct Forgotten;
  std::shared_ptr<const Forgotten> Forget();
  // Returns an error if the table exceeds bytes_max. Called after Tidy, when only the states of the
  // users are left and dropping more cannot help.
  std::optional<Error> FindExcess() const;
  // Describes the limit that was reached. REQUIRES: a call stopped although it had mask_work_max.
  Error TooMuch() const;

  // Computes the mask as Matcher::FillMask does, with `bytes_left` in place of tokens. Returns
  // true, and leaves the mask unchanged, if every token may come.
  Result<bool> FillMask(User& user, std::span<uint64_t> mask, uint32_t bytes_left);
  // The same with the work that SetWork left; returns nothing if that was too little.
  std::optional<bool> TryFillMask(User& user, std::span<uint64_t> mask, uint32_t bytes_left);

  StateTable& states() { return *states_; }
  const CompiledGrammar& grammar() const { return *grammar_; }
  const std::shared_ptr<const CompiledGrammar>& shared_grammar() const { return grammar_; }
  size_t num_masks() const { return masks_.size(); }
  size_t bytes() const { return states_->bytes() + mask_bytes_; }

 private:
  struct Mask {
    std::vector<uint64_t> words;      // bit set; used if many tokens may come
    std::vector<TokenId> tokens;      // used if few tokens may come
    std::vector<uint32_t> undecided;  // roots of trie subtrees
    bool is_all = false;              // every token that has bytes may come
    // Largest increase of the shortest ending that an allowed token can cause, in bytes.
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
  uint64_t num_walked_ = 0;  // trie nodes
  std::vector<User*> users_;
  std::vector<StateId> path_;  // scratch: the states along a path of the trie, by depth
};

}  // namespace kvgate::grammar::mask
