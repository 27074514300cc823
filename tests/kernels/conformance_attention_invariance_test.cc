// The promise of an invariant backend for attention: a sequence gives the same bits token by token,
// in chunks, batched with others and restored from bytes, regardless of the contents of memory that
// it does not attend to.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/kernels/test_attention.h"
#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_invariance.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

class AttentionInvariance : public Invariance {
 protected:
  // Every way to compute a sequence of `length` gives the bits of one call, in outputs and KV
  // blocks.
  void ExpectSameHoweverCut(const HeadShape& shape, DType dtype, int length,
                            const Variant& variant = {}) {
    std::vector<TestSequence> sequences;
    for (const int n : {length, 40, 1, 97, 33, 7, 64}) {
      sequences.push_back(MakeSequence(shape, n, 130 + sequences.size(), 2.0f));
    }
    AttentionRun whole(*backend_, shape, dtype, sequences, 1);
    variant.ApplyTo(whole, shape.num_heads);
    whole.CallInChunks(0, length);
    const std::vector<std::byte> want_kv = whole.KvBytes(0);
    for (Backend* backend : Backends()) {
      for (const int chunk : Sizes({1, 7, 32, 33, 100, 512}, {1, 33, 512})) {
        SCOPED_TRACE(testing::Message() << Describe(shape, dtype, *backend) << " length " << length
                                        << " in chunks of " << chunk);
        AttentionRun cut(*backend, shape, dtype, sequences, 2);
        variant.ApplyTo(cut, shape.num_heads);
        cut.CallInChunks(0, chunk);
        ExpectSameBits(whole.output(0), cut.output(0), shape.head_dim);
        EXPECT_TRUE(want_kv == cut.KvBytes(0)) << "the KV blocks differ";
        if (HasFailure()) return;
      }
      SCOPED_TRACE(testing::Message()
                   << Describe(shape, dtype, *backend) << " length " << length << " batched");
      AttentionRun batched(*backend, shape, dtype, sequences, 3);
      variant.ApplyTo(batched, shape.num_heads);
      CallBatched(batched, sequences);
      ExpectSameBits(whole.output(0), batched.output(0), shape.head_dim);
      EXPECT_TRUE(want_kv == batched.KvBytes(0)) << "the KV blocks differ";
      if (HasFailure()) return;
    }
  }

  static std::string Describe(const HeadShape& shape, DType dtype, const Backend& backend) {
    return "Attention heads " + std::to_string(shape.num_heads) + " KV heads " +
           std::to_string(shape.num_kv_heads) + " head_dim " + std::to_string(shape.head_dim) +
           " KV " + std::string(DTypeName(dtype)) + " threads " +
           std::to_string(backend.Info().num_threads);
  }

  // Computes sequence 0 in chunks of 29, with pieces of the other sequences before and after in
  // each call.
  static void CallBatched(AttentionRun& run, std::span<const TestSequence> sequences) {
    std::vector<int> done(sequences.size(), 0);
    for (int step = 0; done[0] < sequences[0].length; ++step) {
      std::vector<Piece> call;
      for (size_t i = 0; i < sequences.size(); ++i) {
        const size_t s = (i + static_cast<size_t>(step)) % sequences.size();
        const int chunk = s == 0 ? 29 : 1 + static_cast<int>(s) * 3 * (step % 2);
        const int num_rows = std::min(chunk, sequences[s].length - done[s]);
        if (num_rows > 0) call.push_back({s, done[s], num_rows});
        done[s] += num_rows;
      }
      run.Call(call);
    }
  }
};

TEST_P(AttentionInvariance, ALongSequenceHasTheSameBitsHoweverItIsCut) {
  ExpectSameHoweverCut({.num_heads = 2, .num_kv_heads = 1, .head_dim = 16}, DType::kF16, 545);
}

TEST_P(AttentionInvariance, EveryKvDTypeHasTheSameBitsHoweverItIsCut) {
  for (const DType dtype : kKvDTypes) {
    ExpectSameHoweverCut({.num_heads = 7, .num_kv_heads = 1, .head_dim = 64}, dtype, 110);
  }
}

TEST_P(AttentionInvariance, EveryHeadShapeHasTheSameBitsHoweverItIsCut) {
  for (const HeadShape& shape :
       {HeadShape{2, 2, 8}, HeadShape{6, 2, 80}, HeadShape{4, 4, 96}, HeadShape{2, 1, 128}}) {
    ExpectSameHoweverCut(shape, DType::kF16, 75);
  }
}

TEST_P(AttentionInvariance, WindowsCapsAndSinksHaveTheSameBitsHoweverTheSequenceIsCut) {
  const HeadShape shape{.num_heads = 7, .num_kv_heads = 1, .head_dim = 64};
  for (const int window : Sizes({1, 20, 32, 50, 109, 400}, {20, 32, 109})) {
    ExpectSameHoweverCut(shape, DType::kF16, 110, {.window = window});
  }
  ExpectSameHoweverCut(shape, DType::kF16, 110, {.softcap = 3});
  ExpectSameHoweverCut(shape, DType::kF16, 110, {.has_sinks = true});
  ExpectSameHoweverCut(shape, DType::kQ8_0, 110, {.window = 45, .softcap = 3, .has_sinks = true});
  ExpectSameHoweverCut({.num_heads = 4, .num_kv_heads = 4, .head_dim = 80}, DType::kF32, 110,
                       {.window = 40, .has_sinks = true});
}

