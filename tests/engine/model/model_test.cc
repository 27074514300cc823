#include "engine/model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/model/make_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/engine/model/model_runner.h"
#include "tests/engine/model/plain_transformer.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::model {
namespace {

using kernels::DType;

std::unique_ptr<kernels::Backend> MakeBackend(const std::string& name) {
  if (name == "reference") return kernels::reference::MakeReferenceBackend();
  return *kernels::cpu::MakeCpuBackend({.num_threads = 1, .target = ""});
}

// --- against an independently written forward pass ---

struct ForwardCase {
  std::string backend;
  PlainShape shape;
};

void PrintTo(const ForwardCase& forward, std::ostream* out) {
  *out << forward.backend << " " << forward.shape.architecture
       << (forward.shape.tied ? " tied" : "") << " head_dim " << forward.shape.head_dim;
}

std::vector<ForwardCase> ForwardCases() {
  std::vector<ForwardCase> cases;
  for (const std::string backend : {"reference", "cpu"}) {
    cases.push_back({backend, {.architecture = "llama"}});
    cases.push_back({backend, {.architecture = "llama", .tied = true, .theta = 500000}});
    cases.push_back({backend, {.architecture = "qwen2", .tied = true, .theta = 1e6}});
    cases.push_back({backend, {.architecture = "qwen2", .num_heads = 4, .num_kv_heads = 4}});
    // The heads are wider than hidden / num_heads, and rope rotates only a part of each.
    cases.push_back({backend, {.architecture = "llama", .head_dim = 16, .rotary_dim = 12}});
    cases.push_back({backend, {.architecture = "llama", .num_layers = 1, .num_kv_heads = 1}});
  }
  return cases;
}

class ForwardTest : public ::testing::TestWithParam<ForwardCase> {};
INSTANTIATE_TEST_SUITE_P(All, ForwardTest, ::testing::ValuesIn(ForwardCases()));

// Expects logits near those of the plain forward pass, from position `first` on.
void ExpectLogitsNear(const std::vector<std::vector<double>>& expected, size_t first,
                      std::span<const float> logits) {
  const size_t vocab_size = expected[0].size();
  for (size_t row = 0; row < logits.size() / vocab_size; ++row) {
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < vocab_size; ++i) {
      const double want = expected[first + row][i];
      const double delta = logits[row * vocab_size + i] - want;
      difference += delta * delta;
      norm += want * want;
    }
    ASSERT_GT(norm, 0);
    ASSERT_LE(std::sqrt(difference / norm), 1e-5) << "position " << first + row;
  }
}

TEST_P(ForwardTest, LogitsEqualAnIndependentDoubleForward) {
  const PlainShape& shape = GetParam().shape;
  const TempFolder scratch;
  ASSERT_TRUE(PlainFile(shape).Write(scratch / "m.gguf", FillPlain).has_value());
  const auto backend = MakeBackend(GetParam().backend);
  const LoadedModel loaded = LoadedModel::Open(scratch / "m.gguf", *backend);
  const std::vector<TokenId> tokens = RandomTokens(70, shape.vocab, 3);  // three KV blocks
  const auto expected = PlainTransformer(shape, *loaded.file).Run(tokens);
  SequenceRunner runner(*loaded.model, *backend, {.context = 96, .kv_dtype = DType::kF32});
  const std::vector<float> logits = runner.Step(tokens, AllRows(70));
  ExpectLogitsNear(expected, 0, logits);
}

// Blocks are dropped from the table between steps: later rows do not see them, and keep their own
// positions in the text. One run asks for the logits of all rows, the other for the last row only,
// which takes another code path.
TEST_P(ForwardTest, DroppedBlocksAreUnseenAndLeaveAllOthersTheirPlaces) {
  const PlainShape& shape = GetParam().shape;
  const TempFolder scratch;
  ASSERT_TRUE(PlainFile(shape).Write(scratch / "m.gguf", FillPlain).has_value());
  const auto backend = MakeBackend(GetParam().backend);
  const LoadedModel loaded = LoadedModel::Open(scratch / "m.gguf", *backend);
  const std::vector<TokenId> tokens = RandomTokens(135, shape.vocab, 3);
  // Block 1 is dropped before position 70, block 0 (the first one left) before position 100.
  const auto expected = PlainTransformer(shape, *loaded.file).Run(tokens, [](size_t p, size_t key) {
    if (key / 32 == 1 && p >= 70) return false;
    return !(key / 32 == 0 && p >= 100);
  });
  for (const bool all_rows : {true, false}) {
    SequenceRunner runner(*loaded.model, *backend, {.context = 160, .kv_dtype = DType::kF32});
    const auto step = [&](size_t first, size_t end) {
      const auto run = std::span(tokens).subspan(first, end - first);
      const auto logits =
          all_rows ? runner.Step(run, AllRows(static_cast<int>(run.size()))) : runner.Last(run);
      ExpectLogitsNear(expected, all_rows ? first : end - 1, logits);
    };
    step(0, 70);
    runner.DropBlock(1);
    step(70, 71);
    step(71, 100);
    runner.DropBlock(0);
    step(100, 135);
  }
}

