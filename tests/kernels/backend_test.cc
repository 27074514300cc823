// Tests the shape checks in front of every backend, which do not depend on the backend behind them.
#include "kernels/backend.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/experts.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

class BackendDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    arena_ = std::move(*backend_->AllocateKv(kShape, 4));
    weight_ = Load(*backend_, file_weight_);
  }

  std::vector<SequenceRows> OneSequence(int first_row, int num_rows, int first_position) const {
    return {{.first_row = first_row,
             .num_rows = num_rows,
             .first_position = first_position,
             .block_table = table_}};
  }

  static constexpr KvShape kShape{.num_layers = 2, .num_kv_heads = 2, .head_dim = 8};
  std::unique_ptr<Backend> backend_ = reference::MakeReferenceBackend();
  TestWeight file_weight_{DType::kF32, 4, 8, 1};
  TestWeight other_weight_{DType::kF32, 4, 9, 1};
  std::unique_ptr<Weight> weight_;
  std::unique_ptr<KvArena> arena_;
  std::vector<BlockId> table_{BlockId{2}, BlockId{0}};
  std::vector<float> floats_ = std::vector<float>(4096, 0.5f);
  std::vector<float> output_ = std::vector<float>(4096, 0.0f);
};

TEST_F(BackendDeathTest, LoadWeightRefusesAViewWithoutAMatrix) {
  WeightView view = file_weight_.view();
  view.data = nullptr;
  EXPECT_DEATH((void)backend_->LoadWeight(view), "weight view");
  view = file_weight_.view();
  view.rows = 0;
  EXPECT_DEATH((void)backend_->LoadWeight(view), "weight view");
  view = file_weight_.view();
  view.dtype = DType::kQ8_0;  // 8 columns are part of a quant block
  EXPECT_DEATH((void)backend_->LoadWeight(view), "weight columns");
}

TEST_F(BackendDeathTest, LoadWeightRefusesADTypeOfKvOnly) {
  WeightView view = file_weight_.view();
  view.dtype = DType::kF8E4M3;
  const auto refused = backend_->LoadWeight(view);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().detail.find("fp8_e4m3"), std::string::npos);
  EXPECT_DEATH((void)backend_->LoadTable(view), "is a weight");
}

TEST_F(BackendDeathTest, AllocateKvRefusesADTypeOfWeightsOnly) {
  KvShape shape = kShape;
  shape.dtype = DType::kQ4_K;
  const auto refused = backend_->AllocateKv(shape, 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().field, "kv_dtype");
  EXPECT_NE(refused.error().detail.find("f32, f16, bf16, fp8_e4m3, q8_0, q4_0"), std::string::npos);
}

TEST_F(BackendDeathTest, AllocateKvRefusesAnEmptyShape) {
  EXPECT_DEATH((void)backend_->AllocateKv({.num_layers = 0, .num_kv_heads = 1, .head_dim = 8}, 1),
               "KV shape");
  EXPECT_DEATH((void)backend_->AllocateKv(kShape, 0), "without blocks");
}

// The shape comes from a model and the dtype from a user, so this is an error that names its field
// and not a broken invariant.
TEST_F(BackendDeathTest, AQuantizedKvDTypeNeedsWholeGroupsInAHead) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0}) {
    KvShape quantized = kShape;
    quantized.dtype = dtype;
    const auto refused = backend_->AllocateKv(quantized, 1);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().field, "kv_dtype");
    EXPECT_NE(refused.error().detail.find("head_dim is 8"), std::string::npos);
    quantized.head_dim = 96;
    EXPECT_TRUE(backend_->AllocateKv(quantized, 1).has_value());
  }
}

