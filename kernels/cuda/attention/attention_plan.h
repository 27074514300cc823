// AttentionPlan: splits the rows of a call into the work of thread blocks. Host arithmetic only.
//
// The splits of a sequence with few rows go to different blocks, and a second kernel joins them,
// because only its length can be divided. Many rows are divided into runs of rows that process
// their splits in sequence. A row has the same bits either way. The numbers of items are padded in
// coarse steps with empty items, so that a growing context seldom changes a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention/attention_types.h"

namespace kvgate::kernels::cuda::attention {

// A sequence with at most this many tiles of kWarpRows rows has its splits on different blocks.
// Each tile reads the KV again, mostly from the L2 cache. Longer runs of rows fill a device by
// themselves, so that splitting them would not pay for these reads.
inline constexpr int kSplitTilesMax = 16;

// Returns `count` rounded up in about eight steps per octave.
size_t Bucket(size_t count);

// Returns an upper bound of the bytes that a sequence adds to what a plan stages.
size_t PlannedBytes(const SequenceRows& sequence, int group);

// The inputs of a plan besides the sequences.
struct PlanShape {
  int group = 1;  // query heads per KV head
  int window = 0;
  int whole_rows = 0;    // rows of an item that covers all splits; 0 for f32 KV
  int partials_max = 0;  // per head; further sequences process their splits in sequence
  friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

class AttentionPlan {
 public:
  // mass_begins[i] is where the masses of sequences[i] go; -1 means none.
  void Make(std::span<const SequenceRows> sequences, std::span<const int> mass_begins,
            const PlanShape& shape);
  // Returns true if Make with these arguments would give the same plan.
  bool IsOf(std::span<const SequenceRows> sequences, std::span<const int> mass_begins,
            const PlanShape& shape) const;

  std::span<const AttentionItem> split_items() const { return split_items_; }
  std::span<const AttentionItem> whole_items() const { return whole_items_; }
  std::span<const AttentionItem> mass_items() const { return mass_items_; }
  std::span<const AttentionItem> float_items() const { return float_items_; }
  std::span<const JoinItem> join_items() const { return join_items_; }
  std::span<const uint32_t> tables() const { return tables_; }
  int num_partials() const { return num_partials_; }  // per head

 private:
  struct Sequence {
    int first_row = 0;
    int num_rows = 0;
    int first_position = 0;
    int table_begin = 0;
    int mass_begin = -1;
  };

  void Add(const SequenceRows& sequence, int mass_begin);
  void AddSplits(const AttentionItem& item, std::vector<AttentionItem>& to) const;
  void AddMasses(const AttentionItem& item);
  void AddSplitRows(AttentionItem item);
  int FirstTile(int position) const;
  int TilesOf(const AttentionItem& item) const;

  PlanShape shape_;
  std::vector<Sequence> sequences_;
  std::vector<AttentionItem> split_items_;
  std::vector<AttentionItem> whole_items_;  // the longest first
  std::vector<AttentionItem> mass_items_;
  std::vector<AttentionItem> float_items_;
  std::vector<JoinItem> join_items_;
  std::vector<uint32_t> tables_;
  int num_partials_ = 0;
};

}  // namespace kvgate::kernels::cuda::attention
