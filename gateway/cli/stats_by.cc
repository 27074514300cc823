#include "gateway/cli/stats_by.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/ledger/ledger.h"
#include "gateway/runtime/data_tier.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

constexpr int64_t kSecondUs = 1'000'000;
constexpr std::string_view kUsualSpan = "30d";
constexpr int64_t kPageRecords = 500;

// Where sums and records come from: a server, or a directory that none holds.
class Source {
 public:
  static Result<Source> Open(const ConfigFlags& flags, const server::TargetFlags& target) {
    KVGATE_TRY(const config::Config config, ReadConfig(flags));
    const std::filesystem::path directory = runtime::DataDirOf(config);
    Source source;
    KVGATE_TRY(source.authorization_, server::AuthorizationOf(target));
    source.server_ = server::FindServer(target, directory);
    if (!source.server_.url.empty()) return source;
    KVGATE_TRY_VOID(CheckDataDir(directory));
    KVGATE_TRY(source.directory_,
               store::DataDirectory::Open({.directory = directory,
                                           .kv_bytes_max = config.store.disk_cache_bytes,
                                           .read_only = true,
                                           .secret_env = config.store.secret_env}));
    source.ledger_ = std::make_unique<ledger::Ledger>(
        ledger::Ledger::Options{.meta = &source.directory_->meta()});
    return source;
  }

  Result<std::string> Get(const std::string& path) const {
    return server::FetchOk(
        server::RequestTo(server_, {.url = path, .authorization = authorization_}));
  }
  ledger::Ledger* ledger() const { return ledger_.get(); }  // null: ask the server

 private:
  store::ServerAddress server_;
  std::string authorization_;
  std::unique_ptr<store::DataDirectory> directory_;
  std::unique_ptr<ledger::Ledger> ledger_;  // destroyed before its directory
};

int64_t Count(const Json& row, const char* name) { return row.value(name, int64_t{0}); }

std::string Dollars(int64_t nanodollars) {
  const double dollars = static_cast<double>(nanodollars) / 1e9;
  return fmt::format("${:.{}f}", dollars, dollars < 10 ? 4 : 2);
}

std::string Percent(int64_t part, int64_t whole) {
  return whole > 0
             ? fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole))
             : "-";
}

int64_t InputOf(const Json& row) {
  return Count(row, "cached_tokens") + Count(row, "written_tokens") + Count(row, "uncached_tokens");
}

std::string NameOf(const Json& row, bool is_day) {
  if (!is_day) return row.value("name", "");
  const auto time = static_cast<std::time_t>(Count(row, "time_us") / kSecondUs);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(time));
}

void PrintRows(const Json& rows, const std::string& by) {
  const bool is_day = by == "day";
  const bool has_requests = by != "source" && by != "tool" && by != "server";
  fmt::print("{:<36} {:>9} {:>7} {:>12} {:>12} {:>12} {:>10} {:>11}\n", by, "requests", "hit",
             "cached", "written", "uncached", "output", "cost");
  for (const Json& row : rows) {
    std::string name = NameOf(row, is_day);
    if (name.empty()) name = "-";
    if (name.size() > 36) name = name.substr(0, 34) + "..";
    fmt::print("{:<36} {:>9} {:>7} {:>12} {:>12} {:>12} {:>10} {:>11}\n", name,
               has_requests ? fmt::format("{}", Count(row, "requests")) : "",
               Percent(Count(row, "cached_tokens"), InputOf(row)), Count(row, "cached_tokens"),
               Count(row, "written_tokens"), Count(row, "uncached_tokens"),
               has_requests ? fmt::format("{}", Count(row, "output_tokens")) : "",
               Dollars(Count(row, "nanodollars")));
  }
}

void PrintBreaks(const Json& rows) {
  fmt::print("{:<36} {:>9} {:>14} {:>14}\n", "break", "requests", "tokens lost", "lost");
  for (const Json& row : rows) {
    fmt::print("{:<36} {:>9} {:>14} {:>14}\n", row.value("name", ""), Count(row, "breaks"),
               Count(row, "lost_tokens"), Dollars(Count(row, "lost_nanodollars")));
  }
}

// The dearest first, then those with most tokens; days stay in their order.
void Sort(Json& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    const int64_t cost_a = Count(a, "nanodollars") + Count(a, "lost_nanodollars");
    const int64_t cost_b = Count(b, "nanodollars") + Count(b, "lost_nanodollars");
    if (cost_a != cost_b) return cost_a > cost_b;
    return InputOf(a) + Count(a, "lost_tokens") > InputOf(b) + Count(b, "lost_tokens");
  });
}

Result<std::string> Sums(const Source& source, const std::string& by, int64_t from_us) {
  const bool is_day = by == "day";
  const std::string step = is_day ? "day" : "all";
  const std::string dimension = is_day ? "total" : by;
  const auto named = ledger::rollup::ParseBy(dimension);
  if (!named) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("--by cannot be '{}': there are day, source, model, upstream, "
                                 "tenant, key, session, prompt, break, tool and server",
                                 by));
  }
  if (source.ledger() != nullptr) {
    return source.ledger()->Rollups(
        {.step = ledger::rollup::ParseStep(step), .by = *named, .from_us = from_us});
  }
  return source.Get(
      fmt::format("/kvgate/v1/stats?step={}&by={}&from_us={}", step, dimension, from_us));
}

// Quoted where it has to be. A text that a spreadsheet would compute begins with a quote.
std::string Field(std::string text) {
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos) {
    text.insert(0, 1, '\'');
  }
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') quoted += c;
  }
  return quoted + '"';
}

