#include "kernels/cuda/attention/attention_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cuda/attention/attention.h"

namespace kvgate::kernels::cuda::attention {
namespace {

static_assert(sizeof(BlockId) == sizeof(uint32_t), "tables are compared as bytes");

int CeilDivide(int a, int b) { return (a + b - 1) / b; }

size_t TilesOfRows(const SequenceRows& sequence) {
  return static_cast<size_t>(
      CeilDivide(sequence.first_position + sequence.num_rows, kKvBlockTokens));
}

template <typename Item>
void FillUp(std::vector<Item>& items, const Item& none) {
  if (!items.empty()) items.resize(Bucket(items.size()), none);
}

}  // namespace

size_t Bucket(size_t count) {
  const size_t step = std::max<size_t>(std::bit_floor(count) / 8, 1);
  return (count + step - 1) / step * step;
}

size_t PlannedBytes(const SequenceRows& sequence, int group) {
  const size_t tiles = TilesOfRows(sequence);
  const auto rows = static_cast<size_t>(sequence.num_rows);
  const size_t row_tiles = (rows * static_cast<size_t>(group) + kWarpRows - 1) / kWarpRows;
  const size_t splits = row_tiles <= kSplitTilesMax ? tiles / kSplitBlocks + 1 : 1;
  return tiles * sizeof(uint32_t) + 2 * splits * row_tiles * sizeof(AttentionItem) +
         rows * (sizeof(JoinItem) + sizeof(AttentionItem));
}

int AttentionPlan::FirstTile(int position) const {
  const int begin = shape_.window == 0 ? 0 : std::max(0, position - shape_.window + 1);
  return begin / kKvBlockTokens;
}

void AttentionPlan::AddSplits(const AttentionItem& item, std::vector<AttentionItem>& to) const {
  const int first_split = FirstTile(item.first_position) / kSplitBlocks;
  for (int i = 0; i < item.num_splits; ++i) {
    for (int row = 0; row < item.num_tokens * shape_.group; row += kWarpRows) {
      to.push_back(item);
      to.back().row_begin = row;
      to.back().split = first_split + i;
      to.back().partial_begin = item.partial_begin + i;
    }
  }
}

// Few rows are processed split by split, many rows with all splits together.
void AttentionPlan::AddMasses(const AttentionItem& item) {
  const int num_rows = item.num_tokens * shape_.group;
  if (CeilDivide(num_rows, kWarpRows) <= kSplitTilesMax) return AddSplits(item, mass_items_);
  for (int row = 0; row < num_rows; row += kWarpRows) {
    mass_items_.push_back(item);
    mass_items_.back().row_begin = row;
    mass_items_.back().split = -1;
  }
}

void AttentionPlan::AddSplitRows(AttentionItem item) {
  item.partial_begin = num_partials_;
  AddSplits(item, split_items_);
  for (int i = 0; i < item.num_tokens; ++i) {
    join_items_.push_back({.row = item.first_row + i,
                           .num_splits = item.num_splits,
                           .partial_begin = item.partial_begin + i * item.num_splits});
  }
  num_partials_ += item.num_tokens * item.num_splits;
}

void AttentionPlan::Add(const SequenceRows& sequence, int mass_begin) {
  const int num_rows = sequence.num_rows * shape_.group;
  const int last_position = sequence.first_position + sequence.num_rows - 1;
  AttentionItem item{.first_row = sequence.first_row,
                     .num_tokens = sequence.num_rows,
                     .first_position = sequence.first_position,
                     .table_begin = static_cast<int>(tables_.size()),
                     .mass_begin = mass_begin};
  item.num_splits = last_position / kKvBlockTokens / kSplitBlocks -
                    FirstTile(sequence.first_position) / kSplitBlocks + 1;
  sequences_.push_back({.first_row = sequence.first_row,
                        .num_rows = sequence.num_rows,
                        .first_position = sequence.first_position,
                        .table_begin = item.table_begin,
                        .mass_begin = mass_begin});
  for (size_t tile = 0; tile < TilesOfRows(sequence); ++tile) {
    tables_.push_back(sequence.block_table[tile].value);
  }
  if (shape_.whole_rows == 0) {
    for (; item.row_begin < sequence.num_rows; ++item.row_begin) float_items_.push_back(item);
    return;
  }
  if (mass_begin >= 0) AddMasses(item);
  const bool is_split = CeilDivide(num_rows, kWarpRows) <= kSplitTilesMax &&
                        num_partials_ + sequence.num_rows * item.num_splits <= shape_.partials_max;
  if (is_split) return AddSplitRows(item);
  for (; item.row_begin < num_rows; item.row_begin += shape_.whole_rows) {
    whole_items_.push_back(item);
  }
}

int AttentionPlan::TilesOf(const AttentionItem& item) const {
  const int last = std::min(item.row_begin + shape_.whole_rows, item.num_tokens * shape_.group) - 1;
  return (item.first_position + last / shape_.group) / kKvBlockTokens -
         FirstTile(item.first_position + item.row_begin / shape_.group);
}

void AttentionPlan::Make(std::span<const SequenceRows> sequences, std::span<const int> mass_begins,
                         const PlanShape& shape) {
  shape_ = shape;
  sequences_.clear();
  split_items_.clear();
  whole_items_.clear();
  mass_items_.clear();
  float_items_.clear();
  join_items_.clear();
  tables_.clear();
  num_partials_ = 0;
  for (size_t i = 0; i < sequences.size(); ++i) Add(sequences[i], mass_begins[i]);
  // Longest items first, so that the last blocks of a launch are short.
  std::stable_sort(
      whole_items_.begin(), whole_items_.end(),
      [this](const AttentionItem& a, const AttentionItem& b) { return TilesOf(a) > TilesOf(b); });
  constexpr AttentionItem kNone{.first_row = -1};
  FillUp(split_items_, kNone);
  FillUp(whole_items_, kNone);
  FillUp(mass_items_, kNone);
  FillUp(float_items_, kNone);
  FillUp(join_items_, JoinItem{.row = -1});
}

bool AttentionPlan::IsOf(std::span<const SequenceRows> sequences, std::span<const int> mass_begins,
                         const PlanShape& shape) const {
  if (shape != shape_ || sequences.size() != sequences_.size()) return false;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SequenceRows& a = sequences[i];
    const Sequence& b = sequences_[i];
    if (a.first_row != b.first_row || a.num_rows != b.num_rows ||
        a.first_position != b.first_position || mass_begins[i] != b.mass_begin) {
      return false;
    }
    if (std::memcmp(a.block_table.data(), tables_.data() + b.table_begin,
                    TilesOfRows(a) * sizeof(uint32_t)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace kvgate::kernels::cuda::attention
