#include "gateway/bench/gpu/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "kernels/weight_format.h"

namespace kvgate::bench::gpu {
namespace {

using kernels::DType;

// Calls take turns over matrices or layers of this many bytes in all, so that no cache holds them.
constexpr double kBytesAround = 256 << 20;
constexpr int kRowsAround = 64;  // distinct random rows of an activation

std::vector<float> RandomFloats(size_t count, uint64_t seed) {
  const std::vector<TokenId> values = RandomTokens(static_cast<int>(count), 65536, seed);
  std::vector<float> floats;
  floats.reserve(count);
  for (const TokenId value : values) floats.push_back(static_cast<float>(value) / 32768 - 1);
  return floats;
}

struct Work {
  double bytes = 0;
  double operations = 0;
};

class KernelMeasurement {
 public:
  KernelMeasurement(Run& run, std::shared_ptr<const modelfile::ModelFile> file, std::string dtype)
      : run_(run), file_(std::move(file)), dtype_(std::move(dtype)) {}

  Result<void> Measure(bool has_attention) {
    KVGATE_TRY(config_, model::ReadModelConfig(*file_));
    KVGATE_TRY(backend_, OpenBackend(run_.device()));
    run_.Say("kernels: products");
    for (const char* name : {"attn_q", "attn_k", "ffn_up", "ffn_down"}) {
      KVGATE_TRY_VOID(Product(name, {1, 16, run_.sizes().batch, run_.sizes().step_tokens}));
    }
    KVGATE_TRY_VOID(Product("output", {1, run_.sizes().batch}));
    if (!has_attention) return {};
    run_.Say("kernels: attention");
    KVGATE_TRY_VOID(DecodeAttention(DType::kF16));
    KVGATE_TRY_VOID(Attention(1, run_.sizes().step_tokens, run_.sizes().long_context, DType::kF16));
    // FP8 KV has half the bytes to read, but its codes must be unpacked.
    KVGATE_TRY_VOID(DecodeAttention(DType::kF8E4M3));
    if (config_.head_dim % kernels::DTypeElements(DType::kQ8_0) != 0) return {};
    return DecodeAttention(DType::kQ8_0);
  }

 private:
  // Reports GB/s if bytes bound the work, and TFLOP/s if operations do.
  void AddFigure(const std::string& part, const std::string& name, const Work& work,
                 double seconds) {
    const Limits& limits = run_.limits();
    const bool is_memory =
        work.bytes / limits.read_bytes_per_second > work.operations / limits.operations_per_second;
    run_.figures().Add(
        {.part = part,
         .name = name,
         .measured = is_memory ? work.bytes / seconds / 1e9 : work.operations / seconds / 1e12,
         .unit = is_memory ? "GB/s" : "TFLOP/s",
         .limit =
             is_memory ? limits.read_bytes_per_second / 1e9 : limits.operations_per_second / 1e12,
         .limit_name = is_memory ? "copy bandwidth" : "measured peak",
         .note = fmt::format("{:.1f} us", 1e6 * seconds)});
  }

  Result<std::unique_ptr<kernels::FloatBuffer>> RandomBuffer(int rows, int64_t columns) {
    const size_t size = static_cast<size_t>(rows) * static_cast<size_t>(columns);
    KVGATE_TRY(auto buffer, backend_->AllocateFloats(size));
    const size_t chunk = std::min(size, static_cast<size_t>(kRowsAround * columns));
    const std::vector<float> values = RandomFloats(chunk, 7);
    for (size_t at = 0; at < size; at += chunk) {
      backend_->CopyIn(std::span(values).first(std::min(chunk, size - at)), buffer->data() + at);
    }
    return buffer;
  }

  // Loads the same matrix of enough layers that no cache holds them all.
  Result<std::vector<std::unique_ptr<kernels::Weight>>> LoadWeights(const std::string& name,
                                                                    double& bytes) {
    std::vector<std::unique_ptr<kernels::Weight>> weights;
    double total = 0;
    for (int layer = 0; layer < config_.num_layers && total < kBytesAround; ++layer) {
      const bool is_output = name == "output";
      const modelfile::GgufTensor* tensor = file_->FindTensor(
          is_output ? "output.weight" : fmt::format("blk.{}.{}.weight", layer, name));
      if (tensor == nullptr) {
        return MakeError(ErrorCode::kNotFound, "bench",
                         fmt::format("the model has no {} of its own", name));
      }
      const kernels::WeightFormat* format = kernels::FindWeightFormat(tensor->type);
      KVGATE_TRY(auto weight, backend_->LoadWeight({.dtype = format->dtype,
                                                    .data = tensor->data.data(),
                                                    .rows = tensor->dimensions[1],
                                                    .columns = tensor->dimensions[0]}));
      bytes = static_cast<double>(tensor->data.size());
      total += bytes;
      weights.push_back(std::move(weight));
      if (is_output) break;
    }
    return weights;
  }

