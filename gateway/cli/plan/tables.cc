#include "gateway/cli/plan/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace kvgate::cli::plan {
namespace {

using Json = nlohmann::ordered_json;

struct Cell {
  int num_sequences = 0;
  int context_tokens = 0;
  model::Capacity capacity = {};
  bool fits = true;  // all of them
  std::optional<model::Speed> speed = {};
};

Result<Cell> Compute(const Plan& plan, int num_sequences, int context_tokens) {
  Cell cell = {.num_sequences = num_sequences, .context_tokens = context_tokens};
  model::CapacityRequest request = plan.request;
  request.num_sequences = num_sequences;
  request.context_tokens = context_tokens;
  KVGATE_TRY(cell.capacity, ComputeCapacity(plan.shape, request));
  cell.fits = request.memory_bytes == 0 ||
              cell.capacity.sequences_fit >= static_cast<uint64_t>(num_sequences);
  if (plan.machine.has_value()) {
    model::SpeedRequest lengths = plan.lengths;
    // The prompt fills what the answer leaves.
    lengths.output_tokens = std::min(lengths.output_tokens, std::max(1, context_tokens / 4));
    lengths.prompt_tokens = std::max(1, context_tokens - lengths.output_tokens);
    KVGATE_TRY(cell.speed, PredictSpeed(plan.shape, request, lengths, *plan.machine));
  }
  return cell;
}

Result<std::vector<Cell>> Grid(const Plan& plan) {
  std::vector<Cell> cells;
  std::vector<int> contexts;
  for (int tokens = 1024; tokens < plan.request.context_tokens; tokens *= 4) {
    contexts.push_back(tokens);
  }
  contexts.push_back(plan.request.context_tokens);
  for (const int context : contexts) {
    const int most = std::max(plan.request.num_sequences, 64);
    for (int sequences = 1; sequences <= most; sequences *= 4) {
      KVGATE_TRY(Cell cell, Compute(plan, sequences, context));
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

Json CellJson(const Cell& cell) {
  Json json = {{"context_tokens", cell.context_tokens},
               {"num_sequences", cell.num_sequences},
               {"peak_kv_bytes", cell.capacity.peak_kv_bytes},
               {"total_bytes", cell.capacity.total_bytes},
               {"fits", cell.fits}};
  if (cell.speed) {
    json["cold_ttft_seconds"] = cell.speed->cold_ttft_seconds;
    json["warm_ttft_seconds"] = cell.speed->warm_ttft_seconds;
    json["tpot_seconds"] = cell.speed->tpot_seconds;
    json["tokens_per_second"] = cell.speed->tokens_per_second;
  }
  return json;
}

std::string SpeedColumns(const std::optional<model::Speed>& speed) {
  if (!speed) return fmt::format("{:>10} {:>10} {:>10} {:>10}", "-", "-", "-", "-");
  return fmt::format("{:>10} {:>10} {:>10} {:>10.1f}", SecondsText(speed->cold_ttft_seconds),
                     SecondsText(speed->warm_ttft_seconds), SecondsText(speed->tpot_seconds),
                     speed->tokens_per_second);
}

std::string MachineLine(const Plan& plan) {
  return plan.machine ? fmt::format("at best, on {} ({})\n", plan.machine->name, plan.machine_note)
                      : "speeds: name the machine with --machine\n";
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// By KV heads, the most first: that is what makes their KV large.
std::vector<const Plan*> ByKvHeads(const std::vector<Plan>& plans) {
  std::vector<const Plan*> sorted;
  for (const Plan& plan : plans) sorted.push_back(&plan);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Plan* one, const Plan* other) {
    return one->shape.num_kv_heads > other->shape.num_kv_heads;
  });
  return sorted;
}

}  // namespace

Result<std::string> GridText(const Plan& plan) {
  KVGATE_TRY(const std::vector<Cell> cells, Grid(plan));
  std::string text = fmt::format("{}, {}", plan.shape.name, MachineLine(plan));
  text += fmt::format("{:>10} {:>9} {:>11} {:>11} {:>5} {:>10} {:>10} {:>10} {:>10}\n", "CONTEXT",
                      "SEQUENCES", "KV", "IN ALL", "FITS", "COLD TTFT", "WARM TTFT", "TPOT",
                      "TOKENS/S");
  int before = 0;
  for (const Cell& cell : cells) {
    if (before != 0 && before != cell.context_tokens) text += '\n';
    before = cell.context_tokens;
    text += fmt::format("{:>10} {:>9} {:>11} {:>11} {:>5} {}\n",
                        Grouped(static_cast<uint64_t>(cell.context_tokens)), cell.num_sequences,
                        BinaryUnits(cell.capacity.peak_kv_bytes),
                        BinaryUnits(cell.capacity.total_bytes), cell.fits ? "yes" : "no",
                        SpeedColumns(cell.speed));
  }
  return text;
}

Result<std::string> GridJson(const Plan& plan) {
  KVGATE_TRY(const std::vector<Cell> cells, Grid(plan));
  Json json = {{"model", plan.shape.name}, {"memory_bytes", plan.request.memory_bytes}};
  json["grid"] = Json::array();
  for (const Cell& cell : cells) json["grid"].push_back(CellJson(cell));
  return Dump(json);
}

Result<std::string> CompareText(const std::vector<Plan>& plans) {
  std::string text = MachineLine(plans.front());
  text += fmt::format("{:<20} {:>8} {:>9} {:>12} {:>12} {:>11} {:>9} {:>10} {:>10} {:>10} {:>10}\n",
                      "MODEL", "KV HEADS", "ATTENTION", "KV A TOKEN", "ONE SEQ.", "WEIGHTS",
                      "SEQS. FIT", "COLD TTFT", "WARM TTFT", "TPOT", "TOKENS/S");
  for (const Plan* plan : ByKvHeads(plans)) {
    KVGATE_TRY(const Cell cell,
               Compute(*plan, plan->request.num_sequences, plan->request.context_tokens));
    text += fmt::format("{:<20.20} {:>8} {:>9} {:>12} {:>12} {:>11} {:>9} {}\n", plan->shape.name,
                        plan->shape.num_kv_heads, AttentionName(plan->shape),
                        BinaryUnits(cell.capacity.kv_token_bytes),
                        BinaryUnits(cell.capacity.sequence_bytes),
                        BinaryUnits(cell.capacity.weight_bytes),
                        Grouped(cell.capacity.sequences_fit), SpeedColumns(cell.speed));
  }
  return text;
}

Result<std::string> CompareJson(const std::vector<Plan>& plans) {
  Json json = {{"models", Json::array()}};
  for (const Plan* plan : ByKvHeads(plans)) {
    KVGATE_TRY(const Cell cell,
               Compute(*plan, plan->request.num_sequences, plan->request.context_tokens));
    Json entry = {{"model", plan->shape.name},
                  {"num_kv_heads", plan->shape.num_kv_heads},
                  {"attention", AttentionName(plan->shape)},
                  {"kv_token_bytes", cell.capacity.kv_token_bytes},
                  {"sequence_bytes", cell.capacity.sequence_bytes},
                  {"weight_bytes", cell.capacity.weight_bytes},
                  {"sequences_fit", cell.capacity.sequences_fit}};
    entry.update(CellJson(cell));
    json["models"].push_back(std::move(entry));
  }
  return Dump(json);
}

}  // namespace kvgate::cli::plan
