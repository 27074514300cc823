#include "gateway/proxy/handler/data/ledger_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "gateway/advice/day_advice.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/ledger.h"
#include "gateway/ledger/rollup/rollup_key.h"
#include "gateway/ledger/rollup/rollup_reader.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::proxy::handler::data {

using access::Caller;
using dialect::form::JsonWriter;

namespace {

Error UnknownParameter(const std::string& name) {
  return MakeError(ErrorCode::kInvalidArgument, "proxy",
                   fmt::format("unknown parameter '{}'", name.substr(0, 64)), name.substr(0, 64));
}

Error OneOf(const std::string& name, std::string_view value, std::string_view choices) {
  return MakeError(ErrorCode::kInvalidArgument, "proxy",
                   fmt::format("Invalid value for '{}': it must be one of {}, not '{}'.", name,
                               choices, value.substr(0, 64)),
                   name);
}

Result<int64_t> ReadNumber(const std::string& name, std::string_view value) {
  int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [at, code] = std::from_chars(value.data(), end, number);
  if (code == std::errc() && at == end && number >= 0) return number;
  return MakeError(ErrorCode::kInvalidArgument, "proxy",
                   fmt::format("{} must be a number, not '{}'.", name, value.substr(0, 64)), name);
}

constexpr std::string_view kSteps = "minute, hour, day and all";

Result<void> ReadRollup(const std::string& name, const std::string& value,
                        ledger::rollup::Query& query) {
  if (name == "step") {
    query.step = ledger::rollup::ParseStep(value);
    if (!query.step && value != "all") return OneOf(name, value, kSteps);
  } else if (name == "by") {
    const auto by = ledger::rollup::ParseBy(value);
    if (!by) {
      return OneOf(name, value,
                   "total, source, model, upstream, tenant, key, session, prompt, prompt_version, "
                   "break, tool and server");
    }
    query.by = *by;
  } else if (name == "from_us" || name == "to_us") {
    KVGATE_TRY((name == "from_us" ? query.from_us : query.to_us), ReadNumber(name, value));
  } else {
    return UnknownParameter(name);
  }
  return {};
}

}  // namespace

Result<std::string> StatsBy(const service::Service& service, const Caller& caller,
                            const request::QueryParameters& query) {
  KVGATE_TRY(ledger::Ledger* const ledger, service.RequireLedger());
  ledger::rollup::Query asked;
  bool has_step = false;
  for (const auto& [name, value] : query) {
    KVGATE_TRY_VOID(ReadRollup(name, value, asked));
    has_step = has_step || name == "step";
  }
  if (!has_step) return OneOf("step", "", kSteps);
  return caller.is_admin() ? ledger->Rollups(asked) : ledger->Rollups(asked, caller.tenant);
}

Result<std::string> Advise(const service::Service& service, const Caller& caller,
                           const request::QueryParameters& query) {
  if (!query.empty()) return UnknownParameter(query.front().first);
  KVGATE_TRY(ledger::Ledger* const ledger, service.RequireLedger());
  return caller.is_admin() ? advice::AdviseDay(*ledger) : advice::AdviseDay(*ledger, caller.tenant);
}

namespace {

struct Spent {
  upstream::Spending all = {};   // at all gateways that share it
  upstream::Spending here = {};  // at this one
};

void WriteTenant(const std::string& tenant, const access::BudgetTable& table, const Spent& spent,
                 int64_t now_us, JsonWriter& json) {
  const upstream::Spending& spending = spent.all;
  json.BeginObject().Key("tenant").String(tenant);
  json.Key("is_key").Bool(table.keys().contains(tenant));
  json.Key("dollars_today").Number(spending.dollars_today);
  json.Key("dollars_this_month").Number(spending.dollars_this_month);
  json.Key("tokens_today").Integer(spending.tokens_today);
  json.Key("tokens_this_month").Integer(spending.tokens_this_month);
  json.Key("budgets").BeginArray();
  const config::BudgetLimits& limits = table.LimitsOf(tenant);
  const std::vector<access::Budget> here = access::BudgetsOf(limits, spent.here, now_us);
  const std::vector<access::Budget> budgets = access::BudgetsOf(limits, spending, now_us);
  for (size_t i = 0; i < budgets.size(); ++i) {
    const access::Budget& budget = budgets[i];
    json.BeginObject().Key("budget").String(access::BudgetName(budget.kind));
    json.Key("limit").Number(budget.limit).Key("used").Number(budget.used);
    json.Key("used_elsewhere").Number(std::max(0.0, budget.used - here[i].used));
    json.Key("left").Number(budget.left()).Key("share").Number(budget.share());
    json.Key("period_start").String(access::IsoTime(budget.begin_us));
    json.Key("renews_at").String(access::IsoTime(budget.renews_us)).EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

Result<std::string> Budgets(const BudgetsArgs& args) {
  KVGATE_TRY(ledger::Ledger* const ledger, args.service.RequireLedger());
  if (!args.query.empty()) return UnknownParameter(args.query.front().first);
  std::map<std::string, upstream::Spending> tenants;
  if (args.caller.is_admin()) {
    for (auto& [tenant, spending] : ledger->AllSpent()) tenants.emplace(tenant, spending);
    for (const auto& [key, limits] : args.table.keys()) tenants.try_emplace(key);
  } else {
    tenants.emplace(args.caller.tenant, ledger->Spent(args.caller.tenant));
  }
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("thresholds").BeginArray();
  for (const double threshold : args.table.thresholds()) json.Number(threshold);
  json.EndArray().Key("data").BeginArray();
  const int64_t now_us = WallClock::NowUs();
  for (const auto& [tenant, spending] : tenants) {
    const Spent spent{.all = spending, .here = ledger->SpentHere(tenant, now_us)};
    WriteTenant(tenant, args.table, spent, now_us, json);
  }
  json.EndArray().EndObject();
  return body;
}

}  // namespace kvgate::proxy::handler::data
