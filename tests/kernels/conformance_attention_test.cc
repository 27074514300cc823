// StoreKv and Attention of every backend against the reference. Every slot that was not written is
// NaN, so a backend that reads one, even with weight zero, produces NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "tests/kernels/test_attention.h"
#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

// The first call has prompts. The second has a decode row, chunks that cross the end of a block, a
// new sequence of one token, and a new prompt.
const std::vector<int> kLengths{71, 107, 37, 1, 34};
const std::vector<std::vector<Piece>> kCalls{
    {{0, 0, 70}, {1, 0, 100}, {2, 0, 31}},
    {{0, 70, 1}, {1, 100, 7}, {2, 31, 6}, {3, 0, 1}, {4, 0, 34}},
};

class AttentionConformance : public BackendTest {
 protected:
  static std::vector<int> HeadDims(std::initializer_list<int> few) {
    return Sizes({8, 16, 64, 80, 96, 128}, few);
  }

  void ExpectClose(const HeadShape& shape, DType dtype, float q_scale, double bound,
                   const Variant& variant = {}) {
    SCOPED_TRACE(testing::Message()
                 << "Attention heads " << shape.num_heads << " KV heads " << shape.num_kv_heads
                 << " head_dim " << shape.head_dim << " KV " << DTypeName(dtype) << " window "
                 << variant.window << " softcap " << variant.softcap << " sinks "
                 << variant.has_sinks);
    if (dtype != DType::kF32) bound = std::max(bound, GetParam().attention_bound);
    std::vector<TestSequence> sequences;
    for (const int length : kLengths) {
      sequences.push_back(MakeSequence(shape, length, 70 + sequences.size(), q_scale));
    }
    AttentionRun want(*reference_, shape, dtype, sequences, 1);
    AttentionRun got(*backend_, shape, dtype, sequences, 2);
    variant.ApplyTo(want, shape.num_heads);
    variant.ApplyTo(got, shape.num_heads);
    for (const auto& call : kCalls) {
      want.Call(call);
      got.Call(call);
    }
    for (size_t s = 0; s < sequences.size(); ++s) {
      SCOPED_TRACE(testing::Message() << "sequence " << s << " (a row below is one head)");
      ExpectRowsClose(want.output(s), got.output(s), shape.head_dim, bound);
    }
  }

  // Masses of the calls above must be within the rounding of each row and head, and asking for
  // masses must not change the outputs.
  void ExpectMasses(const HeadShape& shape, float q_scale, const Variant& variant) {
    std::vector<TestSequence> sequences;
    for (const int length : kLengths) {
      sequences.push_back(MakeSequence(shape, length, 70 + sequences.size(), q_scale));
    }
    AttentionRun want(*reference_, shape, DType::kF16, sequences, 1);
    AttentionRun got(*backend_, shape, DType::kF16, sequences, 2);
    AttentionRun unasked(*backend_, shape, DType::kF16, sequences, 3);
    constexpr uint64_t kBefore = 1000;  // masses are added to existing values
    want.AskForMass(kBefore);
    got.AskForMass(kBefore);
    for (AttentionRun* run : {&want, &got, &unasked}) {
      variant.ApplyTo(*run, shape.num_heads);
      for (const auto& call : kCalls) run->Call(call);
    }
    for (size_t s = 0; s < sequences.size(); ++s) {
      SCOPED_TRACE(testing::Message() << "sequence " << s << " q_scale " << q_scale << " window "
                                      << variant.window << " sinks " << variant.has_sinks);
      const int num_terms = sequences[s].length * shape.num_heads;
      double total = 0;
      for (size_t b = 0; b < want.mass(s).size(); ++b) {
        const auto mass = static_cast<double>(got.mass(s)[b]);
        EXPECT_NEAR(mass, static_cast<double>(want.mass(s)[b]),
                    num_terms * (1 + 2e-5 * kAttentionMassOne))
            << "block " << b;
        total += mass - kBefore;
      }
      if (variant.has_sinks) {
        EXPECT_LT(total / kAttentionMassOne, 0.95 * num_terms);
      } else {
        EXPECT_NEAR(total / kAttentionMassOne, num_terms, 1e-5 * num_terms);
      }
      ExpectSameBits(unasked.output(s), got.output(s), shape.head_dim);
    }
  }
};

TEST_P(AttentionConformance, GroupedQueriesAreCloseForEveryKvDType) {
  for (const DType dtype : kKvDTypes) {
    const bool is_plain = dtype == DType::kF16;
    for (const int head_dim : is_plain ? HeadDims({8, 80, 128}) : HeadDims({96})) {
      if (!FitsHead(dtype, head_dim)) continue;
      ExpectClose({.num_heads = 14, .num_kv_heads = 2, .head_dim = head_dim}, dtype, 1, 1e-5);
    }
  }
}

TEST_P(AttentionConformance, OneKvHeadPerHeadIsClose) {
  for (const int head_dim : HeadDims({16, 96})) {
    ExpectClose({.num_heads = 3, .num_kv_heads = 3, .head_dim = head_dim}, DType::kF16, 1, 1e-5);
  }
}

TEST_P(AttentionConformance, OneKvHeadForAllHeadsIsClose) {
  for (const int head_dim : HeadDims({8, 64})) {
    ExpectClose({.num_heads = 5, .num_kv_heads = 1, .head_dim = head_dim}, DType::kF16, 1, 1e-5);
  }
}

