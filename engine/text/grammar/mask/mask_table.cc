#include "engine/text/grammar/mask/mask_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace kvgate::grammar::mask {
namespace {

constexpr uint32_t kAnyLength = std::numeric_limits<uint32_t>::max();

void SetBit(std::span<uint64_t> mask, TokenId token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
}

}  // namespace

// The parameters and results of one walk of the trie, or of subtrees of it.
struct MaskTable::Walk {
  std::span<uint64_t> mask;
  uint32_t depth_max = kAnyLength;      // deeper nodes and unknown states go to `undecided`
  uint32_t min_bytes_max = kAnyLength;  // tokens that need more bytes to end are left out
  std::vector<uint32_t>* undecided = nullptr;
  uint32_t longest_rest = 0;  // the largest min_bytes after an allowed token
};

struct MaskTable::Forgotten {
  std::unique_ptr<StateTable> states;
  std::unordered_map<StateId, Mask> masks;
};

MaskTable::MaskTable(std::shared_ptr<const CompiledGrammar> grammar, const Options& options)
    : grammar_(std::move(grammar)),
      options_(options),
      states_(std::make_unique<StateTable>(grammar_->automaton)),
      path_(grammar_->trie->depth_max() + 1, StateTable::kDead) {
  SetWork(options_.mask_work_max);
}

bool MaskTable::Add(User& user) {
  const StateId start = states_->Start();
  if (start == StateTable::kStopped) return false;
  user.state = start;
  users_.push_back(&user);
  return true;
}

void MaskTable::SetWork(uint64_t work_max) {
  states_->SetLimits(std::min(work_max, options_.mask_work_max), options_.answer_bytes_max);
}

Error MaskTable::TooMuch() const {
  if (states_->is_out_of_memory()) {
    return MakeError(ErrorCode::kInvalidArgument, "grammar",
                     fmt::format("the grammar is so ambiguous that the next tokens need more than "
                                 "{} MiB",
                                 options_.answer_bytes_max >> 20));
  }
  return MakeError(ErrorCode::kInvalidArgument, "grammar",
                   fmt::format("the grammar is so ambiguous that the next tokens cost more than {} "
                               "steps to find",
                               options_.mask_work_max));
}

void MaskTable::Remove(User& user) { std::erase(users_, &user); }

// REQUIRES: path_ holds the state before the root, at the depth of the root's parent.
void MaskTable::WalkSubtree(Walk& walk, uint32_t root) {
  const TokenTrie& trie = *grammar_->trie;
  const uint32_t end = trie.node(root).end;
  for (uint32_t index = root; index < end;) {
    constexpr uint64_t kNodesOfAStep = 16;
    if (++num_walked_ % kNodesOfAStep == 0) states_->ChargeWork(1);
    if (states_->is_out_of_work()) return;
    const TokenTrie::Node& node = trie.node(index);
    const StateId state = states_->Next(path_[node.depth - 1u], node.byte);
    if (state == StateTable::kStopped) return;
    if (state == StateTable::kDead) {
      index = node.end;
      continue;
    }
    if (walk.undecided != nullptr && (states_->is_unknown(state) || node.depth > walk.depth_max)) {
      walk.undecided->push_back(index);
      index = node.end;
      continue;
    }
    path_[node.depth] = state;
    if (const std::span<const TokenId> tokens = trie.tokens(index); !tokens.empty()) {
      const uint32_t rest = states_->min_bytes(state);
      if (rest <= walk.min_bytes_max) {
        walk.longest_rest = std::max(walk.longest_rest, rest);
        for (const TokenId token : tokens) SetBit(walk.mask, token);
      }
    }
    ++index;
  }
}

// Returns null if a limit was reached. A computation that stops half-way, or throws, stores no
// mask.
const MaskTable::Mask* MaskTable::MaskOf(StateId canonical) {
  if (const auto known = masks_.find(canonical); known != masks_.end()) return &known->second;
  Mask mask;
  const TokenTrie& trie = *grammar_->trie;
  mask.words.resize((static_cast<size_t>(trie.vocab_size()) + 63) / 64);
  Walk walk{.mask = mask.words,
            .depth_max = states_->is_exact(canonical) ? kAnyLength : StateTable::kHorizonBytes,
            .undecided = &mask.undecided};
  path_[0] = canonical;
  for (uint32_t child = 1; child < trie.num_nodes(); child = trie.node(child).end) {
    WalkSubtree(walk, child);
  }
  if (states_->is_stopped()) return nullptr;
  const uint32_t before = states_->min_bytes(canonical);
  mask.growth = walk.longest_rest > before ? walk.longest_rest - before : 0;
  size_t num_tokens = 0;
  for (const uint64_t word : mask.words) num_tokens += static_cast<size_t>(std::popcount(word));
  mask.is_all = num_tokens == trie.num_tokens() && mask.undecided.empty();
  if (num_tokens * 8 * sizeof(TokenId) < static_cast<size_t>(trie.vocab_size())) {
    for (size_t i = 0; i < mask.words.size(); ++i) {
      for (uint64_t word = mask.words[i]; word != 0; word &= word - 1) {
        mask.tokens.push_back(static_cast<TokenId>(i * 64) + std::countr_zero(word));
      }
    }
    mask.words = {};
  }
  const size_t bytes = sizeof(Mask) + 64 + mask.words.capacity() * sizeof(uint64_t) +
                       mask.tokens.capacity() * sizeof(TokenId) +
                       mask.undecided.capacity() * sizeof(uint32_t);
  const Mask& kept = masks_.emplace(canonical, std::move(mask)).first->second;
  mask_bytes_ += bytes;
  return &kept;
}

