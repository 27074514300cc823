#include "gateway/runtime/machine/start_failure.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>

namespace kvgate::runtime::machine {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// Threads besides those that settings count: pools, the store and its library, the watchdog.
constexpr int kOtherThreads = 24;

uint64_t SoftLimit(decltype(RLIMIT_AS) which, uint64_t unlimited) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  return limit.rlim_cur;
}

std::string MebiBytes(uint64_t bytes) { return fmt::format("{} MiB", bytes / kMebibyte); }

// Returns 0 if the size is unknown.
uint64_t ModelBytes(const config::Config& config) {
  std::error_code code;
  const auto size = std::filesystem::file_size(config.engine.model, code);
  return code ? 0 : size;
}

int NumEngineThreads(const config::Config& config) {
  const auto all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return config.engine.threads > 0 ? config.engine.threads : all;
}

}  // namespace

ProcessLimits ReadProcessLimits() {
  return {.address_bytes = SoftLimit(RLIMIT_AS, UINT64_MAX),
          .stack_bytes = SoftLimit(RLIMIT_STACK, 0),
          .threads = SoftLimit(RLIMIT_NPROC, UINT64_MAX)};
}

Error StartFailure(const config::Config& config, const ProcessLimits& limits,
                   std::string_view refused) {
  const int threads =
      config.server.threads + NumEngineThreads(config) + config.engine.io_threads + kOtherThreads;
  std::string wanted = fmt::format(
      "about {} threads (server.threads = {}, engine.threads = {}, engine.io_threads = {}, and {} "
      "more)",
      threads, config.server.threads, NumEngineThreads(config), config.engine.io_threads,
      kOtherThreads);
  if (limits.stack_bytes > 0) {
    wanted += fmt::format(", whose stacks take {} of address space",
                          MebiBytes(static_cast<uint64_t>(threads) * limits.stack_bytes));
  }
  if (const uint64_t bytes = ModelBytes(config); bytes > 0) {
    wanted += fmt::format(", {} for engine.model", MebiBytes(bytes));
  }
  wanted += fmt::format(
      ", engine.kv_memory = {}, cache.host_memory = {} and room for steps of engine.step_tokens = "
      "{} tokens",
      MebiBytes(config.engine.kv_memory_bytes),
      MebiBytes(config.cache.host_memory_bytes.value_or(0)), config.engine.step_tokens);
  std::string has;
  if (limits.address_bytes != UINT64_MAX) {
    has = fmt::format("; this process may have {} (ulimit -v)", MebiBytes(limits.address_bytes));
  }
  if (limits.threads != UINT64_MAX) {
    has += fmt::format("{} {} threads of its user (ulimit -u)",
                       has.empty() ? "; this process may have" : " and", limits.threads);
  }
  return MakeError(
      ErrorCode::kOverloaded, "runtime",
      fmt::format("the server does not start: the system refused it {}. It wants {}{}. Lower these "
                  "or engine.context, or raise the limit of the process (ulimit -v, ulimit -u, a "
                  "container's)",
                  refused, wanted, has));
}

Error StartFailure(const config::Config& config, const std::system_error& failure) {
  return StartFailure(config, ReadProcessLimits(),
                      fmt::format("a thread ({})", failure.code().message()));
}

Error StartFailure(const config::Config& config, const std::bad_alloc&) {
  return StartFailure(config, ReadProcessLimits(), "memory");
}

}  // namespace kvgate::runtime::machine
