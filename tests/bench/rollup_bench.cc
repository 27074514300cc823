// Measures overview queries over rollups of the shape that ten million requests over 30 days leave:
// 231 a minute, of 20 tenants and keys, 3 models, 150 sessions a minute, 24 tools of 5 servers. It
// writes the rows that the steps hold after their retention (48 hours of minutes, 30 days of hours
// and days), for everybody and for one tenant, into a real data directory, and prints
// "QUERY  rows  median ms  worst ms". The first argument is an empty folder.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/rollup/bucket.h"
#include "gateway/ledger/rollup/rollup_key.h"
#include "gateway/ledger/rollup/rollup_reader.h"
#include "store/rocks_data_directory.h"

namespace kvgate::ledger::rollup {
namespace {

using store::meta::MetaTable;
using store::meta::MetaWrite;

constexpr int64_t kDays = 30;

int NamesOf(By by, Step step) {
  switch (by) {
    case By::kTotal:
      return 1;
    case By::kModel:
      return 3;
    case By::kUpstream:
      return 2;
    case By::kTenant:
    case By::kKey:
      return 20;
    case By::kSession:
      return step == Step::kMinute ? 150 : static_cast<int>(kNamesMax);
    case By::kPrompt:
      return 12;
    case By::kBreak:
      return 8;
    case By::kTool:
      return 24;
    case By::kServer:
      return 5;
    case By::kSource:
      break;
  }
  return 9;
}

Bucket SomeBucket(std::mt19937& random, int requests) {
  Bucket bucket{.requests = requests};
  for (int64_t Bucket::*count :
       {&Bucket::cached_tokens, &Bucket::written_tokens, &Bucket::uncached_tokens,
        &Bucket::output_tokens, &Bucket::nanodollars, &Bucket::uncached_nanodollars}) {
    bucket.*count = static_cast<int64_t>(random() % 100'000) * requests;
  }
  for (int i = 0; i < std::min(requests, 40); ++i) {
    bucket.ttft.Add(50'000 + static_cast<int64_t>(random() % 2'000'000));
    bucket.tpot.Add(5'000 + static_cast<int64_t>(random() % 50'000));
  }
  return bucket;
}

size_t Write(store::meta::MetaStore& meta, int64_t now) {
  std::mt19937 random(1);
  size_t num_rows = 0;
  std::vector<MetaWrite> rows;
  for (const Step step : kSteps) {
    const int64_t first = now - std::min(RetentionMinutes(step), kDays * 1'440);
    for (int64_t minute = BeginOf(step, first); minute <= now; minute += StepMinutes(step)) {
      for (const std::string& scope : {ScopeOfAll(), ScopeOfTenant("tenant_1")}) {
        for (size_t by = 0; by < kNumBys; ++by) {
          const Group group{
              .step = step, .minute = minute, .scope = scope, .by = static_cast<By>(by)};
          const int names = NamesOf(group.by, step);
          const int requests = std::max<int>(
              1, static_cast<int>(StepMinutes(step) * 231) / (scope == "*" ? names : 20 * names));
          for (int i = 0; i < names; ++i) {
            rows.push_back({.key = GroupPrefix(group) + fmt::format("name_{}", i),
                            .value = EncodeBucket(SomeBucket(random, requests))});
          }
        }
      }
      if (rows.size() < 5'000) continue;
      num_rows += rows.size();
      if (!meta.PutAll(MetaTable::kLedger, rows)) std::abort();
      rows.clear();
    }
  }
  num_rows += rows.size();
  if (!meta.PutAll(MetaTable::kLedger, rows)) std::abort();
  return num_rows;
}

void Measure(const store::meta::MetaStore& meta, const char* name, const Query& query,
             int64_t now_us) {
  std::vector<double> times;
  size_t num_rows = 0;
  for (int i = 0; i < 7; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto rows = ReadRollups(meta, query, now_us);
    if (!rows) {
      fmt::print("{:<28} refused: {}\n", name, rows.error().detail);
      return;
    }
    std::string text;
    dialect::form::JsonWriter json(text);
    WriteRollups(query, *rows, json);
    num_rows = rows->rows.size();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  fmt::print("{:<28} {:>7} {:>8.1f} {:>8.1f}\n", name, num_rows, times[3], times.back());
}

int Main(const std::filesystem::path& folder) {
  const auto opened =
      store::DataDirectory::Open({.directory = folder, .kv_bytes_max = uint64_t{1} << 30});
  if (!opened) return EXIT_FAILURE;
  store::meta::MetaStore& meta = (*opened)->meta();
  const int64_t now_us = WallClock::NowUs();
  fmt::print("{} rows\n", Write(meta, now_us / kMinuteUs));
  for (const Step step : kSteps) {
    for (size_t by = 0; by < kNumBys; ++by) {
      const std::string name = fmt::format("{} by {}", StepName(step), ByName(static_cast<By>(by)));
      Measure(meta, name.c_str(), {.step = step, .by = static_cast<By>(by)}, now_us);
    }
  }
  for (size_t by = 0; by < kNumBys; ++by) {
    const std::string name = fmt::format("all by {}", ByName(static_cast<By>(by)));
    Measure(meta, name.c_str(), {.step = std::nullopt, .by = static_cast<By>(by)}, now_us);
  }
  Measure(meta, "24 h of minutes, total", {.from_us = now_us - 1'439 * kMinuteUs}, now_us);
  Measure(meta, "one tenant, hour by model",
          {.step = Step::kHour, .by = By::kModel, .scope = ScopeOfTenant("tenant_1")}, now_us);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace kvgate::ledger::rollup

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: rollup_bench EMPTY_FOLDER\n");
    return 2;
  }
  return kvgate::ledger::rollup::Main(argv[1]);
}
