#include "gateway/runtime/data_tier.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "gateway/local/maintenance.h"

namespace kvgate::runtime {
namespace {

// A context of 128 Ki tokens of 128 KiB each.
constexpr uint64_t kDeviceBurstBytes = uint64_t{16} << 30;

}  // namespace

std::filesystem::path DataDirOf(const config::Config& config) {
  return config.store.data_dir.empty() ? config::DefaultDataDir() : config.store.data_dir;
}

DataTier OpenDataTier(const config::Config& config) {
  if (!config.store.disk) return {.directory = nullptr, .reason = "store.disk is false"};
  auto opened = store::DataDirectory::Open(
      {.directory = DataDirOf(config),
       .kv_bytes_max = config.store.disk_cache_bytes,
       .flush_interval = std::chrono::milliseconds(config.store.flush_interval_ms),
       .sync = config.store.sync,
       .secret_env = config.store.secret_env});
  if (opened) {
    // The budget's burst holds the KV of any one request, which is at most the KV memory. On a
    // device, which sizes that memory later, it holds the KV of a long context.
    const uint64_t kv_bytes = config.engine.kv_memory_bytes;
    auto admission = std::make_shared<tier::WriteAdmission>(tier::WriteAdmission::Options{
        .bytes_per_day = config.store.write_budget_bytes,
        .burst_bytes_min = kv_bytes > 0 ? kv_bytes : kDeviceBurstBytes});
    local::RestoreWriteBudget((*opened)->meta(), *admission);
    (*opened)->pins().LimitTenants(config.store.tenant_share);
    return {.directory = std::move(*opened), .reason = {}, .write_admission = admission};
  }
  KVGATE_LOG(kWarning, "runtime",
             "serving WITHOUT the disk tier, nothing survives a restart: {} (choose another "
             "--data-dir, or repair this one)",
             opened.error().ToString());
  return {.directory = nullptr, .reason = opened.error().detail};
}

}  // namespace kvgate::runtime
