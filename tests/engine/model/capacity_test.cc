#include "engine/model/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/model/make_model.h"
#include "engine/modelfile/gguf.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::model {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

Capacity Of(std::string_view name, const CapacityRequest& request = {}) {
  const CapacityShape* shape = FindKnownShape(name);
  EXPECT_NE(shape, nullptr) << name;
  const auto capacity = ComputeCapacity(*shape, request);
  EXPECT_TRUE(capacity) << name;
  return capacity ? *capacity : Capacity();
}

CapacityRequest Context(int tokens) {
  CapacityRequest request;
  request.context_tokens = tokens;
  return request;
}

TEST(CapacityTest, Llama2Of7BIsAsTheTextbooksSay) {
  EXPECT_EQ(Of("llama-2-7b").kv_token_bytes, 512 * kKiB);
  EXPECT_EQ(Of("llama-2-7b", Context(4096)).sequence_bytes, 2 * kGiB);
  EXPECT_EQ(Of("llama-2-7b", Context(32 * 1024)).sequence_bytes, 16 * kGiB);
  EXPECT_EQ(Of("llama-2-7b", Context(128 * 1024)).sequence_bytes, 64 * kGiB);
}

TEST(CapacityTest, EightKvHeadsIn32LayersAre128KiBAToken) {
  EXPECT_EQ(Of("llama-3.1-8b").kv_token_bytes, 128 * kKiB);
  EXPECT_EQ(Of("llama-3.1-8b", Context(128 * 1024)).sequence_bytes, 16 * kGiB);
}

