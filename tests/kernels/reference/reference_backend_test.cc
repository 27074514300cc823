// The other backends are compared with the reference, so its own tests are small cases with results
// computed by hand.
#include "kernels/reference/reference_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

namespace kvgate::kernels::reference {
namespace {

class ReferenceBackendTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = reference::MakeReferenceBackend();
};

template <typename T>
WeightView ViewOf(DType dtype, const std::vector<T>& storage, int64_t rows, int64_t columns) {
  return {.dtype = dtype,
          .data = reinterpret_cast<const std::byte*>(storage.data()),
          .rows = rows,
          .columns = columns};
}

TEST_F(ReferenceBackendTest, SaysWhatItIs) {
  EXPECT_EQ(backend_->Info().numerics_id, "reference-1");
  EXPECT_TRUE(backend_->Info().invariant);
}

TEST_F(ReferenceBackendTest, MatMulMultipliesByTheTransposedWeight) {
  const std::vector<float> file{1, 2, 3, 4, 5, 6};  // [2, 3]
  const auto weight = std::move(*backend_->LoadWeight(ViewOf(DType::kF32, file, 2, 3)));
  const std::vector<float> x{1, 0, -1, 2, 1, 0};  // [2, 3]
  const std::vector<float> bias{10, 20};
  std::vector<float> y{100, 200, 300, 400};
  MatMulTask task{.weight = weight.get(), .y = y.data()};
  backend_->MatMul(x.data(), 2, {&task, 1});
  EXPECT_EQ(y, (std::vector<float>{-2, -2, 4, 13}));
  task.bias = bias.data();
  task.accumulate = true;
  backend_->MatMul(x.data(), 2, {&task, 1});
  EXPECT_EQ(y, (std::vector<float>{6, 16, 18, 46}));
}

TEST_F(ReferenceBackendTest, MatMulAccumulatesInDouble) {
  const std::vector<float> file{1, 1, 1};
  const auto weight = std::move(*backend_->LoadWeight(ViewOf(DType::kF32, file, 1, 3)));
  const std::vector<float> x{1e8f, 1, -1e8f};  // an f32 sum loses the 1
  float y = 0;
  const MatMulTask task{.weight = weight.get(), .y = &y};
  backend_->MatMul(x.data(), 1, {&task, 1});
  EXPECT_EQ(y, 1.0f);
}

TEST_F(ReferenceBackendTest, Q8_0ElementsAreScaleTimesQuant) {
  std::vector<QuantBlockQ8_0> file(2);
  file[0].scale = F32ToF16(0.5f);
  file[1].scale = F32ToF16(-2.0f);
  for (int i = 0; i < QuantBlockQ8_0::kElements; ++i) {
    file[0].quants[i] = static_cast<int8_t>(i - 16);
    file[1].quants[i] = -128;
  }
  std::vector<float> y(64);
  const std::vector<TokenId> ids{0};
  backend_->EmbedRows(ViewOf(DType::kQ8_0, file, 1, 64), ids, y.data());
  EXPECT_EQ(y[0], -8.0f);
  EXPECT_EQ(y[31], 7.5f);
  EXPECT_EQ(y[32], 256.0f);

  const auto weight = std::move(*backend_->LoadWeight(ViewOf(DType::kQ8_0, file, 1, 64)));
  const std::vector<float> ones(64, 1.0f);
  float sum = 0;
  const MatMulTask task{.weight = weight.get(), .y = &sum};
  backend_->MatMul(ones.data(), 1, {&task, 1});
  EXPECT_EQ(sum, 0.5f * -16 + 32 * 256.0f);
}

TEST_F(ReferenceBackendTest, HalfPrecisionRowsDequantizeByDType) {
  const std::vector<uint16_t> f16{0x3c00, 0xc000, 0x0001};   // 1, -2, the smallest subnormal
  const std::vector<uint16_t> bf16{0x3f80, 0xc000, 0x0001};  // 1, -2, the smallest subnormal
  std::vector<float> y(3);
  const std::vector<TokenId> ids{0};
  backend_->EmbedRows(ViewOf(DType::kF16, f16, 1, 3), ids, y.data());
  EXPECT_EQ(y, (std::vector<float>{1, -2, 0x1p-24f}));
  backend_->EmbedRows(ViewOf(DType::kBF16, bf16, 1, 3), ids, y.data());
  EXPECT_EQ(y, (std::vector<float>{1, -2, 0x1p-133f}));
}

TEST_F(ReferenceBackendTest, GatherRowsTakesRowsInTheOrderAsked) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const std::vector<int> rows{2, 0, 2};
  std::vector<float> y(6);
  backend_->GatherRows(x.data(), rows, 2, y.data());
  EXPECT_EQ(y, (std::vector<float>{5, 6, 1, 2, 5, 6}));
}

