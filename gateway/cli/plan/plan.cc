#include "gateway/cli/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "engine/modelfile/hf_folder.h"
#include "kernels/weight_format.h"

namespace kvgate::cli::plan {
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
      BothUnits(capacity.kv_token_bytes), shape.num_layers, shape.num_kv_heads, shape.head_dim,
      Short(value_bytes), dtype, Grouped(capacity.kv_token_bytes));
  text += fmt::format("one sequence  {}\n  = KV per token x {} tokens, in blocks of {}\n",
                      BothUnits(capacity.sequence_bytes), Grouped(request.context_tokens),
                      kernels::kKvBlockTokens);
  if (shape.num_window_layers > 0) {
    text += fmt::format("    ({} of the layers keep a window of {} tokens only)\n",
                        shape.num_window_layers, Grouped(shape.window_tokens));
  }
  text += fmt::format("peak KV       {}\n  = one sequence x {} sequences\n",
                      BothUnits(capacity.peak_kv_bytes), Grouped(request.num_sequences));
  text += fmt::format("weights       {}\n", BothUnits(capacity.weight_bytes));
  text += request.weight_bytes > 0
              ? "  = the file\n"
              : fmt::format("  = {} parameters in {}\n", Grouped(shape.num_parameters),
                            kernels::DTypeName(request.weight_dtype));
  text += fmt::format(
      "overhead      {}\n  = activations of a step of {} tokens, logits of {} sequences (f32){}\n",
      BothUnits(capacity.overhead_bytes), request.step_tokens, Grouped(request.num_sequences),
      request.is_device ? "" : ", the program and its tokenizer");
  text += fmt::format("in all        {}\n", BothUnits(capacity.total_bytes));
  return text;
}

nlohmann::ordered_json CapacityJson(const Capacity& capacity) {
  return {{"kv_token_bytes", capacity.kv_token_bytes}, {"sequence_bytes", capacity.sequence_bytes},
          {"peak_kv_bytes", capacity.peak_kv_bytes},   {"weight_bytes", capacity.weight_bytes},
          {"overhead_bytes", capacity.overhead_bytes}, {"program_bytes", capacity.program_bytes},
          {"total_bytes", capacity.total_bytes},       {"kv_memory_bytes", capacity.kv_room_bytes},
          {"sequences_fit", capacity.sequences_fit}};
}

// What to change where not one sequence fits, each with what it comes to.
std::string WaysOut(const Plan& plan, const Capacity& capacity) {
  const CapacityRequest& request = plan.request;
  const uint64_t fixed = capacity.weight_bytes + capacity.overhead_bytes;
  if (request.memory_bytes <= fixed) {
    std::string text = fmt::format("  not even the weights fit: {} more is needed before any KV",
                                   BinaryUnits(fixed - request.memory_bytes));
    if (request.weight_bytes == 0 && kernels::DTypeName(request.weight_dtype) != "q4_k") {
      text += "; weights in q4_k take about a quarter of f16 (--weights q4_k)";
    } else {
      text +=
          "; a smaller quantization of the weights (kvgate quantize), or a smaller model, would "
          "do";
    }
    return text + "\n";
  }
  std::string text = fmt::format("  one sequence needs {} more\n",
                                 BinaryUnits(capacity.sequence_bytes - capacity.kv_room_bytes));
  const auto fits = [&](const CapacityRequest& changed) {
    const Result<Capacity> now = ComputeCapacity(plan.shape, changed);
    return now && now->sequences_fit > 0;
  };
  CapacityRequest shorter = request;
  int fitting = 0;
  for (int tokens = kernels::kKvBlockTokens; tokens < request.context_tokens; tokens *= 2) {
    shorter.context_tokens = tokens;
    if (fits(shorter)) fitting = tokens;
  }
  if (fitting > 0) {
    text += fmt::format("  --context {} fits (engine.context)\n", fitting);
  }
  for (const char* dtype : {"q8_0", "q4_0"}) {
    CapacityRequest smaller = request;
    smaller.kv_dtype = kernels::FindDType(dtype).value();
    if (kernels::DTypeBytes(smaller.kv_dtype, 32) < kernels::DTypeBytes(request.kv_dtype, 32) &&
        fits(smaller)) {
      text += fmt::format("  --kv-dtype {} fits (engine.kv_dtype)\n", dtype);
      break;
    }
  }
  return text;
}

std::string SpeedLines(const Plan& plan, const model::Speed& speed) {
  const auto limit = [](bool is_by_memory) {
    return is_by_memory ? "reading memory is the limit" : "arithmetic is the limit";
  };
  return fmt::format(
      "\nspeed at best, on {}: {} TFLOP/s, {} GB/s ({})\n"
      "first token   {} cold, of a prompt of {} tokens ({})\n"
      "              {} with all but the last block of it cached\n"
      "each token    {} with {} sequences ({}): {} tokens/s in all\n",
      plan.machine->name, Short(plan.machine->operations_per_second / 1e12),
      Short(plan.machine->bytes_per_second / 1e9), plan.machine_note,
      SecondsText(speed.cold_ttft_seconds), Grouped(plan.lengths.prompt_tokens),
      limit(speed.prefill_is_by_memory), SecondsText(speed.warm_ttft_seconds),
      SecondsText(speed.tpot_seconds), Grouped(plan.request.num_sequences),
      limit(speed.decode_is_by_memory), Short(speed.tokens_per_second));
}