  // Measures once for each number of rows.
  Result<void> Product(const std::string& name, const std::set<int>& row_counts) {
    double bytes = 0;
    KVGATE_TRY(const auto weights, LoadWeights(name, bytes));
    const int64_t rows_out = weights[0]->rows();
    const int64_t columns = weights[0]->columns();
    const int most = *row_counts.rbegin();
    KVGATE_TRY(const auto x, RandomBuffer(most, columns));
    KVGATE_TRY(const auto y,
               backend_->AllocateFloats(static_cast<size_t>(most) * static_cast<size_t>(rows_out)));
    for (const int num_rows : row_counts) {
      const double seconds =
          SecondsPerCall(*backend_, run_.sizes().seconds_per_kernel, [&](int call) {
            const kernels::MatMulTask task{
                .weight = weights[static_cast<size_t>(call) % weights.size()].get(),
                .y = y->data()};
            backend_->MatMul(x->data(), num_rows, {&task, 1});
          });
      const double operations = 2.0 * num_rows * static_cast<double>(rows_out * columns);
      const double activations =
          sizeof(float) * static_cast<double>(num_rows) * static_cast<double>(rows_out + columns);
      AddFigure("products " + dtype_,
                fmt::format("{} [{}, {}] of {} rows", name, rows_out, columns, num_rows),
                {.bytes = bytes + activations, .operations = operations}, seconds);
    }
    return {};
  }

  Result<void> DecodeAttention(DType kv_dtype) {
    KVGATE_TRY_VOID(Attention(1, 1, run_.sizes().long_context, kv_dtype));
    return Attention(run_.sizes().batch, 1, run_.sizes().short_context, kv_dtype);
  }

  // Measures sequences of num_rows rows each after `context` tokens, over all layers in turn.
  Result<void> Attention(int num_sequences, int num_rows, int context, DType kv_dtype) {
    const kernels::KvShape shape = config_.kv_shape(kv_dtype);
    const int blocks_each = (context + num_rows - 1) / kernels::kKvBlockTokens + 1;
    KVGATE_TRY(const auto arena,
               backend_->AllocateKv(shape, static_cast<uint32_t>(blocks_each * num_sequences)));
    std::vector<std::vector<BlockId>> tables(static_cast<size_t>(num_sequences));
    std::vector<kernels::SequenceRows> rows;
    for (int i = 0; i < num_sequences; ++i) {
      std::vector<BlockId>& table = tables[static_cast<size_t>(i)];
      for (int block = 0; block < blocks_each; ++block) {
        table.push_back(BlockId{static_cast<uint32_t>(block * num_sequences + i)});
      }
      rows.push_back({.first_row = i * num_rows,
                      .num_rows = num_rows,
                      .first_position = context,
                      .block_table = table});
    }
    KVGATE_TRY_VOID(FillKv(*arena, tables, context + num_rows));
    const int64_t q_dim = int64_t{config_.num_heads} * config_.head_dim;
    KVGATE_TRY(const auto q, RandomBuffer(num_sequences * num_rows, q_dim));
    KVGATE_TRY(const auto out, backend_->AllocateFloats(q->size()));
    const kernels::AttentionShape attention{
        .num_heads = config_.num_heads,
        .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim))};
    const double seconds =
        SecondsPerCall(*backend_, run_.sizes().seconds_per_kernel, [&](int call) {
          backend_->Attention(q->data(), rows, call % shape.num_layers, *arena, attention,
                              out->data());
        });
    const double seen = num_rows * (context + (num_rows + 1) / 2.0) * num_sequences;
    const double token_bytes =
        static_cast<double>(arena->block_bytes()) / kernels::kKvBlockTokens / shape.num_layers;
    const std::string kv =
        kv_dtype == DType::kF16 ? "" : fmt::format(", {} KV", kernels::DTypeName(kv_dtype));
    AddFigure("attention",
              fmt::format("{} x {} rows at {}{}", num_sequences, num_rows, context, kv),
              {.bytes = num_sequences * (context + num_rows) * token_bytes,
               .operations = 4.0 * static_cast<double>(q_dim) * seen},
              seconds);
    return {};
  }

  Result<void> FillKv(kernels::KvArena& arena, const std::vector<std::vector<BlockId>>& tables,
                      int num_tokens) {
    const int64_t kv_dim = int64_t{config_.num_kv_heads} * config_.head_dim;
    KVGATE_TRY(const auto values, RandomBuffer(num_tokens, kv_dim));
    for (const std::vector<BlockId>& table : tables) {
      const kernels::SequenceRows rows{
          .first_row = 0, .num_rows = num_tokens, .first_position = 0, .block_table = table};
      for (int layer = 0; layer < arena.shape().num_layers; ++layer) {
        backend_->StoreKv(values->data(), values->data(), {&rows, 1}, layer, arena);
      }
    }
    backend_->Synchronize();
    return {};
  }

  Run& run_;
  std::shared_ptr<const modelfile::ModelFile> file_;
  const std::string dtype_;
  model::ModelConfig config_;
  std::unique_ptr<kernels::Backend> backend_;
};

}  // namespace

double SecondsPerCall(kernels::Backend& backend, double seconds_min,
                      const std::function<void(int)>& issue) {
  constexpr int kCallsMax = 1 << 16;
  const auto time = [&](int num_calls) {
    const auto begin = Clock::now();
    for (int call = 0; call < num_calls; ++call) issue(call);
    backend.Synchronize();
    return SecondsBetween(begin, Clock::now());
  };
  time(2);  // warms up code, scratch memory and clocks
  int num_calls = 1;
  double seconds = time(num_calls);
  while (seconds < seconds_min && num_calls < kCallsMax) {
    num_calls *= 2;
    seconds = time(num_calls);
  }
  return seconds / num_calls;
}

Result<void> MeasureKernels(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                            const KernelParts& parts) {
  return KernelMeasurement(run, std::move(file), parts.dtype).Measure(parts.has_attention);
}

}  // namespace kvgate::bench::gpu
