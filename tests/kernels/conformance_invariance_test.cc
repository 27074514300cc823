// The promise of an invariant backend: the bits of a row depend on that row's inputs alone. Rows
// are computed alone, in batches of every size, at every place, beside rows of NaN, with one thread
// and with two; sequences token by token, in chunks and batched with others.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/kernels/test_attention.h"
#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

class Invariance : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (!backend_->Info().invariant) GTEST_SKIP() << "this backend does not claim invariance";
    if (GetParam().make_twin != nullptr) twin_ = GetParam().make_twin();
  }

  // The backend, and its twin of another thread count where there is one.
  std::vector<Backend*> Backends() const {
    std::vector<Backend*> backends{backend_.get()};
    if (twin_ != nullptr) backends.push_back(twin_.get());
    return backends;
  }

  std::unique_ptr<Backend> twin_;
};

TEST_P(Invariance, BackendsOfOneNumericsIdShareIt) {
  EXPECT_FALSE(backend_->Info().numerics_id.empty());
  EXPECT_EQ(backend_->Info().numerics_id == reference_->Info().numerics_id,
            backend_->Info().name == "reference");
  if (twin_ == nullptr) GTEST_SKIP() << "no twin";
  EXPECT_EQ(backend_->Info().numerics_id, twin_->Info().numerics_id);
  EXPECT_NE(backend_->Info().num_threads, twin_->Info().num_threads);
}

// --- products -----------------------------------------------------------------------------------

constexpr int kRowCounts[] = {1, 2, 3, 5, 7, 8, 31, 32, 33, 64, 100, 512};
constexpr int kRowsMax = 512;

// A run of rows out of the 512, and where it starts.
struct Window {
  int first_row;
  int num_rows;
};

std::vector<Window> Windows() {
  std::vector<Window> windows;
  for (const int num_rows : kRowCounts) {
    for (const int first_row : {0, 1, 6, 37, 250, kRowsMax - num_rows}) {
      if (first_row + num_rows <= kRowsMax) windows.push_back({first_row, num_rows});
    }
  }
  return windows;
}

// One weight on one backend, with bias and old output, so that those are covered too.
class ProductRun {
 public:
  ProductRun(Backend& backend, const TestWeight& weight)
      : backend_(backend),
        weight_(Load(backend, weight)),
        bias_(backend, NormalValues(static_cast<size_t>(weight_->rows()), 101)) {}

  std::vector<float> Run(std::span<const float> x) {
    const auto num_rows = static_cast<int64_t>(x.size()) / weight_->columns();
    TestFloats device_x(backend_, x);
    TestFloats y(backend_,
                 std::vector<float>(static_cast<size_t>(num_rows * weight_->rows()), 0.25f));
    const MatMulTask task{
        .weight = weight_.get(), .bias = bias_.data(), .y = y.data(), .accumulate = true};
    backend_.MatMul(device_x.data(), static_cast<int>(num_rows), {&task, 1});
    return y.Read();
  }

 private:
  Backend& backend_;
  std::unique_ptr<Weight> weight_;
  TestFloats bias_;
};

struct MatrixShape {
  int64_t n;
  int64_t k;
};
constexpr MatrixShape kShapes[] = {{1, 32}, {17, 288}, {65, 320}, {130, 512}};

