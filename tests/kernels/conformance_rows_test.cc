// Operations of every backend that work row by row or element by element, against the reference:
// embedding, gather, scatter, norm, rotary embedding, gated units, sums, factors and soft caps.
#include <gtest/gtest.h>

#include <algorithm>

#include <limits>
#include <vector>

#include "tests/kernels/test_backends.h"
#include "tests/kernels/test_tensors.h"

namespace kvgate::kernels {
namespace {

class RowsConformance : public BackendTest {};

TEST_P(RowsConformance, FloatsStartAtZeroAndCopyBothWays) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{1000}}) {
    auto buffer = std::move(*backend_->AllocateFloats(count));
    EXPECT_EQ(buffer->size(), count);
    std::vector<float> got(count, 1.0f);
    backend_->CopyOut(buffer->data(), got);
    EXPECT_EQ(got, std::vector<float>(count, 0.0f));
    const std::vector<float> values = HostileValues(count, 3);
    backend_->CopyIn(values, buffer->data());
    backend_->CopyOut(buffer->data(), got);
    ExpectSameBits(values, got, static_cast<int64_t>(count));
  }
}

TEST_P(RowsConformance, EmbedRowsDequantizesExactly) {
  for (const DType dtype : kWeightDTypes) {
    // The widths are whole blocks: of 256 in the K formats, else of 32.
    const int64_t unit = std::max(32, DTypeElements(dtype));
    for (const int64_t columns : {unit, 3 * unit, 33 * unit}) {
      SCOPED_TRACE(testing::Message() << "EmbedRows " << DTypeName(dtype) << " K " << columns);
      const TestWeight table(dtype, 50, columns, 5);
      const std::vector<TokenId> ids{0, 49, 7, 7, 1, 0};
      const size_t count = ids.size() * static_cast<size_t>(columns);
      std::vector<float> want(count);
      reference_->EmbedRows(table.view(), ids, want.data());
      TestFloats y(*backend_, count);
      backend_->EmbedRows(table.view(), ids, y.data());
      ExpectSameBits(want, y.Read(), columns);
    }
  }
}

// One table is loaded, so the backend may have copied it; the other has its shape but is not
// loaded.
TEST_P(RowsConformance, EmbedRowsOfALoadedTableHasTheSameBits) {
  for (const DType dtype : kWeightDTypes) {
    SCOPED_TRACE(testing::Message() << "EmbedRows " << DTypeName(dtype) << " loaded");
    const int64_t columns = 3 * std::max(32, DTypeElements(dtype));
    const TestWeight loaded(dtype, 50, columns, 7);
    const TestWeight other(dtype, 50, columns, 8);
    ASSERT_TRUE(backend_->LoadTable(loaded.view()).has_value());
    ASSERT_TRUE(backend_->LoadTable(loaded.view()).has_value());  // a second load has no effect
    for (const TestWeight* table : {&loaded, &other}) {
      const std::vector<TokenId> ids{49, 0, 7};
      std::vector<float> want(ids.size() * static_cast<size_t>(columns));
      reference_->EmbedRows(table->view(), ids, want.data());
      TestFloats y(*backend_, want.size());
      backend_->EmbedRows(table->view(), ids, y.data());
      ExpectSameBits(want, y.Read(), columns);
    }
  }
}

TEST_P(RowsConformance, EmbedRowsTakesARowOfAnyWidth) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t columns : {1, 3, 17, 255}) {
      SCOPED_TRACE(testing::Message() << "EmbedRows " << DTypeName(dtype) << " K " << columns);
      const TestWeight table(dtype, 5, columns, 6);
      const std::vector<TokenId> ids{4, 0, 3};
      const size_t count = ids.size() * static_cast<size_t>(columns);
      std::vector<float> want(count);
      reference_->EmbedRows(table.view(), ids, want.data());
      TestFloats y(*backend_, count);
      backend_->EmbedRows(table.view(), ids, y.data());
      ExpectSameBits(want, y.Read(), columns);
    }
  }
}

