#include "engine/default_model/step/step.h"

#include <cmath>

namespace kvgate::default_model::step {

namespace {

constexpr std::int64_t kBlock = 96;        // tokens of a task: a multiple of kTileRows, and even
constexpr std::int64_t kOutputBlock = 48;  // rows of logits of a task
constexpr std::int64_t kDepth = 256;       // tokens of a pass over a panel of gradients

std::int64_t Blocks(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

float Sum(const float* values, std::int64_t size) {
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < size; i += kVector) {
    sum = _mm512_add_ps(sum, _mm512_loadu_ps(values + i));
  }
  return _mm512_reduce_add_ps(sum);
}

// The root mean square norm of one row: to = x * scale * weight; returns the scale.
float NormRow(const float* x, const float* weight, std::int64_t size, float eps, Bf16* to) {
  __m512 squares = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < size; i += kVector) {
    const __m512 value = _mm512_loadu_ps(x + i);
    squares = _mm512_fmadd_ps(value, value, squares);
  }
  const float scale =
      1.0F / std::sqrt(_mm512_reduce_add_ps(squares) / static_cast<float>(size) + eps);
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t i = 0; i < size; i += kVector) {
    StoreBf16(to + i, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + i), factor),
                                    _mm512_loadu_ps(weight + i)));
  }
  return scale;
}

// The same from a scale that is known.
void NormAgain(const float* x, float scale, const float* weight, std::int64_t size, Bf16* to) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t i = 0; i < size; i += kVector) {
    StoreBf16(to + i, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + i), factor),
                                    _mm512_loadu_ps(weight + i)));
  }
}

// to += the gradient of x; weight_grads += that of the weight.
void NormBackward(const float* x, float scale, const float* weight, const float* grads,
                  std::int64_t size, float* to, float* weight_grads) {
  const __m512 factor = _mm512_set1_ps(scale);
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < size; i += kVector) {
    const __m512 normed = _mm512_mul_ps(_mm512_loadu_ps(x + i), factor);
    const __m512 product = _mm512_mul_ps(_mm512_loadu_ps(grads + i), normed);
    _mm512_storeu_ps(weight_grads + i, _mm512_add_ps(_mm512_loadu_ps(weight_grads + i), product));
    sum = _mm512_fmadd_ps(product, _mm512_loadu_ps(weight + i), sum);
  }
  const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / static_cast<float>(size));
  for (std::int64_t i = 0; i < size; i += kVector) {
    const __m512 normed = _mm512_mul_ps(_mm512_loadu_ps(x + i), factor);
    const __m512 grad = _mm512_mul_ps(_mm512_loadu_ps(grads + i), _mm512_loadu_ps(weight + i));
    const __m512 change = _mm512_mul_ps(_mm512_fnmadd_ps(normed, mean, grad), factor);
    _mm512_storeu_ps(to + i, _mm512_add_ps(_mm512_loadu_ps(to + i), change));
  }
}

__m512 Sigmoid(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0F);
  const __m512 bounded = _mm512_max_ps(x, _mm512_set1_ps(-80.0F));
  return _mm512_div_ps(one, _mm512_add_ps(one, Exp(_mm512_sub_ps(_mm512_setzero_ps(), bounded))));
}

// inner [rows, size] of rows of gates and ups, which stand beside each other.
void SwiGlu(const Bf16* gate_up, std::int64_t rows, std::int64_t size, Bf16* inner) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const Bf16* gates = gate_up + row * 2 * size;
    for (std::int64_t i = 0; i < size; i += kVector) {
      const __m512 gate = LoadBf16(gates + i);
      StoreBf16(inner + row * size + i,
                _mm512_mul_ps(_mm512_mul_ps(gate, Sigmoid(gate)), LoadBf16(gates + size + i)));
    }
  }
}

