// The live events: what GET /kvgate/v1/events sends. Records come from a feed that waits for
// nobody; a client that reads too slowly, or asks for some a second only, is told how many it has
// missed.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/record_filter.h"
#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/own_data.h"
#include "gateway/proxy/request/query.h"
#include "gateway/telemetry/record_feed.h"

namespace kvgate::proxy::handler {

using dialect::form::JsonWriter;
using request::RequestContext;
using telemetry::RecordFeed;

namespace {

using Clock = SteadyClock;

constexpr std::chrono::seconds kStatsInterval{1};
constexpr std::chrono::seconds kCommentInterval{15};
constexpr std::chrono::seconds kStoresInterval{5};  // how often the stores are asked
constexpr std::string_view kComment = ": kvgate\n\n";
// A client gets this many bytes at once, at most a record more.
constexpr size_t kPieceBytes = size_t{64} << 10;

void AddEvent(std::string_view name, std::string_view data, std::string& out) {
  out.append("event: ").append(name).append("\ndata: ").append(data).append("\n\n");
}

// What a client asks for.
struct Wanted {
  ledger::RecordFilter filter;
  uint32_t records_per_second = 0;  // 0: all
};

Result<uint32_t> ReadRate(const std::string& name, std::string_view value) {
  uint32_t rate = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), rate);
  if (code == std::errc() && end == value.data() + value.size() && rate > 0) return rate;
  return MakeError(ErrorCode::kInvalidArgument, "proxy",
                   fmt::format("{} must be a number from 1 on.", name), name);
}

Result<Wanted> ReadWanted(const RequestContext& request) {
  const access::Caller& caller = request.caller().who();
  Wanted wanted;
  ledger::RecordFilter& filter = wanted.filter;
  for (const auto& [name, value] : request::ParametersOf(request.head().target)) {
    if (name == "tenant" && !value.empty() && value != caller.tenant && !caller.is_admin()) {
      return MakeError(ErrorCode::kPermissionDenied, "proxy",
                       "Only an admin may follow another tenant's requests.", "tenant");
    }
    if (name == "records_per_second") {
      KVGATE_TRY(wanted.records_per_second, ReadRate(name, value));
      continue;
    }
    KVGATE_TRY(const bool is_known, filter.Take(name, value));
    if (!is_known) {
      return MakeError(ErrorCode::kInvalidArgument, "proxy",
                       fmt::format("unknown parameter '{}'", name), name);
    }
  }
  if (!caller.is_admin()) filter.Restrict(caller.tenant);
  return wanted;
}

void WriteMinute(const telemetry::MinuteSums& sums, JsonWriter& json) {
  json.Key("minute").BeginObject();
  json.Key("requests").Integer(sums.requests).Key("failed").Integer(sums.failed);
  json.Key("cached_tokens").Integer(sums.cached_tokens);
  json.Key("written_tokens").Integer(sums.written_tokens);
  json.Key("uncached_tokens").Integer(sums.uncached_tokens);
  json.Key("output_tokens").Integer(sums.output_tokens);
  json.Key("nanodollars").Integer(sums.nanodollars);
  json.Key("uncached_nanodollars").Integer(sums.uncached_nanodollars);
  json.Key("direct_nanodollars").Integer(sums.direct_nanodollars).EndObject();
}

// What other tenants do shows in these numbers, so they are an admin's.
void WriteLoad(const RequestContext& request, JsonWriter& json) {
  service::Service& service = request.environment().service;
  const service::Service::EngineLoad load = service.Load();
  const auto gauge = [&](std::string_view name, int64_t value) {
    json.Key(name).Integer(std::max<int64_t>(0, value));
  };
  gauge("requests_running", static_cast<int64_t>(load.num_running));
  gauge("requests_waiting", static_cast<int64_t>(load.num_waiting));
  int64_t num_active = 0;  // at upstreams
  for (const auto& upstream : request.environment().targets.Get()->upstreams->all()) {
    num_active += upstream->meter()->numbers().active;
  }
  gauge("requests_active", num_active);
  gauge("connections", service.metrics().connections.value());
  json.Key("tiers").BeginArray();
  for (const local::TierFill& tier : load.tiers) {
    json.BeginObject().Key("tier").String(tier.name);
    json.Key("used_bytes").Unsigned(tier.used_bytes);
    json.Key("capacity_bytes").Unsigned(tier.capacity_bytes).EndObject();
  }
  json.EndArray();
}

