#include "engine/schedule/window_groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

namespace {

// Returns the resume point from which the last of num_tokens tokens can be computed again.
int PlaceBefore(int num_tokens) { return std::max(num_tokens - 1, 0) / kKvBlockTokens; }

}  // namespace

// --- resume points ------------------------------------------------------------------------------

bool WindowGroups::IsInMemory(const Group& group, const kv::BlockKey& key) const {
  return group.cache.Contains(key) || (group.host != nullptr && group.host->Contains(key));
}

int WindowGroups::LastResumePoint(std::span<const kv::BlockKey> keys, int resume_point_max,
                                  bool with_disk) const {
  const auto has_block = [&](size_t group, int block) {
    const kv::BlockKey& key = keys[static_cast<size_t>(block)];
    return IsInMemory(groups_[group], key) ||
           (with_disk && disk_ != nullptr &&
            disk_->Contains(key, static_cast<uint32_t>(group) + 1));
  };
  int resume_point = resume_point_max;
  for (size_t group = 0; group < groups_.size() && resume_point > 0;) {
    const int first = std::max(0, resume_point - TailOf(groups_[group]));
    int block = resume_point - 1;
    while (block >= first && has_block(group, block)) --block;
    if (block < first) {
      ++group;
    } else {
      // Every resume point after the missing block, up to the current one, needs it too.
      resume_point = block;
      group = 0;
    }
  }
  return resume_point;
}

uint64_t WindowGroups::DiskBytes(std::span<const kv::BlockKey> keys, int resume_point) const {
  uint64_t bytes = 0;
  for (const Group& group : groups_) {
    for (int block = std::max(0, resume_point - TailOf(group)); block < resume_point; ++block) {
      const bool in_memory = IsInMemory(group, keys[static_cast<size_t>(block)]);
      if (!in_memory) bytes += group.arena.block_bytes();
    }
  }
  return bytes;
}

bool WindowGroups::IsNearResumePoint(size_t group, const Sequence& sequence, int block) const {
  const int tail = TailOf(groups_[group]);
  const auto is_near = [&](int num_tokens) {
    return num_tokens > 0 && block >= PlaceBefore(num_tokens) - tail &&
           block < BlocksFor(num_tokens);
  };
  return is_near(sequence.num_prompt_tokens) || is_near(sequence.num_stable_tokens) ||
         std::ranges::any_of(sequence.resume_points, is_near);
}

bool WindowGroups::IsNearResumePoint(const Sequence& sequence, int block) const {
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (IsNearResumePoint(group, sequence, block)) return true;
  }
  return false;
}

// --- room ---------------------------------------------------------------------------------------

int WindowGroups::MostHeld(const Group& group, int num_tokens) {
  return std::min(BlocksFor(num_tokens), TailOf(group) + 2);
}

// Includes one block more than its tokens need, because the sequence grows.
uint64_t WindowGroups::NumStillWanted(size_t group, const Sequence& sequence) const {
  const int most = MostHeld(groups_[group], sequence.num_tokens() + kKvBlockTokens);
  const auto num_held = static_cast<int>(sequence.windows[group].blocks.size());
  return static_cast<uint64_t>(std::max(0, most - num_held));
}

bool WindowGroups::HasQuota(const Sequence& sequence, double share) const {
  return std::ranges::all_of(groups_, [&](const Group& group) {
    const double wanted = MostHeld(group, sequence.num_tokens());
    return group.pool.num_used_by(sequence.tenant) + wanted <=
           std::ceil(share * group.pool.num_blocks());
  });
}

// --- what a sequence holds ----------------------------------------------------------------------

void WindowGroups::Append(size_t group, HeldWindow& held, kv::BlockRef block) const {
#if KVGATE_DEBUG
  // Poisoned blocks make a read of unwritten KV show as NaN.
  if (groups_[group].host != nullptr) groups_[group].host->Await(std::array{block.id()});
  backend_.PoisonKvBlock(groups_[group].arena, block.id());
#else
  (void)group;
#endif
  held.blocks.push_back(std::move(block));
  try {
    held.block_table.push_back(held.blocks.back().id());
  } catch (const std::bad_alloc&) {
    held.blocks.pop_back();
    throw;
  }
}

std::optional<std::vector<kv::BlockRef>> WindowGroups::AcquireFresh(const Group& group,
                                                                    uint32_t count,
                                                                    uint32_t tenant) const {
  auto fresh = group.pool.Acquire(count, tenant);
  if (group.host != nullptr) group.host->BeginCopies();  // for the blocks evicted by Acquire
  return fresh;
}

