// DeviceAttention on the emulator: close to the reference, and the same bits however a sequence is
// cut. The conformance suite has more shapes; these are the ones that its parts differ in.
#include "kernels/cuda/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/cuda/attention_backend.h"
#include "tests/kernels/test_attention.h"

namespace kvgate::kernels::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A prompt, a fresh token, decode rows, a chunk that crosses a block's end, a long chunk.
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
    SCOPED_TRACE(testing::Message() << "heads " << shape.num_heads << "/" << shape.num_kv_heads
                                    << " head_dim " << shape.head_dim << " KV " << DTypeName(dtype)
                                    << " window " << variant.window << " softcap "
                                    << variant.softcap << " sinks " << variant.has_sinks);
    std::vector<TestSequence> sequences;
    for (const int length : kLengths) {
      sequences.push_back(MakeSequence(shape, length, 70 + sequences.size(), q_scale));
    }
    std::vector<TestSequence> magnitudes = sequences;
    for (TestSequence& sequence : magnitudes) {
      for (float& value : sequence.v) value = std::abs(value);
    }
    AttentionRun want(*reference_, shape, dtype, sequences, 1);
    AttentionRun terms(*reference_, shape, dtype, magnitudes, 1);
    AttentionRun got(*backend_, shape, dtype, sequences, 2);
    for (AttentionRun* run : {&want, &terms, &got}) {
      variant.ApplyTo(*run, shape.num_heads);
      for (const auto& call : kCalls) run->Call(call);
    }
    const double bound = dtype == DType::kF32 ? 1e-5 : 5e-4;
    for (size_t s = 0; s < sequences.size(); ++s) {
      SCOPED_TRACE(testing::Message() << "sequence " << s);
      ExpectRowsClose(want.output(s), got.output(s), shape.head_dim, bound,
                      RowNorms(terms.output(s), shape.head_dim));
    }
  }

  // A row is the difference of terms that may be many times larger: what a weight's rounding shows
  // in.
  static std::vector<double> RowNorms(std::span<const float> rows, int columns) {
    std::vector<double> norms;
    const auto width = static_cast<size_t>(columns);
    for (size_t i = 0; i < rows.size(); i += width) norms.push_back(Norm(rows.subspan(i, width)));
    return norms;
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
      int mate = 0;  // positions of the other sequence that are done
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
  for (const HeadShape& shape :
       {HeadShape{2, 2, 5}, HeadShape{3, 1, 8}, HeadShape{20, 1, 16}, HeadShape{2, 2, 80},
        HeadShape{4, 1, 128}, HeadShape{1, 1, 256}}) {
    ExpectClose(shape, DType::kF16);
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
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0}) {
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

}  // namespace
}  // namespace kvgate::kernels::cuda
