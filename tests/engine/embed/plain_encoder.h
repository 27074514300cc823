// PlainEncoder is written independently of the engine's code, in double, from the papers and their
// authors' implementations: BERT (Devlin et al. 2018) and nomic-bert (Nussbaum et al. 2024). This
// header also writes random files of small encoders.
#pragma once

#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "engine/modelfile/gguf.h"
#include "kernels/weight_format.h"

namespace kvgate::embed {

struct EncoderShape {
  bool is_nomic = false;  // rope, a gated feed-forward part and no biases
  int num_layers = 2;
  int hidden = 32;
  int num_heads = 4;
  int ffn = 48;
  int vocab = 60;
  int context = 40;
  double theta = 1000;  // of rope
  float eps = 1e-12f;
  int pooling = 1;                                       // as files write it: mean, cls, last
  modelfile::GgufType type = modelfile::GgufType::kF32;  // of the matrices

  std::string architecture() const { return is_nomic ? "nomic-bert" : "bert"; }
};

// Fills norm weights around 1, biases and matrices around 0. torch_vectors.py does the same.
inline void FillHashed(const modelfile::GgufWriter::TensorSpec& spec, int64_t first_row,
                       std::span<std::byte> data) {
  uint64_t key = 0xcbf29ce484222325;
  for (const char c : spec.name) key = (key ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  const auto mix = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  const int64_t columns = spec.dimensions[0];
  const bool is_vector = spec.dimensions.size() == 1;
  const double middle = is_vector && spec.name.ends_with("norm.weight") ? 1 : 0;
  const double scale = is_vector ? 0.3 : 2 / std::sqrt(static_cast<double>(columns));
  const kernels::DType dtype = kernels::FindWeightFormat(static_cast<uint32_t>(spec.type))->dtype;
  const size_t row_bytes = kernels::DTypeBytes(dtype, static_cast<size_t>(columns));
  auto index = static_cast<uint64_t>(first_row * columns);
  std::vector<float> values(static_cast<size_t>(columns));
  for (size_t at = 0; at < data.size(); at += row_bytes) {
    for (float& value : values) {
      const uint64_t bits = mix(key + index++ * 0x9e3779b97f4a7c15) >> 40;
      value = static_cast<float>(middle + scale * (static_cast<double>(bits) / 8388608 - 1));
    }
    kernels::QuantizeValues(dtype, values.data(), columns, data.data() + at);
  }
}

// Returns a writer of the shape's file, for FillHashed.
inline modelfile::GgufWriter EncoderFile(const EncoderShape& shape) {
  modelfile::GgufWriter writer;
  const std::string arch = shape.architecture();
  const auto count = [&](const std::string& name, int value) {
    writer.Add(arch + "." + name, static_cast<uint32_t>(value));
  };
  writer.Add("general.architecture", arch);
  count("block_count", shape.num_layers);
  count("context_length", shape.context);
  count("embedding_length", shape.hidden);
  count("feed_forward_length", shape.ffn);
  count("attention.head_count", shape.num_heads);
  count("pooling_type", shape.pooling);
  writer.Add(arch + ".attention.causal", false);
  writer.Add(arch + ".attention.layer_norm_epsilon", shape.eps);
  if (shape.is_nomic) writer.Add(arch + ".rope.freq_base", static_cast<float>(shape.theta));
  const auto matrix = [&](const std::string& name, int rows, int columns) {
    writer.AddTensor({.name = name, .dimensions = {columns, rows}, .type = shape.type});
  };
  const auto table = [&](const std::string& name, int rows) {
    writer.AddTensor(
        {.name = name, .dimensions = {shape.hidden, rows}, .type = modelfile::GgufType::kF32});
  };
  const auto vector = [&](const std::string& name, int size) {
    writer.AddTensor({.name = name, .dimensions = {size}, .type = modelfile::GgufType::kF32});
  };
  const auto norm = [&](const std::string& name) {
    vector(name + ".weight", shape.hidden);
    vector(name + ".bias", shape.hidden);
  };
  matrix("token_embd.weight", shape.vocab, shape.hidden);
  if (!shape.is_nomic) table("position_embd.weight", shape.context);
  table("token_types.weight", 2);
  norm("token_embd_norm");
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    if (shape.is_nomic) {
      matrix(prefix + "attn_qkv.weight", 3 * shape.hidden, shape.hidden);
      matrix(prefix + "ffn_gate.weight", shape.ffn, shape.hidden);
    } else {
      for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
        matrix(prefix + name + ".weight", shape.hidden, shape.hidden);
        vector(prefix + name + ".bias", shape.hidden);
      }
      vector(prefix + "attn_output.bias", shape.hidden);
      vector(prefix + "ffn_up.bias", shape.ffn);
      vector(prefix + "ffn_down.bias", shape.hidden);
    }
    matrix(prefix + "attn_output.weight", shape.hidden, shape.hidden);
    matrix(prefix + "ffn_up.weight", shape.ffn, shape.hidden);
    matrix(prefix + "ffn_down.weight", shape.hidden, shape.ffn);
    norm(prefix + "attn_output_norm");
    norm(prefix + "layer_output_norm");
  }
  return writer;
}

class PlainEncoder {
 public:
  using Row = std::vector<double>;

  PlainEncoder(const EncoderShape& shape, const modelfile::ModelFile& file) : shape_(shape) {
    for (const modelfile::GgufTensor& tensor : file.tensors()) {
      int64_t count = 1;
      for (const int64_t dimension : tensor.dimensions) count *= dimension;
      std::vector<float>& values = tensors_[tensor.name];
      values.resize(static_cast<size_t>(count));
      kernels::DequantizeValues(kernels::FindWeightFormat(tensor.type)->dtype, tensor.data.data(),
                                count, values.data());
    }
  }

