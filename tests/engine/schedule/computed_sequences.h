// ComputedSequences: KV groups and sequences whose tokens are computed at once, without a scheduler
// and a model.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/schedule/prefix_offers.h"
#include "kernels/reference/reference_backend.h"

namespace kvgate::schedule {

using Tokens = std::vector<TokenId>;

inline Tokens Range(int count, TokenId first = 0) {
  Tokens tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = first + i;
  return tokens;
}

class ComputedSequences : public testing::Test {
 protected:
  // `windows` has one entry per KV group; that of the full group is 0.
  void Make(const std::vector<int>& windows, bool is_invariant = true) {
    std::vector<tier::KvGroup::Options> options;
    for (const int window : windows) {
      options.push_back({.window = window,
                         .shape = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 2},
                         .num_blocks = 32,
                         .host_bytes = {},
                         .owner_blocks_max = 0});
    }
    groups_ = *tier::KvGroups::Open(options, *backend_);
    windows_.emplace(groups_.windows());
    offers_.emplace(hasher_, groups_, *windows_, flight_, is_invariant);
  }
  // Returns a sequence with blocks for its tokens, of which the first num_computed are computed.
  std::unique_ptr<Sequence> Compute(Tokens tokens, int num_computed) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId{next_id_++};
    sequence->num_prompt_tokens = static_cast<int>(tokens.size());
    sequence->tokens = std::move(tokens);
    offers_->Enter(*sequence);
    for (const auto& group : groups_.all()) {
      auto blocks = group->Acquire(BlocksFor(sequence->num_tokens()), 0);
      sequence->held[group->index()].Append(*std::move(blocks));
    }
    sequence->num_computed = num_computed;
    return sequence;
  }
  void CheckIntegrity() {
    for (const auto& group : groups_.all()) {
      group->pool().CheckIntegrity();
      group->cache().CheckIntegrity();
    }
  }

  std::unique_ptr<kernels::Backend> backend_ = kernels::reference::MakeReferenceBackend();
  kv::BlockHasher hasher_{{.fingerprint = {}, .seed = 1}};
  SequenceList running_;
  SingleFlight flight_{running_};
  tier::KvGroups groups_;
  std::optional<WindowGroups> windows_;
  std::optional<PrefixOffers> offers_;
  uint64_t next_id_ = 1;
};

}  // namespace kvgate::schedule