TEST_P(RowsConformance, GatherRowsCopiesBits) {
  for (const int64_t columns : {1, 5, 64, 257}) {
    SCOPED_TRACE(testing::Message() << "GatherRows columns " << columns);
    const std::vector<float> x = HostileRows(40, columns, 9);
    const std::vector<int> rows{39, 0, 0, 17, 3, 38};
    TestFloats device_x(*backend_, x);
    TestFloats y(*backend_, rows.size() * static_cast<size_t>(columns));
    backend_->GatherRows(device_x.data(), rows, columns, y.data());
    const std::vector<float> got = y.Read();
    for (size_t i = 0; i < rows.size(); ++i) {
      ExpectSameBits(RowsOf(x, rows[i], 1, columns),
                     RowsOf(got, static_cast<int64_t>(i), 1, columns), columns);
    }
  }
}

TEST_P(RowsConformance, RmsNormIsCloseForEveryWidth) {
  for (const int64_t columns : {1, 3, 8, 17, 64, 288, 896, 1001}) {
    for (const int num_rows : {1, 5, 33}) {
      for (const float eps : {1e-5f, 1e-6f}) {
        SCOPED_TRACE(testing::Message()
                     << "RmsNorm rows " << num_rows << " columns " << columns << " eps " << eps);
        // The squares of larger values would overflow f32, in which the mean may be kept.
        const std::vector<float> x = HostileRows(num_rows, columns, 41, 1e14f);
        const std::vector<float> weight = NormalValues(static_cast<size_t>(columns), 42);
        std::vector<float> want(x.size());
        reference_->Norm(x.data(), {.weight = weight.data(), .eps = eps}, num_rows, columns,
                         want.data());
        TestFloats device_x(*backend_, x);
        TestFloats device_weight(*backend_, weight);
        TestFloats y(*backend_, x.size());
        const NormArgs norm = {.weight = device_weight.data(), .eps = eps};
        backend_->Norm(device_x.data(), norm, num_rows, columns, y.data());
        const std::vector<float> got = y.Read();
        ExpectRowsClose(want, got, columns, 5e-6);
        backend_->Norm(device_x.data(), norm, num_rows, columns, device_x.data());
        ExpectSameBits(got, device_x.Read(), columns);
      }
    }
  }
}

TEST_P(RowsConformance, LayerNormIsCloseForEveryWidth) {
  for (const int64_t columns : {17, 64, 288, 896, 1001}) {
    for (const int num_rows : {1, 5, 33}) {
      SCOPED_TRACE(testing::Message() << "LayerNorm rows " << num_rows << " columns " << columns);
      // Rows whose mean is far from zero show whether the variance cancels.
      std::vector<float> x = NormalValues(static_cast<size_t>(num_rows * columns), 43);
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] += static_cast<float>(i / static_cast<size_t>(columns) % 5) * 10;
      }
      const std::vector<float> weight = NormalValues(static_cast<size_t>(columns), 44);
      const std::vector<float> bias = NormalValues(static_cast<size_t>(columns), 45);
      NormArgs norm = {
          .kind = NormKind::kLayer, .weight = weight.data(), .bias = bias.data(), .eps = 1e-12f};
      std::vector<float> want(x.size());
      reference_->Norm(x.data(), norm, num_rows, columns, want.data());
      TestFloats device_x(*backend_, x);
      TestFloats device_weight(*backend_, weight);
      TestFloats device_bias(*backend_, bias);
      TestFloats y(*backend_, x.size());
      norm.weight = device_weight.data();
      norm.bias = device_bias.data();
      backend_->Norm(device_x.data(), norm, num_rows, columns, y.data());
      const std::vector<float> got = y.Read();
      ExpectRowsClose(want, got, columns, 1e-5);  // a mean of 40 is rounded to 4e-6
      backend_->Norm(device_x.data(), norm, num_rows, columns, device_x.data());
      ExpectSameBits(got, device_x.Read(), columns);
    }
  }
}

