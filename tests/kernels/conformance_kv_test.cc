// KV memory of every backend: the bytes that StoreKv writes, and blocks that are read, written
// back, copied and poisoned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/test_attention.h"
#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

constexpr HeadShape kHeads{.num_heads = 4, .num_kv_heads = 2, .head_dim = 64};

bool IsNan(DType dtype, const std::byte* data, size_t index) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, data + index * sizeof(value), sizeof(value));
    return std::isnan(value);
  }
  if (dtype == DType::kF8E4M3) return std::isnan(F8E4M3ToF32(static_cast<uint8_t>(data[index])));
  uint16_t bits;
  std::memcpy(&bits, data + index * sizeof(bits), sizeof(bits));
  return std::isnan(dtype == DType::kBF16 ? BF16ToF32(bits) : F16ToF32(bits));
}

// In a quantized dtype any two bytes may be a scale, so all are checked as f16.
void ExpectAllNan(DType dtype, std::span<const std::byte> bytes) {
  const size_t element = DTypeElements(dtype) == 1 ? DTypeBytes(dtype, 1) : sizeof(uint16_t);
  for (size_t i = 0; i < bytes.size() / element; ++i) {
    ASSERT_TRUE(IsNan(dtype, bytes.data(), i)) << "KV " << DTypeName(dtype) << " element " << i;
  }
}

class KvConformance : public BackendTest {
 protected:
  std::unique_ptr<KvArena> Allocate(DType dtype, uint32_t num_blocks) {
    auto arena = backend_->AllocateKv(kHeads.KvShapeOf(dtype), num_blocks);
    EXPECT_TRUE(arena.has_value());
    return std::move(*arena);
  }

  std::vector<std::byte> ReadBlock(const KvArena& arena, uint32_t id) {
    std::vector<std::byte> bytes(arena.block_bytes());
    backend_->Synchronize();
    backend_->ReadKvBlock(arena, BlockId{id}, bytes);
    return bytes;
  }

  // Attention of one query row at `position`, over one block.
  std::vector<float> AttendAt(const KvArena& arena, uint32_t block, int position) {
    const std::vector<float> q = NormalValues(static_cast<size_t>(kHeads.q_columns()), 81);
    TestFloats device_q(*backend_, q);
    TestFloats out(*backend_, q.size());
    const std::vector<BlockId> table{BlockId{block}};
    const SequenceRows rows{
        .first_row = 0, .num_rows = 1, .first_position = position, .block_table = table};
    backend_->Attention(device_q.data(), {&rows, 1}, 1, arena, kHeads.AttentionShapeOf(),
                        out.data());
    return out.Read();
  }
};

TEST_P(KvConformance, StoreKvWritesTheBytesOfTheReference) {
  if (!GetParam().cpu_kv_order) GTEST_SKIP() << "this backend orders KV blocks its own way";
  for (const DType dtype : kKvDTypes) {
    for (const int head_dim : {8, 16, 64, 80, 96, 128, 5}) {
      if (!FitsHead(dtype, head_dim)) continue;
      const HeadShape shape{.num_heads = 3, .num_kv_heads = 3, .head_dim = head_dim};
      SCOPED_TRACE(testing::Message()
                   << "StoreKv " << DTypeName(dtype) << " head_dim " << head_dim);
      std::vector<TestSequence> sequences;
      for (const int length : {70, 33, 1}) {
        sequences.push_back(MakeSequence(shape, length, 90 + sequences.size()));
        // Values past the range of f16 become infinities, tiny ones zeros.
        sequences.back().k = HostileRows(length, shape.kv_columns(), 95);
      }
      const std::vector<std::vector<Piece>> calls{{{0, 0, 65}, {1, 0, 32}},
                                                  {{0, 65, 5}, {1, 32, 1}, {2, 0, 1}}};
      AttentionRun want(*reference_, shape, dtype, sequences, 1);
      AttentionRun got(*backend_, shape, dtype, sequences, 1);
      for (const auto& call : calls) {
        want.Call(call);
        got.Call(call);
      }
      for (size_t s = 0; s < sequences.size(); ++s) {
        EXPECT_EQ(want.KvBytes(s), got.KvBytes(s)) << "sequence " << s;
      }
    }
  }
}

