// DeviceAttention on the emulator: close to the reference, and with bits that do not depend on how
// a sequence is cut. The conformance suite has more shapes; these reach each of its code paths.
#include "kernels/cuda/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/cuda/attention_backend.h"
#include "tests/kernels/test_attention.h"

namespace kvgate::kernels::cuda::attention {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The calls have prompts, a new token, a decode row, a chunk that crosses a block's end, and a long
// chunk.
const std::vector<int> kLengths{71, 150, 1};
const std::vector<std::vector<Piece>> kCalls{
    {{0, 0, 70}, {1, 0, 37}},
    {{2, 0, 1}, {0, 70, 1}, {1, 37, 9}},
    {{1, 46, 104}},
};

class DeviceAttentionTest : public testing::Test {
 protected:
  void ExpectClose(const HeadShape& shape, DType dtype, const Variant& variant = {},
                   float q_scale = 1.0f) {
    SCOPED_TRACE(testing::Message()
                 << "heads " << shape.num_heads << "/" << shape.num_kv_heads << " head_dim "
                 << shape.head_dim << " KV " << DTypeName(dtype) << " window " << variant.window
                 << " softcap " << variant.softcap << " sinks " << variant.has_sinks);
    std::vector<TestSequence> sequences;
    for (const int length : kLengths) {
      sequences.push_back(MakeSequence(shape, length, 70 + sequences.size(), q_scale));
    }
    AttentionRun want(*reference_, shape, dtype, sequences, 1);
    AttentionRun got(*backend_, shape, dtype, sequences, 2);
    for (AttentionRun* run : {&want, &got}) {
      variant.ApplyTo(*run, shape.num_heads);
      for (const auto& call : kCalls) run->Call(call);
    }
    const double bound = dtype == DType::kF32 ? 1e-5 : 2e-4;
    for (size_t s = 0; s < sequences.size(); ++s) {
      SCOPED_TRACE(testing::Message() << "sequence " << s);
      ExpectRowsClose(want.output(s), got.output(s), shape.head_dim, bound);
    }
  }

  void ExpectSameHoweverCut(const HeadShape& shape, DType dtype, int length,
                            const std::vector<int>& chunks, const Variant& variant = {}) {
    const std::vector<TestSequence> sequences{MakeSequence(shape, length, 5, 2.0f),
                                              MakeSequence(shape, 45, 6)};
    AttentionRun whole(*backend_, shape, dtype, sequences, 1);
    variant.ApplyTo(whole, shape.num_heads);
    whole.CallInChunks(0, length);
    for (const int chunk : chunks) {
      SCOPED_TRACE(testing::Message() << "head_dim " << shape.head_dim << " KV " << DTypeName(dtype)
                                      << " chunks of " << chunk << " window " << variant.window);
      AttentionRun cut(*backend_, shape, dtype, sequences, 2);
      variant.ApplyTo(cut, shape.num_heads);
      int mate = 0;  // positions of the other sequence computed so far
      for (int position = 0; position < length; position += chunk) {
        const int num_rows = std::min(chunk, length - position);
        std::vector<Piece> call{{0, position, num_rows}};
        if (mate < 45) call.insert(call.begin(), {1, mate++, 1});
        cut.Call(call);
      }
      ExpectSameBits(whole.output(0), cut.output(0), shape.head_dim);
      EXPECT_EQ(whole.KvBytes(0), cut.KvBytes(0)) << "the KV blocks differ";
    }
  }