TEST_P(RowsConformance, GeluWithoutAGateIsTheUnitOfOne) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{8}, size_t{1003}}) {
    const std::vector<float> x = NormalValues(count, 46);
    TestFloats device_x(*backend_, x);
    TestFloats ones(*backend_, std::vector<float>(count, 1.0f));
    TestFloats out(*backend_, count);
    backend_->Glu(GluKind::kGelu, device_x.data(), ones.data(), count, out.data());
    backend_->Glu(GluKind::kGelu, device_x.data(), nullptr, count, device_x.data());
    ExpectSameBits(out.Read(), device_x.Read(), static_cast<int64_t>(count));
  }
}

TEST_P(RowsConformance, RopeTableIsExactAtFarPositions) {
  const std::vector<int> positions{0, 1, 31, 32, 1000, 4095, 32767, 131071};
  for (const double theta : {1e4, 1e6}) {
    const float magnitude = theta == 1e4 ? 1.0f : 1.3465736f;
    for (const int half : {1, 3, 4, 20, 64}) {
      SCOPED_TRACE(testing::Message() << "RopeTable theta " << theta << " half " << half);
      std::vector<float> inv_freq(static_cast<size_t>(half));
      for (int i = 0; i < half; ++i) {
        inv_freq[static_cast<size_t>(i)] =
            static_cast<float>(std::pow(theta, -static_cast<double>(i) / half));
      }
      const size_t count = positions.size() * inv_freq.size() * 2;
      std::vector<float> want(count);
      reference_->RopeTable(positions, inv_freq, magnitude, want.data());
      TestFloats table(*backend_, count);
      backend_->RopeTable(positions, inv_freq, magnitude, table.data());
      const std::vector<float> got = table.Read();
      for (size_t i = 0; i < count; ++i) {
        ASSERT_NEAR(want[i], got[i], 1e-6) << "position " << positions[i / inv_freq.size() / 2]
                                           << ", entry " << i % (inv_freq.size() * 2);
      }
    }
  }
}

struct RopeCase {
  int head_dim;
  int rotary_dim;
};
constexpr RopeCase kRopeCases[] = {{8, 8},   {8, 2},   {16, 16}, {16, 6},    {64, 64}, {64, 32},
                                   {80, 80}, {80, 32}, {96, 96}, {128, 128}, {128, 64}};