TEST_P(Invariance, AMatMulRowHasTheSameBitsInEveryBatch) {
  for (const DType dtype : kWeightDTypes) {
    for (MatrixShape shape : kShapes) {
      if (DTypeElements(dtype) == 256 && shape.n != 65) continue;
      if (DTypeElements(dtype) == 256) shape.k = 768;
      const TestWeight weight(dtype, shape.n, shape.k, 102);
      const std::vector<float> x = HostileRows(kRowsMax, shape.k, 103);
      const std::vector<float> want = ProductRun(*backend_, weight).Run(x);
      for (Backend* backend : Backends()) {
        ProductRun product(*backend, weight);
        for (const Window& window : Windows()) {
          SCOPED_TRACE(testing::Message() << "MatMul " << DTypeName(dtype) << " N " << shape.n
                                          << " K " << shape.k << " rows " << window.first_row
                                          << " to " << window.first_row + window.num_rows
                                          << " threads " << backend->Info().num_threads);
          const std::vector<float> got =
              product.Run(RowsOf(x, window.first_row, window.num_rows, shape.k));
          ExpectSameBits(RowsOf(want, window.first_row, window.num_rows, shape.n), got, shape.n);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Invariance, AMatMulRowOfCodesHasTheSameBitsInEveryBatchSize) {
  for (const DType dtype : kWeightDTypes) {
    if (!HasQuantLayout(dtype)) continue;
    const int64_t k = 768;
    const TestWeight weight(dtype, 40, k, 107);
    const std::vector<float> x = HostileRows(70, k, 108);
    ProductRun product(*backend_, weight);
    const std::vector<float> want = product.Run(x);
    for (int num_rows = 1; num_rows < 70; ++num_rows) {
      SCOPED_TRACE(testing::Message() << "MatMul " << DTypeName(dtype) << " rows " << num_rows);
      const int first = 70 - num_rows;
      ExpectSameBits(RowsOf(want, first, num_rows, 40), product.Run(RowsOf(x, first, num_rows, k)),
                     40);
      if (HasFatalFailure()) return;
    }
  }
}

// K that is no multiple of any vector width: the tail must be summed in the same order too.
TEST_P(Invariance, AMatMulRowOfOddWidthHasTheSameBitsInEveryBatch) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const MatrixShape& shape : {MatrixShape{31, 257}, MatrixShape{16, 1055}}) {
      const TestWeight weight(dtype, shape.n, shape.k, 104);
      const std::vector<float> x = HostileRows(100, shape.k, 105);
      ProductRun product(*backend_, weight);
      const std::vector<float> want = product.Run(x);
      for (const int num_rows : {1, 2, 3, 5, 8, 33}) {
        for (int row = 0; row + num_rows <= 100; row += num_rows) {
          SCOPED_TRACE(testing::Message()
                       << "MatMul " << DTypeName(dtype) << " N " << shape.n << " K " << shape.k
                       << " rows " << row << " to " << row + num_rows);
          ExpectSameBits(RowsOf(want, row, num_rows, shape.n),
                         product.Run(RowsOf(x, row, num_rows, shape.k)), shape.n);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Invariance, AMatMulRowDoesNotFeelItsNeighbours) {
  const int64_t n = 33;
  for (const DType dtype : kWeightDTypes) {
    const int64_t k = DTypeElements(dtype) == 256 ? 256 : 96;
    const TestWeight weight(dtype, n, k, 106);
    const std::vector<float> row = HostileValues(static_cast<size_t>(k), 107);
    ProductRun product(*backend_, weight);
    const std::vector<float> want = product.Run(row);
    for (const float other :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f}) {
      for (const int num_rows : {2, 5, 8, 33}) {
        for (const int place : {0, num_rows / 2, num_rows - 1}) {
          SCOPED_TRACE(testing::Message() << "MatMul " << DTypeName(dtype) << " row " << place
                                          << " of " << num_rows << " beside rows of " << other);
          std::vector<float> x(static_cast<size_t>(num_rows * k), other);
          std::copy(row.begin(), row.end(), x.begin() + place * k);
          const std::vector<float> got = product.Run(x);
          ExpectSameBits(want, RowsOf(got, place, 1, n), n);
        }
      }
    }
  }
}

TEST_P(Invariance, AMatMulTaskDoesNotFeelTheOthers) {
  const int64_t k = 288;
  const TestWeight weights[] = {TestWeight(DType::kQ8_0, 70, k, 111),
                                TestWeight(DType::kF32, 9, k, 112),
                                TestWeight(DType::kF16, 130, k, 113)};
  for (const int m : {1, 4, 65}) {
    const std::vector<float> x = HostileRows(m, k, 114);
    TestFloats device_x(*backend_, x);
    std::vector<std::unique_ptr<Weight>> loaded;
    std::vector<std::unique_ptr<TestFloats>> together;
    std::vector<MatMulTask> tasks;
    for (const TestWeight& weight : weights) {
      loaded.push_back(Load(*backend_, weight));
      const size_t count = static_cast<size_t>(m * loaded.back()->rows());
      together.push_back(std::make_unique<TestFloats>(*backend_, count));
      tasks.push_back({.weight = loaded.back().get(), .y = together.back()->data()});
    }
    backend_->MatMul(device_x.data(), m, tasks);
    for (size_t i = 0; i < tasks.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "MatMul task " << i << " M " << m);
      const int64_t n = loaded[i]->rows();
      TestFloats alone(*backend_, static_cast<size_t>(m * n));
      const MatMulTask task{.weight = loaded[i].get(), .y = alone.data()};
      backend_->MatMul(device_x.data(), m, {&task, 1});
      ExpectSameBits(alone.Read(), together[i]->Read(), n);
    }
  }
}

// --- rows ---------------------------------------------------------------------------------------

// Widths that move a row's elements to other vector lanes than they have when the row is alone.
constexpr int64_t kWidths[] = {3, 17, 64, 301};
constexpr int kNumRows = 33;

TEST_P(Invariance, ARmsNormRowHasTheSameBitsAlone) {
  for (const int64_t columns : kWidths) {
    const std::vector<float> x = HostileRows(kNumRows, columns, 121, 1e14f);
    const std::vector<float> weight = NormalValues(static_cast<size_t>(columns), 122);
    std::vector<float> want;
    for (Backend* backend : Backends()) {
      SCOPED_TRACE(testing::Message()
                   << "RmsNorm columns " << columns << " threads " << backend->Info().num_threads);
      TestFloats device_x(*backend, x);
      TestFloats device_weight(*backend, weight);
      TestFloats all(*backend, x.size());
      backend->RmsNorm(device_x.data(), device_weight.data(), 1e-5f, kNumRows, columns, all.data());
      if (want.empty()) want = all.Read();
      ExpectSameBits(want, all.Read(), columns);
      for (int row = 0; row < kNumRows; ++row) {
        TestFloats one(*backend, RowsOf(x, row, 1, columns));
        backend->RmsNorm(one.data(), device_weight.data(), 1e-5f, 1, columns, one.data());
        ExpectSameBits(RowsOf(want, row, 1, columns), one.Read(), columns);
      }
    }
  }
}

TEST_P(Invariance, ASwiGluRowHasTheSameBitsAlone) {
  for (const int64_t columns : kWidths) {
    std::vector<float> gate = HostileRows(kNumRows, columns, 123);
    for (size_t i = 0; i < gate.size(); i += 5) gate[i] *= 30;  // the tails of the sigmoid
    const std::vector<float> up = HostileValues(gate.size(), 124);
    std::vector<float> want;
    for (Backend* backend : Backends()) {
      SCOPED_TRACE(testing::Message()
                   << "SwiGlu columns " << columns << " threads " << backend->Info().num_threads);
      TestFloats device_gate(*backend, gate);
      TestFloats device_up(*backend, up);
      TestFloats all(*backend, gate.size());
      backend->SwiGlu(device_gate.data(), device_up.data(), gate.size(), all.data());
      if (want.empty()) want = all.Read();
      ExpectSameBits(want, all.Read(), columns);
      for (int row = 0; row < kNumRows; ++row) {
        TestFloats one_gate(*backend, RowsOf(gate, row, 1, columns));
        TestFloats one_up(*backend, RowsOf(up, row, 1, columns));
        backend->SwiGlu(one_gate.data(), one_up.data(), static_cast<size_t>(columns),
                        one_gate.data());
        ExpectSameBits(RowsOf(want, row, 1, columns), one_gate.Read(), columns);
      }
    }
  }
}

// The table and the rotation, rows at their positions in one call and each in its own.
TEST_P(Invariance, ARopeRowHasTheSameBitsAlone) {
  for (const RopeKind kind : {RopeKind::kInterleaved, RopeKind::kHalves}) {
    for (const int rotary_dim : {80, 64, 6}) {
      const Backend::RopeArgs args{
          .kind = kind, .num_heads = 3, .head_dim = 80, .rotary_dim = rotary_dim};
      const int64_t columns = static_cast<int64_t>(args.num_heads) * args.head_dim;
      const auto half = static_cast<size_t>(rotary_dim / 2);
      std::vector<float> inv_freq(half);
      for (size_t i = 0; i < half; ++i) {
        inv_freq[i] = static_cast<float>(std::pow(1e4, -static_cast<double>(i) / half));
      }
      std::vector<int> positions(kNumRows);
      for (int row = 0; row < kNumRows; ++row) positions[static_cast<size_t>(row)] = row * 977;
      const std::vector<float> x = HostileRows(kNumRows, columns, 125);
      std::vector<float> want;
      for (Backend* backend : Backends()) {
        SCOPED_TRACE(testing::Message()
                     << "Rope kind " << static_cast<int>(kind) << " rotary_dim " << rotary_dim
                     << " threads " << backend->Info().num_threads);
        TestFloats all(*backend, x);
        TestFloats table(*backend, positions.size() * half * 2);
        backend->RopeTable(positions, inv_freq, table.data());
        backend->Rope(all.data(), kNumRows, args, table.data());
        if (want.empty()) want = all.Read();
        ExpectSameBits(want, all.Read(), columns);
        for (int row = 0; row < kNumRows; ++row) {
          TestFloats one(*backend, RowsOf(x, row, 1, columns));
          TestFloats one_table(*backend, half * 2);
          backend->RopeTable({&positions[static_cast<size_t>(row)], 1}, inv_freq, one_table.data());
          backend->Rope(one.data(), 1, args, one_table.data());
          ExpectSameBits(RowsOf(want, row, 1, columns), one.Read(), columns);
        }
      }
    }
  }
}

// --- attention ----------------------------------------------------------------------------------

class AttentionInvariance : public Invariance {
 protected:
  // Every way to compute a sequence of `length` gives the bits of one call: outputs and KV blocks.
  void ExpectSameHoweverCut(const HeadShape& shape, DType dtype, int length) {
    std::vector<TestSequence> sequences;
    for (const int n : {length, 40, 1, 97, 33, 7, 64}) {
      sequences.push_back(MakeSequence(shape, n, 130 + sequences.size(), 2.0f));
    }
    AttentionRun whole(*backend_, shape, dtype, sequences, 1);
    whole.CallInChunks(0, length);
    const std::vector<std::byte> want_kv = whole.KvBytes(0);
    for (Backend* backend : Backends()) {
      for (const int chunk : {1, 7, 32, 33, 100, 512}) {
        SCOPED_TRACE(testing::Message() << Describe(shape, dtype, *backend) << " length " << length
                                        << " in chunks of " << chunk);
        AttentionRun cut(*backend, shape, dtype, sequences, 2);
        cut.CallInChunks(0, chunk);
        ExpectSameBits(whole.output(0), cut.output(0), shape.head_dim);
        EXPECT_TRUE(want_kv == cut.KvBytes(0)) << "the KV blocks differ";
        if (HasFailure()) return;
      }
      SCOPED_TRACE(testing::Message()
                   << Describe(shape, dtype, *backend) << " length " << length << " batched");
      AttentionRun batched(*backend, shape, dtype, sequences, 3);
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

  // Sequence 0 in chunks of 29, in every call among pieces of the others: some before, some after.
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

// Masses are sums over rows and heads of integers: how a sequence was cut does not show.
TEST_P(AttentionInvariance, BlockMassesAreTheSameHoweverTheSequenceIsCut) {
  const HeadShape shape{.num_heads = 7, .num_kv_heads = 1, .head_dim = 64};
  std::vector<TestSequence> sequences;
  for (const int n : {150, 40, 97}) {
    sequences.push_back(MakeSequence(shape, n, 150 + sequences.size(), 2.0f));
  }
  AttentionRun whole(*backend_, shape, DType::kF16, sequences, 1);
  whole.AskForMass(0);
  whole.CallInChunks(0, 150);
  const std::vector<uint64_t> want(whole.mass(0).begin(), whole.mass(0).end());
  for (Backend* backend : Backends()) {
    for (const int chunk : {1, 7, 33, 100}) {
      AttentionRun cut(*backend, shape, DType::kF16, sequences, 2);
      cut.AskForMass(0);
      cut.CallInChunks(0, chunk);
      EXPECT_TRUE(std::ranges::equal(want, cut.mass(0))) << "chunks of " << chunk;
    }
    AttentionRun batched(*backend, shape, DType::kF16, sequences, 3);
    batched.AskForMass(0);
    CallBatched(batched, sequences);
    EXPECT_TRUE(std::ranges::equal(want, batched.mass(0))) << "batched";
  }
}

// Blocks that went through host memory and came back to other ids are the same to a reader.
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

KVGATE_RUN_ON_ALL_BACKENDS(Invariance);
KVGATE_RUN_ON_ALL_BACKENDS(AttentionInvariance);

}  // namespace
}  // namespace kvgate::kernels
