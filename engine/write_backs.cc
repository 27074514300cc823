#include "engine/write_backs.h"

#include <new>
#include <utility>

namespace kvgate::engine {

using schedule::Sequence;

WriteBacks::WriteBacks(tier::KvGroups& groups, tier::StoreTier* store,
                       tier::WriteAdmission* admission)
    : groups_(groups),
      store_(store),
      admission_(admission),
      unstored_(groups, store, admission),
      num_blocks_writing_(groups.size()) {}

// Blocks that wait for the disk cannot be reused, so writes in flight hold at most a quarter of
// each pool, or one request's blocks.
bool WriteBacks::Fits(std::span<const tier::WriteItem> items) const {
  if (writes_.empty()) return true;
  std::vector<size_t> wanted = num_blocks_writing_;
  for (const tier::WriteItem& item : items) ++wanted[item.group];
  for (size_t group = 0; group < wanted.size(); ++group) {
    if (wanted[group] > groups_[group].pool().num_blocks() / 4) return false;
  }
  return true;
}

void WriteBacks::Write(Sequence& sequence) {
  if (store_ == nullptr) return;
  int& count = unstored_.NumStored(sequence);
  const int num_stored = count;
  try {
    Begin(sequence);
  } catch (const std::bad_alloc&) {
    ++num_blocks_skipped_;
    count = num_stored;
  }
}

void WriteBacks::Begin(Sequence& sequence) {
  int& count = unstored_.NumStored(sequence);
  const int num_stored = count;
  std::vector<tier::WriteItem> items = unstored_.Take(sequence);
  if (items.empty()) return;
  Entry write{.held = unstored_.Hold(sequence, items),
              .num_items = std::vector<size_t>(num_blocks_writing_.size())};
  for (const tier::WriteItem& item : items) ++write.num_items[item.group];
  const bool fits = Fits(items);
  // The entry exists before the write begins, because the tier reads the blocks that it holds.
  const uint64_t ticket = next_ticket_++;
  const auto entry = writes_.emplace(ticket, std::move(write)).first;
  bool is_begun = false;
  try {
    is_begun = fits && store_->Write(ticket, std::move(items));
  } catch (const std::bad_alloc&) {  // counted as skipped
  }
  if (!is_begun) {
    Skip(entry->second.num_items);
    kv::ReleaseLastToFirst(entry->second.held);
    writes_.erase(entry);
    // With windows the blocks are offered again later, because without them no block behind them
    // could be found. Otherwise a slow disk is not asked twice.
    if (!groups_.windows().empty()) count = num_stored;
    return;
  }
  for (size_t group = 0; group < num_blocks_writing_.size(); ++group) {
    num_blocks_writing_[group] += entry->second.num_items[group];
  }
}

void WriteBacks::Skip(const std::vector<size_t>& num_items) {
  uint64_t bytes = 0;
  for (size_t group = 0; group < num_items.size(); ++group) {
    num_blocks_skipped_ += num_items[group];
    bytes += num_items[group] * store_->block_bytes(static_cast<uint32_t>(group));
  }
  if (admission_ != nullptr) admission_->GiveBack(bytes);
}

void WriteBacks::OnCompletion(const tier::Completion& completion) {
  const auto write = writes_.find(completion.ticket);
  for (size_t group = 0; group < num_blocks_writing_.size(); ++group) {
    num_blocks_writing_[group] -= write->second.num_items[group];
  }
  kv::ReleaseLastToFirst(write->second.held);
  writes_.erase(write);
}

}  // namespace kvgate::engine
