#include "engine/schedule/window_groups.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"

namespace kvgate::schedule {

using kernels::kKvBlockTokens;
using tier::WindowGroup;

namespace {

// Returns the resume point from which the last of num_tokens tokens can be computed again.
int PlaceBefore(int num_tokens) { return std::max(num_tokens - 1, 0) / kKvBlockTokens; }

}  // namespace

// --- resume points ------------------------------------------------------------------------------

int WindowGroups::LastResumePoint(std::span<const kv::BlockKey> keys, int resume_point_max,
                                  const tier::StoreTier* store) const {
  const auto has_block = [&](const WindowGroup& group, int block) {
    const kv::BlockKey& key = keys[static_cast<size_t>(block)];
    return group.IsInMemory(key) || (store != nullptr && store->Contains(key, group.index()));
  };
  int resume_point = resume_point_max;
  for (auto group = groups_.begin(); group != groups_.end() && resume_point > 0;) {
    const int first = (*group)->FirstSeen(resume_point);
    int block = resume_point - 1;
    while (block >= first && has_block(**group, block)) --block;
    if (block < first) {
      ++group;
    } else {
      // Every resume point after the missing block, up to the current one, needs it too.
      resume_point = block;
      group = groups_.begin();
    }
  }
  return resume_point;
}

uint64_t WindowGroups::BytesToLoad(std::span<const kv::BlockKey> keys, int resume_point) const {
  uint64_t bytes = 0;
  for (const WindowGroup* const group : groups_) {
    for (int block = group->FirstSeen(resume_point); block < resume_point; ++block) {
      if (!group->IsInMemory(keys[static_cast<size_t>(block)])) bytes += group->block_bytes();
    }
  }
  return bytes;
}

bool WindowGroups::IsNearResumePoint(const WindowGroup& group, const Sequence& sequence,
                                     int block) {
  const auto is_near = [&](int num_tokens) {
    return num_tokens > 0 && block >= group.FirstSeen(PlaceBefore(num_tokens)) &&
           block < BlocksFor(num_tokens);
  };
  return is_near(sequence.num_prompt_tokens) || is_near(sequence.num_stable_tokens) ||
         std::ranges::any_of(sequence.resume_points, is_near);
}

// --- room ---------------------------------------------------------------------------------------

int WindowGroups::MostHeld(const WindowGroup& group, int num_tokens) {
  return std::min(BlocksFor(num_tokens), kv::WindowTailBlocks(group.window()) + 2);
}

// Includes one block more than its tokens need, because the sequence grows.
uint64_t WindowGroups::NumStillWanted(const WindowGroup& group, const Sequence& sequence) {
  const int most = MostHeld(group, sequence.num_tokens() + kKvBlockTokens);
  const auto num_held = static_cast<int>(sequence.held[group.index()].blocks.size());
  return static_cast<uint64_t>(std::max(0, most - num_held));
}

bool WindowGroups::HasRoom(const Sequence& sequence, const SequenceList& running) const {
  return std::ranges::all_of(groups_, [&](WindowGroup* group) {
    auto wanted = static_cast<uint64_t>(MostHeld(*group, sequence.num_tokens()));
    for (const auto& other : running) wanted += NumStillWanted(*group, *other);
    return wanted <= group->pool().num_available();
  });
}

bool WindowGroups::HasQuota(const Sequence& sequence, double share) const {
  return std::ranges::all_of(groups_, [&](WindowGroup* group) {
    const double wanted = MostHeld(*group, sequence.num_tokens());
    return group->pool().num_used_by(sequence.tenant) + wanted <=
           std::ceil(share * group->pool().num_blocks());
  });
}

// --- what a sequence holds ----------------------------------------------------------------------

bool WindowGroups::Take(Sequence& sequence, int resume_point, std::vector<tier::LoadItem>& loads) {
  const auto num_blocks = static_cast<size_t>(resume_point);
  for (WindowGroup* const group : groups_) {
    HeldBlocks& held = sequence.held[group->index()];
    KVGATE_CHECK(held.block_table.empty(), "windows are taken twice");
    const int first = group->FirstSeen(resume_point);
    const auto tail =
        std::span(sequence.keys)
            .subspan(static_cast<size_t>(first), num_blocks - static_cast<size_t>(first));
    // All cached blocks are held before new ones are acquired, because that may evict others.
    std::vector<kv::BlockRef> shared;
    std::vector<std::vector<kv::BlockRef>> copies;
    int num_fresh = 0;
    for (const kv::BlockKey& key : tail) {
      shared.push_back(group->cache().Find(key));
      copies.emplace_back();
      if (shared.back()) {
        group->pool().CountUse(shared.back().id());
        continue;
      }
      ++num_fresh;
      if (group->host() != nullptr) copies.back() = group->host()->Match({&key, 1});
    }
    auto fresh = group->Acquire(num_fresh, sequence.tenant);
    if (!fresh.has_value()) {
      for (WindowGroup* const taken : groups_) sequence.held[taken->index()].Release();
      return false;
    }
    held.first = first;
    held.block_table.resize(static_cast<size_t>(first), BlockId{0});
    size_t next_fresh = 0;
    std::vector<kv::BlockRef> on_host;  // copied back in one batch
    std::vector<BlockId> restored;
    std::vector<const kv::BlockKey*> restored_keys;
    for (size_t t = 0; t < tail.size(); ++t) {
      if (shared[t]) continue;
      shared[t] = std::move((*fresh)[next_fresh++]);
      const BlockId id = shared[t].id();
      if (copies[t].empty()) {
        loads.push_back({.key = tail[t], .block = id, .group = group->index()});
      } else {
        on_host.push_back(std::move(copies[t].front()));
        restored.push_back(id);
        restored_keys.push_back(&tail[t]);
      }
    }
    held.Append(std::move(shared));
    if (!restored.empty()) group->host()->Restore(std::move(on_host), restored);
    for (size_t i = 0; i < restored.size(); ++i) {
      (void)group->cache().Insert(*restored_keys[i], restored[i]);
    }
  }
  return true;
}

int WindowGroups::Reserve(Sequence& sequence, int end_tokens) {
  int end = BlocksFor(end_tokens);
  for (WindowGroup* const group : groups_) {
    const auto available = static_cast<int>(group->pool().num_available());
    end = std::min(end, sequence.held[group->index()].end() + available);
  }
  for (WindowGroup* const group : groups_) {
    HeldBlocks& held = sequence.held[group->index()];
    const int num_new = end - held.end();
    if (num_new <= 0) continue;
    held.Append(*group->Acquire(num_new, sequence.tenant));
  }
  return std::min(end_tokens, end * kKvBlockTokens);
}

void WindowGroups::Offer(Sequence& sequence, int first, int end) {
  for (WindowGroup* const group : groups_) {
    HeldBlocks& held = sequence.held[group->index()];
    for (int block = std::max(first, held.first); block < std::min(end, held.end()); ++block) {
      BlockId& id = held.block_table[static_cast<size_t>(block)];
      if (group->pool().is_marked(id)) continue;  // it is in the cache already
      const kv::BlockKey& key = sequence.keys[static_cast<size_t>(block)];
      BlockId holder = id;
      try {
        holder = group->cache().Insert(key, id);
      } catch (const std::bad_alloc&) {  // no other request finds the block
      }
      if (holder == id) continue;
      // Another sequence computed the same block with the same bits, so only one is kept.
      id = holder;
      held.blocks[static_cast<size_t>(block - held.first)] = group->cache().Find(key);
      group->pool().CountUse(holder);
    }
  }
}

// Keeps the window of the resume point before the newest token, so that another request can resume
// from the last full block, and the same prompt from the block before it.
int WindowGroups::FirstKept(const WindowGroup& group, const Sequence& sequence) {
  return group.FirstSeen(PlaceBefore(sequence.num_computed));
}

bool WindowGroups::SlidesBehind(const Sequence& sequence, int num_stored) const {
  return std::ranges::any_of(groups_, [&](const WindowGroup* group) {
    const int first_kept = FirstKept(*group, sequence);
    return first_kept > sequence.held[group->index()].first && first_kept > num_stored;
  });
}

void WindowGroups::Slide(Sequence& sequence) {
  for (WindowGroup* const group : groups_) {
    HeldBlocks& held = sequence.held[group->index()];
    const int first_kept = std::min(FirstKept(*group, sequence), held.end());
    if (first_kept <= held.first) continue;
    for (int block = held.first; block < first_kept; ++block) {
      const BlockId id = held.block_table[static_cast<size_t>(block)];
      if (!IsNearResumePoint(*group, sequence, block)) group->cache().MakeExpendable(id);
    }
    held.blocks.erase(held.blocks.begin(), held.blocks.begin() + (first_kept - held.first));
    held.first = first_kept;
  }
}

uint64_t WindowGroups::TicketOf(const Sequence& sequence) const {
  uint64_t last = 0;
  for (WindowGroup* const group : groups_) {
    const HeldBlocks& held = sequence.held[group->index()];
    last = std::max(
        last,
        group->TicketOf(std::span(held.block_table).subspan(static_cast<size_t>(held.first))));
  }
  return last;
}

}  // namespace kvgate::schedule