// Returns the state before the node's byte, and stores the states of the path to it in path_.
StateId MaskTable::StateBefore(StateId state, uint32_t node) {
  const TokenTrie& trie = *grammar_->trie;
  const uint32_t parent = trie.node(node).parent;
  const StateId before = parent == 0 ? state : StateBefore(state, parent);
  if (parent == 0) {
    path_[0] = state;
    return state;
  }
  if (before == StateTable::kStopped) return before;
  const StateId reached = states_->Next(before, trie.node(parent).byte);
  path_[trie.node(parent).depth] = reached;
  return reached;
}

void MaskTable::FillExactly(StateId state, std::span<uint64_t> mask, uint32_t bytes_left) {
  std::fill(mask.begin(), mask.end(), 0);
  Walk walk{.mask = mask, .min_bytes_max = bytes_left - 1};
  const TokenTrie& trie = *grammar_->trie;
  path_[0] = state;
  for (uint32_t child = 1; child < trie.num_nodes(); child = trie.node(child).end) {
    WalkSubtree(walk, child);
  }
}

// Keeps only tokens after which the text can still end in time, if there are any.
void MaskTable::LimitBytes(std::span<uint64_t> mask, StateId state, uint32_t bytes_left) {
  std::vector<uint64_t> all(mask.begin(), mask.end());
  FillExactly(state, mask, bytes_left);
  const bool none = std::all_of(mask.begin(), mask.end(), [](uint64_t w) { return w == 0; });
  if (none && !states_->can_end(state)) {
    std::copy(all.begin(), all.end(), mask.begin());  // the vocabulary lacks byte tokens
  }
}

Result<bool> MaskTable::FillMask(User& user, std::span<uint64_t> mask, uint32_t bytes_left) {
  Tidy();
  SetWork(options_.mask_work_max);
  const std::optional<bool> any = TryFillMask(user, mask, bytes_left);
  if (!any) return TooMuch();
  return *any;
}

std::optional<bool> MaskTable::TryFillMask(User& user, std::span<uint64_t> mask,
                                           uint32_t bytes_left) {
  const StateId state = user.state;
  const StateId canonical = states_->Canonical(state);
  if (canonical == StateTable::kStopped) return std::nullopt;
  const Mask* const known = MaskOf(canonical);
  if (known == nullptr) return std::nullopt;
  const bool is_free = grammar_->is_open && states_->can_end(state);
  if (is_free && known->is_all) return true;
  std::fill(mask.begin(), mask.end(), 0);
  std::copy(known->words.begin(), known->words.end(), mask.begin());
  for (const TokenId token : known->tokens) SetBit(mask, token);
  Walk walk{.mask = mask};
  for (const uint32_t root : known->undecided) {
    if (states_->is_stopped()) break;
    const StateId before = StateBefore(state, root);
    if (before != StateTable::kDead && before != StateTable::kStopped) WalkSubtree(walk, root);
  }
  const uint64_t rest = states_->min_bytes(state);
  const uint64_t longest = std::max<uint64_t>(rest + known->growth, walk.longest_rest);
  if (!is_free && rest <= bytes_left && longest >= bytes_left) LimitBytes(mask, state, bytes_left);
  if (is_free) {
    for (const TokenId token : grammar_->trie->silent_tokens()) SetBit(mask, token);
  }
  if (states_->can_end(state)) {
    for (const TokenId token : grammar_->trie->end_tokens()) SetBit(mask, token);
  }
  if (states_->is_stopped()) return std::nullopt;
  return false;
}

bool MaskTable::Tidy() {
  if (!is_large()) return false;
  Forget();
  return true;
}

// Imports all users before changing any of them, because the import may run out of memory.
std::shared_ptr<const MaskTable::Forgotten> MaskTable::Forget() {
  auto forgotten = std::make_shared<Forgotten>();
  auto fresh = std::make_unique<StateTable>(grammar_->automaton);
  std::vector<StateId> imported;
  for (const User* const user : users_) imported.push_back(fresh->Import(*states_, user->state));
  for (size_t i = 0; i < users_.size(); ++i) users_[i]->state = imported[i];
  forgotten->states = std::exchange(states_, std::move(fresh));
  forgotten->masks = std::exchange(masks_, {});
  mask_bytes_ = 0;
  SetWork(options_.mask_work_max);
  return forgotten;
}

std::optional<Error> MaskTable::FindExcess() const {
  if (bytes() <= options_.bytes_max) return std::nullopt;
  return MakeError(ErrorCode::kInvalidArgument, "grammar",
                   fmt::format("the grammar is so ambiguous that where its text stands takes {} "
                               "KiB; the limit is {}",
                               bytes() >> 10, options_.bytes_max >> 10));
}

}  // namespace kvgate::grammar::mask
