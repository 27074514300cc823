#include "engine/write_backs.h"

#include <new>
#include <utility>

namespace kvgate::engine {

using schedule::Sequence;

WriteBacks::WriteBacks(tier::KvGroups& groups, tier::DiskTier* disk,
                       tier::WriteAdmission* admission)
    : groups_(groups),
      disk_(disk),
      admission_(admission),
      unstored_(groups, disk, admission),
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
  if (disk_ == nullptr) return;
  const int num_stored = sequence.num_stored_blocks;
  try {
    Begin(sequence);
  } catch (const std::bad_alloc&) {
    ++num_blocks_skipped_;
    sequence.num_stored_blocks = num_stored;
  }
}

void WriteBacks::Begin(Sequence& sequence) {
  const int num_stored = sequence.num_stored_blocks;
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
    is_begun = fits && disk_->Write(ticket, std::move(items));
  } catch (const std::bad_alloc&) {  // counted as skipped
  }
  if (!is_begun) {
    Skip(entry->second.num_items);
    kv::ReleaseLastToFirst(entry->second.held);
    writes_.erase(entry);
    // With windows the blocks are offered again later, because without them no block behind them
    // could be found. Otherwise a slow disk is not asked twice.
    if (!groups_.windows().empty()) sequence.num_stored_blocks = num_stored;
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
    bytes += num_items[group] * disk_->block_bytes(static_cast<uint32_t>(group));
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
