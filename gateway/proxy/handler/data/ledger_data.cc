#include "gateway/proxy/handler/data/ledger_data.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <system_error>

#include "gateway/advice/day_advice.h"
#include "gateway/ledger/ledger.h"
#include "gateway/ledger/rollup/rollup_key.h"
#include "gateway/ledger/rollup/rollup_reader.h"

namespace kvgate::proxy::handler::data {

using access::Caller;

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
                   "total, source, model, upstream, tenant, key, session, prompt, break, tool and "
                   "server");
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

}  // namespace kvgate::proxy::handler::data
