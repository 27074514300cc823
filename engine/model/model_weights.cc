#include "engine/model/model_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/pages.h"
#include "engine/modelfile/gguf.h"
#include "engine/modelfile/model_file.h"
#include "engine/modelfile/read_ahead.h"
#include "kernels/weight_format.h"

namespace kvgate::model {

using modelfile::GgufTensor;
using modelfile::ModelFile;

namespace {

constexpr std::string_view kSource = "model";
using Dimensions = std::vector<int64_t>;  // innermost first, as in the file

// Returns the dtype in which a matrix of this file type is multiplied.
Result<kernels::DType> MatrixDType(const GgufTensor& tensor) {
  const kernels::WeightFormat* format = kernels::FindWeightFormat(tensor.type);
  if (format != nullptr) return format->dtype;
  return MakeError(
      ErrorCode::kUnsupported, kSource,
      fmt::format("tensor '{}' has type {}; supported are {}", tensor.name,
                  modelfile::GgufTypeName(tensor.type), modelfile::SupportedGgufTypes()));
}

// Consecutive rows of a tensor that form one matrix.
struct RowSlice {
  int64_t rows = 0;
  std::unique_ptr<kernels::Weight>* weight = nullptr;
  bool is_expert = false;
};

// Visits the model's tensors. The same walk is used twice, to check all tensors and then to load
// them, so what is loaded cannot differ from what was checked.
class WeightVisitor {
 public:
  virtual ~WeightVisitor() = default;
  // The tensor has `dimensions`, innermost first, and its rows are those of the slices in order.
  virtual Result<void> Slices(const std::string& name, const Dimensions& dimensions,
                              std::span<const RowSlice> slices) = 0;
  virtual Result<void> Vector(const std::string& name, const Dimensions& dimensions,
                              std::unique_ptr<kernels::FloatBuffer>& buffer) = 0;
  virtual Result<void> Table(const std::string& name, int64_t rows, int64_t columns,
                             EmbeddingTable& table) = 0;
  // A table whose rows are kept as f32; one of a single row may be a vector.
  virtual Result<void> Rows(const std::string& name, int64_t rows, int64_t columns,
                            std::unique_ptr<kernels::FloatBuffer>& buffer) = 0;
  // A tensor that was read already with the configuration.
  virtual void KnownTensor(const std::string& name) = 0;

  Result<void> Matrix(const std::string& name, int64_t rows, int64_t columns,
                      std::unique_ptr<kernels::Weight>& weight) {
    const RowSlice slice = {.rows = rows, .weight = &weight};
    return Slices(name, {columns, rows}, {&slice, 1});
  }
  Result<void> Norm(const std::string& name, int64_t size, NormWeights& norm) {
    KVGATE_TRY_VOID(Vector(name + ".weight", {size}, norm.weight));
    return Vector(name + ".bias", {size}, norm.bias);
  }
};

// Visits the tensors of one layer, with their names and sizes.
class LayerVisit {
 public:
  LayerVisit(const ModelConfig& config, int layer, LayerWeights& weights, WeightVisitor& visitor)
      : config_(config),
        weights_(weights),
        visitor_(visitor),
        prefix_(fmt::format("blk.{}.", layer)),
        hidden_(config.hidden_dim),
        q_dim_(int64_t{config.num_heads} * config.head_dim),
        kv_dim_(int64_t{config.num_kv_heads} * config.head_dim) {}

  Result<void> Run() {
    KVGATE_TRY_VOID(Attention());
    if (config_.pre_norms) {
      KVGATE_TRY_VOID(Vector(config_.ffn_norm_name + ".weight", hidden_, weights_.ffn_norm));
    }
    KVGATE_TRY_VOID(config_.experts.num_experts > 0 ? Experts() : FeedForward());
    if (config_.stream_norms) {
      KVGATE_TRY_VOID(
          visitor_.Norm(prefix_ + "attn_output_norm", hidden_, weights_.attn_stream_norm));
      return visitor_.Norm(prefix_ + "layer_output_norm", hidden_, weights_.ffn_stream_norm);
    }
    if (!config_.post_norms) return {};
    KVGATE_TRY_VOID(Vector("post_attention_norm.weight", hidden_, weights_.attn_post_norm));
    return Vector("post_ffw_norm.weight", hidden_, weights_.ffn_post_norm);
  }