bool WindowGroups::Take(Sequence& sequence, int resume_point, std::vector<tier::LoadItem>& loads) {
  KVGATE_CHECK(sequence.windows.empty(), "windows are taken twice");
  const auto num_blocks = static_cast<size_t>(resume_point);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    const int first = std::max(0, resume_point - TailOf(group));
    const auto tail =
        std::span(sequence.keys)
            .subspan(static_cast<size_t>(first), num_blocks - static_cast<size_t>(first));
    // All cached blocks are held before new ones are acquired, because that may evict others.
    std::vector<kv::BlockRef> shared;
    std::vector<std::vector<kv::BlockRef>> copies;
    uint32_t num_fresh = 0;
    for (const kv::BlockKey& key : tail) {
      shared.push_back(group.cache.Find(key));
      copies.emplace_back();
      if (shared.back()) {
        group.pool.CountUse(shared.back().id());
        continue;
      }
      ++num_fresh;
      if (group.host != nullptr) copies.back() = group.host->Match({&key, 1});
    }
    auto fresh = AcquireFresh(group, num_fresh, sequence.tenant);
    if (!fresh.has_value()) {
      Release(sequence);
      return false;
    }
    HeldWindow& held = sequence.windows.emplace_back();
    held.first = first;
    held.block_table.resize(static_cast<size_t>(first), BlockId{0});
    size_t next_fresh = 0;
    std::vector<kv::BlockRef> on_host;  // copied back in one batch
    std::vector<BlockId> restored;
    for (size_t t = 0; t < tail.size(); ++t) {
      if (shared[t]) {
        held.block_table.push_back(shared[t].id());  // the caller releases all if this throws
        held.blocks.push_back(std::move(shared[t]));
        continue;
      }
      Append(i, held, std::move((*fresh)[next_fresh++]));
      const BlockId id = held.block_table.back();
      if (copies[t].empty()) {
        loads.push_back({.key = tail[t], .block = id, .group = static_cast<uint32_t>(i) + 1});
      } else {
        on_host.push_back(std::move(copies[t].front()));
        restored.push_back(id);
        (void)group.cache.Insert(tail[t], id);
      }
    }
    if (!restored.empty()) group.host->Restore(std::move(on_host), restored);
  }
  return true;
}

int WindowGroups::Reserve(Sequence& sequence, int end_tokens) {
  int end = BlocksFor(end_tokens);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const auto available = static_cast<int>(groups_[i].pool.num_available());
    end = std::min(end, sequence.windows[i].end() + available);
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    HeldWindow& held = sequence.windows[i];
    const int num_new = end - held.end();
    if (num_new <= 0) continue;
    auto fresh = AcquireFresh(groups_[i], static_cast<uint32_t>(num_new), sequence.tenant);
    for (kv::BlockRef& block : *fresh) Append(i, held, std::move(block));
  }
  return std::min(end_tokens, end * kKvBlockTokens);
}

void WindowGroups::Offer(Sequence& sequence, int first, int end) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    HeldWindow& held = sequence.windows[i];
    for (int block = std::max(first, held.first); block < std::min(end, held.end()); ++block) {
      BlockId& id = held.block_table[static_cast<size_t>(block)];
      if (groups_[i].pool.is_marked(id)) continue;  // it is in the cache already
      const kv::BlockKey& key = sequence.keys[static_cast<size_t>(block)];
      BlockId holder = id;
      try {
        holder = groups_[i].cache.Insert(key, id);
      } catch (const std::bad_alloc&) {  // no other request finds the block
      }
      if (holder == id) continue;
      // Another sequence computed the same block with the same bits, so only one is kept.
      id = holder;
      kv::BlockRef& mine = held.blocks[static_cast<size_t>(block - held.first)];
      mine = groups_[i].cache.Find(key);
      groups_[i].pool.CountUse(holder);
    }
  }
}

// Keeps the window of the resume point before the newest token, so that another request can resume
// from the last full block, and the same prompt from the block before it.
int WindowGroups::FirstKept(size_t group, const Sequence& sequence) const {
  return std::max(0, PlaceBefore(sequence.num_computed) - TailOf(groups_[group]));
}

bool WindowGroups::SlidesBehind(const Sequence& sequence, int num_stored) const {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const int first_kept = FirstKept(i, sequence);
    if (first_kept > sequence.windows[i].first && first_kept > num_stored) return true;
  }
  return false;
}

void WindowGroups::Slide(Sequence& sequence) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    HeldWindow& held = sequence.windows[i];
    const int first_kept = std::min(FirstKept(i, sequence), held.end());
    if (first_kept <= held.first) continue;
    for (int block = held.first; block < first_kept; ++block) {
      const BlockId id = held.block_table[static_cast<size_t>(block)];
      if (!IsNearResumePoint(i, sequence, block)) groups_[i].cache.MakeExpendable(id);
    }
    held.blocks.erase(held.blocks.begin(), held.blocks.begin() + (first_kept - held.first));
    held.first = first_kept;
  }
}

void WindowGroups::Release(Sequence& sequence) {
  for (HeldWindow& held : sequence.windows) kv::ReleaseLastToFirst(held.blocks);
  sequence.windows.clear();
}

uint64_t WindowGroups::TicketOf(const Sequence& sequence) const {
  uint64_t last = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].host == nullptr) continue;
    const HeldWindow& held = sequence.windows[i];
    last =
        std::max(last, groups_[i].host->TicketOf(
                           std::span(held.block_table).subspan(static_cast<size_t>(held.first))));
  }
  return last;
}

void WindowGroups::AwaitWritten(const Sequence& sequence, size_t first, size_t end) const {
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].host == nullptr) continue;
    const std::span<const BlockId> table(sequence.windows[i].block_table);
    groups_[i].host->Await(table.subspan(first, std::min(end, table.size()) - first));
  }
}

void WindowGroups::TouchOnDisk(const Sequence& sequence, int resume_point) const {
  if (disk_ == nullptr) return;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const int first = std::max(0, resume_point - TailOf(groups_[i]));
    disk_->Touch(
        std::span(sequence.keys)
            .subspan(static_cast<size_t>(first), static_cast<size_t>(resume_point - first)),
        static_cast<uint32_t>(i) + 1);
  }
}

}  // namespace kvgate::schedule