// The columns of a record in CSV, as pointers into its JSON.
constexpr std::pair<const char*, const char*> kColumns[] = {
    {"id", "/id"},
    {"time_us", "/time_us"},
    {"tenant", "/tenant"},
    {"key", "/key"},
    {"session", "/session"},
    {"conversation", "/conversation/id"},
    {"prompt", "/prompt"},
    {"upstream", "/upstream"},
    {"model", "/model"},
    {"asked_model", "/asked_model"},
    {"dialect", "/dialect"},
    {"endpoint", "/endpoint"},
    {"status", "/status"},
    {"outcome", "/outcome"},
    {"stream", "/stream"},
    {"input_tokens", "/usage/input_tokens"},
    {"cache_read_tokens", "/usage/cache_read_tokens"},
    {"cache_write_tokens", "/usage/cache_write_tokens"},
    {"cache_write_1h_tokens", "/usage/cache_write_1h_tokens"},
    {"uncached_tokens", "/usage/uncached_tokens"},
    {"output_tokens", "/usage/output_tokens"},
    {"nanodollars", "/cost/nanodollars"},
    {"uncached_nanodollars", "/cost/uncached_nanodollars"},
    {"queue_us", "/timings/queue_us"},
    {"ttft_us", "/timings/ttft_us"},
    {"tpot_us", "/timings/tpot_us"},
    {"total_us", "/timings/total_us"},
    {"break", "/break/cause"},
    {"lost_tokens", "/break/lost_tokens"},
};

std::string CsvLine(const Json& record) {
  std::string line;
  for (const auto& [name, pointer] : kColumns) {
    if (!line.empty() || name != kColumns[0].first) line += ',';
    const Json::json_pointer at(pointer);
    const Json value = record.contains(at) ? record.at(at) : Json();
    if (value.is_null()) continue;
    line += value.is_string() ? Field(value.get<std::string>()) : value.dump();
  }
  return line;
}

std::string CsvHead() {
  std::string line;
  for (const auto& [name, pointer] : kColumns)
    line += (line.empty() ? "" : ",") + std::string(name);
  return line;
}

// Calls `write` with each record's JSON, newest first, until it returns false.
Result<void> ForEachRecord(const Source& source, int64_t since_us,
                           const std::function<bool(const Json&)>& write) {
  if (source.ledger() != nullptr) {
    ledger::Ledger::ListArgs args;
    KVGATE_TRY_VOID(args.filter.Take("since_us", fmt::format("{}", since_us)));
    return source.ledger()->Visit(args, [&](const ledger::RequestRecord& record) {
      return write(Json::parse(ledger::RecordJson(record)));
    });
  }
  std::string before;
  while (true) {
    KVGATE_TRY(const std::string body,
               source.Get(fmt::format("/kvgate/v1/requests?limit={}&since_us={}&before={}",
                                      kPageRecords, since_us, before)));
    const Json page = Json::parse(body, nullptr, false);
    if (!page.is_object() || !page.contains("data")) {
      return MakeError(ErrorCode::kUnavailable, "cli", "the answer has no records");
    }
    for (const Json& record : page["data"]) {
      if (!write(record)) return {};
      before = record.value("id", "");
    }
    if (page["data"].empty() || !page.value("has_more", false)) return {};
  }
}

}  // namespace

Result<int64_t> ParseSpan(std::string_view text) {
  int64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const int64_t seconds = unit == "d"   ? 86'400
                          : unit == "h" ? 3'600
                          : unit == "m" ? 60
                          : unit == "s" ? 1
                                        : 0;
  constexpr int64_t kCountMax = 1'000'000;
  if (code != std::errc() || seconds == 0 || count <= 0 || count > kCountMax) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("--since cannot be '{}': say 7d, 36h, 90m or 45s", text));
  }
  return count * seconds * kSecondUs;
}

Result<int> StatsBy(const StatsByArgs& args) {
  KVGATE_TRY(const int64_t span_us, ParseSpan(args.since.empty() ? kUsualSpan : args.since));
  KVGATE_TRY(const Source source, Source::Open(args.config, args.target));
  KVGATE_TRY(const std::string body, Sums(source, args.by, WallClock::NowUs() - span_us));
  Json sums = Json::parse(body, nullptr, false);
  if (!sums.is_object() || !sums.contains("data")) {
    return MakeError(ErrorCode::kUnavailable, "cli", "the answer has no sums");
  }
  if (args.by != "day") Sort(sums["data"]);
  if (args.json) {
    fmt::print("{}\n", sums.dump());
  } else if (sums["data"].empty()) {
    fmt::print("no requests yet\n");
  } else if (args.by == "break") {
    PrintBreaks(sums["data"]);
  } else {
    PrintRows(sums["data"], args.by);
  }
  return 0;
}

Result<int> ExportRecords(const ExportArgs& args) {
  int64_t since_us = 0;
  if (!args.since.empty()) {
    KVGATE_TRY(const int64_t span_us, ParseSpan(args.since));
    since_us = WallClock::NowUs() - span_us;
  }
  KVGATE_TRY(const Source source, Source::Open(args.config, args.target));
  if (args.csv) fmt::print("{}\n", CsvHead());
  KVGATE_TRY_VOID(ForEachRecord(source, since_us, [&](const Json& record) {
    fmt::print("{}\n", args.csv ? CsvLine(record) : record.dump());
    return std::ferror(stdout) == 0;  // a reader that has enough closes the pipe
  }));
  return 0;
}

}  // namespace kvgate::cli