TEST_P(RowsConformance, RopeRotatesTheRightPairsAndLeavesTheRest) {
  for (const RopeKind kind : {RopeKind::kInterleaved, RopeKind::kHalves}) {
    for (const RopeCase& shape : kRopeCases) {
      for (const int num_heads : {1, 3, 14}) {
        const int num_rows = 5;
        SCOPED_TRACE(testing::Message()
                     << "Rope kind " << static_cast<int>(kind) << " head_dim " << shape.head_dim
                     << " rotary_dim " << shape.rotary_dim << " heads " << num_heads);
        const int64_t columns = static_cast<int64_t>(num_heads) * shape.head_dim;
        const std::vector<float> x = HostileRows(num_rows, columns, 51);
        const std::vector<int> positions{0, 1, 77, 4000, 12};
        std::vector<float> inv_freq(static_cast<size_t>(shape.rotary_dim / 2));
        for (size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = 1.0f / static_cast<float>(1 + i);
        std::vector<float> table(positions.size() * inv_freq.size() * 2);
        reference_->RopeTable(positions, inv_freq, 1.0f, table.data());
        const Backend::RopeArgs args{.kind = kind,
                                     .num_heads = num_heads,
                                     .head_dim = shape.head_dim,
                                     .rotary_dim = shape.rotary_dim};
        std::vector<float> want = x;
        reference_->Rope(want.data(), num_rows, args, table.data());
        TestFloats device_x(*backend_, x);
        TestFloats device_table(*backend_, table);
        backend_->Rope(device_x.data(), num_rows, args, device_table.data());
        const std::vector<float> got = device_x.Read();
        ExpectRowsClose(want, got, shape.head_dim, 5e-7);
        for (size_t head = 0; head * shape.head_dim < x.size(); ++head) {
          const size_t rest = head * shape.head_dim + shape.rotary_dim;
          const size_t width = static_cast<size_t>(shape.head_dim - shape.rotary_dim);
          ASSERT_EQ(std::memcmp(&x[rest], &got[rest], width * sizeof(float)), 0) << "head " << head;
        }
      }
    }
  }
}

constexpr GluKind kGluKinds[] = {GluKind::kSilu, GluKind::kGeluTanh, GluKind::kGelu,
                                 GluKind::kClampedSilu};

TEST_P(RowsConformance, GluIsCloseOverTheWholeRange) {
  std::vector<float> gate;
  for (int i = -10400; i <= 10400; ++i) gate.push_back(static_cast<float>(i) * 0.01f);
  const float float_max = std::numeric_limits<float>::max();
  for (const float value : {0.0f, -0.0f, 1e-40f, -1e-40f, 1e-30f, -1e-30f, 1e4f, -1e4f, 1e30f,
                            -1e30f, float_max, -float_max}) {
    gate.push_back(value);
  }
  for (const GluKind kind : kGluKinds) {
    for (const float up_value : {1.0f, -0.75f, 100.0f, -100.0f}) {
      std::vector<float> up(gate.size(), up_value);
      if (std::abs(up_value) > 1) std::fill(up.end() - 2, up.end(), 0.5f);  // avoids FLT_MAX * 100
      std::vector<float> want(gate.size());
      reference_->Glu(kind, gate.data(), up.data(), gate.size(), want.data());
      TestFloats device_gate(*backend_, gate);
      TestFloats device_up(*backend_, up);
      TestFloats out(*backend_, gate.size());
      backend_->Glu(kind, device_gate.data(), device_up.data(), gate.size(), out.data());
      const std::vector<float> got = out.Read();
      for (size_t i = 0; i < gate.size(); ++i) {
        // Below 1e-36 the sigmoid is a denormal, which a backend may flush. In the other kinds the
        // argument of the sigmoid is rounded, which matters if it is far below zero.
        const bool exact = kind == GluKind::kSilu;
        double limit = (exact ? 2e-6 : 4e-6) * std::abs(static_cast<double>(want[i])) +
                       (exact ? 1e-36 : 1e-9) * 100;
        // The error of its distribution function, as far as that is not 0.
        if (kind == GluKind::kGelu && gate[i] > -8) {
          limit += 2e-7 * std::abs(static_cast<double>(gate[i]) * up[i]);
        }
        ASSERT_NEAR(want[i], got[i], limit)
            << "Glu " << static_cast<int>(kind) << " gate " << gate[i] << " up " << up[i];
      }
      backend_->Glu(kind, device_gate.data(), device_up.data(), gate.size(), device_gate.data());
      ExpectSameBits(got, device_gate.Read(), static_cast<int64_t>(gate.size()));
    }
  }
}

TEST_P(RowsConformance, GluOfAVanishingGateVanishesEvenTimesAHugeUp) {
  const std::vector<float> gate{-200.0f, -1e4f, -1e30f, -std::numeric_limits<float>::max(),
                                -150.0f};
  const std::vector<float> up(gate.size(), 1e30f);
  for (const GluKind kind : kGluKinds) {
    TestFloats device_gate(*backend_, gate);
    TestFloats device_up(*backend_, up);
    TestFloats out(*backend_, gate.size());
    backend_->Glu(kind, device_gate.data(), device_up.data(), gate.size(), out.data());
    const std::vector<float> got = out.Read();
    for (size_t i = 0; i < gate.size(); ++i) {
      EXPECT_LE(std::abs(got[i]), 1e-5f)
          << "Glu " << static_cast<int>(kind) << " gate " << gate[i] << " up 1e30";
    }
  }
}

TEST_P(RowsConformance, AddScaledByOneIsTheSumRoundedOnce) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{8}, size_t{1003}}) {
    SCOPED_TRACE(testing::Message() << "AddScaled count " << count);
    const std::vector<float> x = HostileValues(count, 61);
    const std::vector<float> y = HostileValues(count, 62);
    std::vector<float> want(count);
    for (size_t i = 0; i < count; ++i) want[i] = x[i] + y[i];
    TestFloats device_x(*backend_, x);
    TestFloats device_y(*backend_, y);
    backend_->AddScaled(device_x.data(), 1.0f, count, device_y.data());
    ExpectSameBits(want, device_y.Read(), static_cast<int64_t>(count));
  }
}

