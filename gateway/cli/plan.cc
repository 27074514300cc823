#include "gateway/cli/plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "engine/modelfile/hf_folder.h"
#include "gateway/cli/commands.h"
#include "gateway/config/config.h"
#include "gateway/runtime/machine/device.h"
#include "gateway/runtime/machine/machine_memory.h"
#include "kernels/weight_format.h"

namespace kvgate::cli {
namespace {

using model::Capacity;
using model::CapacityRequest;
using model::CapacityShape;

// "4.5", "1.25", "320": at most two decimals, without trailing zeros.
std::string Short(double number) {
  std::string text = fmt::format("{:.2f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string Scaled(uint64_t bytes, double base, const std::array<const char*, 5>& units) {
  double number = static_cast<double>(bytes);
  size_t unit = 0;
  while (number >= base && unit + 1 < units.size()) {
    number /= base;
    ++unit;
  }
  return fmt::format("{} {}", Short(number), units[unit]);
}

std::string Binary(uint64_t bytes) {
  return Scaled(bytes, 1024, {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

// Formats both units, because textbooks mix them.
std::string Both(uint64_t bytes) {
  return fmt::format("{} ({})", Binary(bytes),
                     Scaled(bytes, 1000, {"bytes", "kB", "MB", "GB", "TB"}));
}

// "1,234,567".
std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string_view AttentionName(const CapacityShape& shape) {
  if (shape.num_kv_heads == shape.num_heads) return "MHA";
  return shape.num_kv_heads == 1 ? "MQA" : "GQA";
}

struct Variant {
  std::string_view name;
  CapacityShape shape;
  Capacity capacity;
};

// Compares the shape with as many KV heads as heads, with its own number, and with one. The weights
// stay the same, as K and V projections are a few percent of them.
Result<std::vector<Variant>> CompareAttention(const Plan& plan) {
  std::vector<int> counts = {plan.shape.num_heads, plan.shape.num_kv_heads, 1};
  // If the model is MHA or MQA itself, groups of eight heads serve as the example in between.
  if (plan.shape.num_kv_heads == plan.shape.num_heads || plan.shape.num_kv_heads == 1) {
    counts[1] = plan.shape.num_heads % 8 == 0 ? plan.shape.num_heads / 8 : plan.shape.num_kv_heads;
  }
  std::vector<Variant> variants;
  for (const int count : counts) {
    if (!variants.empty() && variants.back().shape.num_kv_heads == count) continue;
    Variant variant;
    variant.shape = plan.shape;
    variant.shape.num_kv_heads = count;
    variant.name = AttentionName(variant.shape);
    KVGATE_TRY(variant.capacity, ComputeCapacity(variant.shape, plan.request));
    variants.push_back(std::move(variant));
  }
  return variants;
}

std::string KnownNames() {
  std::string names;
  for (const CapacityShape& shape : model::KnownShapes()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  }
  return names;
}

std::string HeadLines(const Plan& plan, const Capacity& capacity) {
  const CapacityShape& shape = plan.shape;
  const CapacityRequest& request = plan.request;
  const std::string_view dtype = kernels::DTypeName(request.kv_dtype);
  const double value_bytes = static_cast<double>(kernels::DTypeBytes(
                                 request.kv_dtype, static_cast<size_t>(shape.head_dim))) /
                             shape.head_dim;
  std::string text =
      fmt::format("{}: {} layers, {} heads, {} KV heads ({}), head_dim {}, trained context {}\n\n",
                  shape.name, shape.num_layers, shape.num_heads, shape.num_kv_heads,
                  AttentionName(shape), shape.head_dim, Grouped(shape.context_length));
  text += fmt::format(
      "KV per token  {}\n  = 2 (K and V) x {} layers x {} KV heads x {} head_dim x {} bytes ({})"
      " = {} bytes\n",
      Both(capacity.kv_token_bytes), shape.num_layers, shape.num_kv_heads, shape.head_dim,
      Short(value_bytes), dtype, Grouped(capacity.kv_token_bytes));
  text += fmt::format("one sequence  {}\n  = KV per token x {} tokens, in blocks of {}\n",
                      Both(capacity.sequence_bytes), Grouped(request.context_tokens),
                      kernels::kKvBlockTokens);
  if (shape.num_window_layers > 0) {
    text += fmt::format("    ({} of the layers keep a window of {} tokens only)\n",
                        shape.num_window_layers, Grouped(shape.window_tokens));
  }
  text += fmt::format("peak KV       {}\n  = one sequence x {} sequences\n",
                      Both(capacity.peak_kv_bytes), Grouped(request.num_sequences));
  text += fmt::format("weights       {}\n", Both(capacity.weight_bytes));
  text += request.weight_bytes > 0
              ? "  = the file\n"
              : fmt::format("  = {} parameters in {}\n", Grouped(shape.num_parameters),
                            kernels::DTypeName(request.weight_dtype));
  text += fmt::format(
      "overhead      {}\n  = activations of a step of {} tokens, logits of {} sequences (f32)\n",
      Both(capacity.overhead_bytes), request.step_tokens, Grouped(request.num_sequences));
  text += fmt::format("in all        {}\n", Both(capacity.total_bytes));
  return text;
}

nlohmann::ordered_json CapacityJson(const Capacity& capacity) {
  return {{"kv_token_bytes", capacity.kv_token_bytes}, {"sequence_bytes", capacity.sequence_bytes},
          {"peak_kv_bytes", capacity.peak_kv_bytes},   {"weight_bytes", capacity.weight_bytes},
          {"overhead_bytes", capacity.overhead_bytes}, {"total_bytes", capacity.total_bytes},
          {"kv_memory_bytes", capacity.kv_room_bytes}, {"sequences_fit", capacity.sequences_fit}};
}

}  // namespace

Result<Plan> FindPlan(const std::string& model, const CapacityRequest& request) {
  Plan plan = {.shape = {}, .request = request};
  if (const CapacityShape* known = model::FindKnownShape(model)) {
    plan.shape = *known;
    return plan;
  }
  std::error_code code;
  if (!std::filesystem::exists(model, code)) {
    return MakeError(
        ErrorCode::kNotFound, "cli",
        fmt::format("'{}' is neither a file nor a known shape; known are {}", model, KnownNames()));
  }
  KVGATE_TRY(const auto file, modelfile::OpenModelFile(model));
  KVGATE_TRY(plan.shape, model::ReadCapacityShape(*file));
  plan.request.weight_bytes = file->total_bytes();
  if (request.is_device && file->FindTensor("output.weight") == nullptr) {
    // A tied embedding table is stored twice: in rows, and packed for matrix products.
    const modelfile::GgufTensor* const table = file->FindTensor("token_embd.weight");
    if (table != nullptr) plan.request.weight_bytes += table->data.size();
  }
  return plan;
}

Result<std::string> PlanText(const Plan& plan) {
  KVGATE_TRY(const Capacity capacity, ComputeCapacity(plan.shape, plan.request));
  KVGATE_TRY(const std::vector<Variant> variants, CompareAttention(plan));
  std::string text = HeadLines(plan, capacity);
  const bool has_memory = plan.request.memory_bytes > 0;
  if (has_memory) {
    text += fmt::format(
        "\nsequences that fit into {}: {}\n  = KV memory / one sequence\n"
        "KV memory     {}\n  = {}\n",
        Binary(plan.request.memory_bytes), Grouped(capacity.sequences_fit),
        Both(capacity.kv_room_bytes),
        plan.request.is_device
            ? "nine tenths of what the device has beside weights, overhead and a reserve of "
              "512 MiB: what serve takes unless engine.kv_memory says otherwise"
            : "memory - weights - overhead");
  }
  text += fmt::format("\nthe same shape  KV heads  KV per token  one sequence  {}\n",
                      has_memory ? "sequences that fit" : "peak KV");
  for (const Variant& variant : variants) {
    const bool is_own = variant.shape.num_kv_heads == plan.shape.num_kv_heads;
    text += fmt::format("{:<14}  {:>8}  {:>12}  {:>12}  {:>18}\n",
                        fmt::format("{}{}", variant.name, is_own ? " (its own)" : ""),
                        variant.shape.num_kv_heads, Binary(variant.capacity.kv_token_bytes),
                        Binary(variant.capacity.sequence_bytes),
                        has_memory ? Grouped(variant.capacity.sequences_fit)
                                   : Binary(variant.capacity.peak_kv_bytes));
  }
  return text;
}

Result<std::string> PlanJson(const Plan& plan) {
  KVGATE_TRY(const Capacity capacity, ComputeCapacity(plan.shape, plan.request));
  KVGATE_TRY(const std::vector<Variant> variants, CompareAttention(plan));
  nlohmann::ordered_json json = {{"model", plan.shape.name},
                                 {"num_layers", plan.shape.num_layers},
                                 {"num_heads", plan.shape.num_heads},
                                 {"num_kv_heads", plan.shape.num_kv_heads},
                                 {"head_dim", plan.shape.head_dim},
                                 {"context_tokens", plan.request.context_tokens},
                                 {"num_sequences", plan.request.num_sequences},
                                 {"kv_dtype", kernels::DTypeName(plan.request.kv_dtype)},
                                 {"memory_bytes", plan.request.memory_bytes},
                                 {"is_device", plan.request.is_device}};
  json.update(CapacityJson(capacity));
  for (const Variant& variant : variants) {
    nlohmann::ordered_json entry = {{"attention", variant.name},
                                    {"num_kv_heads", variant.shape.num_kv_heads}};
    entry.update(CapacityJson(variant.capacity));
    json["variants"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

namespace {

constexpr const char* kFooter =
    "KV per token = 2 x layers x KV heads x head_dim x bytes per value. Sizes are exact: KiB, MiB "
    "and GiB are powers of 1024; kB, MB and GB of 1000.\n"
    "Texts that give Llama-2 70B 2.5 GB of KV at 4096 tokens count 4 bytes a value: with 8 KV "
    "heads in f16 it is 1.25 GiB; with one KV head for each of its 64 heads it would be 10 GiB.\n"
    "Without --memory the memory of this machine counts; with --device cuda what is free of the "
    "device, and a step is as long as it is there.";

struct PlanFlags {
  std::string model;
  CapacityRequest request;
  std::string kv_dtype = "f16";
  std::string weight_dtype = "f16";
  std::string memory;
  std::string device = "cpu";
  int context = 0;
  bool json = false;
};

Result<int> RunPlan(const PlanFlags& flags) {
  CapacityRequest request = flags.request;
  request.kv_dtype = kernels::FindDType(flags.kv_dtype).value();
  request.weight_dtype = kernels::FindDType(flags.weight_dtype).value();
  request.memory_bytes = runtime::machine::MemoryLimit();
  if (flags.device == "cuda") {
    config::Config config;
    runtime::machine::ApplyDeviceDefaults({.is_cuda = true}, 0, config);
    request.is_device = true;
    request.step_tokens = config.engine.step_tokens;
    if (flags.memory.empty()) {
      config.engine.device = "cuda";
      const Result<runtime::machine::DeviceChoice> choice =
          runtime::machine::ChooseDevice(config.engine, runtime::machine::ProbeDevices());
      if (!choice) {
        return MakeError(
            choice.error().code, "cli",
            fmt::format("{}; or name the device's memory with --memory", choice.error().detail));
      }
      request.memory_bytes = choice->cuda.bytes_free;
    }
  }
  if (!flags.memory.empty()) {
    KVGATE_TRY(request.memory_bytes, config::ParseBytes(flags.memory));
  }
  KVGATE_TRY(Plan plan, FindPlan(flags.model, request));
  plan.request.context_tokens = flags.context > 0 ? flags.context : plan.shape.context_length;
  KVGATE_TRY(const std::string text, flags.json ? PlanJson(plan) : PlanText(plan));
  fmt::print("{}", text);
  return 0;
}

}  // namespace

void AddPlan(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command =
      app.add_subcommand("plan", "What a model, a context and sequences need of memory");
  command->footer(kFooter);
  command
      ->add_option("--model", flags->model,
                   "a GGUF file, a Hugging Face folder, or one of: " + KnownNames())
      ->required();
  command->add_option("--context", flags->context, "tokens of a sequence; default: the model's own")
      ->check(CLI::Range(1, 1 << 28));
  command->add_option("--sequences", flags->request.num_sequences, "at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  const auto dtypes = CLI::IsMember({"f32", "f16", "bf16", "fp8_e4m3", "q8_0", "q4_0"});
  std::vector<std::string> weight_dtypes;
  for (const kernels::WeightFormat& format : kernels::WeightFormats()) {
    weight_dtypes.emplace_back(format.name);
  }
  command->add_option("--kv-dtype", flags->kv_dtype)->check(dtypes)->capture_default_str();
  command->add_option("--weights", flags->weight_dtype, "dtype of a known shape's weights")
      ->check(CLI::IsMember(weight_dtypes))
      ->capture_default_str();
  command->add_option("--memory", flags->memory, "80GiB, 24GB ...: how many sequences fit");
  command->add_option("--device", flags->device, "whose memory it is: cpu, or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &chosen] { chosen = [flags] { return RunPlan(*flags); }; });
}

}  // namespace kvgate::cli