 private:
  Result<void> Vector(const std::string& name, int64_t size,
                      std::unique_ptr<kernels::FloatBuffer>& buffer) {
    return visitor_.Vector(prefix_ + name, {size}, buffer);
  }
  Result<void> Matrix(const std::string& name, int64_t rows, int64_t columns,
                      std::unique_ptr<kernels::Weight>& weight) {
    return visitor_.Matrix(prefix_ + name, rows, columns, weight);
  }

  Result<void> Attention() {
    if (config_.pre_norms) {
      KVGATE_TRY_VOID(Vector("attn_norm.weight", hidden_, weights_.attn_norm));
    }
    KVGATE_TRY_VOID(Projections());
    if (config_.qkv_bias) {
      KVGATE_TRY_VOID(Vector("attn_q.bias", q_dim_, weights_.attn_q_bias));
      KVGATE_TRY_VOID(Vector("attn_k.bias", kv_dim_, weights_.attn_k_bias));
      KVGATE_TRY_VOID(Vector("attn_v.bias", kv_dim_, weights_.attn_v_bias));
    }
    if (config_.qk_norm != QkNorm::kNone) {
      const bool is_head = config_.qk_norm == QkNorm::kHead;
      const int64_t head_dim = config_.head_dim;
      KVGATE_TRY_VOID(
          Vector("attn_q_norm.weight", is_head ? head_dim : q_dim_, weights_.attn_q_norm));
      KVGATE_TRY_VOID(
          Vector("attn_k_norm.weight", is_head ? head_dim : kv_dim_, weights_.attn_k_norm));
    }
    if (config_.attention_sinks) {
      KVGATE_TRY_VOID(Vector("attn_sinks.weight", config_.num_heads, weights_.attn_sinks));
    }
    KVGATE_TRY_VOID(Matrix("attn_output.weight", hidden_, q_dim_, weights_.attn_output));
    if (!config_.output_bias) return {};
    return Vector("attn_output.bias", hidden_, weights_.attn_output_bias);
  }

  Result<void> Projections() {
    if (config_.fused_qkv) {
      const RowSlice slices[] = {{.rows = q_dim_, .weight = &weights_.attn_q},
                                 {.rows = kv_dim_, .weight = &weights_.attn_k},
                                 {.rows = kv_dim_, .weight = &weights_.attn_v}};
      return visitor_.Slices(prefix_ + "attn_qkv.weight", {hidden_, q_dim_ + 2 * kv_dim_}, slices);
    }
    KVGATE_TRY_VOID(Matrix("attn_q.weight", q_dim_, hidden_, weights_.attn_q));
    KVGATE_TRY_VOID(Matrix("attn_k.weight", kv_dim_, hidden_, weights_.attn_k));
    return Matrix("attn_v.weight", kv_dim_, hidden_, weights_.attn_v);
  }

  Result<void> FeedForward() {
    const int64_t ffn = config_.ffn_dim;
    if (config_.fused_gate_up) {
      const RowSlice slices[] = {{.rows = ffn, .weight = &weights_.ffn_gate},
                                 {.rows = ffn, .weight = &weights_.ffn_up}};
      KVGATE_TRY_VOID(visitor_.Slices(prefix_ + "ffn_up.weight", {hidden_, 2 * ffn}, slices));
    } else {
      if (config_.has_ffn_gate) {
        KVGATE_TRY_VOID(Matrix("ffn_gate.weight", ffn, hidden_, weights_.ffn_gate));
      }
      KVGATE_TRY_VOID(Matrix("ffn_up.weight", ffn, hidden_, weights_.ffn_up));
    }
    if (config_.ffn_bias) {
      KVGATE_TRY_VOID(Vector("ffn_up.bias", ffn, weights_.ffn_up_bias));
      KVGATE_TRY_VOID(Vector("ffn_down.bias", hidden_, weights_.ffn_down_bias));
    }
    return Matrix("ffn_down.weight", hidden_, ffn, weights_.ffn_down);
  }