TEST_P(KvConformance, ABlockReadsBackAsItWasWritten) {
  for (const DType dtype : kKvDTypes) {
    SCOPED_TRACE(testing::Message() << "WriteKvBlock " << DTypeName(dtype));
    const auto arena = Allocate(dtype, 3);
    EXPECT_EQ(arena->num_blocks(), 3u);
    EXPECT_EQ(arena->block_bytes(), arena->shape().block_bytes());
    TestRandom random(82);
    std::vector<std::vector<std::byte>> blocks(3, std::vector<std::byte>(arena->block_bytes()));
    for (uint32_t id : {2u, 0u, 1u}) {
      for (std::byte& value : blocks[id]) value = static_cast<std::byte>(random.Next());
      backend_->WriteKvBlock(*arena, BlockId{id}, blocks[id]);
    }
    for (uint32_t id = 0; id < 3; ++id) {
      EXPECT_EQ(ReadBlock(*arena, id), blocks[id]) << "block " << id;
    }
  }
}

// A block goes to another tier and back through a host buffer whose bytes all belong to the caller.
TEST_P(KvConformance, ABlockPassesThroughHostMemoryOfTheBackend) {
  const auto arena = Allocate(DType::kF16, 2);
  const size_t bytes = arena->block_bytes();
  auto buffer = backend_->AllocateHost(2 * bytes);
  ASSERT_TRUE(buffer.has_value());
  ASSERT_EQ((*buffer)->size(), 2 * bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % 64, 0u);
  const std::span<std::byte> host((*buffer)->data(), 2 * bytes);
  TestRandom random(84);
  for (std::byte& value : host) value = static_cast<std::byte>(random.Next());
  const std::vector<std::byte> want(host.begin(), host.end());
  backend_->WriteKvBlock(*arena, BlockId{0}, host.first(bytes));
  backend_->WriteKvBlock(*arena, BlockId{1}, host.last(bytes));
  std::ranges::fill(host, std::byte{0});
  backend_->ReadKvBlock(*arena, BlockId{0}, host.first(bytes));
  backend_->ReadKvBlock(*arena, BlockId{1}, host.last(bytes));
  EXPECT_TRUE(std::ranges::equal(want, host));
}

// Three blocks are copied out and back into other blocks asynchronously. One more copy out reuses
// the host memory of a copy in, so it must come after it.
TEST_P(KvConformance, ManyBlocksMoveBesideTheOperations) {
  const auto arena = Allocate(DType::kF16, 8);
  const size_t bytes = arena->block_bytes();
  auto buffer = backend_->AllocateHost(3 * bytes);
  ASSERT_TRUE(buffer.has_value());
  TestRandom random(85);
  std::vector<std::vector<std::byte>> contents;
  std::vector<KvBlockCopy> out;
  std::vector<KvBlockCopy> in;
  for (uint32_t i = 0; i < 4; ++i) {
    contents.emplace_back(bytes);
    for (std::byte& value : contents.back()) value = static_cast<std::byte>(random.Next());
    backend_->WriteKvBlock(*arena, BlockId{i}, contents.back());
    if (i == 3) break;
    out.push_back({.block = BlockId{i}, .host = (*buffer)->data() + i * bytes});
    in.push_back({.block = BlockId{4 + i}, .host = out.back().host});
  }
  const uint64_t out_ticket = backend_->ReadKvBlocks(*arena, out);
  const uint64_t in_ticket = backend_->WriteKvBlocks(*arena, in);
  EXPECT_TRUE(in_ticket == 0 || in_ticket > out_ticket);
  const KvBlockCopy again{.block = BlockId{3}, .host = (*buffer)->data()};
  backend_->WaitForCopy(backend_->ReadKvBlocks(*arena, {&again, 1}));
  backend_->WaitForCopy(in_ticket);
  EXPECT_TRUE(backend_->IsCopied(out_ticket));
  EXPECT_TRUE(backend_->IsCopied(in_ticket));
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(ReadBlock(*arena, 4 + i), contents[i]) << i;
  EXPECT_TRUE(std::ranges::equal(contents[3], std::span((*buffer)->data(), bytes)));
}

