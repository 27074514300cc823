// What the ledger knows beyond single records: sums by time, advice, and what is used of budgets.
// It knows no sockets; the first two may wait for the disk.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/access/access.h"
#include "gateway/access/budget.h"
#include "gateway/proxy/request/query.h"
#include "gateway/service/service.h"

namespace kvgate::proxy::handler::data {

// Returns sums by time as JSON, as "step" and "by" of the query ask for; those of the caller's own
// requests unless it is an admin. Fails with kInvalidArgument, which names the parameter.
Result<std::string> StatsBy(const service::Service& service, const access::Caller& caller,
                            const request::QueryParameters& query);

// Returns as JSON what the requests of the last day advise to change.
Result<std::string> Advise(const service::Service& service, const access::Caller& caller,
                           const request::QueryParameters& query);

struct BudgetsArgs {
  const service::Service& service;
  const access::Caller& caller;
  const access::BudgetTable& table;
  const request::QueryParameters& query;
};
// Returns as JSON what the caller's tenant has used today and this month, and what is left of each
// of its budgets, and the shares of one that are reported; for an admin that of every key, and of
// every tenant that has used anything this month. Fails with kInvalidArgument for a query, as there
// is nothing to choose.
Result<std::string> Budgets(const BudgetsArgs& args);

}  // namespace kvgate::proxy::handler::data