  // Returns the rows of a text behind the last layer.
  std::vector<Row> Run(const std::vector<int32_t>& tokens) const {
    std::vector<Row> xs;
    for (size_t p = 0; p < tokens.size(); ++p) {
      Row x(static_cast<size_t>(shape_.hidden));
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = At("token_embd.weight", static_cast<size_t>(tokens[p]), i) +
               At("token_types.weight", 0, i);
        if (!shape_.is_nomic) x[i] += At("position_embd.weight", p, i);
      }
      xs.push_back(Norm("token_embd_norm", x));
    }
    for (int layer = 0; layer < shape_.num_layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      const std::vector<Row> attended = Attention(prefix, xs);
      for (size_t p = 0; p < xs.size(); ++p) {
        xs[p] = Norm(prefix + "attn_output_norm", Sum(xs[p], attended[p]));
        xs[p] = Norm(prefix + "layer_output_norm", Sum(xs[p], FeedForward(prefix, xs[p])));
      }
    }
    return xs;
  }

 private:
  double At(const std::string& name, size_t row, size_t column) const {
    return tensors_.at(name)[row * static_cast<size_t>(shape_.hidden) + column];
  }

  static Row Sum(Row a, const Row& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }

  Row Norm(const std::string& name, const Row& x) const {
    const auto count = static_cast<double>(x.size());
    double mean = 0;
    for (const double value : x) mean += value / count;
    double variance = 0;
    for (const double value : x) variance += (value - mean) * (value - mean) / count;
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = (x[i] - mean) / std::sqrt(variance + shape_.eps) * tensors_.at(name + ".weight")[i] +
             tensors_.at(name + ".bias")[i];
    }
    return y;
  }

  // Multiplies x by `rows` rows of the tensor, from `first` on, and adds the bias if there is one.
  Row Times(const std::string& name, const Row& x, int rows, int first = 0) const {
    const std::vector<float>& weight = tensors_.at(name + ".weight");
    const auto bias = tensors_.find(name + ".bias");
    Row y(static_cast<size_t>(rows));
    for (size_t r = 0; r < y.size(); ++r) {
      const size_t row = static_cast<size_t>(first) + r;
      for (size_t c = 0; c < x.size(); ++c) y[r] += x[c] * weight[row * x.size() + c];
      if (bias != tensors_.end()) y[r] += bias->second[r];
    }
    return y;
  }

  Row Project(const std::string& prefix, int which, size_t position, const Row& x) const {
    if (!shape_.is_nomic) {
      return Times(prefix + "attn_" + std::string(1, "qkv"[which]), x, shape_.hidden);
    }
    Row y = Times(prefix + "attn_qkv", x, shape_.hidden, which * shape_.hidden);
    const int dim = shape_.hidden / shape_.num_heads;
    for (int head = 0; which < 2 && head < shape_.num_heads; ++head) {
      for (int i = 0; i < dim / 2; ++i) {
        const double angle = static_cast<double>(position) * std::pow(shape_.theta, -2.0 * i / dim);
        double& a = y[static_cast<size_t>(head * dim + i)];
        double& b = y[static_cast<size_t>(head * dim + i + dim / 2)];
        const double before = a;
        a = before * std::cos(angle) - b * std::sin(angle);
        b = before * std::sin(angle) + b * std::cos(angle);
      }
    }
    return y;
  }

  std::vector<Row> Attention(const std::string& prefix, const std::vector<Row>& xs) const {
    std::vector<Row> projected[3];
    for (int which = 0; which < 3; ++which) {
      for (size_t p = 0; p < xs.size(); ++p) {
        projected[which].push_back(Project(prefix, which, p, xs[p]));
      }
    }
    const auto& [queries, keys, values] = projected;
    const auto dim = static_cast<size_t>(shape_.hidden / shape_.num_heads);
    std::vector<Row> out;
    for (const Row& q : queries) {
      Row attended(q.size());
      for (size_t begin = 0; begin < q.size(); begin += dim) {
        Row weights;
        double sum = 0;
        for (const Row& key : keys) {
          double score = 0;
          for (size_t i = begin; i < begin + dim; ++i) score += q[i] * key[i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          sum += weights.back();
        }
        for (size_t p = 0; p < values.size(); ++p) {
          for (size_t i = begin; i < begin + dim; ++i) {
            attended[i] += weights[p] / sum * values[p][i];
          }
        }
      }
      out.push_back(Times(prefix + "attn_output", attended, shape_.hidden));
    }
    return out;
  }

  Row FeedForward(const std::string& prefix, const Row& x) const {
    Row up = Times(prefix + "ffn_up", x, shape_.ffn);
    if (shape_.is_nomic) {
      const Row gate = Times(prefix + "ffn_gate", x, shape_.ffn);
      for (size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] / (1 + std::exp(-gate[i]));
    } else {
      for (double& value : up) value *= (1 + std::erf(value / std::numbers::sqrt2)) / 2;
    }
    return Times(prefix + "ffn_down", up, shape_.hidden);
  }

  const EncoderShape shape_;
  std::map<std::string, std::vector<float>> tensors_;
};

// Makes one vector of length 1 of a text's rows.
inline std::vector<double> PlainPool(const std::vector<std::vector<double>>& rows, int pooling) {
  std::vector<double> vector(rows.front().size());
  for (size_t p = 0; p < rows.size(); ++p) {
    const bool counts =
        pooling == 1 || (pooling == 2 && p == 0) || (pooling == 3 && p + 1 == rows.size());
    for (size_t i = 0; counts && i < vector.size(); ++i) vector[i] += rows[p][i];
  }
  double squares = 0;
  for (const double value : vector) squares += value * value;
  for (double& value : vector) value /= std::sqrt(squares);
  return vector;
}

}  // namespace kvgate::embed
