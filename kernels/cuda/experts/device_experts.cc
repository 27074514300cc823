#include "kernels/cuda/experts/device_experts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/matmul/matmul_kernels.h"
#include "kernels/cuda/matmul/packed_weight.h"
#include "kernels/cuda/memory/device_memory.h"
#include "kernels/routed_experts.h"

namespace kvgate::kernels::cuda::experts {

using matmul::ExpertMatrix;
using matmul::kFewRows;
using matmul::kPaddedColumns;
using matmul::PackedKind;

namespace {

// So few rows seldom share experts.
constexpr int kAloneRows = 4;
// Rows per group for f32 weights: as many as a warp processes at once.
constexpr int kFloatGroupRows = 4;
static_assert(kRoutedPadding == kPaddedColumns);
static_assert(sizeof(matmul::RowGroup) == 4 * sizeof(float));

// The matrices that are multiplied with the same x: gate and up, or down.
struct ExpertStage {
  const ExpertMatrix* matrices[2] = {};
  int num_products = 0;
  int outputs = 0;
  int columns = 0;
  std::vector<PackedKind> kinds;  // without duplicates

  bool Has(PackedKind kind) const { return std::ranges::find(kinds, kind) != kinds.end(); }
};

class DeviceExpertSet final : public ExpertSet {
 public:
  static Result<std::unique_ptr<ExpertSet>> Make(const ExpertSetView& view) {
    std::unique_ptr<DeviceExpertSet> made(new DeviceExpertSet(view));
    const ExpertSetView& own = made->view();
    std::vector<ExpertMatrix> table;
    made->AddPart(own, &ExpertMatrices::gate, own.gate_bias, made->input_, table);
    made->AddPart(own, &ExpertMatrices::up, own.up_bias, made->input_, table);
    made->AddPart(own, &ExpertMatrices::down, own.down_bias, made->output_, table);
    const auto bytes = std::as_bytes(std::span(table));
    KVGATE_TRY(made->table_, memory::DeviceMemory::Allocate(bytes.size(), "a table of experts"));
    made->table_.CopyIn(bytes);
    const auto* matrices = reinterpret_cast<const ExpertMatrix*>(made->table_.data());
    made->input_.matrices[0] = matrices;
    made->input_.matrices[1] = matrices + own.experts.size();
    made->output_.matrices[0] = matrices + 2 * own.experts.size();
    return std::unique_ptr<ExpertSet>(std::move(made));
  }

  const ExpertStage& input() const { return input_; }
  const ExpertStage& output() const { return output_; }

 private:
  explicit DeviceExpertSet(const ExpertSetView& view) : ExpertSet(view) {}

  static void AddPart(const ExpertSetView& view, const Weight* ExpertMatrices::*part,
                      const float* biases, ExpertStage& stage, std::vector<ExpertMatrix>& table) {
    ++stage.num_products;
    for (const ExpertMatrices& expert : view.experts) {
      const auto& weight = static_cast<const matmul::PackedWeight&>(*(expert.*part));
      stage.outputs = static_cast<int>(weight.rows());
      stage.columns = static_cast<int>(weight.columns());
      if (!stage.Has(weight.kind())) stage.kinds.push_back(weight.kind());
      table.push_back(
          {.product = matmul::ProductOf(weight), .kind = static_cast<uint64_t>(weight.kind())});
      table.back().product.bias = biases;
      if (biases != nullptr) biases += weight.rows();
    }
  }

  memory::DeviceMemory table_;  // [3, num_experts]: gate, up, down
  ExpertStage input_;
  ExpertStage output_;
};

class DeviceExpertScratch final : public ExpertScratch {
 public:
  DeviceExpertScratch(const ExpertShape& shape, int num_rows_max, uint64_t num_floats,
                      std::unique_ptr<FloatBuffer> buffer)
      : ExpertScratch(shape, num_rows_max, num_floats),
        offsets_(CutRoutedExpertScratch(shape, num_rows_max)),
        buffer_(std::move(buffer)) {}

  template <typename T = float>
  T* Part(RoutedPart part) {
    return reinterpret_cast<T*>(buffer_->data() + offsets_[static_cast<size_t>(part)]);
  }

