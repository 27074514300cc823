#include "gateway/bench/bench_kv_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "engine/modelfile/hf_folder.h"
#include "engine/schedule/context_policy.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/bench/bench_file.h"
#include "kernels/cpu/cpu_backend.h"

namespace kvgate::bench {
namespace {

using kernels::DType;
using kernels::kKvBlockTokens;
using kernels::kKvDTypes;
using schedule::ContextPolicy;

constexpr ContextPolicy kPolicies[] = {ContextPolicy::kSlidingWindow, ContextPolicy::kAttentionSink,
                                       ContextPolicy::kLeastAttended};

// The text is like the stories that the small trained model was trained on.
constexpr std::string_view kStory =
    "Once upon a time, there was a little girl named Lily. She lived in a small house near the "
    "forest with her mom, her dad and a brown dog called Max. Every morning Lily and Max went out "
    "to play. One day, Lily saw a red bird in a tall tree. The bird was sad. \"Why are you sad, "
    "little bird?\" asked Lily. \"I lost my blue ball,\" said the bird. \"It fell down from my "
    "nest "
    "and now I can not find it.\" Lily wanted to help. \"Do not cry,\" she said. \"Max and I will "
    "look for your ball.\" Max ran to the left and Lily ran to the right. They looked under the "
    "leaves. They looked behind the big rock. They looked in the tall grass. But the blue ball was "
    "not there. Then Lily met a fat frog who sat by the water. \"Hello, frog,\" said Lily. \"Did "
    "you see a blue ball?\" \"Yes, I did,\" said the frog. \"A rabbit took it to his hole. He "
    "thought that it was an egg.\" Lily and Max thanked the frog and went to the hole of the "
    "rabbit. \"Knock, knock,\" said Lily. The rabbit came out and looked at them. \"Please, can "
    "the red bird have the blue ball back?\" asked Lily. The rabbit was surprised. \"Oh no! I am "
    "sorry,\" he said. \"I did not know that it was a ball. I wanted to keep it warm.\" He gave "
    "the "
    "ball to Lily, and Lily gave him a big hug. Then they all walked back to the tall tree. The "
    "red bird was very happy. She sang a song for Lily, Max, the frog and the rabbit. They played "
    "with the blue ball until the sun went down. When Lily came home, her mom asked, \"What did "
    "you do today?\" Lily smiled and said, \"We helped a bird, and now we have three new "
    "friends.\" "
    "Her mom was proud of her. That night, Lily went to bed and dreamed of the blue ball that flew "
    "over the forest like a little moon. The next day it rained, and Lily could not go outside. "
    "She "
    "sat by the window and looked at the tree. The red bird was wet and cold. Lily had an idea. "
    "She "
    "took a box, a soft cloth and some string, and her dad helped her to make a little house. When "
    "the rain stopped, they put the house in the tree. The red bird looked inside. \"It is so warm "
    "and dry,\" she said. \"Thank you, Lily. You are a kind friend.\" From that day on, the bird "
    "lived in the little house, and every morning she woke Lily up with a happy song.";

// The divergence of one way of keeping KV from the base, summed over a text's positions.
struct Distance {
  int num_rows = 0;
  int num_targets = 0;
  int num_same_top = 0;
  double kl = 0;
  double kl_max = 0;
  double negative_log_likelihood = 0;
};

std::vector<double> LogSoftmax(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double offset = largest + std::log(sum);
  std::vector<double> result(logits.begin(), logits.end());
  for (double& value : result) value -= offset;
  return result;
}

// Adds KL(base || other) of one row. `target` is the text's actual next token, if there is one.
void AddRow(const std::vector<double>& base, std::span<const float> logits,
            std::optional<TokenId> target, Distance& distance) {
  const std::vector<double> other = LogSoftmax(logits);
  double kl = 0;
  for (size_t i = 0; i < base.size(); ++i) kl += std::exp(base[i]) * (base[i] - other[i]);
  kl = std::max(kl, 0.0);  // rounding can make it negative
  ++distance.num_rows;
  distance.kl += kl;
  distance.kl_max = std::max(distance.kl_max, kl);
  const auto top = [](const std::vector<double>& row) {
    return std::ranges::max_element(row) - row.begin();
  };
  if (top(base) == top(other)) ++distance.num_same_top;
  if (target.has_value()) {
    ++distance.num_targets;
    distance.negative_log_likelihood -= other[static_cast<size_t>(*target)];
  }
}

// One sequence whose KV is kept in one way.
class Contender {
 public:
  struct Way {
    DType dtype = DType::kF32;
    ContextPolicy policy = ContextPolicy::kNone;
    int blocks_max = 0;  // KV blocks kept under a policy
  };