// grads of inner become those of gates and ups.
void SwiGluBackward(const Bf16* gate_up, const float* inner_grads, std::int64_t rows,
                    std::int64_t size, Bf16* grads) {
  const __m512 one = _mm512_set1_ps(1.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Bf16* gates = gate_up + row * 2 * size;
    Bf16* to = grads + row * 2 * size;
    for (std::int64_t i = 0; i < size; i += kVector) {
      const __m512 gate = LoadBf16(gates + i);
      const __m512 up = LoadBf16(gates + size + i);
      const __m512 grad = _mm512_loadu_ps(inner_grads + row * size + i);
      const __m512 sigmoid = Sigmoid(gate);
      const __m512 silu = _mm512_mul_ps(gate, sigmoid);
      // silu' = sigmoid + silu * (1 - sigmoid)
      const __m512 slope = _mm512_fmadd_ps(silu, _mm512_sub_ps(one, sigmoid), sigmoid);
      StoreBf16(to + i, _mm512_mul_ps(_mm512_mul_ps(grad, up), slope));
      StoreBf16(to + size + i, _mm512_mul_ps(grad, silu));
    }
  }
}

// Logits of one row become their gradient times `weight`, in bf16; returns log p of the target.
float SoftmaxRow(float* logits, std::int64_t size, std::int64_t target, float weight, Bf16* grads) {
  __m512 greatest = _mm512_loadu_ps(logits);
  for (std::int64_t i = 0; i < size; i += kVector) {
    greatest = _mm512_max_ps(greatest, _mm512_loadu_ps(logits + i));
  }
  const float maximum = _mm512_reduce_max_ps(greatest);
  const float wanted = logits[target] - maximum;
  for (std::int64_t i = 0; i < size; i += kVector) {
    _mm512_storeu_ps(logits + i,
                     Exp(_mm512_sub_ps(_mm512_loadu_ps(logits + i), _mm512_set1_ps(maximum))));
  }
  const float sum = Sum(logits, size);
  const __m512 factor = _mm512_set1_ps(weight / sum);
  logits[target] -= sum;
  for (std::int64_t i = 0; i < size; i += kVector) {
    StoreBf16(grads + i, _mm512_mul_ps(_mm512_loadu_ps(logits + i), factor));
  }
  return wanted - std::log(sum);
}

}  // namespace

struct Step::Scratch {
  AttentionScratch attention;
  Buffer<float> wide, narrow;    // [kBlock, the widest], [kBlock, hidden_dim]
  Buffer<Bf16> rounded, normed;  // the same
  MuonScratch muon;
};

void Matrix::Set(const std::vector<const float*>& parts, const std::vector<std::int64_t>& outs,
                 std::int64_t in) {
  in_ = in;
  out_ = 0;
  for (const std::int64_t out : outs) {
    out_ += out;
  }
  rounded_.Grow(out_ * in);
  forward_.Grow(out_ * in);
  backward_.Grow(out_ * in);
  Bf16* to = rounded_.data();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ToBf16(parts[i], to, outs[i] * in);
    to += outs[i] * in;
  }
  PackColumns(rounded_.data(), in, out_, in, forward_.data());
  PackRows(rounded_.data(), in, out_, in, backward_.data(), 0, out_);
}

Step::Step(const Shape& shape, int threads)
    : shape_(shape),
      workers_(threads),
      layers_(static_cast<std::size_t>(shape.num_layers)),
      scratch_(static_cast<std::size_t>(workers_.count())) {
  const std::int64_t widest = std::max({shape.qkv_dim(), 2 * shape.ffn_dim, shape.hidden_dim});
  for (Scratch& s : scratch_) {
    s.wide.Grow(kBlock * std::max(widest, shape.vocab_size));
    s.narrow.Grow(kBlock * shape.hidden_dim);
    s.rounded.Grow(kBlock * std::max(widest, shape.vocab_size));
    s.normed.Grow(kBlock * widest);
  }
}

const float* Step::Norm(std::int64_t layer, LayerArray array) const {
  return norms_[static_cast<std::size_t>(1 + 2 * layer + (array == kFfnNorm ? 1 : 0))].data();
}