 private:
  const RoutedPartOffsets offsets_;
  const std::unique_ptr<FloatBuffer> buffer_;
};

// Returns the rows of x in f16 that fit a block's shared memory, at most those of one matrix
// instruction.
int FewRowsOf(int columns, size_t shared_bytes_max) {
  const size_t bytes_max =
      std::min(matmul::kFewRowsBytesMax, shared_bytes_max - matmul::kFewRowsRestBytesMax);
  const size_t padded =
      (static_cast<size_t>(columns) + kPaddedColumns - 1) / kPaddedColumns * kPaddedColumns;
  return static_cast<int>(std::min<size_t>(kFewRows, bytes_max / (padded * 2)));
}

// Returns the rows per group if an expert has `average` rows.
int RowsOfGroup(const ExpertStage& stage, int num_few, int64_t average) {
  if (stage.Has(PackedKind::kFloats) && stage.kinds.size() == 1) return kFloatGroupRows;
  // The kernel for more rows does not support row-major weights.
  if (stage.Has(PackedKind::kPlainHalves) || (average <= kFewRows && num_few == kFewRows)) {
    KVGATE_CHECK(num_few > 0, "a row of x fits a block");
    return num_few;
  }
  return matmul::RowsOfBlock(static_cast<int>(average));
}

}  // namespace

struct DeviceExperts::Step {
  const DeviceExpertSet& set;
  DeviceExpertScratch& scratch;
  int num_rows = 0;
  int64_t num_pairs = 0;
  bool is_alone = false;
  GroupList input = {};
  GroupList output = {};
};

Result<std::unique_ptr<ExpertSet>> DeviceExperts::Load(const ExpertSetView& view) {
  return DeviceExpertSet::Make(view);
}

Result<std::unique_ptr<ExpertScratch>> DeviceExperts::AllocateScratch(const ExpertShape& shape,
                                                                      int num_rows_max) {
  const ExpertScratchFloats floats = CountRoutedExpertScratch(shape);
  const uint64_t count = floats.per_row * static_cast<uint64_t>(num_rows_max) + floats.fixed;
  KVGATE_TRY(std::unique_ptr<FloatBuffer> buffer, memory::DeviceFloats::Allocate(count));
  return std::unique_ptr<ExpertScratch>(
      std::make_unique<DeviceExpertScratch>(shape, num_rows_max, count, std::move(buffer)));
}

void DeviceExperts::Mix(const ExpertMixTask& task) {
  Step step{.set = static_cast<const DeviceExpertSet&>(*task.experts),
            .scratch = static_cast<DeviceExpertScratch&>(*task.scratch),
            .num_rows = task.num_rows,
            .num_pairs = int64_t{task.num_rows} * task.experts->view().rule.num_used};
  Route(task, step);
  float* gate = step.scratch.Part(RoutedPart::kGate);
  float* up = step.scratch.Part(RoutedPart::kUp);
  Multiply(task.x, task.experts->hidden_dim(), true, step);
  const auto count = static_cast<size_t>(step.num_pairs * task.experts->ffn_dim());
  rows_.Glu(task.experts->view().glu, gate, up, count, gate);
  Multiply(gate, task.experts->ffn_dim(), false, step);
  LaunchAddTerms({.terms = up,
                  .places = step.scratch.Part<int>(RoutedPart::kPlaces),
                  .factors = step.scratch.Part(RoutedPart::kShares),
                  .scale = task.factor,
                  .num_rows = task.num_rows,
                  .num_terms = task.experts->view().rule.num_used,
                  .columns = task.experts->hidden_dim(),
                  .y = task.y},
                 options_.num_multiprocessors, stream_);
  if (task.experts->view().shared.gate != nullptr) MixShared(task, step);
}

void DeviceExperts::Route(const ExpertMixTask& task, Step& step) {
  const ExpertSetView& view = task.experts->view();
  DeviceExpertScratch& scratch = step.scratch;
  std::vector<MatMulTask> tasks = {
      {.weight = view.router, .bias = view.router_bias, .y = scratch.Part(RoutedPart::kLogits)}};
  if (view.shared_router != nullptr) {
    tasks.push_back({.weight = view.shared_router, .y = scratch.Part(RoutedPart::kSharedLogits)});
  }
  matmul_.Run(task.x, task.num_rows, tasks);

  const int num_experts = view.rule.num_experts;
  const int num_few = FewRowsOf(step.set.input().columns, options_.shared_bytes_max);
  const int num_few_output = FewRowsOf(step.set.output().columns, options_.shared_bytes_max);
  step.is_alone = task.num_rows <= kAloneRows && num_few > 0 && num_few_output > 0;
  const int64_t average = (step.num_pairs + num_experts - 1) / num_experts;
  const auto list_of = [&](const ExpertStage& stage, int few, RoutedPart part) -> GroupList {
    const int rows = step.is_alone ? 1 : RowsOfGroup(stage, few, average);
    return {.groups = scratch.Part<matmul::RowGroup>(part),
            .num_groups = step.is_alone ? static_cast<int>(step.num_pairs)
                                        : GroupsMost(step.num_pairs, num_experts, rows),
            .rows_of_group = rows};
  };
  step.input = list_of(step.set.input(), num_few, RoutedPart::kInputGroups);
  step.output = list_of(step.set.output(), num_few_output, RoutedPart::kOutputGroups);
  const RouteTask route = {.rule = view.rule,
                           .num_rows = task.num_rows,
                           .logits = scratch.Part(RoutedPart::kLogits),
                           .shared_logits = view.shared_router == nullptr
                                                ? nullptr
                                                : scratch.Part(RoutedPart::kSharedLogits),
                           .shared_factors = scratch.Part(RoutedPart::kSharedFactors),
                           .shares = scratch.Part(RoutedPart::kShares),
                           .chosen = scratch.Part<int>(RoutedPart::kChosen),
                           .order = scratch.Part<int>(RoutedPart::kOrder),
                           .places = scratch.Part<int>(RoutedPart::kPlaces)};
  if (step.is_alone) step.output = step.input;
  LaunchRoute(route, step.is_alone ? step.input.groups : nullptr, stream_);
  if (!step.is_alone) LaunchGroupPairs(route, step.input, step.output, stream_);
}

// Computes the pairs' gate and up from the rows' x, or the pairs' outputs from their hidden values.
void DeviceExperts::Multiply(const float* x, int64_t columns, bool is_input, const Step& step) {
  const ExpertStage& stage = is_input ? step.set.input() : step.set.output();
  const GroupList& list = is_input ? step.input : step.output;
  float* up = step.scratch.Part(RoutedPart::kUp);
  const matmul::ExpertProducts products = {
      .matrices = {stage.matrices[0], stage.matrices[1]},
      .y = {is_input ? step.scratch.Part(RoutedPart::kGate) : up, up},
      .groups = list.groups,
      .num_groups = list.num_groups,
      .rows_of_group = list.rows_of_group,
      .num_products = stage.num_products,
      .outputs = stage.outputs};
  matmul::RowSources sources;  // for the second product, x is the pairs in their order
  if (is_input) {
    sources = {.pairs = step.is_alone ? nullptr : step.scratch.Part<int>(RoutedPart::kOrder),
               .per_row = step.scratch.shape().num_used};
  }
  const int64_t padded = (columns + kPaddedColumns - 1) / kPaddedColumns * kPaddedColumns;
  matmul::InputRows input = {.x = x,
                             .columns = columns,
                             .halves = {.values = nullptr,
                                        .scales = step.scratch.Part(RoutedPart::kHalfScales),
                                        .num_rows = static_cast<int>(step.num_pairs),
                                        .padded_columns = static_cast<int>(padded)}};
  const bool is_packed =
      !step.is_alone && !(stage.kinds.size() == 1 && stage.Has(PackedKind::kFloats));
  if (is_packed) {
    input.halves.values = step.scratch.Part<uint16_t>(RoutedPart::kHalves);
    matmul::LaunchPackRows(input, sources, stream_);
  }
  for (const PackedKind kind : stage.kinds) {
    if (kind == PackedKind::kFloats) {
      matmul::LaunchFloatRows(x, static_cast<int>(columns), sources, products, stream_);
    } else if (list.rows_of_group <= kFewRows) {
      matmul::LaunchFewRows(kind, input, sources, products, stream_);
    } else {
      matmul::LaunchManyRows(kind, input.halves, products, options_.shared_bytes_max, stream_);
    }
  }
}

void DeviceExperts::MixShared(const ExpertMixTask& task, const Step& step) {
  const ExpertSetView& view = task.experts->view();
  float* gate = step.scratch.Part(RoutedPart::kGate);
  float* up = step.scratch.Part(RoutedPart::kUp);
  const MatMulTask tasks[] = {{.weight = view.shared.gate, .y = gate},
                              {.weight = view.shared.up, .y = up}};
  matmul_.Run(task.x, task.num_rows, tasks);
  const auto count = static_cast<size_t>(task.num_rows * step.scratch.shape().shared_dim);
  rows_.Glu(view.glu, gate, up, count, gate);
  const MatMulTask down = {.weight = view.shared.down, .y = up};
  matmul_.Run(gate, task.num_rows, {&down, 1});
  LaunchAddTerms(
      {.terms = up,
       .factors =
           view.shared_router == nullptr ? nullptr : step.scratch.Part(RoutedPart::kSharedFactors),
       .scale = task.factor,
       .num_rows = task.num_rows,
       .columns = task.experts->hidden_dim(),
       .y = task.y},
      options_.num_multiprocessors, stream_);
}

}  // namespace kvgate::kernels::cuda::experts
