#include "gateway/telemetry/budget_alerts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "base/log.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::telemetry {
namespace {

using access::Budget;
using access::BudgetName;
using dialect::form::JsonWriter;

bool HasSameWebhook(const config::BudgetsConfig& a, const config::BudgetsConfig& b) {
  return a.webhook == b.webhook && a.webhook_secret_env == b.webhook_secret_env &&
         a.webhook_ca_file == b.webhook_ca_file &&
         a.webhook_timeout_seconds == b.webhook_timeout_seconds;
}

std::string ReportJson(std::string_view tenant, bool is_key, const Budget& budget,
                       double threshold) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject().Key("type").String("budget").Key("id").String(ledger::MakeRequestId());
  json.Key("tenant").String(tenant);
  if (is_key) json.Key("key").String(tenant);
  json.Key("budget").String(BudgetName(budget.kind));
  json.Key("limit").Number(budget.limit).Key("used").Number(budget.used);
  json.Key("share").Number(budget.share()).Key("threshold").Number(threshold);
  json.Key("period_start").String(access::IsoTime(budget.begin_us));
  json.Key("renews_at").String(access::IsoTime(budget.renews_us));
  json.EndObject();
  return text;
}

// The same at all gateways that have the same budget.
std::string NameOf(std::string_view tenant, const Budget& budget, double threshold) {
  return fmt::format("budget {} {} {} {} {}", BudgetName(budget.kind), budget.limit, threshold,
                     budget.begin_us, tenant);
}

}  // namespace

Result<BudgetAlerts::Settings> BudgetAlerts::Read(const std::vector<config::KeyConfig>& keys,
                                                  const config::BudgetsConfig& budgets) {
  Settings settings{.table = access::BudgetTable(keys, budgets.tenant), .config = budgets};
  {
    const std::lock_guard lock(mutex_);
    settings.has_new_webhook = !HasSameWebhook(budgets, config_);
  }
  if (settings.has_new_webhook && !budgets.webhook.empty()) {
    KVGATE_TRY(settings.webhook,
               Webhook::Open(budgets, counts_, options_.webhook, options_.environment));
  }
  return settings;
}

void BudgetAlerts::Take(Settings settings) {
  const std::lock_guard lock(mutex_);
  table_ = std::move(settings.table);
  config_ = std::move(settings.config);
  if (settings.has_new_webhook) webhook_.swap(settings.webhook);
}  // the lock is released before the webhook of before ends with `settings`

void BudgetAlerts::OnUse(std::string_view tenant, const ledger::Ledger::Use& use) {
  const std::lock_guard lock(mutex_);
  if (table_.empty()) return;
  const config::BudgetLimits& limits = table_.LimitsOf(tenant);
  const std::vector<Budget> before = access::BudgetsOf(limits, use.before, use.now_us);
  const std::vector<Budget> after = access::BudgetsOf(limits, use.after, use.now_us);
  for (size_t i = 0; i < after.size(); ++i) {
    for (const double threshold : config_.thresholds) {
      const double amount = threshold * after[i].limit;
      if (before[i].used < amount && after[i].used >= amount) Pass(tenant, after[i], threshold);
    }
  }
}

// REQUIRES: mutex_ is held.
void BudgetAlerts::Pass(std::string_view tenant, const Budget& budget, double threshold) {
  if (!options_.waits) return Report(tenant, budget, threshold);
  bool& is_made = made_.FindOrAdd(NameOf(tenant, budget, threshold));
  if (std::exchange(is_made, true)) return;
  if (waiting_.size() >= kWaitingMax) return Report(tenant, budget, threshold);
  waiting_.push_back({.tenant = std::string(tenant), .budget = budget, .threshold = threshold});
}

void BudgetAlerts::ReportWaiting(const Claim& claim, size_t num_max) {
  std::vector<Passed> passed;
  {
    const std::lock_guard lock(mutex_);
    const auto end = waiting_.begin() + static_cast<ptrdiff_t>(std::min(num_max, waiting_.size()));
    passed.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
  }
  for (const Passed& one : passed) {
    if (!claim(NameOf(one.tenant, one.budget, one.threshold), one.budget.renews_us)) continue;
    const std::lock_guard lock(mutex_);
    Report(one.tenant, one.budget, one.threshold);
  }
}

// REQUIRES: mutex_ is held.
void BudgetAlerts::Report(std::string_view tenant, const Budget& budget, double threshold) {
  const bool is_key = table_.keys().contains(tenant);
  num_passed_[static_cast<size_t>(budget.kind)].fetch_add(1, std::memory_order_relaxed);
  KVGATE_LOG(kWarning, "budget", "{} '{}' has used {:.1f} % of its {} of {}, which renews at {}",
             is_key ? "key" : "tenant", tenant, 100 * budget.share(), BudgetName(budget.kind),
             budget.limit, access::IsoTime(budget.renews_us));
  if (webhook_) webhook_->Post(ReportJson(tenant, is_key, budget, threshold));
}

void BudgetAlerts::Collect(metrics::TextWriter& writer) const {
  writer.Family("kvgate_budget_thresholds_passed_total", "counter",
                "Thresholds of budgets that tenants have passed, by budget.");
  for (size_t i = 0; i < num_passed_.size(); ++i) {
    const std::string name(BudgetName(static_cast<access::BudgetKind>(i)));
    writer.Sample("kvgate_budget_thresholds_passed_total", {{"budget", name}},
                  num_passed_[i].load(std::memory_order_relaxed));
  }
  writer.Family("kvgate_budget_webhooks_total", "counter",
                "Reports to the webhook of budgets, by what became of them.");
  const std::pair<const char*, const std::atomic<uint64_t>&> results[] = {
      {"sent", counts_.num_sent}, {"failed", counts_.num_failed}, {"dropped", counts_.num_dropped}};
  for (const auto& [result, count] : results) {
    writer.Sample("kvgate_budget_webhooks_total", {{"result", result}},
                  count.load(std::memory_order_relaxed));
  }
}

}  // namespace kvgate::telemetry
