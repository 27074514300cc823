// AttentionPlan: the rows of a call, cut into what thread blocks take. Host arithmetic only.
//
// A sequence of few rows has its splits on different blocks, which a second kernel joins: its
// length is what there is to share out. Many rows are cut into runs of rows that take their splits
// in turn. Either way a row has the same bits. The numbers of items are filled up in coarse steps
// with items that are none, so that a growing context seldom changes a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/attention/attention_types.h"

namespace kvgate::kernels::cuda {

// A sequence of at most so many tiles of kWarpRows rows has its splits on different blocks, each
// tile reading the KV again, from the L2 cache mostly. More rows than that fill a device by
// themselves before those reads cost less than one block's walk through a long context.
inline constexpr int kSplitTilesMax = 16;

// `count`, rounded up to about eight steps an octave.
size_t Bucket(size_t count);

// Bytes that a sequence adds to what a plan stages, at most.
size_t PlannedBytes(const SequenceRows& sequence, int group);

// What a plan depends on beside the sequences.
struct PlanShape {
  int group = 1;  // query heads of a KV head
  int window = 0;
  int whole_rows = 0;    // of an item that takes all splits; 0: f32 KV
  int partials_max = 0;  // of one head; sequences beyond take their splits in turn
  friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

class AttentionPlan {
 public:
  // mass_begins[i] is where the masses of sequences[i] go, -1: none.
  void Make(std::span<const SequenceRows> sequences, std::span<const int> mass_begins,
            const PlanShape& shape);
  // Whether Make would make the same again.
  bool IsOf(std::span<const SequenceRows> sequences, std::span<const int> mass_begins,
            const PlanShape& shape) const;

  std::span<const AttentionItem> split_items() const { return split_items_; }
  std::span<const AttentionItem> whole_items() const { return whole_items_; }
  std::span<const AttentionItem> mass_items() const { return mass_items_; }
  std::span<const AttentionItem> float_items() const { return float_items_; }
  std::span<const JoinItem> join_items() const { return join_items_; }
  std::span<const uint32_t> tables() const { return tables_; }
  int num_partials() const { return num_partials_; }  // of one head

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

}  // namespace kvgate::kernels::cuda