  // Visits one part (gate, up or down) of all experts, one matrix each.
  Result<void> ExpertMatrix(std::string_view part, int64_t rows, int64_t columns,
                            std::unique_ptr<kernels::Weight> ExpertMatrices::*member) {
    std::vector<ExpertMatrices>& experts = weights_.experts.experts;
    if (!config_.experts.one_tensor_each) {
      std::vector<RowSlice> slices;
      for (ExpertMatrices& expert : experts) {
        slices.push_back({.rows = rows, .weight = &(expert.*member), .is_expert = true});
      }
      return visitor_.Slices(fmt::format("{}ffn_{}_exps.weight", prefix_, part),
                             {columns, rows, std::ssize(experts)}, slices);
    }
    for (size_t i = 0; i < experts.size(); ++i) {
      const RowSlice slice = {.rows = rows, .weight = &(experts[i].*member), .is_expert = true};
      KVGATE_TRY_VOID(visitor_.Slices(fmt::format("{}ffn_{}.{}.weight", prefix_, part, i),
                                      {columns, rows}, {&slice, 1}));
    }
    return {};
  }

  Result<void> Experts() {
    const ExpertConfig& experts = config_.experts;
    ExpertWeights& weights = weights_.experts;
    const int64_t count = experts.num_experts;
    weights.experts.resize(static_cast<size_t>(count));
    KVGATE_TRY_VOID(Matrix("ffn_gate_inp.weight", count, hidden_, weights.router));
    if (experts.router_bias) {
      KVGATE_TRY_VOID(Vector("ffn_gate_inp.bias", count, weights.router_bias));
    }
    const int64_t ffn = experts.ffn_dim;
    KVGATE_TRY_VOID(ExpertMatrix("gate", ffn, hidden_, &ExpertMatrices::gate));
    KVGATE_TRY_VOID(ExpertMatrix("up", ffn, hidden_, &ExpertMatrices::up));
    KVGATE_TRY_VOID(ExpertMatrix("down", hidden_, ffn, &ExpertMatrices::down));
    if (experts.biases) {
      const auto bias = [&](std::string_view part, int64_t size, auto& buffer) {
        return visitor_.Vector(fmt::format("{}ffn_{}_exps.bias", prefix_, part), {size, count},
                               buffer);
      };
      KVGATE_TRY_VOID(bias("gate", ffn, weights.gate_bias));
      KVGATE_TRY_VOID(bias("up", ffn, weights.up_bias));
      KVGATE_TRY_VOID(bias("down", hidden_, weights.down_bias));
    }
    return SharedExpert();
  }

  Result<void> SharedExpert() {
    const int64_t ffn = config_.experts.shared_dim;
    ExpertWeights& weights = weights_.experts;
    if (ffn == 0) return {};
    KVGATE_TRY_VOID(Matrix("ffn_gate_shexp.weight", ffn, hidden_, weights.shared.gate));
    KVGATE_TRY_VOID(Matrix("ffn_up_shexp.weight", ffn, hidden_, weights.shared.up));
    KVGATE_TRY_VOID(Matrix("ffn_down_shexp.weight", hidden_, ffn, weights.shared.down));
    if (!config_.experts.shared_gate) return {};
    // A matrix of one row, which files store as a vector.
    const RowSlice slice = {.rows = 1, .weight = &weights.shared_router};
    return visitor_.Slices(prefix_ + "ffn_gate_inp_shexp.weight", {hidden_}, {&slice, 1});
  }