TEST_F(ReferenceBackendTest, RmsNormDividesByTheRootOfTheMeanSquare) {
  std::vector<float> x{3, 4, 0, 0, 0, 0, 0, 0};
  const std::vector<float> weight{1, 2, 1, 1};
  backend_->Norm(x.data(), {.weight = weight.data()}, 1, 4, x.data());
  EXPECT_FLOAT_EQ(x[0], 1.2f);  // mean square 25 / 4, its root 2.5
  EXPECT_FLOAT_EQ(x[1], 3.2f);
  EXPECT_EQ(x[2], 0.0f);
  x = {1, 1, 1, 1};
  backend_->Norm(x.data(), {.weight = weight.data(), .eps = 3.0f}, 1, 4, x.data());
  EXPECT_FLOAT_EQ(x[0], 0.5f);  // eps is inside the root
}

TEST_F(ReferenceBackendTest, LayerNormCentresAndDividesByTheDeviation) {
  std::vector<float> x{1, 3, 5, 7};  // mean 4, variance 5
  const std::vector<float> weight{1, 2, 1, 1};
  const std::vector<float> bias{0, 10, 0, -1};
  backend_->Norm(
      x.data(),
      {.kind = NormKind::kLayer, .weight = weight.data(), .bias = bias.data(), .eps = 4.0f}, 1, 4,
      x.data());
  EXPECT_FLOAT_EQ(x[0], -1.0f);  // eps is inside the root: sqrt(5 + 4) = 3
  EXPECT_FLOAT_EQ(x[1], 10 - 2.0f / 3);
  EXPECT_FLOAT_EQ(x[2], 1.0f / 3);
  EXPECT_FLOAT_EQ(x[3], 0.0f);
}

TEST_F(ReferenceBackendTest, RopeTableHoldsCosineAndSineOfTheAngle) {
  const std::vector<int> positions{0, 100000};
  const std::vector<float> inv_freq{1.0f, 0.1f};
  std::vector<float> table(8);
  backend_->RopeTable(positions, inv_freq, 1.0f, table.data());
  EXPECT_EQ(table[0], 1.0f);
  EXPECT_EQ(table[1], 0.0f);
  EXPECT_FLOAT_EQ(table[4], static_cast<float>(std::cos(100000.0)));
  EXPECT_FLOAT_EQ(table[5], static_cast<float>(std::sin(100000.0)));
  EXPECT_FLOAT_EQ(table[7], static_cast<float>(std::sin(100000.0 * 0.1f)));
  backend_->RopeTable(positions, inv_freq, 1.5f, table.data());
  EXPECT_EQ(table[0], 1.5f);
  EXPECT_FLOAT_EQ(table[7], static_cast<float>(1.5 * std::sin(100000.0 * 0.1f)));
}

TEST_F(ReferenceBackendTest, RopeTurnsThePairsOfItsKindByTheAngle) {
  // A quarter turn takes (a, b) to (-b, a). The head has 6 dimensions, 4 of them rotary, and only
  // the first pair turns.
  const std::vector<float> table{0, 1, 1, 0};
  Backend::RopeArgs args{
      .kind = RopeKind::kInterleaved, .num_heads = 1, .head_dim = 6, .rotary_dim = 4};
  std::vector<float> x{1, 2, 3, 4, 5, 6};
  backend_->Rope(x.data(), 1, args, table.data());
  EXPECT_EQ(x, (std::vector<float>{-2, 1, 3, 4, 5, 6}));
  args.kind = RopeKind::kHalves;
  x = {1, 2, 3, 4, 5, 6};
  backend_->Rope(x.data(), 1, args, table.data());
  EXPECT_EQ(x, (std::vector<float>{-3, 2, 1, 4, 5, 6}));
}