  std::unique_ptr<Backend> reference_ = reference::MakeReferenceBackend();
  std::unique_ptr<AttentionBackend> backend_ = std::make_unique<AttentionBackend>();
};

TEST_F(DeviceAttentionTest, EveryKvDTypeIsClose) {
  for (const DType dtype : kKvDTypes) {
    ExpectClose({.num_heads = 6, .num_kv_heads = 2, .head_dim = 64}, dtype);
    ExpectClose({.num_heads = 2, .num_kv_heads = 1, .head_dim = 96}, dtype, {.window = 40});
  }
}

TEST_F(DeviceAttentionTest, EveryHeadShapeIsClose) {
  for (const HeadShape& shape : {HeadShape{2, 2, 5}, HeadShape{3, 1, 8}, HeadShape{20, 1, 16},
                                 HeadShape{2, 2, 80}, HeadShape{4, 1, 128}, HeadShape{1, 1, 256}}) {
    ExpectClose(shape, DType::kF16);
  }
  for (const HeadShape& shape : {HeadShape{2, 2, 5}, HeadShape{3, 1, 8}, HeadShape{2, 2, 80},
                                 HeadShape{4, 1, 128}, HeadShape{1, 1, 256}}) {
    ExpectClose(shape, DType::kF8E4M3);
  }
  ExpectClose({2, 1, 256}, DType::kBF16);
  ExpectClose({2, 1, 256}, DType::kQ4_0);
}

TEST_F(DeviceAttentionTest, WindowsCapsAndSinksAreClose) {
  const HeadShape shape{.num_heads = 7, .num_kv_heads = 1, .head_dim = 32};
  for (const int window : {1, 31, 33, 70, 5000}) {
    ExpectClose(shape, DType::kF16, {.window = window});
  }
  for (const float softcap : {0.5f, 50.0f}) {
    ExpectClose(shape, DType::kF16, {.softcap = softcap});
    ExpectClose(shape, DType::kQ8_0, {.window = 45, .softcap = softcap, .has_sinks = true}, 100.0f);
  }
  ExpectClose(shape, DType::kBF16, {.has_sinks = true});
}

TEST_F(DeviceAttentionTest, SharpScoresAreClose) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kQ8_0}) {
    for (const float q_scale : {1e-3f, 200.0f}) {
      ExpectClose({.num_heads = 4, .num_kv_heads = 2, .head_dim = 64}, dtype, {}, q_scale);
    }
  }
}

TEST_F(DeviceAttentionTest, ASequenceHasTheSameBitsHoweverItIsCut) {
  ExpectSameHoweverCut({.num_heads = 2, .num_kv_heads = 1, .head_dim = 16}, DType::kF16, 545,
                       {1, 29, 100});
  for (const DType dtype : kKvDTypes) {
    ExpectSameHoweverCut({.num_heads = 7, .num_kv_heads = 1, .head_dim = 64}, dtype, 75, {1, 33});
  }
  ExpectSameHoweverCut({.num_heads = 2, .num_kv_heads = 1, .head_dim = 128}, DType::kF16, 45, {1});
}

TEST_F(DeviceAttentionTest, WindowsCapsAndSinksHaveTheSameBitsHoweverTheSequenceIsCut) {
  const HeadShape shape{.num_heads = 3, .num_kv_heads = 1, .head_dim = 32};
  for (const int window : {1, 20, 32, 300}) {
    ExpectSameHoweverCut(shape, DType::kF16, 320, {7, 100}, {.window = window});
  }
  ExpectSameHoweverCut(shape, DType::kQ8_0, 110, {1, 40},
                       {.window = 45, .softcap = 3, .has_sinks = true});
}

// Some rows of a chunk have NaN in K, V or q; rows that do not attend to them keep their bits.
TEST_F(DeviceAttentionTest, RowsThatAreNotNumbersLeaveTheirNeighboursBits) {
  for (const DType dtype : kKvDTypes) {
    for (const int num_heads : {1, 6}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " heads " << num_heads);
      const HeadShape shape{.num_heads = num_heads, .num_kv_heads = 1, .head_dim = 32};
      const std::vector<TestSequence> whole{MakeSequence(shape, 60, 7)};
      std::vector<TestSequence> spoilt = whole;
      constexpr int kFirstNan = 41;
      for (int row = kFirstNan; row < 60; row += 2) {
        std::fill_n(spoilt[0].v.begin() + row * 32, 32, kNan);
        if (row % 4 == 1) spoilt[0].k[static_cast<size_t>(row) * 32] = kNan;
      }
      spoilt[0].q[10 * static_cast<size_t>(shape.q_columns())] = kNan;
      AttentionRun want(*backend_, shape, dtype, whole, 1);
      AttentionRun got(*backend_, shape, dtype, spoilt, 2);
      AttentionRun by_token(*backend_, shape, dtype, spoilt, 3);
      want.CallInChunks(0, 60);
      got.CallInChunks(0, 60);
      by_token.CallInChunks(0, 1);
      for (int row = 0; row < 60; ++row) {
        const auto of_row = [&](const AttentionRun& run) {
          return RowsOf(run.output(0), row, 1, shape.q_columns());
        };
        if (row == 10 || row >= kFirstNan) {
          EXPECT_TRUE(std::isnan(of_row(got)[0])) << "row " << row;
          EXPECT_TRUE(std::isnan(of_row(by_token)[0])) << "row " << row;
        } else {
          ExpectSameBits(of_row(want), of_row(got), shape.head_dim);
          ExpectSameBits(of_row(want), of_row(by_token), shape.head_dim);
        }
      }
    }
  }
}