  const ModelConfig& config_;
  LayerWeights& weights_;
  WeightVisitor& visitor_;
  const std::string prefix_;
  const int64_t hidden_;
  const int64_t q_dim_;
  const int64_t kv_dim_;
};

Result<void> VisitWeights(const ModelConfig& config, ModelWeights& weights,
                          WeightVisitor& visitor) {
  KVGATE_TRY_VOID(
      visitor.Table("token_embd.weight", config.vocab_size, config.hidden_dim, weights.token_embd));
  if (config.num_positions > 0) {
    KVGATE_TRY_VOID(visitor.Rows("position_embd.weight", config.num_positions, config.hidden_dim,
                                 weights.position_embd));
  }
  if (config.num_token_types > 0) {
    KVGATE_TRY_VOID(visitor.Rows("token_types.weight", config.num_token_types, config.hidden_dim,
                                 weights.token_types));
  }
  if (config.embedding_norm) {
    KVGATE_TRY_VOID(visitor.Norm("token_embd_norm", config.hidden_dim, weights.embedding_norm));
  }
  weights.layers.resize(static_cast<size_t>(config.num_layers));
  for (int layer = 0; layer < config.num_layers; ++layer) {
    LayerWeights& layer_weights = weights.layers[static_cast<size_t>(layer)];
    KVGATE_TRY_VOID(LayerVisit(config, layer, layer_weights, visitor).Run());
  }
  for (const char* name :
       {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    visitor.KnownTensor(name);
  }
  if (config.output_norm) {
    KVGATE_TRY_VOID(visitor.Vector("output_norm.weight", {config.hidden_dim}, weights.output_norm));
  }
  if (config.pooling) {  // vectors are taken in front of the output
    visitor.KnownTensor("output.weight");
    return {};
  }
  return visitor.Matrix(config.tied_embeddings ? "token_embd.weight" : "output.weight",
                        config.vocab_size, config.hidden_dim, weights.output);
}

class CheckingVisitor final : public WeightVisitor {
 public:
  explicit CheckingVisitor(const ModelFile& file) : file_(file) {}

  Result<void> Slices(const std::string& name, const Dimensions& dimensions,
                      std::span<const RowSlice>) override {
    KVGATE_TRY(const GgufTensor* tensor, Check(name, dimensions));
    KVGATE_TRY([[maybe_unused]] const kernels::DType dtype, MatrixDType(*tensor));
    return {};
  }
  Result<void> Vector(const std::string& name, const Dimensions& dimensions,
                      std::unique_ptr<kernels::FloatBuffer>&) override {
    KVGATE_TRY(const GgufTensor* tensor, Check(name, dimensions));
    if (tensor->type != static_cast<uint32_t>(modelfile::GgufType::kF32)) {
      return MakeError(ErrorCode::kUnsupported, kSource,
                       fmt::format("tensor '{}' has type {}; norms and biases must be F32", name,
                                   modelfile::GgufTypeName(tensor->type)));
    }
    return {};
  }
  Result<void> Table(const std::string& name, int64_t rows, int64_t columns,
                     EmbeddingTable&) override {
    return Slices(name, {columns, rows}, {});
  }
  Result<void> Rows(const std::string& name, int64_t rows, int64_t columns,
                    std::unique_ptr<kernels::FloatBuffer>&) override {
    const GgufTensor* const tensor = file_.FindTensor(name);
    const bool is_vector = rows == 1 && tensor != nullptr && tensor->dimensions.size() == 1;
    return Slices(name, is_vector ? Dimensions{columns} : Dimensions{columns, rows}, {});
  }
  void KnownTensor(const std::string& name) override { seen_.insert(name); }

  // The tensors in the order of the visit.
  std::span<const GgufTensor* const> order() const { return order_; }

  // Fails if a tensor would be ignored, because an unread tensor would change the result.
  Result<void> CheckNoneIgnored(const ModelConfig& config) const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!seen_.contains(tensor.name)) {
        return MakeError(ErrorCode::kUnsupported, kSource,
                         fmt::format("tensor '{}' is not one that architecture {} with {} layers "
                                     "has here",
                                     tensor.name, config.architecture, config.num_layers));
      }
    }
    return {};
  }