TEST_F(ReferenceBackendTest, SiluIsTheGateTimesItsSigmoidTimesUp) {
  const std::vector<float> gate{0, std::numbers::ln2_v<float>, -1e30f, 50};
  const std::vector<float> up{5, 3, 7, 2};
  std::vector<float> out(4);
  backend_->Glu(GluKind::kSilu, gate.data(), up.data(), 4, out.data());
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_FLOAT_EQ(out[1], 2 * std::numbers::ln2_v<float>);  // sigmoid(ln 2) = 2/3
  EXPECT_EQ(out[2], 0.0f);
  EXPECT_FLOAT_EQ(out[3], 100.0f);
}

TEST_F(ReferenceBackendTest, GeluIsHalfTheGateTimesOnePlusTanh) {
  const std::vector<float> gate{0, 1, -1, 40, -40};
  const std::vector<float> up{5, 3, 3, 2, 2};
  std::vector<float> out(5);
  backend_->Glu(GluKind::kGeluTanh, gate.data(), up.data(), 5, out.data());
  const double tanh_one = std::tanh(std::sqrt(2 / std::numbers::pi) * 1.044715);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_FLOAT_EQ(out[1], static_cast<float>(0.5 * (1 + tanh_one) * 3));
  EXPECT_FLOAT_EQ(out[2], static_cast<float>(-0.5 * (1 - tanh_one) * 3));
  EXPECT_FLOAT_EQ(out[3], 80.0f);
  EXPECT_EQ(out[4], 0.0f);
}

TEST_F(ReferenceBackendTest, ExactGeluWeighsByTheNormalDistribution) {
  const std::vector<float> x{0, 1, -1, 40, -40};
  const std::vector<float> up{5, 3, 3, 2, 2};
  std::vector<float> out(5);
  backend_->Glu(GluKind::kGelu, x.data(), nullptr, 5, out.data());
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_FLOAT_EQ(out[1], 0.84134475f);  // the share below one standard deviation
  EXPECT_FLOAT_EQ(out[2], -0.15865525f);
  EXPECT_EQ(out[3], 40.0f);
  EXPECT_NEAR(out[4], 0.0f, 1e-30);
  backend_->Glu(GluKind::kGelu, x.data(), up.data(), 5, out.data());
  EXPECT_FLOAT_EQ(out[1], 3 * 0.84134475f);
}

TEST_F(ReferenceBackendTest, ClampedSiluClampsGateAboveAndUpOnBothSides) {
  const float gate_of_half = std::numbers::ln2_v<float> / 1.702f;  // sigmoid(ln 2) = 2/3
  const std::vector<float> gate{gate_of_half, 7, 100, 1, -100};
  const std::vector<float> up{2, 7, 50, -50, 3};
  std::vector<float> out(5);
  backend_->Glu(GluKind::kClampedSilu, gate.data(), up.data(), 5, out.data());
  EXPECT_FLOAT_EQ(out[0], gate_of_half * 2 / 3 * 3);
  EXPECT_FLOAT_EQ(out[1], static_cast<float>(7 / (1 + std::exp(-1.702 * 7)) * 8));
  EXPECT_EQ(out[2], out[1]);
  EXPECT_FLOAT_EQ(out[3], static_cast<float>(-6 / (1 + std::exp(-1.702))));
  EXPECT_NEAR(out[4], 0.0f, 1e-30f);
}

TEST_F(ReferenceBackendTest, AddScaledAndScaleWorkInPlace) {
  const std::vector<float> x{1, 2};
  std::vector<float> y{10, 20};
  backend_->AddScaled(x.data(), -2.0f, 2, y.data());
  EXPECT_EQ(y, (std::vector<float>{8, 16}));
  backend_->Scale(0.5f, 2, y.data());
  EXPECT_EQ(y, (std::vector<float>{4, 8}));
}

TEST_F(ReferenceBackendTest, SoftCapBendsTowardsTheCap) {
  std::vector<float> x{0, 30, -30, 1e30f, -1e30f};
  backend_->SoftCap(30.0f, 5, x.data());
  const auto bent = static_cast<float>(30 * std::tanh(1.0));
  EXPECT_FLOAT_EQ(x[1], bent);
  EXPECT_FLOAT_EQ(x[2], -bent);
  EXPECT_EQ(x[0], 0.0f);
  EXPECT_EQ(x[3], 30.0f);
  EXPECT_EQ(x[4], -30.0f);
}