// Allows two roundings of terms that may cancel.
double SumLimit(float term, float old) {
  return 1.3e-7 * (std::abs(static_cast<double>(term)) + std::abs(static_cast<double>(old))) +
         1e-37;
}

TEST_P(RowsConformance, AddScaledAndScaleMultiplyByTheFactor) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{8}, size_t{40003}}) {
    for (const float factor : {0.0f, -0.22f, 12.0f}) {
      SCOPED_TRACE(testing::Message() << "count " << count << " factor " << factor);
      const std::vector<float> x = HostileValues(count, 63);
      const std::vector<float> y = HostileValues(count, 64);
      TestFloats device_x(*backend_, x);
      TestFloats device_y(*backend_, y);
      backend_->AddScaled(device_x.data(), factor, count, device_y.data());
      backend_->Scale(factor, count, device_x.data());
      const std::vector<float> sums = device_y.Read();
      const std::vector<float> products = device_x.Read();
      std::vector<float> want = y;
      reference_->AddScaled(x.data(), factor, count, want.data());
      for (size_t i = 0; i < count; ++i) {
        ASSERT_NEAR(want[i], sums[i], SumLimit(factor * x[i], y[i])) << "element " << i;
        ASSERT_NEAR(factor * x[i], products[i], 1e-37) << "element " << i;
      }
    }
  }
}

TEST_P(RowsConformance, SoftCapIsCloseOverTheWholeRange) {
  std::vector<float> x;
  for (int i = -4001; i <= 4001; ++i) x.push_back(static_cast<float>(i) * 0.05f);
  for (const float value : {0.0f, 1e-40f, 1e-30f, 1e-6f, 18.74f, 18.76f, 1e4f, 1e30f,
                            std::numeric_limits<float>::max()}) {
    x.push_back(value);
    x.push_back(-value);
  }
  for (const float cap : {1.0f, 30.0f, 50.0f}) {
    std::vector<float> want = x;
    reference_->SoftCap(cap, x.size(), want.data());
    TestFloats device_x(*backend_, x);
    backend_->SoftCap(cap, x.size(), device_x.data());
    const std::vector<float> got = device_x.Read();
    for (size_t i = 0; i < x.size(); ++i) {
      const double limit = 5e-7 * std::abs(static_cast<double>(want[i])) + 1e-36;
      ASSERT_NEAR(want[i], got[i], limit) << "SoftCap " << cap << " of " << x[i];
    }
  }
}

TEST_P(RowsConformance, ScatterAddRowsAddsToTheRowsNamed) {
  for (const int64_t columns : {1, 7, 64, 2049}) {
    SCOPED_TRACE(testing::Message() << "ScatterAddRows columns " << columns);
    const std::vector<int> rows{4, 0, 4, 11, 7};  // row 4 occurs twice, most rows not at all
    const std::vector<float> factors{0.25f, -1.5f, 0.75f, 1.0f, 0.0f};
    const std::vector<float> x = HostileRows(static_cast<int>(rows.size()), columns, 65);
    const std::vector<float> old = HostileRows(12, columns, 66);
    std::vector<float> want = old;
    reference_->ScatterAddRows(x.data(), rows, factors, columns, want.data());
    std::vector<double> limits(want.size(), 0.0);
    for (size_t i = 0; i < want.size(); ++i) limits[i] = SumLimit(0, old[i]);
    for (size_t r = 0; r < rows.size(); ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        limits[static_cast<size_t>(rows[r] * columns + c)] +=
            2 * SumLimit(factors[r] * x[r * static_cast<size_t>(columns) + c], 0);
      }
    }
    TestFloats device_x(*backend_, x);
    TestFloats y(*backend_, old);
    backend_->ScatterAddRows(device_x.data(), rows, factors, columns, y.data());
    const std::vector<float> got = y.Read();
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(want[i], got[i], limits[i]) << "row " << i / columns << " column " << i % columns;
    }
    ExpectSameBits(RowsOf(old, 1, 3, columns), RowsOf(got, 1, 3, columns), columns);
  }
}

KVGATE_RUN_ON_ALL_BACKENDS(RowsConformance);

}  // namespace
}  // namespace kvgate::kernels