std::string StatsJson(const RequestContext& request, const RecordFeed& feed) {
  const access::Caller& caller = request.caller().who();
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("time_us").Integer(WallClock::NowUs());
  WriteMinute(caller.is_admin() ? feed.LastMinute() : feed.LastMinute(caller.tenant), json);
  if (caller.is_admin()) WriteLoad(request, json);
  json.EndObject();
  return out;
}

// One client that follows the records.
class EventStream {
 public:
  EventStream(RequestContext& request, RecordFeed& feed, std::unique_ptr<RecordFeed::Reader> reader)
      : request_(request),
        sink_(request.sink()),
        feed_(feed),
        reader_(std::move(reader)) {}
  ~EventStream() { sink_.Watch(nullptr); }

  // Returns when the client has left, or no more will come.
  Task<void> Run() {
    const request::AnswerHead head{.info = request_.Info(), .ping = kComment};
    request_.Count(200);
    sink_.Begin(head);
    if (request_.head().is_head) {
      co_await sink_.Write("", true);
      co_return;
    }
    sink_.Watch(&watcher_);
    while (!sink_.is_gone()) {
      RecordFeed::Reader::Taken taken = reader_->Take();
      const bool is_last = taken.has_ended || sink_.is_to_end();
      bool is_there = co_await SendRecords(std::move(taken));
      if (is_there) is_there = co_await SendDue(is_last);
      if (is_last || !is_there) co_return;
      // A record that has come meanwhile is looked for at once: its wake-up may be lost.
      if (!reader_->is_empty()) continue;
      co_await sink_.signal().SleepUntil(std::min(stats_at_, comment_at_));
    }
  }

 private:
  Task<bool> SendRecords(RecordFeed::Reader::Taken taken) {
    for (const auto& record : taken.records) {
      AddEvent("request", *record, text_);
      if (text_.size() < kPieceBytes) continue;
      const bool is_there = co_await Flush(/*is_last=*/false);
      if (!is_there) co_return false;
    }
    if (taken.num_dropped > 0) {
      AddEvent("dropped", fmt::format(R"({{"count":{}}})", taken.num_dropped), text_);
    }
    co_return true;
  }

  Task<bool> SendDue(bool is_last) {
    const Clock::time_point now = Clock::now();
    if (now >= stats_at_ && !is_last) {
      if (now >= stores_at_ && request_.caller().who().is_admin()) {
        stores_at_ = now + kStoresInterval;
        co_await RefreshNumbers(request_);
      }
      AddEvent("stats", StatsJson(request_, feed_), text_);
      stats_at_ = now + kStatsInterval;
    }
    if (now >= comment_at_) {
      text_ += kComment;
      comment_at_ = now + kCommentInterval;
    }
    const bool is_there = co_await Flush(is_last);
    co_return is_there;
  }

  Task<bool> Flush(bool is_last) {
    if (text_.empty() && !is_last) co_return true;
    const bool is_there = co_await sink_.Write(text_, is_last);
    text_.clear();
    co_return is_there;
  }

  RequestContext& request_;
  request::ResponseSink& sink_;
  RecordFeed& feed_;
  const std::unique_ptr<RecordFeed::Reader> reader_;
  request::Watcher watcher_;
  std::string text_;
  Clock::time_point stats_at_ = Clock::now();
  Clock::time_point stores_at_ = Clock::now();
  Clock::time_point comment_at_ = Clock::now() + kCommentInterval;
};

class EventsHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    RecordFeed* const feed = request.environment().options.feed;
    if (feed == nullptr) {
      Error error = MakeError(ErrorCode::kUnavailable, "proxy", "Requests are not recorded here.");
      co_await request.Refuse(std::move(error));
      co_return;
    }
    const Result<Wanted> wanted = ReadWanted(request);
    if (!wanted) {
      Error error = wanted.error();
      co_await request.Refuse(std::move(error));
      co_return;
    }
    Result<std::unique_ptr<RecordFeed::Reader>> reader = feed->Read(
        {.filter = [filter = wanted->filter](const auto& record) { return filter.Fits(record); },
         .wake = request.sink().signal().MakeWake(),
         .records_per_second = wanted->records_per_second});
    if (!reader) {
      Error error = reader.error();
      co_await request.Refuse(std::move(error));
      co_return;
    }
    EventStream stream(request, *feed, std::move(*reader));
    co_await stream.Run();
  }
};

}  // namespace

const Handler& Events() {
  static const EventsHandler handler;
  return handler;
}

}  // namespace kvgate::proxy::handler