  static Result<std::unique_ptr<Contender>> Make(model::Model& model, kernels::Backend& backend,
                                                 const Way& way, int num_tokens) {
    std::unique_ptr<Contender> contender(new Contender(model, way));
    const auto num_blocks = static_cast<uint32_t>((num_tokens - 1) / kKvBlockTokens + 1);
    KVGATE_TRY(contender->arena_,
               backend.AllocateKv(model.config().kv_shape(way.dtype), num_blocks));
    for (uint32_t i = 0; i < num_blocks; ++i) contender->free_.push_back(BlockId{i});
    return contender;
  }

  // Returns the logits of all rows of one block's tokens, or of the text's remainder.
  std::span<const float> Step(std::span<const TokenId> tokens) {
    table_.push_back(free_.back());
    free_.pop_back();
    mass_.push_back(0);
    const auto num_rows = static_cast<int>(tokens.size());
    rows_.clear();
    for (int row = 0; row < num_rows; ++row) rows_.push_back(row);
    logits_.resize(tokens.size() * static_cast<size_t>(model_.config().vocab_size));
    const bool wants_mass = way_.policy == ContextPolicy::kLeastAttended;
    const kernels::SequenceRows sequence = {
        .first_row = 0,
        .num_rows = num_rows,
        .first_position = static_cast<int>(table_.size() - 1) * kKvBlockTokens,
        .block_table = table_,
        .num_dropped_tokens = num_dropped_ * kKvBlockTokens,
        .block_mass = wants_mass ? mass_.data() : nullptr};
    const model::StepGroup group{.arena = arena_.get(), .sequences = {&sequence, 1}};
    Result<void> computed =
        model_.Forward({.tokens = tokens, .groups = {&group, 1}, .logit_rows = rows_}, logits_);
    if (!computed) computed_ = std::move(computed);
    Shrink();
    return logits_;
  }

  // The error of a step that failed, which makes the figures meaningless.
  const Result<void>& computed() const { return computed_; }
  const Way& way() const { return way_; }
  Distance& distance() { return distance_; }
  // Under a policy only the blocks left at the end count, spread over the whole text.
  double kv_bytes_per_token(int num_tokens) const {
    const double block = static_cast<double>(arena_->block_bytes());
    if (way_.policy == ContextPolicy::kNone) return block / kKvBlockTokens;
    return block * static_cast<double>(table_.size()) / num_tokens;
  }

 private:
  Contender(model::Model& model, const Way& way) : model_(model), way_(way) {}

  void Shrink() {
    while (const std::optional<int> index = schedule::BlockToDrop(
               way_.policy, way_.blocks_max,
               {.num_blocks = static_cast<int>(table_.size()), .block_mass = mass_})) {
      free_.push_back(table_[static_cast<size_t>(*index)]);
      table_.erase(table_.begin() + *index);
      mass_.erase(mass_.begin() + *index);
      ++num_dropped_;
    }
  }