TEST_F(DeviceAttentionTest, MassesAreTheReferencesAndTheSameHoweverCut) {
  for (const DType dtype : {DType::kF16, DType::kF8E4M3, DType::kQ8_0, DType::kF32}) {
    SCOPED_TRACE(DTypeName(dtype));
    const HeadShape shape{.num_heads = 3, .num_kv_heads = 1, .head_dim = 32};
    const std::vector<TestSequence> sequences{MakeSequence(shape, 150, 8, 2.0f)};
    AttentionRun want(*reference_, shape, dtype, sequences, 1);
    AttentionRun whole(*backend_, shape, dtype, sequences, 2);
    AttentionRun cut(*backend_, shape, dtype, sequences, 3);
    for (AttentionRun* run : {&want, &whole, &cut}) {
      run->AskForMass(1000);
      run->Use(70, 0, {});
    }
    want.CallInChunks(0, 150);
    whole.CallInChunks(0, 150);
    cut.CallInChunks(0, 13);
    EXPECT_TRUE(std::ranges::equal(whole.mass(0), cut.mass(0)));
    for (size_t b = 0; b < 5; ++b) {
      const auto one = static_cast<double>(kAttentionMassOne);
      EXPECT_NEAR(static_cast<double>(whole.mass(0)[b]) / one,
                  static_cast<double>(want.mass(0)[b]) / one, 450 * 2e-5);
    }
  }
}

// Without memory for partial results every row computes its splits in turn, with the same bits.
TEST_F(DeviceAttentionTest, WithoutMemoryForPartialResultsTheBitsAreTheSame) {
  const HeadShape shape{.num_heads = 2, .num_kv_heads = 1, .head_dim = 16};
  const std::vector<TestSequence> sequences{MakeSequence(shape, 300, 9)};
  AttentionRun want(*backend_, shape, DType::kF16, sequences, 1);
  want.Call(std::vector<Piece>{{0, 0, 290}});
  want.Call(std::vector<Piece>{{0, 290, 10}});
  AttentionBackend other;
  AttentionRun got(other, shape, DType::kF16, sequences, 2);
  got.Call(std::vector<Piece>{{0, 0, 290}});
  size_t bytes_free = 0;
  size_t bytes_total = 0;
  cudaMemGetInfo(&bytes_free, &bytes_total);
  emulator::SetDeviceMemory(bytes_total - bytes_free + (size_t{512} << 10));
  got.Call(std::vector<Piece>{{0, 290, 10}});
  emulator::SetDeviceMemory(size_t{4} << 30);
  ExpectSameBits(want.output(0), got.output(0), shape.head_dim);
}

// The layers of a step share what was staged for the first, but layers with different windows must
// not.
TEST_F(DeviceAttentionTest, LayersOfOneStepDoNotMixTheirPlans) {
  const HeadShape shape{.num_heads = 2, .num_kv_heads = 1, .head_dim = 16};
  const std::vector<TestSequence> sequences{MakeSequence(shape, 80, 10)};
  AttentionRun run(*backend_, shape, DType::kF16, sequences, 1);
  run.CallInChunks(0, 80);
  TestFloats q(*backend_, RowsOf(sequences[0].q, 79, 1, shape.q_columns()));
  const SequenceRows rows{
      .first_row = 0, .num_rows = 1, .first_position = 79, .block_table = run.table(0)};
  AttentionShape attention = shape.AttentionShapeOf();
  std::vector<std::vector<float>> together;
  std::vector<std::unique_ptr<TestFloats>> outputs;
  for (int i = 0; i < 9; ++i) outputs.push_back(std::make_unique<TestFloats>(*backend_, 32));
  const auto issue = [&](int i, size_t output) {  // layers 0 and 1, with and without a window
    attention.window = i / 2 * 20;
    backend_->Attention(q.data(), {&rows, 1}, i % 2, run.arena(), attention,
                        outputs[output]->data());
  };
  for (size_t i = 0; i < 8; ++i) issue(static_cast<int>(i % 4), i);
  for (size_t i = 0; i < 8; ++i) together.push_back(outputs[i]->Read());
  for (int i = 0; i < 4; ++i) {
    issue(i, 8);
    const std::vector<float> alone = outputs[8]->Read();
    ExpectSameBits(alone, together[static_cast<size_t>(i)], shape.head_dim);
    ExpectSameBits(alone, together[static_cast<size_t>(4 + i)], shape.head_dim);
  }
  EXPECT_NE(together[0], together[1]);
  EXPECT_NE(together[0], together[2]);
}

TEST_F(DeviceAttentionTest, WhatThereIsNoKernelForIsRefused) {
  const auto arena = backend_->AllocateKv(
      {.num_layers = 1, .num_kv_heads = 1, .head_dim = 264, .dtype = DType::kF16}, 1);
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvgate::kernels::cuda::attention
