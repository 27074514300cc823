// The kernels of attention with matrix instructions for one KV dtype. Each attention_*.cu
// instantiates them for its dtype, so that they compile in parallel.
//
// SplitKernel: one warp, 16 rows, one split. It is for few rows with a long context, where the
// splits provide the parallelism. WholeKernel: several warps of 16 rows each over the same tiles,
// split after split, for many rows. MassKernel: recomputes the probabilities of a tile once their
// maximum and sum are known.
#pragma once

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_tiles.cuh"

namespace kvgate::kernels::cuda::attention {

inline constexpr int kWholeWarpsMax = 8;

// The work of one thread block.
struct BlockPlace {
  AttentionItem item;
  int kv_head;
  size_t head_offset;
  const uint32_t* table;
};

KVGATE_DEVICE BlockPlace PlaceOfBlock(const AttentionArgument& argument) {
  const auto index = static_cast<int>(blockIdx.x);
  BlockPlace place;
  place.item = argument.items[index / argument.kv.num_kv_heads];
  place.kv_head = index % argument.kv.num_kv_heads;
  place.head_offset = argument.kv.head_offset(argument.layer, place.kv_head);
  place.table = argument.tables + place.item.table_begin;
  return place;
}

// Returns the tiles that rows [row_begin, row_begin + num_rows) of an item see.
KVGATE_DEVICE TileRange TilesOf(const AttentionArgument& argument, const AttentionItem& item,
                                int num_rows) {
  const int group = argument.group();
  const int all = item.num_tokens * group;
  const int end = item.row_begin + num_rows < all ? item.row_begin + num_rows : all;
  const int first = item.first_position + item.row_begin / group;
  const int last = item.first_position + (end - 1) / group;
  const int window_begin =
      argument.window == 0 || first < argument.window ? 0 : first - argument.window + 1;
  return {window_begin / kKvBlockTokens, last / kKvBlockTokens + 1};
}

KVGATE_DEVICE TileRange WithinSplit(TileRange tiles, int split) {
  const int begin = split * kSplitBlocks;
  const int end = begin + kSplitBlocks;
  return {tiles.begin < begin ? begin : tiles.begin, tiles.end < end ? tiles.end : end};
}

// Calls put(i, j, column) for each of a lane's values whose dimension is below head_dim.
template <int kD, typename Put>
KVGATE_DEVICE void ForEachValue(int head_dim, Put&& put) {
  KVGATE_UNROLL
  for (int dims = 0; dims < kD / 8; ++dims) {
    KVGATE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int column = dims * 8 + device::LaneIndex() % 4 * 2 + i % 2;
      if (column < head_dim) put(dims, i, column);
    }
  }
}

// --- one split of few rows ---------------------------------------------------------------------

template <int kD>
constexpr int SplitStages() {
  return kD <= 64 ? 4 : 2;  // per warp; at kD = 128 six warps fit a multiprocessor
}

template <typename Kv, int kD>
constexpr int SplitSharedBytes() {
  return TileRing<Kv, kD, SplitStages<kD>()>::kBytes + Query<Kv, kD>::kSharedBytes;
}

template <typename Kv, int kD>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(device::kWarpLanes, 1)
    SplitKernel(AttentionArgument argument) {
  using Ring = TileRing<Kv, kD, SplitStages<kD>()>;
  const BlockPlace place = PlaceOfBlock(argument);
  const AttentionItem& item = place.item;
  if (item.first_row < 0) return;
  const LaneRows rows = RowsOfLane(argument, item, place.kv_head, item.row_begin);
  const Ring ring{device::SharedMemory()};
  Query<Kv, kD> query;
  query.shared = reinterpret_cast<device::Vector16*>(device::SharedMemory() + Ring::kBytes);
  SplitState<kD> state;
  state.Begin();
  const TileRange tiles = WithinSplit(TilesOf(argument, item, kWarpRows), item.split);
  ForEachTile<Kv, kD, SplitStages<kD>(), TileParts::kKeysAndValues>(
      ring, argument.kv, place.table, place.head_offset, tiles,
      [&] { LoadQuery<Kv, kD>(argument, item, rows, query); },
      [&](int tile, const TileView& view) {
        AttendTile<Kv, kD>(argument, query, rows, view, tile * kKvBlockTokens, state);
      });
  state.AddSums();
  float* to[2];
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const ptrdiff_t partial =
        item.partial_begin + static_cast<ptrdiff_t>(rows.token[i]) * item.num_splits;
    to[i] = argument.partials +
            (partial * argument.num_heads + rows.head[i]) * (argument.kv.head_dim + kPartialExtra);
  }
  ForEachValue<kD>(argument.kv.head_dim, [&](int dims, int i, int column) {
    if (rows.is_row[i / 2]) to[i / 2][column] = state.values[dims][i];
  });
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    if (!rows.is_row[i] || device::LaneIndex() % 4 != 0) continue;
    to[i][argument.kv.head_dim] = state.maximum[i];
    to[i][argument.kv.head_dim + 1] = state.sum[i];
  }
}