  model::Model& model_;
  Way way_;
  std::unique_ptr<kernels::KvArena> arena_;
  std::vector<BlockId> free_;
  std::vector<BlockId> table_;
  std::vector<uint64_t> mass_;
  int num_dropped_ = 0;
  std::vector<int> rows_;
  std::vector<float> logits_;
  Result<void> computed_;
  Distance distance_;
};

Result<std::string> ReadText(const std::filesystem::path& path) {
  if (path.empty()) return std::string(kStory);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return MakeError(ErrorCode::kNotFound, "bench", fmt::format("{} cannot be read", path.string()),
                     "text");
  }
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void PrintHeader(std::FILE* out, std::string_view what) {
  fmt::print(out, "{:<22}{:>12}{:>12}{:>12}{:>12}{:>12}\n", what, "KV B/token", "KL mean", "KL max",
             "same top-1", "perplexity");
}

void PrintLine(std::FILE* out, std::string_view name, Contender& contender, int num_tokens) {
  const Distance& distance = contender.distance();
  fmt::print(out, "{:<22}{:>12.0f}{:>12.2e}{:>12.2e}{:>11.1f}%{:>12.3f}\n", name,
             contender.kv_bytes_per_token(num_tokens), distance.kl / distance.num_rows,
             distance.kl_max, 100.0 * distance.num_same_top / distance.num_rows,
             std::exp(distance.negative_log_likelihood / std::max(distance.num_targets, 1)));
}

// Compares all ways of keeping the KV of one model over one text.
class QualityTable {
 public:
  static Result<std::unique_ptr<QualityTable>> Open(const std::filesystem::path& path,
                                                    const BenchKvQualityOptions& options) {
    std::unique_ptr<QualityTable> table(new QualityTable);
    KVGATE_TRY(std::unique_ptr<modelfile::ModelFile> file, modelfile::OpenModelFile(path));
    const std::shared_ptr<const modelfile::ModelFile> shared = std::move(file);
    KVGATE_TRY(table->backend_,
               kernels::cpu::MakeCpuBackend({.num_threads = options.threads, .target = ""}));
    KVGATE_TRY(table->model_, model::Model::Load(shared, *table->backend_, {.one_kv_group = true}));
    KVGATE_TRY_VOID(table->model_->Reserve(kKvBlockTokens, kKvBlockTokens));
    KVGATE_TRY(const auto tokenizer, tokenizer::Tokenizer::Load(*shared));
    KVGATE_TRY(const std::string text, ReadText(options.text_path));
    table->tokens_ = tokenizer->Encode(text, {.add_special = true, .parse_special = false});
    const int num_tokens = std::min({options.num_tokens, table->model_->config().context_length,
                                     static_cast<int>(table->tokens_.size())});
    if (num_tokens < 2) {
      return MakeError(ErrorCode::kInvalidArgument, "bench",
                       fmt::format("a text of {} tokens predicts nothing", num_tokens), "text");
    }
    table->tokens_.resize(static_cast<size_t>(num_tokens));
    KVGATE_TRY_VOID(table->AddContenders());
    return table;
  }

  int num_tokens() const { return static_cast<int>(tokens_.size()); }
  const model::ModelConfig& config() const { return model_->config(); }
  bool has_quantized() const { return Fits(DType::kQ8_0); }

  Result<void> Run() {
    const auto vocab_size = static_cast<size_t>(config().vocab_size);
    for (size_t first = 0; first < tokens_.size(); first += kKvBlockTokens) {
      const size_t count = std::min<size_t>(kKvBlockTokens, tokens_.size() - first);
      const auto tokens = std::span(tokens_).subspan(first, count);
      std::vector<std::vector<double>> base;
      for (const std::unique_ptr<Contender>& contender : contenders_) {
        const std::span<const float> logits = contender->Step(tokens);
        KVGATE_TRY_VOID(contender->computed());
        for (size_t row = 0; row < count; ++row) {
          const auto values = logits.subspan(row * vocab_size, vocab_size);
          if (contender == contenders_.front()) base.push_back(LogSoftmax(values));
          const size_t next = first + row + 1;
          AddRow(base[row], values,
                 next < tokens_.size() ? std::optional(tokens_[next]) : std::nullopt,
                 contender->distance());
        }
      }
    }
    return {};
  }