 private:
  Result<const GgufTensor*> Check(const std::string& name, const Dimensions& expected) {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr)
      return modelfile::ModelDataLoss(fmt::format("tensor '{}' is missing", name));
    if (tensor->dimensions != expected) {
      return modelfile::ModelDataLoss(fmt::format("tensor '{}' has shape [{}]; expected is [{}]",
                                                  name, fmt::join(tensor->dimensions, ", "),
                                                  fmt::join(expected, ", ")));
    }
    if (seen_.insert(name).second) order_.push_back(tensor);
    return tensor;
  }

  const ModelFile& file_;
  std::unordered_set<std::string> seen_;
  std::vector<const GgufTensor*> order_;
};

// Hashes each tensor of a file once, when its bytes are about to be used anyway.
class TensorHasher {
 public:
  explicit TensorHasher(const ModelFile& file) : file_(file), digests_(file.tensors().size()) {}

  void Hash(const GgufTensor& tensor) {
    auto& digest = digests_[static_cast<size_t>(&tensor - file_.tensors().data())];
    if (!digest) digest = Xxh3(tensor.data);
  }
  // Returns the digests of all tensors; hashes those that were not visited.
  TensorDigests Finish() {
    TensorDigests all;
    for (const GgufTensor& tensor : file_.tensors()) {
      Hash(tensor);
      all.push_back(*digests_[all.size()]);
    }
    return all;
  }

 private:
  const ModelFile& file_;
  std::vector<std::optional<TensorDigests::value_type>> digests_;
};

// REQUIRES: a CheckingVisitor has passed over the same file and configuration.
class LoadingVisitor final : public WeightVisitor {
 public:
  LoadingVisitor(const ModelFile& file, kernels::Backend& backend)
      : file_(file), backend_(backend), hasher_(file) {}

  Result<void> Slices(const std::string& name, const Dimensions& dimensions,
                      std::span<const RowSlice> slices) override {
    const GgufTensor& tensor = Use(name);
    KVGATE_TRY(const kernels::DType dtype, MatrixDType(tensor));
    const int64_t columns = dimensions[0];
    const size_t row_bytes = kernels::DTypeBytes(dtype, static_cast<size_t>(columns));
    const std::byte* data = tensor.data.data();
    for (const RowSlice& slice : slices) {
      const kernels::WeightView view = {.dtype = dtype,
                                        .data = data,
                                        .rows = slice.rows,
                                        .columns = columns,
                                        .is_file_mapping = tensor.is_mapped(),
                                        .is_expert = slice.is_expert};
      Result<std::unique_ptr<kernels::Weight>> loaded = backend_.LoadWeight(view);
      if (!loaded) {
        Error error = std::move(loaded).error();
        error.detail = fmt::format("tensor '{}': {}", name, error.detail);
        return error;
      }
      *slice.weight = *std::move(loaded);
      weight_bytes_ += (*slice.weight)->bytes();
      const size_t bytes = static_cast<size_t>(slice.rows) * row_bytes;
      data += bytes;
      Report(bytes);
    }
    return {};
  }
  Result<void> Vector(const std::string& name, const Dimensions&,
                      std::unique_ptr<kernels::FloatBuffer>& buffer) override {
    const GgufTensor& tensor = Use(name);
    std::vector<float> host(tensor.data.size() / sizeof(float));
    std::memcpy(host.data(), tensor.data.data(), tensor.data.size());
    KVGATE_TRY(buffer, backend_.AllocateFloats(host.size()));
    backend_.CopyIn(host, buffer->data());
    weight_bytes_ += tensor.data.size();
    return {};
  }
  Result<void> Table(const std::string& name, int64_t rows, int64_t columns,
                     EmbeddingTable& table) override {
    const GgufTensor& tensor = Use(name);
    KVGATE_TRY(const kernels::DType dtype, MatrixDType(tensor));
    KVGATE_TRY(table, EmbeddingTable::Make(tensor, {.dtype = dtype,
                                                    .data = tensor.data.data(),
                                                    .rows = rows,
                                                    .columns = columns,
                                                    .is_file_mapping = tensor.is_mapped()}));
    if (tensor.is_mapped()) DropPages(tensor.data);  // rows are read later, when tokens need them
    return {};
  }
  Result<void> Rows(const std::string& name, int64_t rows, int64_t columns,
                    std::unique_ptr<kernels::FloatBuffer>& buffer) override {
    const GgufTensor& tensor = Use(name);
    KVGATE_TRY(const kernels::DType dtype, MatrixDType(tensor));
    std::vector<TokenId> all(static_cast<size_t>(rows));
    std::iota(all.begin(), all.end(), 0);
    KVGATE_TRY(buffer, backend_.AllocateFloats(all.size() * static_cast<size_t>(columns)));
    backend_.EmbedRows(
        {.dtype = dtype, .data = tensor.data.data(), .rows = rows, .columns = columns}, all,
        buffer->data());
    backend_.Synchronize();
    weight_bytes_ += buffer->size() * sizeof(float);
    return {};
  }
  void KnownTensor(const std::string&) override {}