TEST(KvShapeTest, ABlockHasNoPadding) {
  const auto bytes_of = [](DType dtype) {
    return KvShape{.num_layers = 3, .num_kv_heads = 2, .head_dim = 64, .dtype = dtype}
        .block_bytes();
  };
  constexpr size_t kValues = size_t{3} * 2 * 2 * 64 * kKvBlockTokens;
  EXPECT_EQ(bytes_of(DType::kF32), kValues * 4);
  EXPECT_EQ(bytes_of(DType::kF16), kValues * 2);
  EXPECT_EQ(bytes_of(DType::kF8E4M3), kValues);
  EXPECT_EQ(bytes_of(DType::kQ8_0), kValues / 32 * 34);
  EXPECT_EQ(bytes_of(DType::kQ4_0), kValues / 32 * 18);
}

TEST_F(BackendDeathTest, BlockOperationsRefuseStrangersAndWrongSizes) {
  std::vector<std::byte> bytes(arena_->block_bytes());
  EXPECT_DEATH(backend_->ReadKvBlock(*arena_, BlockId{4}, bytes), "past the arena");
  EXPECT_DEATH(backend_->WriteKvBlock(*arena_, BlockId{4}, bytes), "past the arena");
  EXPECT_DEATH(backend_->PoisonKvBlock(*arena_, BlockId{4}), "past the arena");
  EXPECT_DEATH(backend_->CopyKvBlock(*arena_, BlockId{0}, BlockId{4}, 1), "past the arena");
  bytes.pop_back();
  EXPECT_DEATH(backend_->ReadKvBlock(*arena_, BlockId{0}, bytes), "KV block size");
  EXPECT_DEATH(backend_->WriteKvBlock(*arena_, BlockId{0}, bytes), "KV block size");
}

TEST_F(BackendDeathTest, CopyKvBlockRefusesItselfAndMoreTokensThanABlockHas) {
  EXPECT_DEATH(backend_->CopyKvBlock(*arena_, BlockId{1}, BlockId{1}, 1), "onto itself");
  EXPECT_DEATH(backend_->CopyKvBlock(*arena_, BlockId{1}, BlockId{2}, kKvBlockTokens + 1),
               "tokens of a KV block");
  EXPECT_DEATH(backend_->CopyKvBlock(*arena_, BlockId{1}, BlockId{2}, -1), "tokens of a KV block");
}

TEST_F(BackendDeathTest, RowOperationsRefuseRowsThatAreNotThere) {
  const WeightView view = file_weight_.view();
  const std::vector<TokenId> past{4};
  const std::vector<TokenId> before{-1};
  EXPECT_DEATH(backend_->EmbedRows(view, past, output_.data()), "embedding row");
  EXPECT_DEATH(backend_->EmbedRows(view, before, output_.data()), "embedding row");
  const std::vector<int> rows{0};
  EXPECT_DEATH(backend_->GatherRows(floats_.data(), rows, 0, output_.data()), "columns");
  NormArgs norm = {.weight = floats_.data()};
  EXPECT_DEATH(backend_->Norm(floats_.data(), norm, 0, 8, output_.data()), "empty norm");
  norm.kind = NormKind::kLayer;
  EXPECT_DEATH(backend_->Norm(floats_.data(), norm, 1, 8, output_.data()), "weights of a norm");
  EXPECT_DEATH(backend_->Glu(GluKind::kSilu, floats_.data(), nullptr, 8, output_.data()),
               "without a gate");
}

TEST_F(BackendDeathTest, MatMulRefusesMissingAndMismatchedOperands) {
  const auto other = Load(*backend_, other_weight_);
  const std::vector<MatMulTask> none;
  const std::vector<MatMulTask> no_weight{{.weight = nullptr, .y = output_.data()}};
  const std::vector<MatMulTask> no_output{{.weight = weight_.get(), .y = nullptr}};
  const std::vector<MatMulTask> one{{.weight = weight_.get(), .y = output_.data()}};
  const std::vector<MatMulTask> mixed{{.weight = weight_.get(), .y = output_.data()},
                                      {.weight = other.get(), .y = output_.data() + 64}};
  EXPECT_DEATH(backend_->MatMul(floats_.data(), 1, none), "empty product");
  EXPECT_DEATH(backend_->MatMul(floats_.data(), 0, one), "empty product");
  EXPECT_DEATH(backend_->MatMul(floats_.data(), 1, no_weight), "without weight");
  EXPECT_DEATH(backend_->MatMul(floats_.data(), 1, no_output), "without weight");
  EXPECT_DEATH(backend_->MatMul(floats_.data(), 1, mixed), "one x");
}