void Step::SetWeights(const float* const* weights) {
  const Shape& s = shape_;
  norms_.clear();
  norms_.emplace_back(weights[kOutputNorm], weights[kOutputNorm] + s.hidden_dim);
  embedding_.Grow(s.vocab_size * s.hidden_dim);
  std::copy_n(weights[kTokens], s.vocab_size * s.hidden_dim, embedding_.data());
  table_.Set({weights[kTokens]}, {s.vocab_size}, s.hidden_dim);
  for (std::int64_t i = 0; i < s.num_layers; ++i) {
    const float* const* w = weights + kLayers + i * kLayerArrays;
    norms_.emplace_back(w[kAttentionNorm], w[kAttentionNorm] + s.hidden_dim);
    norms_.emplace_back(w[kFfnNorm], w[kFfnNorm] + s.hidden_dim);
  }
  workers_.Run(s.num_layers, [&](std::int64_t i, int) {
    const float* const* w = weights + kLayers + i * kLayerArrays;
    Layer& layer = layers_[static_cast<std::size_t>(i)];
    layer.qkv.Set({w[kQueries], w[kKeysOf], w[kValuesOf]}, {s.query_dim(), s.kv_dim(), s.kv_dim()},
                  s.hidden_dim);
    layer.attention_output.Set({w[kAttentionOutput]}, {s.hidden_dim}, s.query_dim());
    layer.gate_up.Set({w[kGate], w[kUp]}, {s.ffn_dim, s.ffn_dim}, s.hidden_dim);
    layer.down.Set({w[kDown]}, {s.hidden_dim}, s.ffn_dim);
  });
}

template <typename Block>
void Step::ForBlocks(const Block& block) {
  workers_.Run(Blocks(tokens_, kBlock), [&](std::int64_t task, int worker) {
    const std::int64_t first = task * kBlock;
    block(first, std::min(kBlock, tokens_ - first), scratch_[static_cast<std::size_t>(worker)]);
  });
}

void Step::Embed(const std::int64_t* tokens) {
  const std::int64_t half = shape_.rotary_dim / 2;
  if (length_ > positions_) {
    positions_ = length_;
    cosine_.Grow(positions_ * half);
    sine_.Grow(positions_ * half);
    for (std::int64_t i = 0; i < positions_ * half; ++i) {
      const double angle = static_cast<double>(i / half) *
                           std::pow(static_cast<double>(shape_.rope_theta),
                                    -static_cast<double>(i % half) / static_cast<double>(half));
      cosine_[i] = static_cast<float>(std::cos(angle));
      sine_[i] = static_cast<float>(std::sin(angle));
    }
  }
  const std::int64_t size = shape_.hidden_dim;
  for (std::int64_t row = 0; row < tokens_; ++row) {
    const float* from = &embedding_[tokens[row] * size];
    for (std::int64_t i = 0; i < size; i += kVector) {
      // As a product would see it.
      Bf16 rounded[kVector];
      StoreBf16(rounded, _mm512_loadu_ps(from + i));
      _mm512_storeu_ps(&layers_[0].input[row * size + i], LoadBf16(rounded));
    }
  }
}

// Turns the pairs (i, i + rotary_dim / 2) of one head; direction -1 turns back.
void Step::Rotate(float* head, std::int64_t position, float direction) const {
  const std::int64_t half = shape_.rotary_dim / 2;
  for (std::int64_t i = 0; i < half; i += kVector) {
    const __m512 cosine = _mm512_loadu_ps(&cosine_[position * half + i]);
    const __m512 sine =
        _mm512_mul_ps(_mm512_loadu_ps(&sine_[position * half + i]), _mm512_set1_ps(direction));
    const __m512 first = _mm512_loadu_ps(head + i);
    const __m512 second = _mm512_loadu_ps(head + half + i);
    _mm512_storeu_ps(head + i, _mm512_fnmadd_ps(second, sine, _mm512_mul_ps(first, cosine)));
    _mm512_storeu_ps(head + half + i, _mm512_fmadd_ps(first, sine, _mm512_mul_ps(second, cosine)));
  }
}

void Step::Queries(Layer& layer, std::int64_t index, std::int64_t first, std::int64_t rows,
                   Scratch& s) {
  const std::int64_t hidden = shape_.hidden_dim, size = shape_.qkv_dim();
  const float scale = 1.0F / std::sqrt(static_cast<float>(kHead));
  for (std::int64_t row = 0; row < rows; ++row) {
    layer.input_scale[first + row] =
        NormRow(&layer.input[(first + row) * hidden], Norm(index, kAttentionNorm), hidden,
                shape_.norm_eps, &s.normed[row * hidden]);
  }
  layer.qkv.Forward(s.normed.data(), rows, s.wide.data());
  for (std::int64_t row = 0; row < rows; ++row) {
    float* values = &s.wide[row * size];
    for (std::int64_t head = 0; head < shape_.num_heads + shape_.num_kv_heads; ++head) {
      Rotate(values + head * kHead, (first + row) % length_, 1.0F);
    }
    for (std::int64_t i = 0; i < shape_.query_dim(); i += kVector) {
      _mm512_storeu_ps(values + i,
                       _mm512_mul_ps(_mm512_loadu_ps(values + i), _mm512_set1_ps(scale)));
    }
  }
  ToBf16(s.wide.data(), &layer.qkv_rows[first * size], rows * size);
}

