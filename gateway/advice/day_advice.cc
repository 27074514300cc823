#include "gateway/advice/day_advice.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "gateway/advice/advisor.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/request_record.h"

namespace kvgate::advice {
namespace {

constexpr int64_t kDayUs = int64_t{86'400} * 1'000'000;
// Where there are very many requests, the newest ones of the day tell enough.
constexpr size_t kRecordsMax = 20'000;

}  // namespace

Result<std::string> AdviseDay(ledger::Ledger& ledger, std::optional<std::string_view> tenant) {
  const int64_t to_us = WallClock::NowUs();
  ledger::Ledger::ListArgs list;
  if (tenant) list.tenant = std::string(*tenant);
  KVGATE_TRY_VOID(list.filter.Take("since_us", fmt::format("{}", to_us - kDayUs)));
  // The ledger has the newest first.
  std::vector<ledger::RequestRecord> records;
  KVGATE_TRY_VOID(ledger.Visit(list, [&](const ledger::RequestRecord& record) {
    records.push_back(record);
    return records.size() < kRecordsMax;
  }));
  Advisor advisor(Advisor::Options{.prices = ledger.prices()});
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    KVGATE_TRY(record->segments, ledger.SegmentsOf(record->id));
    advisor.Add(*record);
    record->segments = {};
  }
  const int64_t from_us = records.empty() ? to_us - kDayUs : records.back().time_us;
  std::string out;
  dialect::form::JsonWriter json(out);
  WriteAdvice(advisor.Finish(from_us, to_us), from_us, to_us, json);
  return out;
}

}  // namespace kvgate::advice
