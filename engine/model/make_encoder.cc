#include "engine/model/make_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engine/model/architecture.h"

namespace kvgate::model {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr std::string_view kHead = "\xE2\x96\x81";  // begins a piece that begins a word

std::vector<std::string> Syllables() {
  std::vector<std::string> syllables;
  for (const char consonant : std::string_view("bcdfghjklmnpqrstvwxz")) {
    for (const char vowel : std::string_view("aeiou")) syllables.push_back({consonant, vowel});
  }
  return syllables;
}

// Lists the tensors with the deviations of a trained model's, about.
class EncoderTensors {
 public:
  explicit EncoderTensors(const MakeModelOptions& options)
      : options_(options), architecture_(*FindArchitecture(options.architecture)) {}

  std::vector<SyntheticTensor> List() {
    const int hidden = options_.hidden_dim;
    Matrix("token_embd.weight", options_.vocab_size, hidden, 1);
    if (architecture_.learned_positions) Rows("position_embd.weight", options_.context_length);
    Rows("token_types.weight", kTokenTypes);
    Norm("token_embd_norm");
    for (int layer = 0; layer < options_.num_layers; ++layer) AddLayer(layer);
    return std::move(tensors_);
  }

 private:
  static constexpr int kTokenTypes = 2;

  void AddLayer(int layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    const int hidden = options_.hidden_dim;
    const int ffn = options_.ffn_dim;
    if (architecture_.qkv_bias) {
      for (const char which : std::string_view("qkv")) {
        Matrix(fmt::format("{}attn_{}.weight", prefix, which), hidden, hidden);
        Vector(fmt::format("{}attn_{}.bias", prefix, which), hidden);
      }
    } else {
      Matrix(prefix + "attn_qkv.weight", 3 * hidden, hidden);
    }
    Matrix(prefix + "attn_output.weight", hidden, hidden);
    if (architecture_.output_bias) Vector(prefix + "attn_output.bias", hidden);
    Norm(prefix + "attn_output_norm");
    if (architecture_.has_ffn_gate) Matrix(prefix + "ffn_gate.weight", ffn, hidden);
    Matrix(prefix + "ffn_up.weight", ffn, hidden);
    Matrix(prefix + "ffn_down.weight", hidden, ffn);
    if (architecture_.ffn_bias) {
      Vector(prefix + "ffn_up.bias", ffn);
      Vector(prefix + "ffn_down.bias", hidden);
    }
    Norm(prefix + "layer_output_norm");
  }

  void Matrix(std::string name, int64_t rows, int64_t columns, float deviation = 0) {
    if (deviation == 0) deviation = 1.5f / std::sqrt(static_cast<float>(columns));
    tensors_.push_back({.name = std::move(name),
                        .rows = rows,
                        .columns = columns,
                        .is_matrix = true,
                        .deviation = deviation,
                        .tail_start = columns});
  }
  // A table that stays f32, as in files of trained models.
  void Rows(std::string name, int64_t rows) {
    tensors_.push_back({.name = std::move(name),
                        .rows = rows,
                        .columns = options_.hidden_dim,
                        .deviation = 0.5f,
                        .tail_start = options_.hidden_dim});
  }
  void Vector(std::string name, int64_t size, float mean = 0, float deviation = 0.1f) {
    tensors_.push_back({.name = std::move(name),
                        .columns = size,
                        .mean = mean,
                        .deviation = deviation,
                        .tail_start = size});
  }
  void Norm(const std::string& name) {
    Vector(name + ".weight", options_.hidden_dim, 1);
    Vector(name + ".bias", options_.hidden_dim);
  }

  const MakeModelOptions& options_;
  const Architecture& architecture_;
  std::vector<SyntheticTensor> tensors_;
};

}  // namespace

Result<SyntheticVocabulary> MakeBertVocabulary(int vocab_size) {
  SyntheticVocabulary vocabulary;
  const auto wanted = static_cast<size_t>(std::max(vocab_size, 0));
  const auto add = [&](std::string text, int32_t type) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.types.push_back(type);
  };
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    add(name, std::string_view(name) == "[UNK]" ? kUnknown : kControl);
  }
  for (char c = '!'; c <= '~'; ++c) {
    if (c >= 'A' && c <= 'Z') continue;
    add(std::string(kHead) + c, kNormal);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) add(std::string(1, c), kNormal);
  }
  const size_t fewest = vocabulary.tokens.size();
  const std::vector<std::string> syllables = Syllables();
  for (const std::string& syllable : syllables) {
    add(std::string(kHead) + syllable, kNormal);
    add(syllable, kNormal);
  }
  for (size_t i = 0; i < syllables.size() && vocabulary.tokens.size() < wanted; ++i) {
    for (const std::string& second : syllables) {
      add(std::string(kHead) + syllables[i] + second, kNormal);
      add(syllables[i] + second, kNormal);
    }
  }
  if (wanted < fewest || wanted > vocabulary.tokens.size()) {
    return MakeError(ErrorCode::kInvalidArgument, "make_model",
                     fmt::format("vocab_size is {}; an encoder's is made with {} to {}", vocab_size,
                                 fewest, vocabulary.tokens.size()),
                     "vocab_size");
  }
  vocabulary.tokens.resize(wanted);
  vocabulary.types.resize(wanted);
  vocabulary.sampled.assign(wanted, true);
  return vocabulary;
}

std::vector<SyntheticTensor> ListEncoderTensors(const MakeModelOptions& options) {
  KVGATE_CHECK(FindArchitecture(options.architecture)->is_encoder, "an encoder");
  return EncoderTensors(options).List();
}

}  // namespace kvgate::model
