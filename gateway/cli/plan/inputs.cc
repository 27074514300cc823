#include "gateway/cli/plan/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"

namespace kvgate::cli::plan {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// The best of several passes over products of `num_rows` rows: their seconds.
Result<double> BestSeconds(kernels::Backend& backend, const kernels::Weight& weight, int num_rows) {
  constexpr auto kTime = std::chrono::milliseconds(400);
  constexpr int kPassesMin = 3;
  const auto rows = static_cast<size_t>(num_rows);
  KVGATE_TRY(const auto x, backend.AllocateFloats(rows * static_cast<size_t>(weight.columns())));
  KVGATE_TRY(const auto y, backend.AllocateFloats(rows * static_cast<size_t>(weight.rows())));
  std::fill_n(x->data(), x->size(), 0.5f);
  const kernels::MatMulTask task = {.weight = &weight, .y = y->data()};
  double best = std::numeric_limits<double>::infinity();
  const Clock::time_point begin = Clock::now();
  for (int pass = 0; pass < kPassesMin || Clock::now() - begin < kTime; ++pass) {
    const Clock::time_point start = Clock::now();
    backend.MatMul(x->data(), num_rows, {&task, 1});
    backend.Synchronize();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

Result<std::unique_ptr<kernels::Weight>> MakeWeight(kernels::Backend& backend, kernels::DType dtype,
                                                    int64_t rows) {
  constexpr int64_t kColumns = 4096;
  // The bytes make small numbers in every format.
  const std::vector<std::byte> bytes(
      kernels::DTypeBytes(dtype, static_cast<size_t>(rows * kColumns)), std::byte{0x2c});
  return backend.LoadWeight(
      {.dtype = dtype, .data = bytes.data(), .rows = rows, .columns = kColumns});
}

Result<FoundMachine> MeasureCpu(kernels::DType dtype) {
  KVGATE_TRY(const auto backend, kernels::cpu::MakeCpuBackend({}));
  FoundMachine found;
  found.speed.name = "this CPU";
  {
    // More than caches hold, so that one row's product is as fast as memory is read.
    constexpr size_t kBytes = size_t{160} << 20;
    const size_t row_bytes = kernels::DTypeBytes(dtype, 4096);
    KVGATE_TRY(const auto weight,
               MakeWeight(*backend, dtype, static_cast<int64_t>(kBytes / row_bytes / 64 * 64)));
    KVGATE_TRY(const double seconds, BestSeconds(*backend, *weight, 1));
    found.speed.bytes_per_second = static_cast<double>(weight->bytes()) / seconds;
  }
  constexpr int kRows = 256;
  KVGATE_TRY(const auto weight, MakeWeight(*backend, dtype, 1024));
  KVGATE_TRY(const double seconds, BestSeconds(*backend, *weight, kRows));
  found.speed.operations_per_second = 2.0 * kRows * static_cast<double>(weight->rows()) *
                                      static_cast<double>(weight->columns()) / seconds;
  found.note =
      fmt::format("measured now: products of {} weights, {}, {} threads", kernels::DTypeName(dtype),
                  backend->Info().target, backend->Info().num_threads);
  return found;
}

std::string KnownMachineNames() {
  std::string names;
  for (const model::MachineSpeed& machine : model::KnownMachines()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", machine.name);
  }
  return names;
}

int Percentile95(std::vector<int64_t>& counts) {
  std::sort(counts.begin(), counts.end());
  const int64_t at = counts[(counts.size() * 95 + 99) / 100 - 1];
  return static_cast<int>(std::clamp<int64_t>(at, 1, int64_t{1} << 28));
}

}  // namespace

Result<std::optional<FoundMachine>> FindMachine(const MachineFlags& flags, bool is_device,
                                                kernels::DType weights) {
  FoundMachine found;
  const bool is_told = flags.tflops > 0 && flags.gb_per_second > 0;
  if (!flags.name.empty()) {
    const model::MachineSpeed* const known = model::FindKnownMachine(flags.name);
    if (known == nullptr) {
      return MakeError(
          ErrorCode::kInvalidArgument, "cli",
          fmt::format("there is no machine '{}'; known are {}. Others: --tflops and --bandwidth",
                      flags.name, KnownMachineNames()));
    }
    found = {.speed = *known, .note = "its data sheet"};
  } else if (is_told) {
    found.speed.name = is_device ? "this device" : "this machine";
  } else if (is_device) {
    return std::optional<FoundMachine>();
  } else {
    KVGATE_TRY(found, MeasureCpu(weights));
  }
  if (flags.tflops > 0) found.speed.operations_per_second = flags.tflops * 1e12;
  if (flags.gb_per_second > 0) found.speed.bytes_per_second = flags.gb_per_second * 1e9;
  if (is_told) {
    found.note = "as told";
  } else if (flags.tflops > 0 || flags.gb_per_second > 0) {
    found.note += "; one of both as told";
  }
  return std::optional(std::move(found));
}

Result<Lengths> LengthsOfLedger(const store::ServerAddress& server,
                                const std::string& authorization) {
  KVGATE_TRY(const std::string body,
             server::FetchOk(server::RequestTo(server, {.url = "/kvgate/v1/requests?limit=1000",
                                                        .authorization = authorization})));
  const Json list = Json::parse(body, nullptr, false);
  std::vector<int64_t> prompts;
  std::vector<int64_t> outputs;
  for (const Json& record : list.is_object() ? list.value("data", Json::array()) : Json::array()) {
    const Json usage = record.value("usage", Json());
    if (!usage.is_object() || usage.value("output_tokens", int64_t{0}) < 1) continue;
    prompts.push_back(usage.value("input_tokens", int64_t{0}));
    outputs.push_back(usage.value("output_tokens", int64_t{0}));
  }
  if (prompts.empty()) {
    return MakeError(
        ErrorCode::kNotFound, "cli",
        "the ledger has no request whose tokens are known; give --prompt and --output");
  }
  return Lengths{.prompt_tokens = Percentile95(prompts),
                 .output_tokens = Percentile95(outputs),
                 .num_requests = static_cast<int64_t>(prompts.size())};
}

}  // namespace kvgate::cli::plan