TEST_F(ReferenceBackendTest, ScatterAddRowsAddsEachRowTimesItsFactor) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};  // [3, 2]
  std::vector<float> y{10, 20, 30, 40};          // [2, 2]
  const std::vector<int> rows{1, 0, 1};
  const std::vector<float> factors{1, 2, -1};
  backend_->ScatterAddRows(x.data(), rows, factors, 2, y.data());
  EXPECT_EQ(y, (std::vector<float>{16, 28, 26, 36}));
}

// One KV head of dimension 1 and two query heads; a decode row and a chunk that crosses a block.
class ReferenceAttentionTest : public ReferenceBackendTest {
 protected:
  void SetUp() override {
    arena_ = std::move(*backend_->AllocateKv(
        {.num_layers = 2, .num_kv_heads = 1, .head_dim = 1, .dtype = DType::kF32}, 3));
    for (uint32_t id = 0; id < 3; ++id) backend_->PoisonKvBlock(*arena_, BlockId{id});
  }

  SequenceRows Rows(int first_position, int num_rows) const {
    return {.first_row = 0,
            .num_rows = num_rows,
            .first_position = first_position,
            .block_table = table_};
  }

  std::unique_ptr<KvArena> arena_;
  std::vector<BlockId> table_{BlockId{2}, BlockId{0}};
};

TEST_F(ReferenceAttentionTest, EachRowMixesThePositionsUpToItsOwn) {
  // With k = ln 2 * {0, 1, 2} and q = 1 the weights are 1 : 2 : 4; with q = 0 they are equal.
  const float ln2 = std::numbers::ln2_v<float>;
  const std::vector<float> k{0, ln2, 2 * ln2};
  const std::vector<float> v{7, 70, 700};
  const std::vector<float> q{1, 0, 1, 0, 1, 0};
  const SequenceRows rows = Rows(0, 3);
  std::vector<float> out(6);
  backend_->StoreKv(k.data(), v.data(), {&rows, 1}, 1, *arena_);
  backend_->Attention(q.data(), {&rows, 1}, 1, *arena_, {.num_heads = 2, .scale = 1}, out.data());
  EXPECT_FLOAT_EQ(out[0], 7.0f);
  EXPECT_FLOAT_EQ(out[1], 7.0f);
  EXPECT_FLOAT_EQ(out[2], (7.0f + 140.0f) / 3);
  EXPECT_FLOAT_EQ(out[3], 77.0f / 2);
  EXPECT_FLOAT_EQ(out[4], (7.0f + 140.0f + 2800.0f) / 7);
  EXPECT_FLOAT_EQ(out[5], 777.0f / 3);
}

TEST_F(ReferenceAttentionTest, AChunkFindsItsPositionsInTheBlockTable) {
  // v = position and all scores are equal, so the mean of 0..p is p / 2.
  std::vector<float> v(40);
  for (size_t p = 0; p < v.size(); ++p) v[p] = static_cast<float>(p);
  const std::vector<float> zeros(40, 0.0f);
  const SequenceRows first = Rows(0, 30);
  const SequenceRows second = Rows(30, 10);
  backend_->StoreKv(zeros.data(), v.data(), {&first, 1}, 0, *arena_);
  backend_->StoreKv(zeros.data(), v.data() + 30, {&second, 1}, 0, *arena_);
  std::vector<float> out(10);
  backend_->Attention(zeros.data(), {&second, 1}, 0, *arena_, {.num_heads = 1, .scale = 1},
                      out.data());
  for (int i = 0; i < 10; ++i) EXPECT_FLOAT_EQ(out[static_cast<size_t>(i)], (30 + i) / 2.0f);
}