  void Print(std::FILE* out) {
    PrintHeader(out, "KV dtype");
    for (const DType dtype : kKvDTypes) {
      if (Fits(dtype)) continue;
      fmt::print(out, "{:<22}  heads of a multiple of {} dimensions only; these have {}\n",
                 kernels::DTypeName(dtype), kernels::DTypeElements(dtype), config().head_dim);
    }
    for (const auto& contender : contenders_) {
      if (contender->way().policy == ContextPolicy::kNone) {
        PrintLine(out, kernels::DTypeName(contender->way().dtype), *contender, num_tokens());
      }
    }
    PrintHeader(out, "context policy (f32)");
    for (const auto& contender : contenders_) {
      if (contender->way().policy == ContextPolicy::kNone) continue;
      PrintLine(out,
                fmt::format("{} {}", schedule::ContextPolicyName(contender->way().policy),
                            contender->way().blocks_max * kKvBlockTokens),
                *contender, num_tokens());
    }
  }

 private:
  QualityTable() = default;

  bool Fits(DType dtype) const { return config().head_dim % kernels::DTypeElements(dtype) == 0; }

  // The first contender is the base that the others are compared with.
  Result<void> AddContenders() {
    const auto add = [this](const Contender::Way& way) -> Result<void> {
      KVGATE_TRY(auto contender, Contender::Make(*model_, *backend_, way, num_tokens()));
      contenders_.push_back(std::move(contender));
      return {};
    };
    for (const DType dtype : kKvDTypes) {
      if (Fits(dtype)) KVGATE_TRY_VOID(add({.dtype = dtype}));
    }
    for (const int part : {2, 4}) {
      for (const ContextPolicy policy : kPolicies) {
        const int blocks_max = std::max(num_tokens() / part / kKvBlockTokens, 1);
        KVGATE_TRY_VOID(add({.dtype = DType::kF32, .policy = policy, .blocks_max = blocks_max}));
      }
    }
    return {};
  }

  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Model> model_;
  std::vector<TokenId> tokens_;
  std::vector<std::unique_ptr<Contender>> contenders_;
};

// ---- speed ----------------------------------------------------------------------------------

// The heads of Qwen2.5-0.5B, with more KV than the caches near a core hold.
constexpr int kNumHeads = 14;
constexpr kernels::KvShape kSpeedShape = {
    .num_layers = 24, .num_kv_heads = 2, .head_dim = 64, .dtype = DType::kF32};

// Microseconds of one layer's attention of one token over num_tokens tokens.
Result<double> AttentionMicroseconds(kernels::Backend& backend, DType dtype, int num_tokens) {
  kernels::KvShape shape = kSpeedShape;
  shape.dtype = dtype;
  const auto num_blocks = static_cast<uint32_t>((num_tokens - 1) / kKvBlockTokens + 1);
  KVGATE_TRY(const auto arena, backend.AllocateKv(shape, num_blocks));
  std::vector<BlockId> table;
  for (uint32_t i = 0; i < num_blocks; ++i) table.push_back(BlockId{i});
  const int kv_dim = shape.num_kv_heads * shape.head_dim;
  KVGATE_TRY(const auto values,
             backend.AllocateFloats(static_cast<size_t>(num_tokens) * static_cast<size_t>(kv_dim)));
  for (size_t i = 0; i < values->size(); ++i) {
    values->data()[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
  }
  const kernels::SequenceRows all = {
      .first_row = 0, .num_rows = num_tokens, .first_position = 0, .block_table = table};
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    backend.StoreKv(values->data(), values->data(), {&all, 1}, layer, *arena);
  }
  const kernels::SequenceRows last = {
      .first_row = 0, .num_rows = 1, .first_position = num_tokens - 1, .block_table = table};
  constexpr size_t kOutputs = size_t{kNumHeads} * kSpeedShape.head_dim;
  KVGATE_TRY(const auto q, backend.AllocateFloats(kOutputs));
  KVGATE_TRY(const auto out, backend.AllocateFloats(kOutputs));
  std::fill_n(q->data(), kOutputs, 0.1f);
  const kernels::AttentionShape attention = {.num_heads = kNumHeads, .scale = 0.125f};
  // Takes the fastest call, because other work on the machine can only slow a call down. Layers
  // take turns, so that no call finds KV in a CPU cache where a real step would not find it.
  double fastest = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 12; ++run) {
    for (int layer = 0; layer < shape.num_layers; ++layer) {
      const auto start = std::chrono::steady_clock::now();
      backend.Attention(q->data(), {&last, 1}, layer, *arena, attention, out->data());
      backend.Synchronize();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      fastest = std::min(fastest, seconds.count());
    }
  }
  return fastest * 1e6;
}

Result<void> PrintSpeeds(const BenchKvQualityOptions& options) {
  KVGATE_TRY(const auto backend,
             kernels::cpu::MakeCpuBackend({.num_threads = options.threads, .target = ""}));
  fmt::print(options.out,
             "\ndecode attention over {} tokens: {} heads on {} KV heads of {}, {}, threads {}\n",
             options.attention_tokens, kNumHeads, kSpeedShape.num_kv_heads, kSpeedShape.head_dim,
             backend->Info().target, options.threads);
  fmt::print(options.out, "{:<22}{:>12}{:>12}{:>12}\n", "KV dtype", "us/layer", "ns/token", "GB/s");
  for (const DType dtype : kKvDTypes) {
    KVGATE_TRY(const double microseconds,
               AttentionMicroseconds(*backend, dtype, options.attention_tokens));
    kernels::KvShape shape = kSpeedShape;
    shape.dtype = dtype;
    const double layer_bytes = static_cast<double>(shape.block_bytes()) / shape.num_layers *
                               options.attention_tokens / kKvBlockTokens;
    fmt::print(options.out, "{:<22}{:>12.1f}{:>12.2f}{:>12.2f}\n", kernels::DTypeName(dtype),
               microseconds, 1e3 * microseconds / options.attention_tokens,
               layer_bytes / microseconds / 1e3);
  }
  return {};
}

// ---- which model ----------------------------------------------------------------------------

std::filesystem::path TrainedModelPath() {
  const char* folder = std::getenv("KVGATE_TEST_DATA");
  const std::filesystem::path data = folder != nullptr ? folder : "../shared";
  return data / "models" / "stories260K.gguf";
}

Result<bool> RunTable(const std::filesystem::path& path, std::string_view weights,
                      const BenchKvQualityOptions& options) {
  KVGATE_TRY(const auto table, QualityTable::Open(path, options));
  const model::ModelConfig& config = table->config();
  fmt::print(options.out, "model: {} ({} weights; {} layers, {} heads on {} KV heads of {})\n",
             config.name.empty() ? path.filename().string() : config.name, weights,
             config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim);
  fmt::print(options.out, "text: {}, {} tokens, teacher-forced; KL in nats against f32 KV\n",
             options.text_path.empty() ? "a built-in story" : options.text_path.string(),
             table->num_tokens());
  KVGATE_TRY_VOID(table->Run());
  table->Print(options.out);
  return table->has_quantized();
}

}  // namespace

