#include "store/shared/shared_feed.h"

#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/ids.h"
#include "base/log.h"
#include "store/shared/unexpected_reply.h"

namespace kvgate::store::shared {
namespace {

constexpr std::string_view kSource = "store.shared";
constexpr std::string_view kPurpose = "shared feed";
constexpr std::string_view kField = "r";  // of a stream's entry
// Rows go out some at once, so that each call has the time that it needs.
constexpr size_t kBytesAtOnce = size_t{512} << 10;

// An entry of a stream is its id and its fields: [id, [name, value, ...]].
bool IsEntry(const remote::RespReply& reply) {
  return reply.items.size() == 2 && reply.items[0].is_text() && reply.items[1].is_array();
}

}  // namespace

SharedFeed::SharedFeed(const Options& options, remote::RespClient& client, const Keyring& ring)
    : options_(options),
      client_(client),
      ring_(ring),
      key_(fmt::format("kvg:f:{}", ToHex(ring.Derive(kPurpose, options.name)))) {}

// The server's ids begin with its time in milliseconds, so that the oldest rows leave by theirs.
Result<void> SharedFeed::Add(std::span<const std::string> rows) {
  std::vector<std::string> sealed;
  for (const std::string& row : rows) {
    if (row.size() > options_.row_bytes_max) continue;
    sealed.push_back(ring_.Seal({.purpose = kPurpose, .name = key_}, row));
  }
  if (sealed.empty()) return {};
  const std::string rows_max = std::to_string(options_.rows_max);
  const std::string time_to_live = std::to_string(options_.time_to_live.count());
  const std::string oldest = std::to_string(
      WallClock::NowUs() / 1'000 -
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.time_to_live).count());
  std::vector<remote::RespCommand> commands;
  for (const std::string& row : sealed) {
    commands.push_back(
        {.words = {"XADD", key_, "MAXLEN", "~", rows_max, "*", kField, row}, .key = key_});
  }
  if (options_.time_to_live.count() > 0) {
    commands.push_back({.words = {"XTRIM", key_, "MINID", "~", oldest}, .key = key_});
    commands.push_back({.words = {"EXPIRE", key_, time_to_live}, .key = key_});
  }
  KVGATE_TRY(const std::vector<remote::RespReply> replies,
             client_.Call(commands, SteadyClock::now() + options_.call_time_max));
  for (size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].is_error()) continue;
    // What cannot be trimmed was added all the same, and must not be added again.
    if (i < sealed.size()) return UnexpectedReply(replies[i]);
    SayOnce(UnexpectedReply(replies[i]));
  }
  return {};
}

Result<SharedFeed::Part> SharedFeed::Take() {
  const std::string from = taken_.empty() ? "-" : "(" + taken_;
  const std::string count = std::to_string(options_.take_max);
  KVGATE_TRY(const remote::RespReply reply,
             client_.CallOne({.words = {"XRANGE", key_, from, "+", "COUNT", count}, .key = key_},
                             SteadyClock::now() + options_.call_time_max));
  if (!reply.is_array()) return UnexpectedReply(reply);
  Part part{.has_more = reply.items.size() >= options_.take_max};
  std::string last = taken_;
  for (const remote::RespReply& entry : reply.items) {
    if (!IsEntry(entry)) return UnexpectedReply(entry);
    last = entry.items[0].text;
    const std::vector<remote::RespReply>& fields = entry.items[1].items;
    const bool is_row = fields.size() == 2 && fields[0].text == kField && fields[1].is_text();
    Result<std::string> row =
        is_row ? ring_.Open({.purpose = kPurpose, .name = key_}, fields[1].text)
               : Result<std::string>(MakeError(ErrorCode::kDataLoss, kSource, "it is no row"));
    if (row) {
      part.rows.push_back(*std::move(row));
    } else {
      ++part.num_damaged;
    }
  }
  taken_ = std::move(last);
  return part;
}

void SharedFeed::Queue(std::string row) {
  if (queue_bytes_ + row.size() > options_.queue_bytes_max) return;
  queue_bytes_ += row.size();
  queue_.push_back(std::move(row));
}

// Rows stay in the queue until the server has them.
bool SharedFeed::AddQueued() {
  const auto end = SteadyClock::now() + options_.call_time_max;
  while (!queue_.empty()) {
    if (client_.is_paused() || SteadyClock::now() > end) return false;
    std::vector<std::string> rows;
    size_t bytes = 0;
    while (rows.size() < queue_.size() && bytes < kBytesAtOnce) {
      rows.push_back(queue_[rows.size()]);
      bytes += rows.back().size();
    }
    if (const auto added = Add(rows); !added) {
      SayOnce(added.error());
      return false;
    }
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(rows.size()));
    queue_bytes_ -= bytes;
  }
  return true;
}

void SharedFeed::Exchange(const Hear& hear) {
  AddQueued();
  const auto end = SteadyClock::now() + options_.call_time_max;
  bool has_more = true;
  while (has_more && !client_.is_paused() && SteadyClock::now() < end) {
    const Result<Part> part = Take();
    if (!part) return SayOnce(part.error());
    if (part->num_damaged > 0) {
      KVGATE_LOG(kWarning, kSource, "{} rows that gateways told of {} do not open: left out",
                 part->num_damaged, options_.name);
    }
    for (const std::string& row : part->rows) hear(row);
    has_more = part->has_more;
  }
}

void SharedFeed::SayOnce(const Error& error) {
  if (said_ == error.detail) return;
  said_ = error.detail;
  KVGATE_LOG(kWarning, kSource, "what gateways tell each other of {}: {}", options_.name,
             error.detail);
}

}  // namespace kvgate::store::shared