nlohmann::ordered_json SpeedJson(const Plan& plan, const model::Speed& speed) {
  return {{"machine", plan.machine->name},
          {"machine_source", plan.machine_note},
          {"operations_per_second", plan.machine->operations_per_second},
          {"bytes_per_second", plan.machine->bytes_per_second},
          {"prompt_tokens", plan.lengths.prompt_tokens},
          {"output_tokens", plan.lengths.output_tokens},
          {"cold_ttft_seconds", speed.cold_ttft_seconds},
          {"warm_ttft_seconds", speed.warm_ttft_seconds},
          {"tpot_seconds", speed.tpot_seconds},
          {"tokens_per_second", speed.tokens_per_second},
          {"prefill_limit", speed.prefill_is_by_memory ? "memory" : "arithmetic"},
          {"decode_limit", speed.decode_is_by_memory ? "memory" : "arithmetic"}};
}

// The format of most of the file's bytes.
kernels::DType MostOf(const modelfile::ModelFile& file, kernels::DType otherwise) {
  std::map<kernels::DType, uint64_t> bytes;
  for (const modelfile::GgufTensor& tensor : file.tensors()) {
    for (const kernels::WeightFormat& format : kernels::WeightFormats()) {
      if (format.gguf_type == tensor.type) bytes[format.dtype] += tensor.data.size();
    }
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  return most == bytes.end() ? otherwise : most->first;
}

}  // namespace

std::string KnownNames() {
  std::string names;
  for (const CapacityShape& shape : model::KnownShapes()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  }
  return names;
}

std::string BinaryUnits(uint64_t bytes) {
  return Scaled(bytes, 1024, {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

// Textbooks mix them.
std::string BothUnits(uint64_t bytes) {
  return fmt::format("{} ({})", BinaryUnits(bytes),
                     Scaled(bytes, 1000, {"bytes", "kB", "MB", "GB", "TB"}));
}

std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string SecondsText(double seconds) {
  return seconds < 0.9995 ? fmt::format("{:.3g} ms", seconds * 1e3)
                          : fmt::format("{:.3g} s", seconds);
}

std::string_view AttentionName(const CapacityShape& shape) {
  if (shape.num_kv_heads == shape.num_heads) return "MHA";
  return shape.num_kv_heads == 1 ? "MQA" : "GQA";
}

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
  plan.request.weight_dtype = MostOf(*file, request.weight_dtype);
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
  if (plan.request.context_tokens > plan.shape.context_length) {
    text += fmt::format(
        "\nThe model was trained for {} tokens: beyond, its answers lose their sense.\n",
        Grouped(plan.shape.context_length));
  }
  const bool has_memory = plan.request.memory_bytes > 0;
  if (has_memory) {
    text += fmt::format(
        "\nsequences that fit into {}: {}\n  = KV memory / one sequence\n"
        "KV memory     {}\n  = {}\n",
        BinaryUnits(plan.request.memory_bytes), Grouped(capacity.sequences_fit),
        BothUnits(capacity.kv_room_bytes),
        plan.request.is_device
            ? "nine tenths of what the device has beside weights, overhead and a reserve of "
              "512 MiB: what serve takes unless engine.kv_memory says otherwise"
            : "memory - weights - overhead");
    if (capacity.sequences_fit == 0) text += WaysOut(plan, capacity);
  }
  if (plan.machine) {
    KVGATE_TRY(const model::Speed speed,
               PredictSpeed(plan.shape, plan.request, plan.lengths, *plan.machine));
    text += SpeedLines(plan, speed);
  } else {
    text += "\nspeed: name the machine with --machine, or with --tflops and --bandwidth\n";
  }
  text += fmt::format("\nthe same shape  KV heads  KV per token  one sequence  {}\n",
                      has_memory ? "sequences that fit" : "peak KV");
  for (const Variant& variant : variants) {
    const bool is_own = variant.shape.num_kv_heads == plan.shape.num_kv_heads;
    text += fmt::format("{:<14}  {:>8}  {:>12}  {:>12}  {:>18}\n",
                        fmt::format("{}{}", variant.name, is_own ? " (its own)" : ""),
                        variant.shape.num_kv_heads, BinaryUnits(variant.capacity.kv_token_bytes),
                        BinaryUnits(variant.capacity.sequence_bytes),
                        has_memory ? Grouped(variant.capacity.sequences_fit)
                                   : BinaryUnits(variant.capacity.peak_kv_bytes));
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
  json["is_beyond_trained_context"] = plan.request.context_tokens > plan.shape.context_length;
  json["speed"] = nullptr;
  if (plan.machine) {
    KVGATE_TRY(const model::Speed speed,
               PredictSpeed(plan.shape, plan.request, plan.lengths, *plan.machine));
    json["speed"] = SpeedJson(plan, speed);
  }
  for (const Variant& variant : variants) {
    nlohmann::ordered_json entry = {{"attention", variant.name},
                                    {"num_kv_heads", variant.shape.num_kv_heads}};
    entry.update(CapacityJson(variant.capacity));
    json["variants"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace kvgate::cli::plan
