// One step of training: the loss of a batch, and its gradients, in a few passes through memory.
//
// What model.py computes with PyTorch, for shapes whose widths are multiples of 64 and whose heads
// have 64 dimensions. Weights and sums are f32, operands of products bf16. The same batch gives the
// same bits with any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/default_model/step/attention.h"
#include "engine/default_model/step/muon.h"
#include "engine/default_model/step/products.h"
#include "engine/default_model/step/workers.h"

namespace kvgate::default_model::step {

struct Shape {
  std::int64_t vocab_size, num_layers, hidden_dim, num_heads, num_kv_heads, rotary_dim, ffn_dim;
  float rope_theta, norm_eps;

  std::int64_t query_dim() const { return num_heads * kHead; }
  std::int64_t kv_dim() const { return num_kv_heads * kHead; }
  std::int64_t qkv_dim() const { return query_dim() + 2 * kv_dim(); }
};

// Places of a model's arrays (weights or gradients) in a list of pointers: token_embd, output_norm,
// then for each layer as below. Each is [out, in], row by row.
enum Array : std::int64_t { kTokens, kOutputNorm, kLayers };
enum LayerArray : std::int64_t {
  kAttentionNorm,
  kQueries,
  kKeysOf,
  kValuesOf,
  kAttentionOutput,
  kFfnNorm,
  kGate,
  kUp,
  kDown,
  kLayerArrays
};

// A matrix [out, in] packed for x * matrix^T and for grad * matrix.
class Matrix {
 public:
  // Several matrices of the same `in`, one below the other.
  void Set(const std::vector<const float*>& parts, const std::vector<std::int64_t>& outs,
           std::int64_t in);

  // to [rows, out] = x [rows, in] * matrix^T; all x and grads row by row without gaps.
  void Forward(const Bf16* x, std::int64_t rows, float* to) const {
    Product(Operand::Rows(x, in_), rows, forward_.data(), in_, out_, to);
  }
  // to [rows, in] = grads [rows, out] * matrix.
  void Backward(const Bf16* grads, std::int64_t rows, float* to) const {
    Product(Operand::Rows(grads, out_), rows, backward_.data(), out_, in_, to);
  }

 private:
  std::int64_t out_ = 0, in_ = 0;
  Buffer<Bf16> rounded_, forward_, backward_;
};

// What the forward pass of a layer leaves for the backward pass.
struct Layer {
  Matrix qkv, attention_output, gate_up, down;
  Buffer<float> input, middle;              // of its two halves: [tokens, hidden_dim]
  Buffer<float> input_scale, middle_scale;  // of their norms
  Buffer<Bf16> qkv_rows, attention, gate_up_rows;
  Buffer<float> logs;  // [tokens, num_heads]
};

class Step {
 public:
  Step(const Shape& shape, int threads);

  // Takes over the weights for the steps to come.
  void SetWeights(const float* const* weights);

  // The sum over all tokens but the first of each row of weight * -log p(token | those before).
  // tokens and weights are [batch, length]. `logs` [batch, length - 1] gets log p where the weight
  // is not zero. Adds to `gradients`, unless that is null.
  double Loss(std::int64_t batch, std::int64_t length, const std::int64_t* tokens,
              const float* weights, float* const* gradients, float* logs);

  // One step of Muon on each matrix of the layers. All arrays are as in SetWeights.
  void Muon(float* const* weights, const float* const* gradients, float* const* momenta, float rate,
            float decay);

 private:
  struct Scratch;

  template <typename Block>
  void ForBlocks(const Block& block);
  void Embed(const std::int64_t* tokens);
  void LayerForward(std::int64_t index);
  void Queries(Layer& layer, std::int64_t index, std::int64_t first, std::int64_t rows, Scratch& s);
  void Rotate(float* head, std::int64_t position, float direction) const;
  void Attend(Layer& layer);
  void Ffn(Layer& layer, std::int64_t index, std::int64_t first, std::int64_t rows, Scratch& s,
           float* output);
  double Output(const std::int64_t* tokens, const float* weights, float* const* gradients,
                float* logs);
  void LayerBackward(std::int64_t index, float* const* gradients);
  void FfnBackward(Layer& layer, std::int64_t index, std::int64_t first, std::int64_t rows,
                   Scratch& s);
  void AttendBackward(Layer& layer);
  void QueriesBackward(Layer& layer, std::int64_t index, std::int64_t first, std::int64_t rows,
                       Scratch& s);
  void EmbedBackward(const std::int64_t* tokens, float* gradients);
  // gradient[out, in] += grads^T * inputs, both packed along `depth` tokens; parts of 64 rows each.
  void MatrixGrads(const std::vector<float*>& parts, std::int64_t in, const Bf16* grads,
                   const Bf16* inputs, std::int64_t depth);
  const float* Norm(std::int64_t layer, LayerArray array) const;

  Shape shape_;
  Workers workers_;
  std::vector<std::vector<float>> norms_;  // output_norm, then two for each layer
  std::vector<Layer> layers_;
  Matrix table_;
  Buffer<float> embedding_;  // [vocab_size, hidden_dim]
  Buffer<float> output_;     // of the last layer
  std::int64_t batch_ = 0, length_ = 0, tokens_ = 0;
  Buffer<float> cosine_, sine_;  // [length, rotary_dim / 2]
  std::int64_t positions_ = 0;
  // Of the backward pass: the gradient of the residual stream, of attention, of queries, keys and
  // values; and what matrices' gradients are products of.
  Buffer<float> grads_, norm_grads_;
  Buffer<Bf16> attention_grads_, qkv_grads_;
  Buffer<Bf16> qkv_pairs_, normed_pairs_, residual_pairs_, attention_pairs_, gate_up_pairs_,
      ffn_normed_pairs_, inner_pairs_, down_pairs_;
  std::vector<Scratch> scratch_;
};

}  // namespace kvgate::default_model::step