Result<void> RunBenchKvQuality(const BenchKvQualityOptions& options) {
  if (options.num_tokens < 2 || options.threads < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "bench",
                     "at least 2 tokens of text and one thread",
                     options.threads < 1 ? "threads" : "num_tokens");
  }
  bool has_quantized = false;
  std::error_code ignored;
  if (!options.model_path.empty()) {
    KVGATE_TRY_VOID(RunTable(options.model_path, "its own", options));
    has_quantized = true;  // an explicitly requested model is enough, even without quantized KV
  } else if (std::filesystem::exists(TrainedModelPath(), ignored)) {
    KVGATE_TRY(has_quantized, RunTable(TrainedModelPath(), "trained", options));
  }
  if (!has_quantized) {
    const model::MakeModelOptions shape = {.num_layers = 6,
                                           .hidden_dim = 512,
                                           .num_heads = 8,
                                           .num_kv_heads = 4,
                                           .ffn_dim = 1408,
                                           .vocab_size = 2048,
                                           .name = ""};
    KVGATE_TRY(const auto made, BenchFile::Make(shape, {}));
    if (options.model_path.empty()) fmt::print(options.out, "\n");
    KVGATE_TRY_VOID(RunTable(made->path(), "random", options));
  }
  if (options.attention_tokens > 0) KVGATE_TRY_VOID(PrintSpeeds(options));
  return {};
}

}  // namespace kvgate::bench