TEST_F(BackendDeathTest, RopeRefusesARotaryDimensionThatIsNoPairCount) {
  for (const int rotary_dim : {0, 3, 10}) {
    const Backend::RopeArgs args{
        .kind = RopeKind::kHalves, .num_heads = 1, .head_dim = 8, .rotary_dim = rotary_dim};
    EXPECT_DEATH(backend_->Rope(output_.data(), 1, args, floats_.data()), "rotary dimension");
  }
}

TEST_F(BackendDeathTest, SequencesMustCoverRowsInOrderAndHaveBlocks) {
  const auto store = [this](const std::vector<SequenceRows>& sequences, int layer) {
    backend_->StoreKv(floats_.data(), floats_.data(), sequences, layer, *arena_);
  };
  EXPECT_DEATH(store(OneSequence(1, 1, 0), 0), "sequence rows");
  EXPECT_DEATH(store(OneSequence(0, 0, 0), 0), "sequence rows");
  EXPECT_DEATH(store(OneSequence(0, 1, -1), 0), "sequence position");
  EXPECT_DEATH(store(OneSequence(0, 2, 63), 0), "block table too short");
  std::vector<SequenceRows> cut = OneSequence(0, 1, 0);
  for (const int num_dropped_tokens : {-32, 33}) {
    cut[0].num_dropped_tokens = num_dropped_tokens;
    EXPECT_DEATH(store(cut, 0), "dropped tokens are whole blocks");
  }
  EXPECT_DEATH(store(OneSequence(0, 1, 0), 2), "layer");
  EXPECT_DEATH(store(OneSequence(0, 1, 0), -1), "layer");
}

TEST_F(BackendDeathTest, AttentionRefusesHeadsThatDoNotShareKvHeadsEvenly) {
  const auto attend = [this](int num_heads, int layer) {
    backend_->Attention(floats_.data(), OneSequence(0, 1, 0), layer, *arena_,
                        {.num_heads = num_heads, .scale = 1}, output_.data());
  };
  EXPECT_DEATH(attend(3, 0), "multiple of KV heads");
  EXPECT_DEATH(attend(0, 0), "multiple of KV heads");
  EXPECT_DEATH(attend(2, 2), "layer");
}

TEST_F(BackendDeathTest, AttentionRefusesANegativeWindowAndSoftcap) {
  const auto attend = [this](const AttentionShape& shape) {
    backend_->Attention(floats_.data(), OneSequence(0, 1, 0), 0, *arena_, shape, output_.data());
  };
  EXPECT_DEATH(attend({.num_heads = 2, .scale = 1, .window = -1}), "window");
  EXPECT_DEATH(attend({.num_heads = 2, .scale = 1, .softcap = -1.0f}), "softcap");
}

TEST_F(BackendDeathTest, SoftCapRefusesACapThatIsNotAboveZero) {
  EXPECT_DEATH(backend_->SoftCap(0, 4, output_.data()), "softcap");
}

TEST_F(BackendDeathTest, ScatterAddRowsTakesOneFactorPerRow) {
  const std::vector<int> rows{0, 1};
  const std::vector<int> before{0, -1};
  const std::vector<float> factors{1, 1};
  const auto scatter = [this](std::span<const int> to, std::span<const float> by, int64_t columns) {
    backend_->ScatterAddRows(floats_.data(), to, by, columns, output_.data());
  };
  EXPECT_DEATH(scatter(rows, std::span(factors).first(1), 8), "one factor per row");
  EXPECT_DEATH(scatter(before, factors, 8), "scattered row");
  EXPECT_DEATH(scatter(rows, factors, 0), "columns");
}