namespace {

GroupRows RowsOf(const Shape& shape, const Bf16* sequence, std::int64_t group,
                 std::int64_t length) {
  const std::int64_t heads = shape.num_heads / shape.num_kv_heads;
  return {.queries = sequence + group * heads * kHead,
          .keys = sequence + shape.query_dim() + group * kHead,
          .values = sequence + shape.query_dim() + shape.kv_dim() + group * kHead,
          .stride = shape.qkv_dim(),
          .length = length,
          .heads = heads};
}

}  // namespace

void Step::Attend(Layer& layer) {
  const std::int64_t groups = shape_.num_kv_heads, heads = shape_.num_heads / groups;
  workers_.Run(batch_ * groups, [&](std::int64_t task, int worker) {
    const std::int64_t row = task / groups * length_, group = task % groups;
    AttentionForward(RowsOf(shape_, &layer.qkv_rows[row * shape_.qkv_dim()], group, length_),
                     scratch_[static_cast<std::size_t>(worker)].attention,
                     &layer.attention[row * shape_.query_dim() + group * heads * kHead],
                     shape_.query_dim(), &layer.logs[row * shape_.num_heads + group * heads],
                     shape_.num_heads);
  });
}

void Step::Ffn(Layer& layer, std::int64_t index, std::int64_t first, std::int64_t rows, Scratch& s,
               float* output) {
  const std::int64_t hidden = shape_.hidden_dim, ffn = shape_.ffn_dim;
  layer.attention_output.Forward(&layer.attention[first * shape_.query_dim()], rows,
                                 s.narrow.data());
  for (std::int64_t row = 0; row < rows; ++row) {
    float* middle = &layer.middle[(first + row) * hidden];
    const float* input = &layer.input[(first + row) * hidden];
    for (std::int64_t i = 0; i < hidden; ++i) {
      middle[i] = input[i] + s.narrow[row * hidden + i];
    }
    layer.middle_scale[first + row] =
        NormRow(middle, Norm(index, kFfnNorm), hidden, shape_.norm_eps, &s.normed[row * hidden]);
  }
  layer.gate_up.Forward(s.normed.data(), rows, s.wide.data());
  Bf16* gate_up = &layer.gate_up_rows[first * 2 * ffn];
  ToBf16(s.wide.data(), gate_up, rows * 2 * ffn);
  SwiGlu(gate_up, rows, ffn, s.rounded.data());
  layer.down.Forward(s.rounded.data(), rows, s.narrow.data());
  for (std::int64_t i = 0; i < rows * hidden; ++i) {
    output[first * hidden + i] = layer.middle[first * hidden + i] + s.narrow[i];
  }
}

void Step::LayerForward(std::int64_t index) {
  Layer& layer = layers_[static_cast<std::size_t>(index)];
  layer.middle.Grow(tokens_ * shape_.hidden_dim);
  layer.input_scale.Grow(tokens_);
  layer.middle_scale.Grow(tokens_);
  layer.qkv_rows.Grow(tokens_ * shape_.qkv_dim());
  layer.attention.Grow(tokens_ * shape_.query_dim());
  layer.gate_up_rows.Grow(tokens_ * 2 * shape_.ffn_dim);
  layer.logs.Grow(tokens_ * shape_.num_heads);
  Buffer<float>& output =
      index + 1 < shape_.num_layers ? layers_[static_cast<std::size_t>(index + 1)].input : output_;
  output.Grow(tokens_ * shape_.hidden_dim);
  ForBlocks([&](std::int64_t first, std::int64_t rows, Scratch& s) {
    Queries(layer, index, first, rows, s);
  });
  Attend(layer);
  ForBlocks([&](std::int64_t first, std::int64_t rows, Scratch& s) {
    Ffn(layer, index, first, rows, s, output.data());
  });
}