// A window as long as the context hides nothing.
TEST_P(AttentionInvariance, AWindowThatReachesEverythingHasTheBitsOfNone) {
  const HeadShape shape{.num_heads = 6, .num_kv_heads = 2, .head_dim = 64};
  const std::vector<TestSequence> sequences{MakeSequence(shape, 100, 160)};
  AttentionRun plain(*backend_, shape, DType::kF16, sequences, 1);
  plain.CallInChunks(0, 100);
  for (const int window : Sizes({100, 101, 1 << 30}, {100, 1 << 30})) {
    AttentionRun windowed(*backend_, shape, DType::kF16, sequences, 2);
    windowed.Use(window, 0, {});
    windowed.CallInChunks(0, 33);
    ExpectSameBits(plain.output(0), windowed.output(0), shape.head_dim);
  }
}

// Before every decode row and every chunk, the blocks that no window reaches are poisoned and their
// table entries made invalid.
TEST_P(AttentionInvariance, WhatLiesBeforeTheWindowIsNeverRead) {
  const HeadShape shape{.num_heads = 7, .num_kv_heads = 1, .head_dim = 64};
  constexpr int kLength = 150;
  const std::vector<TestSequence> sequences{MakeSequence(shape, kLength, 161, 2.0f)};
  for (const int window : Sizes({1, 7, 32, 33, 64, 65}, {1, 33, 64})) {
    AttentionRun whole(*backend_, shape, DType::kF16, sequences, 1);
    whole.Use(window, 0, {});
    whole.CallInChunks(0, kLength);
    for (Backend* backend : Backends()) {
      for (const int chunk : Sizes({1, 5, 40}, {1, 40})) {
        SCOPED_TRACE(testing::Message() << "window " << window << " chunks of " << chunk);
        AttentionRun run(*backend, shape, DType::kF16, sequences, 2);
        run.Use(window, 0, {});
        size_t num_forgotten = 0;
        for (int position = 0; position < kLength; position += chunk) {
          const int unseen = std::max(0, position - window + 1) / kKvBlockTokens;
          run.ForgetBlocks(0, num_forgotten, static_cast<size_t>(unseen));
          num_forgotten = static_cast<size_t>(unseen);
          run.Call(std::vector<Piece>{{0, position, std::min(chunk, kLength - position)}});
        }
        EXPECT_GT(num_forgotten, 0u);
        ExpectSameBits(whole.output(0), run.output(0), shape.head_dim);
      }
    }
  }
}

// Masses are sums of integers over rows and heads, so they do not depend on how a sequence was cut.
class MassInvariance : public AttentionInvariance {
 protected:
  void ExpectSameMasses(int window);
};

void MassInvariance::ExpectSameMasses(int window) {
  const HeadShape shape{.num_heads = 7, .num_kv_heads = 1, .head_dim = 64};
  std::vector<TestSequence> sequences;
  for (const int n : {150, 40, 97}) {
    sequences.push_back(MakeSequence(shape, n, 150 + sequences.size(), 2.0f));
  }
  AttentionRun whole(*backend_, shape, DType::kF16, sequences, 1);
  whole.AskForMass(0);
  whole.Use(window, 0, {});
  whole.CallInChunks(0, 150);
  const std::vector<uint64_t> want(whole.mass(0).begin(), whole.mass(0).end());
  for (Backend* backend : Backends()) {
    for (const int chunk : Sizes({1, 7, 33, 100}, {1, 33})) {
      AttentionRun cut(*backend, shape, DType::kF16, sequences, 2);
      cut.AskForMass(0);
      cut.Use(window, 0, {});
      cut.CallInChunks(0, chunk);
      EXPECT_TRUE(std::ranges::equal(want, cut.mass(0))) << "chunks of " << chunk;
    }
    AttentionRun batched(*backend, shape, DType::kF16, sequences, 3);
    batched.AskForMass(0);
    batched.Use(window, 0, {});
    CallBatched(batched, sequences);
    EXPECT_TRUE(std::ranges::equal(want, batched.mass(0))) << "batched";
  }
}

TEST_P(MassInvariance, BlockMassesAreTheSameHoweverTheSequenceIsCut) {
  for (const int window : {0, 20, 70}) ExpectSameMasses(window);
}

// Blocks that went through host memory and came back under other ids read the same.
TEST_P(AttentionInvariance, ARestoredPrefixContinuesWithTheSameBits) {
  const HeadShape shape{.num_heads = 4, .num_kv_heads = 2, .head_dim = 64};
  for (const DType dtype : kKvDTypes) {
    const std::vector<TestSequence> sequences{MakeSequence(shape, 100, 140)};
    AttentionRun cold(*backend_, shape, dtype, sequences, 1);
    cold.CallInChunks(0, 100);
    AttentionRun prefix(*backend_, shape, dtype, sequences, 2);
    prefix.Call(std::vector<Piece>{{0, 0, 64}});
    for (Backend* backend : Backends()) {
      SCOPED_TRACE(testing::Message() << Describe(shape, dtype, *backend) << " restored");
      AttentionRun restored(*backend, shape, dtype, sequences, 3);
      restored.RestoreKvBytes(0, prefix.KvBytes(0));
      restored.Call(std::vector<Piece>{{0, 64, 36}});
      ExpectSameBits(RowsOf(cold.output(0), 64, 36, shape.q_columns()),
                     RowsOf(restored.output(0), 64, 36, shape.q_columns()), shape.head_dim);
      EXPECT_TRUE(cold.KvBytes(0) == restored.KvBytes(0)) << "the KV blocks differ";
    }
  }
}

KVGATE_RUN_ON_ALL_BACKENDS(AttentionInvariance);
KVGATE_RUN_ON_ALL_BACKENDS(MassInvariance);

}  // namespace
}  // namespace kvgate::kernels