TEST_F(BackendDeathTest, TopKTakesSoManyValuesOfRowsWithAScaleEach) {
  std::vector<TokenId> ids(512);
  const auto top = [&](int64_t columns, int count, const std::vector<float>& scales) {
    backend_->TopK(
        {.x = floats_.data(), .num_rows = 1, .columns = columns, .count = count, .scales = scales},
        {.ids = ids.data(),
         .values = output_.data(),
         .exp_sums = output_.data(),
         .scaled_exp_sums = output_.data()});
  };
  EXPECT_DEATH(top(0, 1, {1}), "columns");
  EXPECT_DEATH(top(kTopColumnsMax + 1, 1, {1}), "columns");
  EXPECT_DEATH(top(8, 0, {1}), "values of a row");
  EXPECT_DEATH(top(8, kTopCountMax + 1, {1}), "values of a row");
  EXPECT_DEATH(top(8, 1, {1, 1}), "one scale per row");
  EXPECT_DEATH(top(8, 1, {0}), "scale");
  EXPECT_DEATH(top(8, 1, {std::numeric_limits<float>::infinity()}), "scale");
}

TEST_F(BackendDeathTest, LoadExpertsRefusesMatricesThatDoNotFit) {
  const TestWeight file_down(DType::kF32, 8, 4, 2);
  const auto down = Load(*backend_, file_down);
  const auto other = Load(*backend_, other_weight_);
  std::vector<ExpertMatrices> experts(
      4, {.gate = weight_.get(), .up = weight_.get(), .down = down.get()});
  const ExpertSetView whole = {
      .rule = {.num_experts = 4, .num_used = 2}, .router = weight_.get(), .experts = experts};
  EXPECT_TRUE(backend_->LoadExperts(whole).has_value());
  ExpertSetView view = whole;
  view.rule.num_used = 5;
  EXPECT_DEATH((void)backend_->LoadExperts(view), "experts used");
  view = whole;
  view.experts = std::span(experts).first(3);
  EXPECT_DEATH((void)backend_->LoadExperts(view), "experts of the rule");
  view = whole;
  view.router = down.get();
  EXPECT_DEATH((void)backend_->LoadExperts(view), "router");
  view = whole;
  view.shared_router = weight_.get();
  EXPECT_DEATH((void)backend_->LoadExperts(view), "gate of the shared expert");
  experts[2].up = other.get();
  EXPECT_DEATH((void)backend_->LoadExperts(whole), "expert shapes");
}

TEST_F(BackendDeathTest, MixExpertsRefusesScratchThatIsNotForIt) {
  const TestWeight file_down(DType::kF32, 8, 4, 2);
  const auto down = Load(*backend_, file_down);
  const std::vector<ExpertMatrices> experts(
      4, {.gate = weight_.get(), .up = weight_.get(), .down = down.get()});
  const auto set = *backend_->LoadExperts(
      {.rule = {.num_experts = 4, .num_used = 2}, .router = weight_.get(), .experts = experts});
  const ExpertShape shape = {.num_experts = 4, .num_used = 2, .hidden_dim = 8, .ffn_dim = 4};
  const auto scratch = *backend_->AllocateExpertScratch(shape, 3);
  ExpertMixTask task = {.experts = set.get(),
                        .scratch = scratch.get(),
                        .x = floats_.data(),
                        .num_rows = 3,
                        .y = output_.data()};
  backend_->MixExperts(task);
  task.num_rows = 4;
  EXPECT_DEATH(backend_->MixExperts(task), "rows of a mixture");
  const auto other = *backend_->AllocateExpertScratch(
      {.num_experts = 4, .num_used = 3, .hidden_dim = 8, .ffn_dim = 4}, 3);
  task = {.experts = set.get(),
          .scratch = other.get(),
          .x = floats_.data(),
          .num_rows = 3,
          .y = output_.data()};
  EXPECT_DEATH(backend_->MixExperts(task), "another shape");
  EXPECT_DEATH((void)backend_->AllocateExpertScratch({}, 1), "shape of a mixture");
}

}  // namespace
}  // namespace kvgate::kernels