double Step::Output(const std::int64_t* tokens, const float* weights, float* const* gradients,
                    float* logs) {
  const std::int64_t hidden = shape_.hidden_dim, vocab = shape_.vocab_size;
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < tokens_; ++row) {
    if (row % length_ + 1 < length_ && weights[row + 1] != 0) {
      places.push_back(row);
    }
  }
  const auto count = static_cast<std::int64_t>(places.size());
  const std::int64_t blocks = Blocks(count, kOutputBlock);
  Buffer<Bf16> grad_pairs(gradients != nullptr ? PackedSize(count, vocab) : 0);
  Buffer<Bf16> normed_pairs(gradients != nullptr ? PackedSize(count, hidden) : 0);
  Buffer<float> norm_grads(std::max<std::int64_t>(1, blocks) * hidden);
  std::vector<double> losses(static_cast<std::size_t>(blocks));
  const float* norm = norms_[0].data();
  workers_.Run(blocks, [&](std::int64_t task, int worker) {
    Scratch& s = scratch_[static_cast<std::size_t>(worker)];
    const std::int64_t first = task * kOutputBlock;
    const std::int64_t rows = std::min(kOutputBlock, count - first);
    const std::int64_t* at = &places[static_cast<std::size_t>(first)];
    std::vector<float> scales(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      scales[static_cast<std::size_t>(row)] = NormRow(&output_[at[row] * hidden], norm, hidden,
                                                      shape_.norm_eps, &s.normed[row * hidden]);
    }
    table_.Forward(s.normed.data(), rows, s.wide.data());
    double loss = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t place = at[row];
      const float log = SoftmaxRow(&s.wide[row * vocab], vocab, tokens[place + 1],
                                   weights[place + 1], &s.rounded[row * vocab]);
      loss -= static_cast<double>(log) * static_cast<double>(weights[place + 1]);
      logs[place / length_ * (length_ - 1) + place % length_] = log;
    }
    losses[static_cast<std::size_t>(task)] = loss;
    if (gradients == nullptr) {
      return;
    }
    PackRows(s.rounded.data(), vocab, rows, vocab, grad_pairs.data(), first, count);
    PackRows(s.normed.data(), hidden, rows, hidden, normed_pairs.data(), first, count);
    table_.Backward(s.rounded.data(), rows, s.narrow.data());
    float* sums = &norm_grads[task * hidden];
    std::fill_n(sums, hidden, 0.0F);
    for (std::int64_t row = 0; row < rows; ++row) {
      NormBackward(&output_[at[row] * hidden], scales[static_cast<std::size_t>(row)], norm,
                   &s.narrow[row * hidden], hidden, &grads_[at[row] * hidden], sums);
    }
  });
  double loss = 0;
  for (const double part : losses) {
    loss += part;
  }
  if (gradients != nullptr) {
    for (std::int64_t i = 0; i < blocks * hidden; ++i) {
      gradients[kOutputNorm][i % hidden] += norm_grads[i];
    }
    std::vector<float*> parts;
    for (std::int64_t row = 0; row < vocab; row += kPanel) {
      parts.push_back(gradients[kTokens] + row * hidden);
    }
    MatrixGrads(parts, hidden, grad_pairs.data(), normed_pairs.data(), count);
  }
  return loss;
}

void Step::MatrixGrads(const std::vector<float*>& parts, std::int64_t in, const Bf16* grads,
                       const Bf16* inputs, std::int64_t depth) {
  const std::int64_t panel = (depth + 1) / 2 * 2 * kPanel;
  const std::int64_t columns = in / kPanel;
  workers_.Run(static_cast<std::int64_t>(parts.size()) * columns, [&](std::int64_t task, int) {
    const std::int64_t part = task % static_cast<std::int64_t>(parts.size());
    const std::int64_t column = task / static_cast<std::int64_t>(parts.size());
    float* to = parts[static_cast<std::size_t>(part)] + column * kPanel;
    for (std::int64_t first = 0; first < depth; first += kDepth) {
      const std::int64_t count = std::min(kDepth, depth - first);
      PanelProduct(Operand::Panel(grads + part * panel + first * kPanel), kPanel,
                   inputs + column * panel + first * kPanel, (count + 1) / 2,
                   [&](std::int64_t row, int at, __m512 sums) {
                     float* sum = to + row * in + at;
                     _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), sums));
                   });
    }
  });
}