TEST_P(ForwardTest, EveryLayersHeadsButTheLastsAddTheirMassToTheBlocks) {
  const PlainShape& shape = GetParam().shape;
  const TempFolder scratch;
  ASSERT_TRUE(PlainFile(shape).Write(scratch / "m.gguf", FillPlain).has_value());
  const auto backend = MakeBackend(GetParam().backend);
  const LoadedModel loaded = LoadedModel::Open(scratch / "m.gguf", *backend);
  SequenceRunner runner(*loaded.model, *backend, {.context = 96, .kv_dtype = DType::kF32});
  std::vector<uint64_t> mass(3, 0);
  runner.block_mass = mass.data();
  const std::vector<TokenId> tokens = RandomTokens(70, shape.vocab, 3);
  runner.Step(tokens, AllRows(70));
  const double all = std::accumulate(mass.begin(), mass.end(), 0.0) / kernels::kAttentionMassOne;
  EXPECT_NEAR(all, 70.0 * shape.num_heads * (shape.num_layers - 1), 0.01);
  // Rows whose logits nobody asks for add the same mass.
  runner.Last(std::span(tokens).first(10));
  const double more = std::accumulate(mass.begin(), mass.end(), 0.0) / kernels::kAttentionMassOne;
  EXPECT_NEAR(more - all, 10.0 * shape.num_heads * (shape.num_layers - 1), 0.01);
}

// --- against the reference logits of a real model ---

struct StoriesCase {
  std::string backend;
  DType kv_dtype;
  double tolerance;
};

void PrintTo(const StoriesCase& stories, std::ostream* out) {
  *out << stories.backend << " " << kernels::DTypeName(stories.kv_dtype);
}

class StoriesTest : public ::testing::TestWithParam<StoriesCase> {};
INSTANTIATE_TEST_SUITE_P(All, StoriesTest,
                         ::testing::Values(StoriesCase{"reference", DType::kF32, 1e-3},
                                           StoriesCase{"cpu", DType::kF32, 1e-3},
                                           StoriesCase{"cpu", DType::kF16, 2e-2}));

double LogSumExp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

TEST_P(StoriesTest, GreedyIdsAndLogProbabilitiesEqualTheReference) {
  const auto reference_path = TestDataPath("models/stories260K.reference.json");
  if (!std::filesystem::exists(reference_path)) GTEST_SKIP() << "no " << reference_path;
  const auto backend = MakeBackend(GetParam().backend);
  const LoadedModel loaded = LoadedModel::Open(TestDataPath("models/stories260K.gguf"), *backend);
  std::ifstream in(reference_path);
  const nlohmann::json reference = nlohmann::json::parse(in);
  int num_compared = 0;
  for (const nlohmann::json& prompt : reference.at("prompts")) {
    std::vector<TokenId> tokens = prompt.at("tokens_add_special").get<std::vector<TokenId>>();
    const auto greedy = prompt.at("greedy_ids").get<std::vector<TokenId>>();
    SequenceRunner runner(*loaded.model, *backend,
                          {.context = 512, .kv_dtype = GetParam().kv_dtype});
    for (size_t step = 0; step < greedy.size(); ++step) {
      const std::vector<float> logits = runner.Last(tokens);
      const double log_sum = LogSumExp(logits);
      for (const nlohmann::json& entry : prompt.at("steps_top10").at(step)) {
        const size_t id = entry.at(0).get<size_t>();
        ASSERT_NEAR(logits[id] - log_sum, entry.at(1).get<double>(), GetParam().tolerance)
            << prompt.at("prompt") << " step " << step << " token " << id;
        ++num_compared;
      }
      const auto best = std::max_element(logits.begin(), logits.end());
      ASSERT_EQ(best - logits.begin(), greedy[step]) << prompt.at("prompt") << " step " << step;
      tokens = {greedy[step]};
    }
  }
  EXPECT_GE(num_compared, 8 * 10 * 10);
}

// --- a row's logits do not depend on its step ---

class InvarianceTest : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr int kTokens = 150;

  void SetUp() override {
    const auto made = MakeModel({.architecture = "qwen2",
                                 .num_layers = 3,
                                 .hidden_dim = 128,
                                 .num_heads = 8,
                                 .num_kv_heads = 2,
                                 .ffn_dim = 256,
                                 .vocab_size = 500,
                                 .dtype = GetParam(),
                                 .name = ""},
                                scratch_ / "m.gguf");
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    loaded_ = LoadedModel::Open(scratch_ / "m.gguf", *backend_);
    tokens_ = RandomTokens(kTokens, 500, 9);
    SequenceRunner whole(*loaded_.model, *backend_, {.context = kTokens});
    expected_ = whole.Step(tokens_, AllRows(kTokens));
  }

  std::span<const float> ExpectedRow(int row) const {
    return std::span(expected_).subspan(static_cast<size_t>(row) * 500, 500);
  }
  void ExpectRow(std::span<const float> logits, int row) const {
    ASSERT_EQ(logits.size(), 500u);
    ASSERT_EQ(std::memcmp(logits.data(), ExpectedRow(row).data(), logits.size_bytes()), 0)
        << "row " << row;
  }

  TempFolder scratch_;
  std::unique_ptr<kernels::Backend> backend_ = MakeBackend("cpu");
  LoadedModel loaded_;
  std::vector<TokenId> tokens_;
  std::vector<float> expected_;  // [kTokens, 500], computed in one step
};
INSTANTIATE_TEST_SUITE_P(All, InvarianceTest,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kQ8_0),
                         [](const auto& test) {
                           return std::string(kernels::DTypeName(test.param));
                         });