// --- all splits of many rows -------------------------------------------------------------------

template <int kD>
constexpr int WholeStages() {
  return kD <= 128 ? 3 : 2;
}

// The joined values of a warp; each lane uses its own part.
template <int kD>
constexpr int TotalBytes() {
  return kD / 8 * device::kWarpLanes * int{sizeof(LaneValues)};
}

template <typename Kv, int kD>
constexpr int WholeSharedBytes(int num_warps) {
  return TileRing<Kv, kD, WholeStages<kD>()>::kBytes +
         num_warps * (Query<Kv, kD>::kSharedBytes + TotalBytes<kD>());
}

// Adds a split to the totals of a lane's rows and starts the next split.
template <int kD>
KVGATE_DEVICE void JoinSplit(SplitState<kD>& state, Total (&totals)[2], LaneValues* joined) {
  state.AddSums();
  const JoinFactors factors[2] = {Join(totals[0], state.maximum[0], state.sum[0]),
                                  Join(totals[1], state.maximum[1], state.sum[1])};
  KVGATE_UNROLL
  for (int dims = 0; dims < kD / 8; ++dims) {
    LaneValues& to = joined[dims * device::kWarpLanes + device::LaneIndex()];
    LaneValues values = to;
    KVGATE_UNROLL
    for (int i = 0; i < 4; ++i) {
      values.value[i] = Joined(values.value[i], state.values[dims][i], factors[i / 2]);
    }
    to = values;
  }
  state.Begin();
}

template <int kD>
KVGATE_DEVICE void StoreTotals(const AttentionArgument& argument, const AttentionItem& item,
                               const LaneRows& rows, const Total (&totals)[2],
                               const LaneValues* joined) {
  ptrdiff_t at[2];
  float inverse[2];
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    at[i] =
        static_cast<ptrdiff_t>(item.first_row + rows.token[i]) * argument.num_heads + rows.head[i];
    inverse[i] = 1.0f / totals[i].sum;
    if (argument.totals == nullptr || !rows.is_row[i] || device::LaneIndex() % 4 != 0) continue;
    argument.totals[2 * at[i]] = totals[i].maximum;
    argument.totals[2 * at[i] + 1] = totals[i].sum;
  }
  ForEachValue<kD>(argument.kv.head_dim, [&](int dims, int i, int column) {
    if (!rows.is_row[i / 2]) return;
    argument.out[at[i / 2] * argument.kv.head_dim + column] =
        Finished(joined[dims * device::kWarpLanes + device::LaneIndex()].value[i], inverse[i / 2]);
  });
}

template <typename Kv, int kD>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(kWholeWarpsMax* device::kWarpLanes, 1)
    WholeKernel(AttentionArgument argument) {
  using Ring = TileRing<Kv, kD, WholeStages<kD>()>;
  const BlockPlace place = PlaceOfBlock(argument);
  const AttentionItem& item = place.item;
  if (item.first_row < 0) return;
  const int num_warps = static_cast<int>(blockDim.x) / device::kWarpLanes;
  const int row_begin = item.row_begin + device::WarpIndex() * kWarpRows;
  const bool has_rows = row_begin < item.num_tokens * argument.group();
  // A warp without rows only copies tiles for the others, and uses the first rows for its own
  // shape.
  const LaneRows rows =
      RowsOfLane(argument, item, place.kv_head, has_rows ? row_begin : item.row_begin);
  std::byte* of_warp = device::SharedMemory() + Ring::kBytes +
                       device::WarpIndex() * (Query<Kv, kD>::kSharedBytes + TotalBytes<kD>());
  auto* joined = reinterpret_cast<LaneValues*>(of_warp);
  for (int dims = 0; dims < kD / 8; ++dims)
    joined[dims * device::kWarpLanes + device::LaneIndex()] = {};
  Query<Kv, kD> query;
  query.shared = reinterpret_cast<device::Vector16*>(of_warp + TotalBytes<kD>());
  SplitState<kD> state;
  state.Begin();
  Total totals[2] = {Total::Begin(argument.sinks, rows.head[0]),
                     Total::Begin(argument.sinks, rows.head[1])};
  const TileRange tiles = TilesOf(argument, item, num_warps * kWarpRows);
  const Ring ring{device::SharedMemory()};
  ForEachTile<Kv, kD, WholeStages<kD>(), TileParts::kKeysAndValues>(
      ring, argument.kv, place.table, place.head_offset, tiles,
      [&] { LoadQuery<Kv, kD>(argument, item, rows, query); },
      [&](int tile, const TileView& view) {
        if (!has_rows) return;
        AttendTile<Kv, kD>(argument, query, rows, view, tile * kKvBlockTokens, state);
        const bool ends_split = tile % kSplitBlocks == kSplitBlocks - 1 || tile + 1 == tiles.end;
        if (ends_split) JoinSplit<kD>(state, totals, joined);
      });
  if (has_rows) StoreTotals<kD>(argument, item, rows, totals, joined);
}

// --- masses ------------------------------------------------------------------------------------