void Step::FfnBackward(Layer& layer, std::int64_t index, std::int64_t first, std::int64_t rows,
                       Scratch& s) {
  const std::int64_t hidden = shape_.hidden_dim, ffn = shape_.ffn_dim;
  float* grads = &grads_[first * hidden];
  float* norm_grads = &norm_grads_[first / kBlock * 2 * hidden];
  std::fill_n(norm_grads, 2 * hidden, 0.0F);
  const Bf16* gate_up = &layer.gate_up_rows[first * 2 * ffn];
  SwiGlu(gate_up, rows, ffn, s.rounded.data());
  PackRows(s.rounded.data(), ffn, rows, ffn, inner_pairs_.data(), first, tokens_);
  ToBf16(grads, s.normed.data(), rows * hidden);
  PackRows(s.normed.data(), hidden, rows, hidden, down_pairs_.data(), first, tokens_);
  layer.down.Backward(s.normed.data(), rows, s.wide.data());
  SwiGluBackward(gate_up, s.wide.data(), rows, ffn, s.rounded.data());
  PackRows(s.rounded.data(), 2 * ffn, rows, 2 * ffn, gate_up_pairs_.data(), first, tokens_);
  layer.gate_up.Backward(s.rounded.data(), rows, s.narrow.data());
  const float* weight = Norm(index, kFfnNorm);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* middle = &layer.middle[(first + row) * hidden];
    const float scale = layer.middle_scale[first + row];
    NormAgain(middle, scale, weight, hidden, &s.normed[row * hidden]);
    NormBackward(middle, scale, weight, &s.narrow[row * hidden], hidden, grads + row * hidden,
                 norm_grads + hidden);
  }
  PackRows(s.normed.data(), hidden, rows, hidden, ffn_normed_pairs_.data(), first, tokens_);
  // What reaches the middle goes on through attention as well.
  ToBf16(grads, s.normed.data(), rows * hidden);
  PackRows(s.normed.data(), hidden, rows, hidden, residual_pairs_.data(), first, tokens_);
  const std::int64_t query_dim = shape_.query_dim();
  PackRows(&layer.attention[first * query_dim], query_dim, rows, query_dim, attention_pairs_.data(),
           first, tokens_);
  layer.attention_output.Backward(s.normed.data(), rows, s.wide.data());
  ToBf16(s.wide.data(), &attention_grads_[first * query_dim], rows * query_dim);
}

void Step::AttendBackward(Layer& layer) {
  const std::int64_t groups = shape_.num_kv_heads, heads = shape_.num_heads / groups;
  const std::int64_t size = shape_.qkv_dim(), query_dim = shape_.query_dim();
  const __m512 scale = _mm512_set1_ps(1.0F / std::sqrt(static_cast<float>(kHead)));
  workers_.Run(batch_ * groups, [&](std::int64_t task, int worker) {
    const std::int64_t row = task / groups * length_, group = task % groups;
    AttentionScratch& s = scratch_[static_cast<std::size_t>(worker)].attention;
    const std::int64_t out = row * query_dim + group * heads * kHead;
    Bf16* to = &qkv_grads_[row * size];
    alignas(64) float turned_back[kHead];
    AttentionBackward(
        RowsOf(shape_, &layer.qkv_rows[row * size], group, length_), s, &layer.attention[out],
        &attention_grads_[out], query_dim, &layer.logs[row * shape_.num_heads + group * heads],
        shape_.num_heads,
        [&](std::int64_t head, std::int64_t query, const float* turned, std::int64_t index) {
          for (std::int64_t i = 0; i < kHead; i += kVector) {
            _mm512_store_ps(turned_back + i, _mm512_mul_ps(TurnBack(turned, index, i), scale));
          }
          Rotate(turned_back, query, -1.0F);
          ToBf16(turned_back, to + query * size + (group * heads + head) * kHead, kHead);
        });
    for (std::int64_t key = 0; key < length_; ++key) {
      Rotate(&s.key_grads[key * kHead], key, -1.0F);
      Bf16* keys = to + key * size + query_dim + group * kHead;
      ToBf16(&s.key_grads[key * kHead], keys, kHead);
      ToBf16(&s.value_grads[key * kHead], keys + shape_.kv_dim(), kHead);
    }
  });
}

