// The bytes of KV blocks on the device: the places of tokens, and the rounding of StoreKv.
#include "kernels/cuda/memory/device_kv_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/cuda/attention_backend.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels::cuda::memory {
namespace {

constexpr int kLayers = 2;
constexpr int kHeads = 3;
constexpr int kTokens = 40;  // one block and a part of the next

class DeviceKvArenaTest : public testing::Test {
 protected:
  void Allocate(DType dtype, int head_dim) {
    arena_ = std::move(*backend_.AllocateKv(
        {.num_layers = kLayers, .num_kv_heads = kHeads, .head_dim = head_dim, .dtype = dtype}, 3));
    for (uint32_t id = 0; id < 3; ++id) backend_.PoisonKvBlock(*arena_, BlockId{id});
    layout_ = static_cast<DeviceKvArena&>(*arena_).layout();
  }

  // Returns one token's values of K (part 0) or V (part 1), located by the layout.
  std::vector<float> ReadRow(uint32_t block, int layer, int head, int part, int slot) {
    std::vector<std::byte> bytes(arena_->block_bytes());
    backend_.ReadKvBlock(*arena_, BlockId{block}, bytes);
    const std::byte* begin =
        bytes.data() + layout_.head_offset(layer, head) + part * layout_.part_bytes();
    const std::byte* row = begin + layout_.scale_bytes + slot * layout_.row_bytes;
    std::vector<float> values(static_cast<size_t>(layout_.head_dim));
    const int group = DTypeElements(layout_.dtype);
    for (int i = 0; i < layout_.head_dim; i += group) {
      // Assembles the group as in a file: the scale, then the quants.
      std::byte stored[34];
      const size_t bytes_of_group = DTypeBytes(layout_.dtype, static_cast<size_t>(group));
      const size_t scale = group == 1 ? 0 : 2;
      std::memcpy(stored, begin + (i / group * 32 + slot) * 2, scale);
      std::memcpy(stored + scale, row + static_cast<size_t>(i / group) * (bytes_of_group - scale),
                  bytes_of_group - scale);
      DequantizeValues(layout_.dtype, stored, group, values.data() + i);
    }
    return values;
  }

  AttentionBackend backend_;
  std::unique_ptr<KvArena> arena_;
  KvLayout layout_;
};

bool SameOrNan(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST_F(DeviceKvArenaTest, StoreKvPutsEveryTokenInItsPlaceRoundedAsTheDTypeRounds) {
  for (const DType dtype : kKvDTypes) {
    for (const int head_dim : {5, 16, 64, 96}) {
      if (!FitsHead(dtype, head_dim)) continue;
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " head_dim " << head_dim);
      Allocate(dtype, head_dim);
      const int columns = kHeads * head_dim;
      std::vector<float> k = HostileRows(kTokens, columns, 1);
      std::vector<float> v = HostileRows(kTokens, columns, 2, 1e6f);
      v[3] = std::numeric_limits<float>::quiet_NaN();
      v[static_cast<size_t>(columns) * 9 + 1] = std::numeric_limits<float>::infinity();
      TestFloats device_k(backend_, k);
      TestFloats device_v(backend_, v);
      const std::vector<BlockId> table{BlockId{2}, BlockId{0}};
      const SequenceRows rows{.first_row = 0, .num_rows = kTokens, .block_table = table};
      backend_.StoreKv(device_k.data(), device_v.data(), {&rows, 1}, 1, *arena_);
      for (int token = 0; token < kTokens; token += 3) {
        const int slot = token % kKvBlockTokens;
        for (int head = 0; head < kHeads; ++head) {
          for (int part = 0; part < 2; ++part) {
            const std::span<const float> given =
                RowsOf(part == 0 ? k : v, token, 1, columns)
                    .subspan(static_cast<size_t>(head * head_dim), static_cast<size_t>(head_dim));
            const std::vector<float> want = RoundedTo(dtype, given);
            const std::vector<float> got = ReadRow(token < 32 ? 2 : 0, 1, head, part, slot);
            for (size_t i = 0; i < want.size(); ++i) {
              ASSERT_TRUE(SameOrNan(want[i], got[i]))
                  << "token " << token << " part " << part << " dim " << i << ": want " << want[i]
                  << ", got " << got[i];
            }
          }
        }
      }
      // Slots behind the tokens and in the other layer must be untouched.
      EXPECT_TRUE(std::isnan(ReadRow(0, 1, 0, 0, kTokens % kKvBlockTokens)[0]));
      EXPECT_TRUE(std::isnan(ReadRow(2, 0, 0, 1, 0)[0]));
    }
  }
}

TEST_F(DeviceKvArenaTest, ACopyOfSomeTokensLeavesTheOthersNan) {
  for (const DType dtype : kKvDTypes) {
    // With an odd number of dimensions a row of fp8_e4m3 ends inside a word.
    Allocate(dtype, FitsHead(dtype, 5) ? 5 : 32);
    TestRandom random(3);
    std::vector<std::byte> bytes(arena_->block_bytes());
    for (std::byte& value : bytes) value = static_cast<std::byte>(random.Below(60));  // no NaN
    backend_.WriteKvBlock(*arena_, BlockId{1}, bytes);
    backend_.CopyKvBlock(*arena_, BlockId{1}, BlockId{2}, 7);
    for (const int slot : {0, 6, 7, 31}) {
      const std::vector<float> copied = ReadRow(2, 1, 2, 1, slot);
      if (slot < 7) {
        EXPECT_EQ(copied, ReadRow(1, 1, 2, 1, slot));
      } else {
#if KVGATE_DEBUG
        EXPECT_TRUE(std::isnan(copied[0]));
#endif
      }
    }
  }
}

TEST_F(DeviceKvArenaTest, MoreBlocksThanCanBeAddressedAreAnError) {
  const auto arena = DeviceKvArena::Allocate(
      {.num_layers = 1 << 20, .num_kv_heads = 1024, .head_dim = 1024, .dtype = DType::kF32},
      std::numeric_limits<uint32_t>::max(), backend_.stream());
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, ErrorCode::kOverloaded);
}

}  // namespace
}  // namespace kvgate::kernels::cuda::memory
