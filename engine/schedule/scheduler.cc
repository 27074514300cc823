#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include <kvgate/check.h>

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

namespace {

int BlocksFor(int num_tokens) { return (num_tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

}  // namespace

Scheduler::Scheduler(const Options& options, kv::BlockHasher& hasher, kv::BlockPool& pool,
                     kv::PrefixCache& cache, tier::DiskTier* tier, kernels::Backend& backend,
                     kernels::KvArena& arena)
    : options_(options),
      hasher_(hasher),
      pool_(pool),
      cache_(cache),
      tier_(tier),
      backend_(backend),
      arena_(arena) {}

void Scheduler::Add(std::unique_ptr<Sequence> sequence) {
  KVGATE_CHECK(sequence->num_tokens() > 0, "an empty sequence");
  KVGATE_CHECK(BlocksFor(sequence->num_tokens()) <= static_cast<int>(pool_.num_blocks()),
               "a sequence that can never fit");
  sequence->root = hasher_.Root(sequence->salt);
  waiting_.push_back(std::move(sequence));
}

void Scheduler::ComputeKeys(Sequence& sequence, int num_blocks) {
  while (static_cast<int>(sequence.keys.size()) < num_blocks) {
    const size_t block = sequence.keys.size();
    const auto tokens =
        std::span(sequence.tokens).subspan(block * kKvBlockTokens).first<kKvBlockTokens>();
    sequence.keys.push_back(hasher_.Next(ParentKey(sequence, static_cast<int>(block)), tokens));
  }
}

std::optional<std::vector<kv::BlockRef>> Scheduler::AcquireFresh(int count) {
  std::optional<std::vector<kv::BlockRef>> fresh = pool_.Acquire(static_cast<uint32_t>(count));
#if KVGATE_DEBUG
  // A read of what nobody wrote shows as NaN.
  if (fresh.has_value()) {
    for (const kv::BlockRef& block : *fresh) backend_.PoisonKvBlock(arena_, block.id());
  }
#endif
  return fresh;
}

void Scheduler::AppendBlocks(Sequence& sequence, std::vector<kv::BlockRef> blocks) {
  for (kv::BlockRef& block : blocks) {
    sequence.block_table.push_back(block.id());
    sequence.blocks.push_back(std::move(block));
  }
}

void Scheduler::AdmitWaiting() {
  while (!waiting_.empty() && running_.size() < static_cast<size_t>(options_.sequences_max)) {
    if (!TryAdmit(*waiting_.front())) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

bool Scheduler::TryAdmit(Sequence& sequence) {
  // The last token is computed in any case: its logits are what the caller wants.
  const auto reusable = std::span(sequence.tokens).first(sequence.tokens.size() - 1);
  ComputeKeys(sequence, static_cast<int>(reusable.size()) / kKvBlockTokens);
  kv::PrefixMatch match = cache_.Match(sequence.root, sequence.keys, reusable);
  const int num_shared = static_cast<int>(match.blocks.size());
  const int num_on_disk = CountOnDisk(sequence, match.blocks.size());

  const int num_new = BlocksFor(sequence.num_tokens()) - num_shared;
  // One spare block for each that runs, or the newcomer would be preempted at once.
  if (static_cast<size_t>(num_new) + running_.size() > pool_.num_available()) return false;
  std::optional<std::vector<kv::BlockRef>> fresh = AcquireFresh(num_new);
  if (!fresh.has_value()) return false;

  sequence.num_computed = num_shared * kKvBlockTokens;
  if (num_on_disk == 0 && match.partial) {
    backend_.CopyKvBlock(arena_, match.partial.id(), fresh->front().id(), match.num_partial_tokens);
    sequence.num_computed += match.num_partial_tokens;
  }
  AppendBlocks(sequence, std::move(match.blocks));
  match.blocks.clear();
  AppendBlocks(sequence, std::move(*fresh));
  sequence.num_offered_blocks = num_shared;
  sequence.num_stored_blocks = 0;
  sequence.state = SequenceState::kRunning;
  if (!sequence.admitted_before) {
    sequence.admitted_before = true;
    sequence.num_device_tokens = sequence.num_computed;
    sequence.admitted_at = sequence.restored_at = Clock::now();
  }
  if (tier_ != nullptr && num_shared > 0) {
    tier_->Touch(std::span(sequence.keys).first(static_cast<size_t>(num_shared)));
  }
  if (num_on_disk > 0) StartRestore(sequence, num_on_disk);
  return true;
}

int Scheduler::CountOnDisk(const Sequence& sequence, size_t first_block) const {
  if (tier_ == nullptr) return 0;
  size_t block = first_block;
  while (block < sequence.keys.size() && tier_->Contains(sequence.keys[block])) ++block;
  return static_cast<int>(block - first_block);
}

void Scheduler::StartRestore(Sequence& sequence, int num_blocks) {
  const int first = sequence.num_computed / kKvBlockTokens;
  std::vector<tier::LoadItem> items;
  items.reserve(static_cast<size_t>(num_blocks));
  for (int block = first; block < first + num_blocks; ++block) {
    items.push_back({.key = sequence.keys[static_cast<size_t>(block)],
                     .block = sequence.block_table[static_cast<size_t>(block)]});
  }
  sequence.state = SequenceState::kRestoring;
  sequence.num_restoring_blocks = num_blocks;
  tier_->Load(sequence.id.value, std::move(items));
}

void Scheduler::OnRestored(RequestId id, uint32_t num_ok) {
  Sequence* sequence = Find(id);
  KVGATE_CHECK(sequence != nullptr && sequence->state == SequenceState::kRestoring,
               "a load came back to a sequence that did not wait for it");
  KVGATE_CHECK(static_cast<int>(num_ok) <= sequence->num_restoring_blocks, "restored blocks");
  sequence->state = SequenceState::kRunning;
  sequence->num_restoring_blocks = 0;
  const int num_tokens = static_cast<int>(num_ok) * kKvBlockTokens;
  sequence->num_computed += num_tokens;
  if (sequence->num_preemptions == 0) sequence->num_disk_tokens = num_tokens;
  sequence->restored_at = Clock::now();
  OfferFullBlocks(*sequence);
}

std::vector<StepItem> Scheduler::PlanStep() {
  std::vector<StepItem> step;
  int budget = options_.step_tokens_max;
  // Preempting removes from the end of running_, so this walk is by index of what is left.
  for (auto it = running_.begin(); it != running_.end() && budget > 0;) {
    Sequence& sequence = **it;
    if (sequence.state != SequenceState::kRunning || !sequence.is_decoding()) {
      ++it;
      continue;
    }
    if (!MakeRoomFor(sequence)) {
      // It was the last one and gave way itself, or must wait for a write to let go of blocks.
      it = sequence.state == SequenceState::kWaiting ? running_.end() : std::next(it);
      continue;
    }
    step.push_back({.sequence = &sequence, .num_tokens = 1, .wants_logits = true});
    --budget;
    ++it;
  }
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->state != SequenceState::kRunning || sequence->is_decoding()) continue;
    int num_tokens = std::min(sequence->num_pending(), budget);
    if (num_tokens < sequence->num_pending()) {
      const int end = (sequence->num_computed + num_tokens) / kKvBlockTokens * kKvBlockTokens;
      num_tokens = end - sequence->num_computed;
    }
    if (num_tokens <= 0) continue;
    step.push_back({.sequence = sequence.get(),
                    .num_tokens = num_tokens,
                    .wants_logits = num_tokens == sequence->num_pending()});
    budget -= num_tokens;
  }
  return step;
}

bool Scheduler::GrowTo(Sequence& sequence, int num_tokens) {
  const int num_new = BlocksFor(num_tokens) - static_cast<int>(sequence.blocks.size());
  if (num_new <= 0) return true;
  std::optional<std::vector<kv::BlockRef>> fresh = AcquireFresh(num_new);
  if (!fresh.has_value()) return false;
  AppendBlocks(sequence, std::move(*fresh));
  return true;
}

bool Scheduler::MakeRoomFor(Sequence& sequence) {
  while (!GrowTo(sequence, sequence.num_tokens())) {
    const auto victim = std::find_if(running_.rbegin(), running_.rend(), [](const auto& other) {
      return other->state == SequenceState::kRunning;
    });
    // The oldest keeps its blocks: whoever holds the missing one (a write, a load) will let go.
    if (victim->get() == running_.front().get()) return false;
    const bool gives_way = victim->get() == &sequence;
    Preempt(**victim);
    if (gives_way) return false;
  }
  return true;
}

void Scheduler::Preempt(Sequence& sequence) {
  ++num_preemptions_;
  ++sequence.num_preemptions;
  ReleaseBlocks(sequence);
  sequence.state = SequenceState::kWaiting;
  const auto it = std::ranges::find(running_, &sequence, &std::unique_ptr<Sequence>::get);
  waiting_.push_front(std::move(*it));
  running_.erase(it);
}

void Scheduler::OnComputed(const StepItem& item) {
  Sequence& sequence = *item.sequence;
  const int num_before = sequence.num_computed;
  sequence.num_computed += item.num_tokens;
  sequence.num_prefilled_tokens += std::min(sequence.num_computed, sequence.num_prompt_tokens) -
                                   std::min(num_before, sequence.num_prompt_tokens);
  OfferFullBlocks(sequence);
}

void Scheduler::OfferFullBlocks(Sequence& sequence) {
  const int num_full = sequence.num_computed / kKvBlockTokens;
  ComputeKeys(sequence, num_full);
  for (int block = sequence.num_offered_blocks; block < num_full; ++block) {
    const auto index = static_cast<size_t>(block);
    const BlockId holder = cache_.InsertFull(
        ParentKey(sequence, block), sequence.keys[index],
        std::span(sequence.tokens).subspan(index * kKvBlockTokens, kKvBlockTokens),
        static_cast<uint32_t>(block), sequence.blocks[index].id());
    // Another sequence computed the same block: the bits are the same, so keep only one.
    if (holder != sequence.blocks[index].id()) {
      sequence.blocks[index] = pool_.Share(holder);
      sequence.block_table[index] = holder;
    }
  }
  sequence.num_offered_blocks = std::max(sequence.num_offered_blocks, num_full);
}

void Scheduler::ReleaseBlocks(Sequence& sequence) {
  const int num_full = sequence.num_computed / kKvBlockTokens;
  const int num_rest = sequence.num_computed % kKvBlockTokens;
  if (num_rest > 0) {
    const auto index = static_cast<size_t>(num_full);
    cache_.InsertPartial(
        ParentKey(sequence, num_full),
        std::span(sequence.tokens).subspan(index * kKvBlockTokens, static_cast<size_t>(num_rest)),
        static_cast<uint32_t>(num_full), sequence.blocks[index].id());
  }
  kv::ReleaseLastToFirst(sequence.blocks);
  sequence.block_table.clear();
  sequence.num_computed = 0;
  sequence.num_offered_blocks = 0;
}

std::unique_ptr<Sequence> Scheduler::Remove(RequestId id) {
  const auto has_id = [id](const auto& sequence) { return sequence->id == id; };
  if (const auto it = std::ranges::find_if(running_, has_id); it != running_.end()) {
    KVGATE_CHECK((*it)->state != SequenceState::kRestoring, "removed during a load");
    std::unique_ptr<Sequence> sequence = std::move(*it);
    running_.erase(it);
    ReleaseBlocks(*sequence);
    return sequence;
  }
  if (const auto it = std::ranges::find_if(waiting_, has_id); it != waiting_.end()) {
    std::unique_ptr<Sequence> sequence = std::move(*it);
    waiting_.erase(it);
    return sequence;
  }
  return nullptr;
}

Sequence* Scheduler::Find(RequestId id) {
  const auto has_id = [id](const auto& sequence) { return sequence->id == id; };
  if (const auto it = std::ranges::find_if(running_, has_id); it != running_.end()) {
    return it->get();
  }
  const auto it = std::ranges::find_if(waiting_, has_id);
  return it != waiting_.end() ? it->get() : nullptr;
}

std::vector<RequestId> Scheduler::Ids() const {
  std::vector<RequestId> ids;
  for (const auto& sequence : running_) ids.push_back(sequence->id);
  for (const auto& sequence : waiting_) ids.push_back(sequence->id);
  return ids;
}

std::vector<tier::WriteItem> Scheduler::TakeUnstoredBlocks(Sequence& sequence) {
  std::vector<tier::WriteItem> items;
  if (tier_ == nullptr) return items;
  for (int block = sequence.num_stored_blocks; block < sequence.num_offered_blocks; ++block) {
    const auto index = static_cast<size_t>(block);
    // A block that the cache did not take in (a colliding hash above it) is not worth a write.
    if (!pool_.is_marked(sequence.block_table[index])) break;
    ++sequence.num_stored_blocks;
    if (tier_->Contains(sequence.keys[index])) continue;
    items.push_back({.key = sequence.keys[index],
                     .parent = block == 0 ? BlockHash{} : sequence.keys[index - 1].hash,
                     .depth = static_cast<uint32_t>(block),
                     .block = sequence.block_table[index],
                     .tokens = {sequence.tokens.begin() + block * kKvBlockTokens,
                                sequence.tokens.begin() + (block + 1) * kKvBlockTokens}});
  }
  return items;
}

std::vector<kv::BlockRef> Scheduler::HoldBlocks(const Sequence& sequence, size_t count) {
  std::vector<kv::BlockRef> held;
  held.reserve(count);
  for (size_t i = 0; i < count; ++i) held.push_back(pool_.Share(sequence.blocks[i].id()));
  return held;
}

}  // namespace kvgate::schedule