template <typename Kv, int kD>
KVGATE_DEVICE void AddTileMass(const AttentionArgument& argument, const Query<Kv, kD>& query,
                               const LaneRows& rows, const TileView& view, int tile_begin,
                               const float (&maximum)[2], const float (&inverse)[2],
                               unsigned long long* mass) {
  float scores[4][4];
  float unit[2];
  ScoreTile<Kv, kD>(query, view, argument.kv.head_dim, argument.cap_log2, scores, unit);
  uint32_t units = 0;
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const SeenSlots seen = rows.SeenAt(rows.position[i], tile_begin);
    float sum = 0;
    KVGATE_UNROLL
    for (int j = 0; j < 8; ++j) {
      const float weight =
          device::Exp2(device::Fma(scores[j / 2][2 * i + j % 2], unit[i], -maximum[i]));
      if (seen.has(j / 2 * 8 + device::LaneIndex() % 4 * 2 + j % 2)) sum += weight;
    }
    sum += device::ShuffleXor(sum, 1);
    sum += device::ShuffleXor(sum, 2);
    const float share = sum * inverse[i] * static_cast<float>(kAttentionMassOne) + 0.5f;
    const bool counts =
        rows.is_row[i] && device::LaneIndex() % 4 == 0 && share >= 0;  // false for NaN
    units += counts ? static_cast<uint32_t>(share) : 0u;
  }
  for (int lanes = 4; lanes < device::kWarpLanes; lanes *= 2)
    units += device::ShuffleXor(units, lanes);
  if (device::LaneIndex() == 0 && units != 0) device::AtomicAdd(mass, units);
}

template <typename Kv, int kD>
KVGATE_KERNEL void KVGATE_LAUNCH_BOUNDS(device::kWarpLanes, 1)
    MassKernel(AttentionArgument argument) {
  using Ring = TileRing<Kv, kD, SplitStages<kD>()>;
  const BlockPlace place = PlaceOfBlock(argument);
  const AttentionItem& item = place.item;
  if (item.first_row < 0) return;
  const LaneRows rows = RowsOfLane(argument, item, place.kv_head, item.row_begin);
  const Ring ring{device::SharedMemory()};
  Query<Kv, kD> query;
  query.shared = reinterpret_cast<device::Vector16*>(device::SharedMemory() + Ring::kBytes);
  float maximum[2];
  float inverse[2];
  KVGATE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const ptrdiff_t at =
        static_cast<ptrdiff_t>(item.first_row + rows.token[i]) * argument.num_heads + rows.head[i];
    maximum[i] = argument.totals[2 * at];
    inverse[i] = 1.0f / argument.totals[2 * at + 1];
  }
  const TileRange seen = TilesOf(argument, item, kWarpRows);
  const TileRange tiles = item.split < 0 ? seen : WithinSplit(seen, item.split);
  ForEachTile<Kv, kD, SplitStages<kD>(), TileParts::kKeys>(
      ring, argument.kv, place.table, place.head_offset, tiles,
      [&] { LoadQuery<Kv, kD>(argument, item, rows, query); },
      [&](int tile, const TileView& view) {
        AddTileMass<Kv, kD>(argument, query, rows, view, tile * kKvBlockTokens, maximum, inverse,
                            argument.masses + item.mass_begin + tile);
      });
}

// --- the table of a dtype ----------------------------------------------------------------------

template <typename Kv, int kD>
AttentionKernels MakeAttentionKernels(size_t shared_bytes_max) {
  constexpr size_t kSplitBytes = SplitSharedBytes<Kv, kD>();
  int num_warps = kD <= 128 ? kWholeWarpsMax : kWholeWarpsMax / 2;
  while (num_warps > 1 &&
         static_cast<size_t>(WholeSharedBytes<Kv, kD>(num_warps)) > shared_bytes_max) {
    num_warps /= 2;
  }
  const auto whole_bytes = static_cast<size_t>(WholeSharedBytes<Kv, kD>(num_warps));
  if (whole_bytes > shared_bytes_max || kSplitBytes > shared_bytes_max) return {};
  return {.split = {&SplitKernel<Kv, kD>, device::kWarpLanes, kSplitBytes},
          .whole = {&WholeKernel<Kv, kD>, static_cast<unsigned int>(num_warps * device::kWarpLanes),
                    whole_bytes},
          .mass = {&MassKernel<Kv, kD>, device::kWarpLanes, kSplitBytes},
          .whole_rows = num_warps * kWarpRows};
}

template <typename Kv>
AttentionKernels AttentionKernelsOf(int head_dim, size_t shared_bytes_max) {
  if (head_dim <= 32) return MakeAttentionKernels<Kv, 32>(shared_bytes_max);
  if (head_dim <= 64) return MakeAttentionKernels<Kv, 64>(shared_bytes_max);
  if (head_dim <= 128) return MakeAttentionKernels<Kv, 128>(shared_bytes_max);
  return MakeAttentionKernels<Kv, 256>(shared_bytes_max);
}

}  // namespace kvgate::kernels::cuda::attention