TEST_P(KvConformance, PoisonFillsOneBlockWithNan) {
  for (const DType dtype : kKvDTypes) {
    const auto arena = Allocate(dtype, 3);
    const std::vector<std::byte> zeros(arena->block_bytes());
    for (uint32_t id = 0; id < 3; ++id) backend_->WriteKvBlock(*arena, BlockId{id}, zeros);
    backend_->PoisonKvBlock(*arena, BlockId{1});
    EXPECT_EQ(ReadBlock(*arena, 0), zeros);
    ExpectAllNan(dtype, ReadBlock(*arena, 1));
    EXPECT_EQ(ReadBlock(*arena, 2), zeros);
    for (const float value : AttendAt(*arena, 1, 0)) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(KvConformance, FreshBlocksAreNanInDebugBuilds) {
#if KVGATE_DEBUG
  for (const DType dtype : kKvDTypes) {
    const auto arena = Allocate(dtype, 2);
    for (uint32_t id = 0; id < 2; ++id) ExpectAllNan(dtype, ReadBlock(*arena, id));
  }
#else
  GTEST_SKIP() << "KVGATE_DEBUG is not set";
#endif
}

TEST_P(KvConformance, ACopiedPartOfABlockAttendsWithTheSameBits) {
  for (const DType dtype : kKvDTypes) {
    const std::vector<TestSequence> sequences{MakeSequence(kHeads, kKvBlockTokens, 83)};
    AttentionRun run(*backend_, kHeads, dtype, sequences, 4);
    run.CallInChunks(0, kKvBlockTokens);
    const uint32_t from = run.table(0)[0].value;
    const uint32_t to = (from + 1) % run.arena().num_blocks();
    for (const int num_tokens : {0, 1, 5, 31, 32}) {
      SCOPED_TRACE(testing::Message()
                   << "CopyKvBlock " << DTypeName(dtype) << " tokens " << num_tokens);
      const std::vector<std::byte> source = ReadBlock(run.arena(), from);
      backend_->CopyKvBlock(run.arena(), BlockId{from}, BlockId{to}, num_tokens);
      EXPECT_EQ(ReadBlock(run.arena(), from), source);
      for (int position = 0; position < num_tokens; ++position) {
        ExpectSameBits(AttendAt(run.arena(), from, position), AttendAt(run.arena(), to, position),
                       kHeads.head_dim);
      }
#if KVGATE_DEBUG
      // The slots behind the copied tokens are NaN, which reveals a reader that goes too far.
      if (num_tokens == kKvBlockTokens) continue;
      for (const float value : AttendAt(run.arena(), to, num_tokens)) {
        ASSERT_TRUE(std::isnan(value)) << "a slot behind the copied tokens";
      }
#endif
    }
  }
}

TEST_P(KvConformance, MemoryThatIsNotThereIsAnErrorNotACrash) {
#ifdef KVGATE_SANITIZED
  GTEST_SKIP() << "the sanitizer's allocator ends the process";
#else
  const auto arena = backend_->AllocateKv(
      {.num_layers = 1 << 20, .num_kv_heads = 1024, .head_dim = 1024, .dtype = DType::kF32},
      std::numeric_limits<uint32_t>::max());
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, ErrorCode::kOverloaded);
  const auto floats = backend_->AllocateFloats(size_t{1} << 61);
  ASSERT_FALSE(floats.has_value());
  EXPECT_EQ(floats.error().code, ErrorCode::kOverloaded);
  const auto host = backend_->AllocateHost(size_t{1} << 61);
  ASSERT_FALSE(host.has_value());
  EXPECT_EQ(host.error().code, ErrorCode::kOverloaded);
#endif
}

KVGATE_RUN_ON_ALL_BACKENDS(KvConformance);

}  // namespace
}  // namespace kvgate::kernels
