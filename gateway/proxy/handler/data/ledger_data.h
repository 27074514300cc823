// What the ledger knows beyond single records: sums by time, and advice. It knows no sockets; both
// may wait for the disk.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/access/access.h"
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

}  // namespace kvgate::proxy::handler::data
