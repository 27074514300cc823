#include "engine/model/model_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstring>
#include <string_view>
#include <unordered_set>

#include <kvgate/check.h>
#include <kvgate/digest.h>
#include <kvgate/log.h>

#include "engine/model/gguf.h"
#include "kernels/weight_format.h"

namespace kvgate::model {
namespace {

constexpr std::string_view kSource = "model";
using Dimensions = std::vector<int64_t>;  // innermost first, as in the file

Error DataLoss(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, kSource, std::move(detail));
}

// The dtype that a matrix of this file type is multiplied in.
Result<kernels::DType> MatrixDType(const GgufTensor& tensor) {
  const kernels::WeightFormat* format = kernels::FindWeightFormat(tensor.type);
  if (format != nullptr) return format->dtype;
  return MakeError(ErrorCode::kUnsupported, kSource,
                   fmt::format("tensor '{}' has type {}; supported are {}", tensor.name,
                               GgufTypeName(tensor.type), SupportedGgufTypes()));
}

// One pass over the model's tensors, in two uses: to check them all, then to load them. So what is
// loaded and what was checked cannot differ.
class WeightVisitor {
 public:
  virtual ~WeightVisitor() = default;
  virtual Result<void> Matrix(const std::string& name, int64_t rows, int64_t columns,
                              std::unique_ptr<kernels::Weight>& weight) = 0;
  virtual Result<void> Vector(const std::string& name, int64_t size,
                              std::unique_ptr<kernels::FloatBuffer>& buffer) = 0;
  virtual Result<void> Table(const std::string& name, int64_t rows, int64_t columns,
                             kernels::WeightView& view) = 0;
};

Result<void> VisitLayer(const ModelConfig& config, int layer, LayerWeights& weights,
                        WeightVisitor& visitor) {
  const int64_t hidden = config.hidden_dim;
  const int64_t q_dim = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_dim = int64_t{config.num_kv_heads} * config.head_dim;
  const std::string prefix = fmt::format("blk.{}.", layer);
  KVGATE_TRY_VOID(visitor.Vector(prefix + "attn_norm.weight", hidden, weights.attn_norm));
  KVGATE_TRY_VOID(visitor.Matrix(prefix + "attn_q.weight", q_dim, hidden, weights.attn_q));
  KVGATE_TRY_VOID(visitor.Matrix(prefix + "attn_k.weight", kv_dim, hidden, weights.attn_k));
  KVGATE_TRY_VOID(visitor.Matrix(prefix + "attn_v.weight", kv_dim, hidden, weights.attn_v));
  if (config.qkv_bias) {
    KVGATE_TRY_VOID(visitor.Vector(prefix + "attn_q.bias", q_dim, weights.attn_q_bias));
    KVGATE_TRY_VOID(visitor.Vector(prefix + "attn_k.bias", kv_dim, weights.attn_k_bias));
    KVGATE_TRY_VOID(visitor.Vector(prefix + "attn_v.bias", kv_dim, weights.attn_v_bias));
  }
  KVGATE_TRY_VOID(
      visitor.Matrix(prefix + "attn_output.weight", hidden, q_dim, weights.attn_output));
  KVGATE_TRY_VOID(visitor.Vector(prefix + "ffn_norm.weight", hidden, weights.ffn_norm));
  KVGATE_TRY_VOID(
      visitor.Matrix(prefix + "ffn_gate.weight", config.ffn_dim, hidden, weights.ffn_gate));
  KVGATE_TRY_VOID(visitor.Matrix(prefix + "ffn_up.weight", config.ffn_dim, hidden, weights.ffn_up));
  return visitor.Matrix(prefix + "ffn_down.weight", hidden, config.ffn_dim, weights.ffn_down);
}

Result<void> VisitWeights(const ModelConfig& config, ModelWeights& weights,
                          WeightVisitor& visitor) {
  KVGATE_TRY_VOID(
      visitor.Table("token_embd.weight", config.vocab_size, config.hidden_dim, weights.token_embd));
  weights.layers.resize(static_cast<size_t>(config.num_layers));
  for (int layer = 0; layer < config.num_layers; ++layer) {
    KVGATE_TRY_VOID(VisitLayer(config, layer, weights.layers[static_cast<size_t>(layer)], visitor));
  }
  KVGATE_TRY_VOID(visitor.Vector("output_norm.weight", config.hidden_dim, weights.output_norm));
  return visitor.Matrix(config.tied_embeddings ? "token_embd.weight" : "output.weight",
                        config.vocab_size, config.hidden_dim, weights.output);
}

class CheckingVisitor final : public WeightVisitor {
 public:
  explicit CheckingVisitor(const ModelFile& file) : file_(file) {}

  Result<void> Matrix(const std::string& name, int64_t rows, int64_t columns,
                      std::unique_ptr<kernels::Weight>&) override {
    KVGATE_TRY(const GgufTensor* tensor, Check(name, {columns, rows}));
    KVGATE_TRY([[maybe_unused]] const kernels::DType dtype, MatrixDType(*tensor));
    return {};
  }
  Result<void> Vector(const std::string& name, int64_t size,
                      std::unique_ptr<kernels::FloatBuffer>&) override {
    KVGATE_TRY(const GgufTensor* tensor, Check(name, {size}));
    if (tensor->type != static_cast<uint32_t>(GgufType::kF32)) {
      return MakeError(ErrorCode::kUnsupported, kSource,
                       fmt::format("tensor '{}' has type {}; norms and biases must be F32", name,
                                   GgufTypeName(tensor->type)));
    }
    return {};
  }
  Result<void> Table(const std::string& name, int64_t rows, int64_t columns,
                     kernels::WeightView&) override {
    std::unique_ptr<kernels::Weight> none;
    return Matrix(name, rows, columns, none);
  }