// v = position and equal scores, so the output is the mean of the positions seen.
TEST_F(ReferenceAttentionTest, AWindowEndsAtTheRowsOwnPosition) {
  std::vector<float> v(40);
  for (size_t p = 0; p < v.size(); ++p) v[p] = static_cast<float>(p);
  const std::vector<float> zeros(40, 0.0f);
  const SequenceRows rows = Rows(0, 40);
  backend_->StoreKv(zeros.data(), v.data(), {&rows, 1}, 0, *arena_);
  std::vector<float> out(40);
  backend_->Attention(zeros.data(), {&rows, 1}, 0, *arena_,
                      {.num_heads = 1, .scale = 1, .window = 5}, out.data());
  EXPECT_FLOAT_EQ(out[0], 0.0f);
  EXPECT_FLOAT_EQ(out[3], 1.5f);
  for (size_t p = 4; p < 40; ++p) EXPECT_FLOAT_EQ(out[p], static_cast<float>(p) - 2);
}

TEST_F(ReferenceAttentionTest, ASinkTakesAShareAndGivesNothing) {
  // The two positions have weight 1 each; the sink of head 0 has weight 2, that of head 1 none.
  const std::vector<float> zeros(4, 0.0f);
  const std::vector<float> v{8, 16};
  const std::vector<float> sinks{std::numbers::ln2_v<float>, -1e4f};
  const SequenceRows rows = Rows(0, 2);
  std::vector<uint64_t> mass(2, 0);
  SequenceRows with_mass = rows;
  with_mass.block_mass = mass.data();
  backend_->StoreKv(zeros.data(), v.data(), {&rows, 1}, 0, *arena_);
  std::vector<float> out(4);
  backend_->Attention(zeros.data(), {&with_mass, 1}, 0, *arena_,
                      {.num_heads = 2, .scale = 1, .sinks = sinks.data()}, out.data());
  EXPECT_FLOAT_EQ(out[2], 24.0f / 4);
  EXPECT_FLOAT_EQ(out[3], 24.0f / 2);
  // Row 0 gives the block 1/3 in head 0 and 1 in head 1, row 1 gives 1/2 and 1.
  EXPECT_NEAR(static_cast<double>(mass[0]) / kAttentionMassOne, 1.0 / 3 + 0.5 + 2, 1e-6);
}

TEST_F(ReferenceAttentionTest, CappedScoresAreBentBeforeTheSoftmax) {
  // The scores are 0 and 4; a cap of 2 makes the second 2 tanh(2).
  const std::vector<float> k{0, 4};
  const std::vector<float> v{0, 1};
  const std::vector<float> q{1, 1};
  const SequenceRows rows = Rows(0, 2);
  backend_->StoreKv(k.data(), v.data(), {&rows, 1}, 0, *arena_);
  std::vector<float> out(2);
  backend_->Attention(q.data(), {&rows, 1}, 0, *arena_, {.num_heads = 1, .scale = 1, .softcap = 2},
                      out.data());
  EXPECT_FLOAT_EQ(out[1], static_cast<float>(1 / (1 + std::exp(-2 * std::tanh(2.0)))));
}

TEST_F(ReferenceAttentionTest, BlocksLieAsTheCpuOrderSays) {
  // Per layer and KV head, K [head_dim][32] then V [32][head_dim].
  const KvShape shape{.num_layers = 2, .num_kv_heads = 2, .head_dim = 3, .dtype = DType::kF32};
  const auto arena = std::move(*backend_->AllocateKv(shape, 1));
  std::vector<float> k(6);
  std::vector<float> v(6);
  for (size_t i = 0; i < 6; ++i) k[i] = static_cast<float>(i), v[i] = static_cast<float>(100 + i);
  const std::vector<BlockId> table{BlockId{0}};
  const SequenceRows rows{.first_row = 0, .num_rows = 1, .first_position = 5, .block_table = table};
  backend_->StoreKv(k.data(), v.data(), {&rows, 1}, 1, *arena);
  std::vector<float> block(arena->block_bytes() / sizeof(float));
  std::memcpy(block.data(), arena->block(BlockId{0}), arena->block_bytes());
  for (size_t head = 0; head < 2; ++head) {
    const size_t base = (1 * 2 + head) * 2 * 3 * 32;
    for (size_t d = 0; d < 3; ++d) {
      EXPECT_EQ(block[base + d * 32 + 5], k[head * 3 + d]);
      EXPECT_EQ(block[base + 3 * 32 + 5 * 3 + d], v[head * 3 + d]);
    }
  }
}

}  // namespace
}  // namespace kvgate::kernels::reference