TEST(CapacityTest, Gpt3IsNearlyFiveMegabytesAToken) {
  EXPECT_EQ(Of("gpt-3").kv_token_bytes, 4'718'592u);                      // 4.7 MB
  EXPECT_EQ(Of("gpt-3", Context(4096)).sequence_bytes, 19'327'352'832u);  // 19 GB
}

TEST(CapacityTest, Llama2Of70BWithGroupedHeadsIsFiveQuartersOfAGibibyte) {
  EXPECT_EQ(Of("llama-2-70b", Context(4096)).sequence_bytes, 5 * kGiB / 4);
  CapacityShape shape = *FindKnownShape("llama-2-70b");
  shape.num_kv_heads = shape.num_heads;
  EXPECT_EQ(ComputeCapacity(shape, Context(4096))->sequence_bytes, 10 * kGiB);
  shape.num_kv_heads = 1;
  EXPECT_EQ(ComputeCapacity(shape, Context(4096))->sequence_bytes, 160 * kMiB);
}

TEST(CapacityTest, EveryKnownShapeHoldsTogether) {
  EXPECT_GE(KnownShapes().size(), 20u);
  for (const CapacityShape& shape : KnownShapes()) {
    EXPECT_EQ(FindKnownShape(shape.name), &shape) << shape.name << " is listed twice";
    EXPECT_EQ(shape.num_heads % shape.num_kv_heads, 0) << shape.name;
    EXPECT_LE(shape.num_window_layers, shape.num_layers) << shape.name;
    // Attention and feed-forward weights make up most of the parameters, so a slip in a table row
    // would show.
    const double attention =
        2.0 * shape.hidden_dim * shape.head_dim * (shape.num_heads + shape.num_kv_heads);
    const double ffn = 2.0 * shape.hidden_dim * shape.ffn_dim * std::max(shape.num_experts, 1);
    const double least = shape.num_layers * (attention + ffn);
    EXPECT_GT(static_cast<double>(shape.num_parameters), least) << shape.name;
    const double most =
        shape.num_layers * (attention + 1.5 * ffn) + 2.1 * shape.hidden_dim * shape.vocab_size;
    EXPECT_LT(static_cast<double>(shape.num_parameters), 1.02 * most) << shape.name;
  }
  EXPECT_EQ(FindKnownShape("no-such"), nullptr);
}

TEST(CapacityTest, ContextIsRoundedUpToBlocksAndWindowsBoundIt) {
  EXPECT_EQ(Of("llama-2-7b", Context(1)).sequence_bytes, 32 * 512 * kKiB);
  EXPECT_EQ(Of("llama-2-7b", Context(33)).sequence_bytes, 64 * 512 * kKiB);
  // Half of Gemma 2's layers hold 4096 tokens at most.
  const uint64_t layer = 2 * 4 * 256 * 2;
  EXPECT_EQ(Of("gemma-2-2b", Context(8192)).sequence_bytes, layer * 13 * (8192 + 4096));
  EXPECT_EQ(Of("gemma-2-2b", Context(2048)).sequence_bytes, layer * 26 * 2048);
}

TEST(CapacityTest, QuantizedKvCountsItsScales) {
  CapacityRequest request;
  request.kv_dtype = kernels::DType::kF8E4M3;
  EXPECT_EQ(Of("llama-2-7b", request).kv_token_bytes, 512 * kKiB / 2);  // FP8 has no scales
  request.kv_dtype = kernels::DType::kQ8_0;
  EXPECT_EQ(Of("llama-2-7b", request).kv_token_bytes, 512 * kKiB / 64 * 34);
  request.kv_dtype = kernels::DType::kQ4_0;
  EXPECT_EQ(Of("llama-2-7b", request).kv_token_bytes, 512 * kKiB / 64 * 18);
  CapacityShape narrow = *FindKnownShape("llama-2-7b");
  narrow.head_dim = 40;
  const auto refused = ComputeCapacity(narrow, request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().detail, HasSubstr("kv-dtype q4_0"));
}

TEST(CapacityTest, SequencesFillWhatWeightsAndOverheadLeave) {
  CapacityRequest request = Context(4096);
  request.num_sequences = 4;
  request.memory_bytes = 24 * kGiB;
  const Capacity capacity = Of("llama-2-7b", request);
  EXPECT_EQ(capacity.weight_bytes, 2 * 6'738'415'616u);
  EXPECT_EQ(capacity.peak_kv_bytes, 8 * kGiB);
  // The sum covers the residual stream and its norm, q and the attention output, k and v, gate and
  // up, and the rope table.
  const uint64_t per_token = 2 * 4096 + 2 * 4096 + 2 * 4096 + 2 * 11008 + 128;
  const uint64_t per_row = 2 * 4096 + 128 + 32000;
  EXPECT_EQ(capacity.overhead_bytes, 4 * (512 * per_token + 4 * per_row) + ProgramBytes(32000));
  EXPECT_EQ(capacity.total_bytes,
            capacity.weight_bytes + capacity.overhead_bytes + capacity.peak_kv_bytes);
  EXPECT_EQ(capacity.sequences_fit, 5u);
  request.memory_bytes = kGiB;  // less than the weights alone
  EXPECT_EQ(Of("llama-2-7b", request).sequences_fit, 0u);
  request.weight_bytes = 12345;
  EXPECT_EQ(Of("llama-2-7b", request).weight_bytes, 12345u);
}

TEST(CapacityTest, SenselessRequestsAreNamed) {
  const CapacityShape& shape = *FindKnownShape("llama-2-7b");
  const auto refuse = [&](const CapacityShape& of, CapacityRequest request, const char* what) {
    const auto refused = ComputeCapacity(of, request);
    ASSERT_FALSE(refused) << what;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().detail, HasSubstr(what));
  };
  refuse(shape, Context(0), "context 0");
  CapacityRequest none;
  none.num_sequences = 0;
  refuse(shape, none, "sequences 0");
  CapacityShape huge = shape;
  huge.num_layers = huge.num_kv_heads = huge.head_dim = 1 << 20;
  refuse(huge, Context(std::numeric_limits<int>::max()), "64 bits");
}

TEST(CapacityTest, AFilesShapeIsReadWhateverItsArchitecture) {
  const TempFolder directory;
  ASSERT_TRUE(MakeModel({.num_layers = 3,
                         .hidden_dim = 64,
                         .num_heads = 4,
                         .num_kv_heads = 2,
                         .vocab_size = 600,
                         .context_length = 256,
                         .name = "made"},
                        directory / "made.gguf"));
  const auto file = modelfile::GgufFile::Open(directory / "made.gguf");
  ASSERT_TRUE(file);
  const auto shape = ReadCapacityShape(**file);
  ASSERT_TRUE(shape) << shape.error().ToString();
  EXPECT_EQ(shape->name, "made");
  EXPECT_EQ(shape->num_layers, 3);
  EXPECT_EQ(shape->num_kv_heads, 2);
  EXPECT_EQ(shape->head_dim, 16);
  EXPECT_EQ(shape->vocab_size, 600);
  EXPECT_EQ(shape->context_length, 256);
}

TEST(CapacityTest, WindowsAndExpertsAreReadFromAFilesKeys) {
  const TempFolder directory;
  const auto read = [&](const MakeModelOptions& options) {
    EXPECT_TRUE(MakeModel(options, directory / "m.gguf"));
    const auto file = modelfile::GgufFile::Open(directory / "m.gguf");
    const auto shape = ReadCapacityShape(**file);
    EXPECT_TRUE(shape) << shape.error().ToString();
    return *shape;
  };
  MakeModelOptions options;
  options.architecture = "gemma3";
  options.num_layers = 7;
  options.window = 100;
  const CapacityShape gemma3 = read(options);
  EXPECT_EQ(gemma3.num_window_layers, 6);
  EXPECT_EQ(gemma3.window_tokens, 100);
  options.architecture = "phi3";  // every layer has a window, so all are kept from position 0 on
  EXPECT_EQ(read(options).num_window_layers, 0);
  options.architecture = "gpt-oss";
  const CapacityShape gpt_oss = read(options);
  EXPECT_EQ(gpt_oss.num_window_layers, 4);
  EXPECT_EQ(gpt_oss.num_experts, 8);
  EXPECT_EQ(gpt_oss.num_experts_used, 2);
  EXPECT_EQ(gpt_oss.ffn_dim, 768);
  EXPECT_EQ(gpt_oss.shared_expert_dim, 0);
  options.architecture = "qwen2moe";
  options.window = 0;
  EXPECT_EQ(read(options).shared_expert_dim, 768);
}

// The expected bytes are those of the buffers that the model allocates for a step.
TEST(CapacityTest, ExpertsTakeScratchForTheStepsRows) {
  CapacityRequest request = Context(4096);
  const Capacity capacity = Of("mixtral-8x7b", request);
  const uint64_t attention = 2 * 4096 + 2 * 4096 + 2 * 1024 + 128;
  const uint64_t row = 2 * 14336 + 4096;
  const uint64_t per_token = attention + row + 4096 + 8 + 1;
  const uint64_t per_row = 2 * 4096 + 128 + 32000;
  EXPECT_EQ(capacity.overhead_bytes,
            4 * (512 * per_token + per_row + 4 * 2 * row) + ProgramBytes(32000));
  // A device routes by itself, so it keeps buffers for every row and for every expert of a row.
  request.is_device = true;
  const uint64_t pair = 2 * 14336 + 14336 / 2 + 5 + 2 * 4;
  EXPECT_EQ(Of("mixtral-8x7b", request).overhead_bytes,
            4 * (512 * (attention + 8 + 2 * pair) + per_row + 13 * 64));
}

TEST(CapacityTest, AFileWithoutAShapeIsRefusedByTheKey) {
  const TempFolder directory;
  const auto refuse = [&](const modelfile::GgufWriter& writer, ErrorCode code, const char* what) {
    ASSERT_TRUE(writer.Write(directory / "x.gguf", nullptr));
    const auto file = modelfile::GgufFile::Open(directory / "x.gguf");
    ASSERT_TRUE(file);
    const auto shape = ReadCapacityShape(**file);
    ASSERT_FALSE(shape);
    EXPECT_EQ(shape.error().code, code);
    EXPECT_THAT(shape.error().detail, HasSubstr(what));
  };
  modelfile::GgufWriter writer;
  writer.Add("general.architecture", std::string("gemma9"));
  refuse(writer, ErrorCode::kDataLoss, "gemma9.block_count");
  writer.Add("gemma9.block_count", uint32_t{0});
  refuse(writer, ErrorCode::kDataLoss, "gemma9.block_count");
  modelfile::GgufWriter varied;
  varied.Add("general.architecture", std::string("x"));
  varied.Add("x.block_count", uint32_t{2});
  varied.AddIntegers("x.attention.head_count", {4, 8});
  refuse(varied, ErrorCode::kUnsupported, "x.attention.head_count");
}

}  // namespace
}  // namespace kvgate::model
