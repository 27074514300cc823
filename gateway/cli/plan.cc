// `kvgate plan`: flags only; what it counts and prints is in gateway/cli/plan.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/roofline.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/plan/inputs.h"
#include "gateway/cli/plan/plan.h"
#include "gateway/cli/plan/tables.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/config/config.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/runtime/machine/device.h"
#include "gateway/runtime/machine/machine_memory.h"
#include "kernels/weight_format.h"

namespace kvgate::cli {
namespace {

constexpr const char* kFooter =
    "KV per token = 2 x layers x KV heads x head_dim x bytes per value. Sizes are exact: KiB, MiB "
    "and GiB are powers of 1024; kB, MB and GB of 1000.\n"
    "Texts that give Llama-2 70B 2.5 GB of KV at 4096 tokens count 4 bytes a value: with 8 KV "
    "heads in f16 it is 1.25 GiB; with one KV head for each of its 64 heads it would be 10 GiB.\n"
    "Without --memory the memory of this machine counts; with --device cuda what is free of the "
    "device, and a step is as long as it is there.\n"
    "Speeds are limits by roofline: a step takes as long as the slower of its products and of the "
    "bytes that it reads. What waits, samples and travels comes on top.";

struct PlanFlags {
  std::string model;
  std::vector<std::string> compared;
  model::CapacityRequest request;
  std::string kv_dtype = "f16";
  std::string weight_dtype = "f16";
  std::string memory;
  std::string device = "cpu";
  plan::MachineFlags machine;
  ConfigFlags config;
  server::TargetFlags target;
  int context = 0;
  int prompt = 0;
  int output = 0;
  bool lengths_of_ledger = false;
  bool grid = false;
  bool json = false;
};

// The memory, whose it is, and how long a step is there.
Result<model::CapacityRequest> RequestOf(const PlanFlags& flags) {
  model::CapacityRequest request = flags.request;
  request.kv_dtype = kernels::FindDType(flags.kv_dtype).value();
  request.weight_dtype = kernels::FindDType(flags.weight_dtype).value();
  request.memory_bytes = runtime::machine::MemoryLimit();
  const model::MachineSpeed* const machine = model::FindKnownMachine(flags.machine.name);
  if (flags.device == "cuda" || machine != nullptr) {
    config::Config config;
    runtime::machine::ApplyDeviceDefaults({.is_cuda = true}, 0, config);
    request.is_device = true;
    request.step_tokens = config.engine.step_tokens;
    if (machine != nullptr) {
      request.memory_bytes = machine->memory_bytes;
    } else if (flags.memory.empty()) {
      config.engine.device = "cuda";
      const Result<runtime::machine::DeviceChoice> choice =
          runtime::machine::ChooseDevice(config.engine, runtime::machine::ProbeDevices());
      if (!choice) {
        return MakeError(choice.error().code, "cli",
                         fmt::format("{}; or name the device's memory with --memory, or a machine "
                                     "with --machine",
                                     choice.error().detail));
      }
      request.memory_bytes = choice->cuda.bytes_free;
    }
  }
  if (!flags.memory.empty()) {
    KVGATE_TRY(request.memory_bytes, config::ParseBytes(flags.memory));
  }
  return request;
}

// The lengths that were said, else those of the ledger, else a short prompt's and its answer's.
Result<model::SpeedRequest> LengthsOf(const PlanFlags& flags) {
  model::SpeedRequest lengths;
  if (flags.lengths_of_ledger) {
    KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
    KVGATE_TRY(const std::string authorization, server::AuthorizationOf(flags.target));
    KVGATE_TRY(const store::ServerAddress server,
               server::RequireServer(flags.target, runtime::DataDirOf(config)));
    KVGATE_TRY(const plan::Lengths found, plan::LengthsOfLedger(server, authorization));
    lengths = {.prompt_tokens = found.prompt_tokens, .output_tokens = found.output_tokens};
  }
  if (flags.prompt > 0) lengths.prompt_tokens = flags.prompt;
  if (flags.output > 0) lengths.output_tokens = flags.output;
  return lengths;
}

Result<int> RunPlan(const PlanFlags& flags) {
  std::vector<std::string> models = flags.compared;
  if (!flags.model.empty()) models.insert(models.begin(), flags.model);
  if (models.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "cli", "name a --model, or several to --compare");
  }
  KVGATE_TRY(const model::CapacityRequest request, RequestOf(flags));
  KVGATE_TRY(const model::SpeedRequest lengths, LengthsOf(flags));
  std::vector<plan::Plan> plans;
  for (const std::string& model : models) {
    KVGATE_TRY(plan::Plan planned, plan::FindPlan(model, request));
    // The ledger's lengths are what sequences come to; without them the model's own context counts.
    const int by_lengths = lengths.prompt_tokens + lengths.output_tokens;
    planned.request.context_tokens = flags.context > 0         ? flags.context
                                     : flags.lengths_of_ledger ? by_lengths
                                                               : planned.shape.context_length;
    planned.lengths = lengths;
    plans.push_back(std::move(planned));
  }
  KVGATE_TRY(
      const std::optional<plan::FoundMachine> machine,
      plan::FindMachine(flags.machine, request.is_device, plans.front().request.weight_dtype));
  for (plan::Plan& planned : plans) {
    if (!machine) continue;
    planned.machine = machine->speed;
    planned.machine_note = machine->note;
  }
  const plan::Plan& first = plans.front();
  const auto print = [&]() -> Result<std::string> {
    if (!flags.compared.empty())
      return flags.json ? plan::CompareJson(plans) : plan::CompareText(plans);
    if (flags.grid) return flags.json ? plan::GridJson(first) : plan::GridText(first);
    return flags.json ? plan::PlanJson(first) : plan::PlanText(first);
  };
  KVGATE_TRY(const std::string text, print());
  fmt::print("{}", text);
  return 0;
}

void AddSpeedFlags(CLI::App& command, const std::shared_ptr<PlanFlags>& flags) {
  std::string machines;
  for (const model::MachineSpeed& machine : model::KnownMachines()) {
    machines += fmt::format("{}{}", machines.empty() ? "" : ", ", machine.name);
  }
  command.add_option("--machine", flags->machine.name,
                     "whose speeds and memory count instead of this machine's: " + machines);
  command.add_option("--tflops", flags->machine.tflops, "its products: TFLOP/s of 16-bit floats")
      ->check(CLI::PositiveNumber);
  command.add_option("--bandwidth", flags->machine.gb_per_second, "its memory: GB/s")
      ->check(CLI::PositiveNumber);
  command.add_option("--prompt", flags->prompt, "tokens of a prompt, for its speed [1024]")
      ->check(CLI::Range(1, 1 << 28));
  command.add_option("--output", flags->output, "tokens of an answer [256]")
      ->check(CLI::Range(1, 1 << 28));
  command.add_flag("--lengths-of-ledger", flags->lengths_of_ledger,
                   "both as 95 of 100 of a server's newest requests have them, and the context as "
                   "their sum");
  AddDataDirFlag(command, flags->config);
  server::AddTargetFlags(command, flags->target);
  command.add_flag("--grid", flags->grid, "batches by contexts: what fits, and how fast it is");
  command.add_option("--compare", flags->compared, "models side by side, by KV heads")
      ->expected(1, 16);
}

}  // namespace

void AddPlan(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command =
      app.add_subcommand("plan", "What a model, a context and sequences need, and how fast it is");
  command->footer(kFooter);
  command->add_option("--model", flags->model,
                      "a GGUF file, a Hugging Face folder, or one of: " + plan::KnownNames());
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
  AddSpeedFlags(*command, flags);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &chosen] { chosen = [flags] { return RunPlan(*flags); }; });
}

}  // namespace kvgate::cli
