#include "gateway/cli/agents/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/cli/terminal/figures.h"
#include "gateway/cli/terminal/json_field.h"

namespace kvgate::cli::agents {
namespace {

using Json = nlohmann::json;
using terminal::CountOf;
using terminal::FieldOf;

constexpr size_t kCauseColumns = 40;

std::string Counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

void RunReport::Add(const Json& record) {
  ++num_requests_;
  const bool has_failed =
      CountOf(record, "status") >= 400 || terminal::TextOf(record, "outcome") != "complete";
  num_failed_ += has_failed ? 1 : 0;
  const Json usage = FieldOf(record, "usage");
  if (usage.is_object()) {
    cached_tokens_ += CountOf(usage, "cache_read_tokens");
    input_tokens_ += CountOf(usage, "input_tokens");
    output_tokens_ += CountOf(usage, "output_tokens");
  } else {
    num_unknown_usage_ += has_failed ? 0 : 1;
  }
  const Json cost = FieldOf(record, "cost");
  if (cost.is_object()) {
    ++num_priced_;
    nanodollars_ += CountOf(cost, "nanodollars");
    uncached_nanodollars_ += CountOf(cost, "uncached_nanodollars");
  } else if (usage.is_object() && terminal::TextOf(record, "upstream") != "local") {
    ++num_unpriced_;
  }
  const Json found = FieldOf(record, "break");
  const std::string cause = terminal::TextOf(found, "cause");
  // A beginning that nobody had sent before has broken nothing.
  if (cause.empty() || cause == "none" || cause == "first_seen") return;
  Break& sum = breaks_[cause];
  ++sum.count;
  sum.lost_tokens += CountOf(found, "lost_tokens");
  sum.lost_nanodollars += CountOf(found, "lost_nanodollars");
}

std::vector<std::string> RunReport::Lines() const {
  if (num_requests_ == 0) return {"no request came through kvgate"};
  std::vector<std::string> lines;
  std::string first = fmt::format(
      "{}, {} tokens in ({} cached), {} out", Counted(num_requests_, "request"),
      terminal::Tokens(input_tokens_),
      terminal::Percent(static_cast<double>(cached_tokens_), static_cast<double>(input_tokens_)),
      terminal::Tokens(output_tokens_));
  if (num_failed_ > 0) first += fmt::format("; {} failed", num_failed_);
  if (num_unknown_usage_ > 0) first += fmt::format("; usage unknown of {}", num_unknown_usage_);
  lines.push_back(std::move(first));
  if (num_priced_ > 0) {
    lines.push_back(fmt::format("cost {}, without a cache {}", terminal::Dollars(nanodollars_),
                                terminal::Dollars(uncached_nanodollars_)));
  }
  if (num_unpriced_ > 0) {
    lines.push_back(fmt::format("no price is known for {}", Counted(num_unpriced_, "request")));
  }
  std::vector<std::pair<std::string, Break>> breaks(breaks_.begin(), breaks_.end());
  std::stable_sort(breaks.begin(), breaks.end(), [](const auto& a, const auto& b) {
    return a.second.lost_tokens > b.second.lost_tokens;
  });
  for (const auto& [cause, sum] : breaks) {
    std::string line =
        fmt::format("the cached prefix broke {}: {}, {} tokens lost", Counted(sum.count, "time"),
                    terminal::Shown(cause, kCauseColumns), terminal::Tokens(sum.lost_tokens));
    if (sum.lost_nanodollars > 0) line += ", " + terminal::Dollars(sum.lost_nanodollars);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace kvgate::cli::agents