// Scores in the hundreds: all but a few weights underflow, and none may overflow. The bound allows
// for the rounding of the scores themselves in f32.
TEST_P(AttentionConformance, SharpScoresNeitherOverflowNorLoseTheWinner) {
  for (const int head_dim : {16, 128}) {
    ExpectClose({.num_heads = 4, .num_kv_heads = 2, .head_dim = head_dim}, DType::kF32, 200, 5e-3);
  }
}

// The windows are shorter than a block, one block, across blocks, and longer than every context.
TEST_P(AttentionConformance, AWindowOfAnyLengthIsClose) {
  for (const int window :
       Sizes({1, 2, 5, 31, 32, 33, 64, 70, 106, 107, 5000}, {1, 31, 33, 70, 107})) {
    ExpectClose({.num_heads = 7, .num_kv_heads = 1, .head_dim = 64}, DType::kF16, 1, 1e-5,
                {.window = window});
    ExpectClose({.num_heads = 2, .num_kv_heads = 2, .head_dim = 80}, DType::kF32, 1, 1e-5,
                {.window = window});
  }
}

TEST_P(AttentionConformance, AWindowIsCloseForEveryKvDType) {
  for (const DType dtype : kKvDTypes) {
    ExpectClose({.num_heads = 14, .num_kv_heads = 2, .head_dim = 64}, dtype, 1, 1e-5,
                {.window = 40});
  }
}

TEST_P(AttentionConformance, CappedScoresAreClose) {
  const HeadShape shape{.num_heads = 6, .num_kv_heads = 2, .head_dim = 64};
  for (const float softcap : Sizes({0.5f, 5.0f, 50.0f}, {0.5f, 50.0f})) {
    for (const float q_scale : Sizes({0.01f, 1.0f, 200.0f}, {1.0f, 200.0f})) {
      ExpectClose(shape, DType::kF16, q_scale, 2e-5, {.softcap = softcap});
    }
  }
}

TEST_P(AttentionConformance, SinksTakeTheirShare) {
  for (const int head_dim : {8, 64}) {
    for (const float q_scale : {0.1f, 1.0f, 20.0f}) {
      ExpectClose({.num_heads = 8, .num_kv_heads = 2, .head_dim = head_dim}, DType::kF16, q_scale,
                  head_dim * 1e-5, {.has_sinks = true});
    }
  }
}

TEST_P(AttentionConformance, WindowSoftcapAndSinksTogetherAreClose) {
  for (const int window : {3, 32, 50}) {
    ExpectClose({.num_heads = 6, .num_kv_heads = 3, .head_dim = 96}, DType::kBF16, 3, 2e-5,
                {.window = window, .softcap = 20, .has_sinks = true});
  }
}

// Uses the calls and sequences from above, with sharp and flat scores.
TEST_P(AttentionConformance, BlockMassesAreTheProbabilitiesThatRowsPutOnBlocks) {
  const HeadShape shape{.num_heads = 6, .num_kv_heads = 2, .head_dim = 64};
  for (const float q_scale : {1.0f, 20.0f}) {
    ExpectMasses(shape, q_scale, {});
    ExpectMasses(shape, q_scale, {.window = 20});
    ExpectMasses(shape, q_scale, {.window = 45, .softcap = 10});
  }
}

TEST_P(AttentionConformance, WhatASinkTakesIsNoBlocksMass) {
  ExpectMasses({.num_heads = 6, .num_kv_heads = 2, .head_dim = 64}, 1.0f,
               {.window = 45, .has_sinks = true});
}

// At position 0 the softmax has one weight, 1: the output is V itself, as it was stored.
TEST_P(AttentionConformance, StoredValuesAreRoundedToTheKvDType) {
  const HeadShape shape{.num_heads = 2, .num_kv_heads = 2, .head_dim = 64};
  for (const DType dtype : kKvDTypes) {
    SCOPED_TRACE(testing::Message() << "StoreKv " << DTypeName(dtype));
    const std::vector<TestSequence> sequences{MakeSequence(shape, 1, 75)};
    AttentionRun run(*backend_, shape, dtype, sequences, 3);
    run.Call(std::vector<Piece>{{0, 0, 1}});
    const std::vector<float> want = RoundedTo(dtype, sequences[0].v);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(want[i], run.output(0)[i], 1e-37)
          << "element " << i << " of value " << sequences[0].v[i];
    }
  }
}

// Every code of fp8_e4m3 occurs in V. A row that attends to its own token alone returns that
// token's V; a NaN appears only in its own dimension and row.
TEST_P(AttentionConformance, EveryFp8ValueIsReadExactly) {
  for (const int head_dim : {256, 80, 5}) {
    const HeadShape shape{.num_heads = 1, .num_kv_heads = 1, .head_dim = head_dim};
    constexpr int kLength = 52;
    std::vector<TestSequence> sequences{MakeSequence(shape, kLength, 76)};
    std::ranges::fill(sequences[0].k, 0.0f);
    for (size_t i = 0; i < sequences[0].v.size(); ++i) {
      sequences[0].v[i] = F8E4M3ToF32(static_cast<uint8_t>(i));
    }
    AttentionRun run(*backend_, shape, DType::kF8E4M3, sequences, 3);
    run.Use(1, 0, {});
    run.CallInChunks(0, kLength);
    for (size_t i = 0; i < sequences[0].v.size(); ++i) {
      const float want = sequences[0].v[i];
      const float got = run.output(0)[i];
      ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : want == got)
          << "head_dim " << head_dim << " element " << i << ": " << got << " for " << want;
    }
  }
}

KVGATE_RUN_ON_ALL_BACKENDS(AttentionConformance);

}  // namespace
}  // namespace kvgate::kernels