  size_t weight_bytes() const { return weight_bytes_; }
  TensorDigests Digests() { return hasher_.Finish(); }

 private:
  const GgufTensor& Use(const std::string& name) {
    const GgufTensor& tensor = *file_.FindTensor(name);
    hasher_.Hash(tensor);
    return tensor;
  }

  // Logs progress every two seconds, so that loading a large model from a slow disk is not silent.
  void Report(size_t bytes) {
    constexpr auto kInterval = std::chrono::seconds(2);
    file_bytes_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (now - reported_ < kInterval) return;
    reported_ = now;
    KVGATE_LOG(kInfo, "model", "loading weights: {} of {} MiB", file_bytes_ >> 20,
               file_.total_bytes() >> 20);
  }

  const ModelFile& file_;
  kernels::Backend& backend_;
  TensorHasher hasher_;
  size_t weight_bytes_ = 0;
  size_t file_bytes_ = 0;
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
};

template <typename T>
void Put(std::vector<std::byte>& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

void PutText(std::vector<std::byte>& out, std::string_view text) {
  Put<uint64_t>(out, text.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

// Appends every field that the forward reads, each with known length, so that no two configurations
// give the same bytes. The KV groups are left out: they decide where KV is stored, not its values.
void PutConfig(std::vector<std::byte>& out, const ModelConfig& config) {
  const ExpertConfig& experts = config.experts;
  PutText(out, config.architecture);
  for (const int number : {config.num_layers,
                           config.num_heads,
                           config.num_kv_heads,
                           config.head_dim,
                           config.hidden_dim,
                           config.ffn_dim,
                           config.vocab_size,
                           config.rotary_dim,
                           static_cast<int>(config.rope_kind),
                           int{config.tied_embeddings},
                           int{config.pre_norms},
                           int{config.post_norms},
                           int{config.qkv_bias},
                           int{config.output_bias},
                           int{config.fused_qkv},
                           int{config.fused_gate_up},
                           int{config.attention_sinks},
                           static_cast<int>(config.qk_norm),
                           static_cast<int>(config.glu),
                           experts.num_experts,
                           experts.num_used,
                           experts.ffn_dim,
                           experts.shared_dim,
                           int{experts.shared_gate},
                           static_cast<int>(experts.gating),
                           int{experts.renormalise},
                           int{experts.router_bias},
                           int{experts.biases},
                           int{experts.one_tensor_each}}) {
    Put(out, number);
  }
  for (const float number : {config.norm_eps, config.embedding_scale, config.residual_scale,
                             config.logit_scale, config.logit_softcap, config.attention_scale,
                             config.attention_softcap, experts.share_scale}) {
    Put(out, number);
  }
  PutText(out, config.ffn_norm_name);
  for (const RopeConfig& rope : config.ropes) {
    for (const float frequency : rope.inv_freq) Put(out, frequency);
    Put(out, rope.magnitude);
  }
  for (const LayerConfig& layer : config.layers) {
    Put(out, layer.window);
    Put(out, layer.rope);
  }
  if (!config.pooling) return;  // the rest is the same for all models that generate text
  for (const int number : {static_cast<int>(*config.pooling), static_cast<int>(config.norm_kind),
                           int{config.stream_norms}, int{config.has_ffn_gate}, int{config.ffn_bias},
                           config.num_token_types, config.num_positions, int{config.embedding_norm},
                           int{config.output_norm}, int{config.sees_later_rows}}) {
    Put(out, number);
  }
}

kernels::ExpertMatrices ViewOf(const ExpertMatrices& matrices) {
  return {.gate = matrices.gate.get(), .up = matrices.up.get(), .down = matrices.down.get()};
}

Result<std::unique_ptr<kernels::ExpertSet>> LoadExpertSet(const ModelConfig& config,
                                                          const ExpertWeights& weights,
                                                          kernels::Backend& backend) {
  std::vector<kernels::ExpertMatrices> experts;
  for (const ExpertMatrices& expert : weights.experts) experts.push_back(ViewOf(expert));
  return backend.LoadExperts({.rule = config.experts.rule(),
                              .glu = config.glu,
                              .router = weights.router.get(),
                              .router_bias = DataOrNull(weights.router_bias),
                              .experts = experts,
                              .gate_bias = DataOrNull(weights.gate_bias),
                              .up_bias = DataOrNull(weights.up_bias),
                              .down_bias = DataOrNull(weights.down_bias),
                              .shared = ViewOf(weights.shared),
                              .shared_router = weights.shared_router.get()});
}

}  // namespace

Result<ModelWeights> LoadModelWeights(const ModelFile& file, const ModelConfig& config,
                                      kernels::Backend& backend) {
  ModelWeights weights;
  CheckingVisitor checking(file);
  KVGATE_TRY_VOID(VisitWeights(config, weights, checking));
  KVGATE_TRY_VOID(checking.CheckNoneIgnored(config));
  std::vector<std::span<const std::byte>> runs;
  for (const GgufTensor* tensor : checking.order()) {
    if (tensor->is_mapped()) runs.push_back(tensor->data);
  }
  const modelfile::ReadAhead read_ahead(std::move(runs));
  LoadingVisitor loading(file, backend);
  KVGATE_TRY_VOID(VisitWeights(config, weights, loading));
  for (LayerWeights& layer : weights.layers) {
    if (layer.experts.router == nullptr) continue;
    KVGATE_TRY(layer.experts.set, LoadExpertSet(config, layer.experts, backend));
  }
  weights.bytes = loading.weight_bytes();
  weights.digests = loading.Digests();
  if (!config.tied_embeddings || config.pooling) {
    const kernels::WeightView& table = weights.token_embd.view();
    weights.bytes += kernels::DTypeBytes(
        table.dtype, static_cast<size_t>(table.rows) * static_cast<size_t>(table.columns));
  }
  return weights;
}

Fingerprint ComputeWeightFingerprint(const ModelFile& file, const ModelConfig& config,
                                     const TensorDigests& digests) {
  std::vector<std::byte> summary;
  PutText(summary, "kvgate.weights.2");
  PutConfig(summary, config);
  for (const GgufTensor& tensor : file.tensors()) {
    PutText(summary, tensor.name);
    Put(summary, tensor.type);
    Put<uint64_t>(summary, tensor.dimensions.size());
    for (const int64_t dimension : tensor.dimensions) Put(summary, dimension);
    const auto [low, high] = digests[static_cast<size_t>(&tensor - file.tensors().data())];
    Put(summary, low);
    Put(summary, high);
  }
  const auto [low, high] = Xxh3(summary);
  return {.low = low, .high = high};
}

}  // namespace kvgate::model