TEST_P(InvarianceTest, ChunksOfAnySizeGiveTheBitsOfTheWhole) {
  for (const int chunk : {1, 7, 32, 64, 149}) {
    SequenceRunner runner(*loaded_.model, *backend_, {.context = kTokens});
    for (int first = 0; first < kTokens; first += chunk) {
      const int count = std::min(chunk, kTokens - first);
      const auto logits = runner.Last(
          std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
      ExpectRow(logits, first + count - 1);
    }
  }
}

TEST_P(InvarianceTest, WantingFewRowsGivesTheBitsOfWantingAll) {
  for (const std::vector<int>& rows :
       {std::vector<int>{149}, {0}, {0, 1, 2, 50, 51, 149}, {31, 32, 63, 64}}) {
    SequenceRunner runner(*loaded_.model, *backend_, {.context = kTokens});
    const std::vector<float> logits = runner.Step(tokens_, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      ExpectRow(std::span(logits).subspan(i * 500, 500), rows[i]);
    }
  }
}

TEST_P(InvarianceTest, AStepThatWantsNoLogitsStillStoresAllKv) {
  SequenceRunner runner(*loaded_.model, *backend_, {.context = kTokens});
  EXPECT_TRUE(runner.Step(std::span(tokens_).first(kTokens - 1), {}).empty());
  ExpectRow(runner.Last(std::span(tokens_).last(1)), kTokens - 1);
}

TEST_P(InvarianceTest, OtherSequencesInTheStepChangeNothing) {
  // There are three sequences: the known one is in the middle and takes three steps, between others
  // of other lengths.
  const auto arena = backend_->AllocateKv(loaded_.model->config().kv_shape(DType::kF16), 24);
  ASSERT_TRUE(arena.has_value());
  std::vector<std::vector<BlockId>> tables(3);
  for (uint32_t i = 0; i < 24; ++i) tables[i % 3].push_back(BlockId{i});
  const std::vector<TokenId> before = RandomTokens(100, 500, 21);
  const std::vector<TokenId> after = RandomTokens(100, 500, 22);
  int before_done = 0;
  int done = 0;
  int after_done = 0;
  const auto take = [](std::vector<TokenId>& step, const std::vector<TokenId>& source, int& from,
                       int count) {
    step.insert(step.end(), source.begin() + from, source.begin() + from + count);
    from += count;
  };
  for (const auto& [num_before, num_known, num_after] :
       std::vector<std::array<int, 3>>{{5, 40, 1}, {1, 1, 33}, {64, 109, 2}}) {
    const std::vector<kernels::SequenceRows> sequences = {{.first_row = 0,
                                                           .num_rows = num_before,
                                                           .first_position = before_done,
                                                           .block_table = tables[0]},
                                                          {.first_row = num_before,
                                                           .num_rows = num_known,
                                                           .first_position = done,
                                                           .block_table = tables[1]},
                                                          {.first_row = num_before + num_known,
                                                           .num_rows = num_after,
                                                           .first_position = after_done,
                                                           .block_table = tables[2]}};
    std::vector<TokenId> step;
    take(step, before, before_done, num_before);
    take(step, tokens_, done, num_known);
    take(step, after, after_done, num_after);
    const std::vector<int> rows = {num_before - 1, num_before + num_known - 1,
                                   num_before + num_known + num_after - 1};
    std::vector<float> logits(3 * 500);
    const StepGroup group{.arena = arena->get(), .sequences = sequences};
    const Result<void> computed =
        loaded_.model->Forward({.tokens = step, .groups = {&group, 1}, .logit_rows = rows}, logits);
    ASSERT_TRUE(computed.has_value()) << computed.error().ToString();
    ExpectRow(std::span(logits).subspan(500, 500), done - 1);
  }
  EXPECT_EQ(done, kTokens);
}

TEST_P(InvarianceTest, ThreadsChangeNothing) {
  const auto two = *kernels::cpu::MakeCpuBackend({.num_threads = 2, .target = ""});
  const LoadedModel loaded = LoadedModel::Open(scratch_ / "m.gguf", *two);
  SequenceRunner runner(*loaded.model, *two, {.context = kTokens});
  const std::vector<float> logits = runner.Step(tokens_, AllRows(kTokens));
  EXPECT_EQ(std::memcmp(logits.data(), expected_.data(), expected_.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace kvgate::model