void Step::QueriesBackward(Layer& layer, std::int64_t index, std::int64_t first, std::int64_t rows,
                           Scratch& s) {
  const std::int64_t hidden = shape_.hidden_dim, size = shape_.qkv_dim();
  const Bf16* grads = &qkv_grads_[first * size];
  PackRows(grads, size, rows, size, qkv_pairs_.data(), first, tokens_);
  layer.qkv.Backward(grads, rows, s.narrow.data());
  const float* weight = Norm(index, kAttentionNorm);
  float* norm_grads = &norm_grads_[first / kBlock * 2 * hidden];
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* input = &layer.input[(first + row) * hidden];
    const float scale = layer.input_scale[first + row];
    NormAgain(input, scale, weight, hidden, &s.normed[row * hidden]);
    NormBackward(input, scale, weight, &s.narrow[row * hidden], hidden,
                 &grads_[(first + row) * hidden], norm_grads);
  }
  PackRows(s.normed.data(), hidden, rows, hidden, normed_pairs_.data(), first, tokens_);
}

void Step::LayerBackward(std::int64_t index, float* const* gradients) {
  const Shape& shape = shape_;
  Layer& layer = layers_[static_cast<std::size_t>(index)];
  float* const* to = gradients + kLayers + index * kLayerArrays;
  ForBlocks([&](std::int64_t first, std::int64_t rows, Scratch& s) {
    FfnBackward(layer, index, first, rows, s);
  });
  AttendBackward(layer);
  ForBlocks([&](std::int64_t first, std::int64_t rows, Scratch& s) {
    QueriesBackward(layer, index, first, rows, s);
  });
  const std::int64_t hidden = shape.hidden_dim;
  for (std::int64_t block = 0; block < Blocks(tokens_, kBlock); ++block) {
    for (std::int64_t i = 0; i < hidden; ++i) {
      to[kAttentionNorm][i] += norm_grads_[block * 2 * hidden + i];
      to[kFfnNorm][i] += norm_grads_[block * 2 * hidden + hidden + i];
    }
  }
  const auto parts = [&](std::initializer_list<LayerArray> arrays,
                         std::initializer_list<std::int64_t> outs, std::int64_t in) {
    std::vector<float*> all;
    const std::int64_t* out = outs.begin();
    for (const LayerArray array : arrays) {
      for (std::int64_t row = 0; row < *out; row += kPanel) {
        all.push_back(to[array] + row * in);
      }
      ++out;
    }
    return all;
  };
  MatrixGrads(parts({kQueries, kKeysOf, kValuesOf},
                    {shape.query_dim(), shape.kv_dim(), shape.kv_dim()}, hidden),
              hidden, qkv_pairs_.data(), normed_pairs_.data(), tokens_);
  MatrixGrads(parts({kAttentionOutput}, {hidden}, shape.query_dim()), shape.query_dim(),
              residual_pairs_.data(), attention_pairs_.data(), tokens_);
  MatrixGrads(parts({kGate, kUp}, {shape.ffn_dim, shape.ffn_dim}, hidden), hidden,
              gate_up_pairs_.data(), ffn_normed_pairs_.data(), tokens_);
  MatrixGrads(parts({kDown}, {hidden}, shape.ffn_dim), shape.ffn_dim, down_pairs_.data(),
              inner_pairs_.data(), tokens_);
}

// Threads share the dimensions, so that each sum has one order.
void Step::EmbedBackward(const std::int64_t* tokens, float* gradients) {
  const std::int64_t hidden = shape_.hidden_dim;
  workers_.Run(hidden / kPanel, [&](std::int64_t task, int) {
    for (std::int64_t row = 0; row < tokens_; ++row) {
      float* to = gradients + tokens[row] * hidden + task * kPanel;
      const float* from = &grads_[row * hidden + task * kPanel];
      for (std::int64_t i = 0; i < kPanel; ++i) {
        to[i] += from[i];
      }
    }
  });
}