  // A tensor that no architecture of ours reads would change the result where it belongs.
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
    if (tensor == nullptr) return DataLoss(fmt::format("tensor '{}' is missing", name));
    if (tensor->dimensions != expected) {
      return DataLoss(fmt::format("tensor '{}' has shape [{}]; expected is [{}]", name,
                                  fmt::join(tensor->dimensions, ", "), fmt::join(expected, ", ")));
    }
    seen_.insert(name);
    return tensor;
  }

  const ModelFile& file_;
  std::unordered_set<std::string> seen_;
};

// REQUIRES: a CheckingVisitor has been over the same file and configuration.
class LoadingVisitor final : public WeightVisitor {
 public:
  LoadingVisitor(const ModelFile& file, kernels::Backend& backend)
      : file_(file), backend_(backend) {}

  Result<void> Matrix(const std::string& name, int64_t rows, int64_t columns,
                      std::unique_ptr<kernels::Weight>& weight) override {
    kernels::WeightView view;
    KVGATE_TRY_VOID(Table(name, rows, columns, view));
    Result<std::unique_ptr<kernels::Weight>> loaded = backend_.LoadWeight(view);
    if (!loaded) {
      Error error = std::move(loaded).error();
      error.detail = fmt::format("tensor '{}': {}", name, error.detail);
      return error;
    }
    weight = *std::move(loaded);
    weight_bytes_ += weight->bytes();
    Report(kernels::DTypeBytes(view.dtype, Elements(view)));
    return {};
  }
  Result<void> Vector(const std::string& name, int64_t size,
                      std::unique_ptr<kernels::FloatBuffer>& buffer) override {
    const GgufTensor& tensor = *file_.FindTensor(name);
    std::vector<float> host(static_cast<size_t>(size));
    std::memcpy(host.data(), tensor.data.data(), tensor.data.size());
    KVGATE_TRY(buffer, backend_.AllocateFloats(host.size()));
    backend_.CopyIn(host, buffer->data());
    weight_bytes_ += tensor.data.size();
    return {};
  }
  Result<void> Table(const std::string& name, int64_t rows, int64_t columns,
                     kernels::WeightView& view) override {
    const GgufTensor& tensor = *file_.FindTensor(name);
    KVGATE_TRY(const kernels::DType dtype, MatrixDType(tensor));
    view = {.dtype = dtype, .data = tensor.data.data(), .rows = rows, .columns = columns};
    return {};
  }

  size_t weight_bytes() const { return weight_bytes_; }

 private:
  static size_t Elements(const kernels::WeightView& view) {
    return static_cast<size_t>(view.rows) * static_cast<size_t>(view.columns);
  }

  // Says every two seconds how far it is, so that a large model on a slow disk is not silent.
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

}  // namespace

Result<ModelWeights> LoadModelWeights(const ModelFile& file, const ModelConfig& config,
                                      kernels::Backend& backend) {
  ModelWeights weights;
  CheckingVisitor checking(file);
  KVGATE_TRY_VOID(VisitWeights(config, weights, checking));
  KVGATE_TRY_VOID(checking.CheckNoneIgnored(config));
  LoadingVisitor loading(file, backend);
  KVGATE_TRY_VOID(VisitWeights(config, weights, loading));
  weights.bytes = loading.weight_bytes();
  if (!config.tied_embeddings) {
    const kernels::WeightView& table = weights.token_embd;
    weights.bytes += kernels::DTypeBytes(
        table.dtype, static_cast<size_t>(table.rows) * static_cast<size_t>(table.columns));
  }
  return weights;
}

Fingerprint ComputeWeightFingerprint(const ModelFile& file, const ModelConfig& config) {
  // A list of fields, each of known length, so that no two configurations spell the same bytes.
  std::vector<std::byte> summary;
  PutText(summary, "kvgate.weights.1");
  PutText(summary, config.architecture);
  for (const int number :
       {config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim,
        config.hidden_dim, config.ffn_dim, config.vocab_size, config.rotary_dim,
        static_cast<int>(config.rope_kind), int{config.qkv_bias}, int{config.tied_embeddings}}) {
    Put(summary, number);
  }
  Put(summary, config.norm_eps);
  Put(summary, config.rope_theta);
  for (const GgufTensor& tensor : file.tensors()) {
    PutText(summary, tensor.name);
    Put(summary, tensor.type);
    Put<uint64_t>(summary, tensor.dimensions.size());
    for (const int64_t dimension : tensor.dimensions) Put(summary, dimension);
    const auto [low, high] = Xxh3(tensor.data);
    Put(summary, low);
    Put(summary, high);
  }
  const auto [low, high] = Xxh3(summary);
  return {.low = low, .high = high};
}

}  // namespace kvgate::model