double Step::Loss(std::int64_t batch, std::int64_t length, const std::int64_t* tokens,
                  const float* weights, float* const* gradients, float* logs) {
  batch_ = batch;
  length_ = length;
  tokens_ = batch * length;
  const std::int64_t hidden = shape_.hidden_dim;
  layers_[0].input.Grow(tokens_ * hidden);
  Embed(tokens);
  for (std::int64_t i = 0; i < shape_.num_layers; ++i) {
    LayerForward(i);
  }
  grads_.Grow(tokens_ * hidden);
  std::fill_n(grads_.data(), tokens_ * hidden, 0.0F);
  const double loss = Output(tokens, weights, gradients, logs);
  if (gradients == nullptr) {
    return loss;
  }
  norm_grads_.Grow(Blocks(tokens_, kBlock) * 2 * hidden);
  attention_grads_.Grow(tokens_ * shape_.query_dim());
  qkv_grads_.Grow(tokens_ * shape_.qkv_dim());
  for (auto [buffer, columns] : std::initializer_list<std::pair<Buffer<Bf16>*, std::int64_t>>{
           {&qkv_pairs_, shape_.qkv_dim()},
           {&normed_pairs_, hidden},
           {&residual_pairs_, hidden},
           {&attention_pairs_, shape_.query_dim()},
           {&gate_up_pairs_, 2 * shape_.ffn_dim},
           {&ffn_normed_pairs_, hidden},
           {&inner_pairs_, shape_.ffn_dim},
           {&down_pairs_, hidden}}) {
    buffer->Grow(PackedSize(tokens_, columns));
  }
  for (std::int64_t i = shape_.num_layers - 1; i >= 0; --i) {
    LayerBackward(i, gradients);
  }
  EmbedBackward(tokens, gradients[kTokens]);
  return loss;
}

void Step::Muon(float* const* weights, const float* const* gradients, float* const* momenta,
                float rate, float decay) {
  const Shape& shape = shape_;
  struct Size {
    LayerArray array;
    std::int64_t rows, columns;
  };
  const Size sizes[] = {{kGate, shape.ffn_dim, shape.hidden_dim},
                        {kUp, shape.ffn_dim, shape.hidden_dim},
                        {kDown, shape.hidden_dim, shape.ffn_dim},
                        {kQueries, shape.query_dim(), shape.hidden_dim},
                        {kAttentionOutput, shape.hidden_dim, shape.query_dim()},
                        {kKeysOf, shape.kv_dim(), shape.hidden_dim},
                        {kValuesOf, shape.kv_dim(), shape.hidden_dim}};
  // The largest first, so that threads end together.
  workers_.Run(shape.num_layers * static_cast<std::int64_t>(std::size(sizes)),
               [&](std::int64_t task, int worker) {
                 const Size& size = sizes[task / shape.num_layers];
                 const std::int64_t at =
                     kLayers + task % shape.num_layers * kLayerArrays + size.array;
                 MuonStep(weights[at], gradients[at], momenta[at], size.rows, size.columns, rate,
                          decay, scratch_[static_cast<std::size_t>(worker)].muon);
               });
}

}  // namespace kvgate::default_model::step

// What Python calls (fused.py).
extern "C" {

void* kvgate_step_new(const std::int64_t* sizes, float rope_theta, float norm_eps, int threads) {
  const kvgate::default_model::step::Shape shape{sizes[0], sizes[1], sizes[2],   sizes[3], sizes[4],
                                                 sizes[5], sizes[6], rope_theta, norm_eps};
  return new kvgate::default_model::step::Step(shape, threads);
}

void kvgate_step_free(void* step) { delete static_cast<kvgate::default_model::step::Step*>(step); }

void kvgate_step_set_weights(void* step, const float* const* weights) {
  static_cast<kvgate::default_model::step::Step*>(step)->SetWeights(weights);
}

double kvgate_step_loss(void* step, std::int64_t batch, std::int64_t length,
                        const std::int64_t* tokens, const float* weights, float* const* gradients,
                        float* logs) {
  return static_cast<kvgate::default_model::step::Step*>(step)->Loss(batch, length, tokens, weights,
                                                                     gradients, logs);
}

void kvgate_step_muon(void* step, float* const* weights, const float* const* gradients,
                      float* const* momenta, float rate, float decay) {
  static_cast<kvgate::default_model::step::Step*>(step)->Muon(weights, gradients, momenta, rate,
                                                              decay);
}
}  // extern "C"
