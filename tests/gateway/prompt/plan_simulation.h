// This is a small model of providers' bills for tests of the planner: requests are segments with
// counts, entries are written at breakpoints, read by walking back, and billed as documented. Money
// is in tokens at the price of uncached input.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "gateway/prompt/planner/plan.h"

namespace kvgate::prompt::simulation {

inline constexpr int64_t kSecondUs = 1'000'000;
inline constexpr int64_t kMinuteUs = 60 * kSecondUs;

inline parse::Identity IdentityOf(std::string_view text) {
  const auto [low, high] = Xxh3(std::as_bytes(std::span(text)));
  return {low, high};
}

inline const ledger::PriceRow& Row(std::string_view provider, std::string_view model) {
  const ledger::PriceRow* row = ledger::Prices::Builtin().Find(provider, model);
  EXPECT_NE(row, nullptr) << provider << " " << model;
  return *row;
}

struct Block {
  std::string text;  // names the content; equal texts are equal bytes
  uint32_t num_tokens = 100;
  parse::Section section = parse::Section::kMessages;
  parse::Role role = parse::Role::kUser;
  parse::Content content = parse::Content::kText;
  bool is_volatile = false;
  bool markable = true;
  std::optional<parse::Breakpoint> breakpoint = {};
  bool is_summary = false;
};

inline Block Tool(std::string name, uint32_t tokens) {
  return {std::move(name), tokens, parse::Section::kTools, parse::Role::kNone,
          parse::Content::kTool};
}
inline Block System(std::string text, uint32_t tokens) {
  return {std::move(text), tokens, parse::Section::kSystem, parse::Role::kSystem};
}
inline Block User(std::string text, uint32_t tokens) { return {std::move(text), tokens}; }
inline Block Assistant(std::string text, uint32_t tokens) {
  return {std::move(text), tokens, parse::Section::kMessages, parse::Role::kAssistant};
}

inline std::vector<planner::PlanSegment> SegmentsOf(const std::vector<Block>& blocks) {
  std::vector<planner::PlanSegment> segments;
  std::string prefix;
  for (const Block& block : blocks) {
    prefix = ToHex(IdentityOf(prefix + "|" + block.text));
    segments.push_back({.section = block.section,
                        .role = block.role,
                        .content = block.content,
                        .num_tokens = block.num_tokens,
                        .is_volatile = block.is_volatile,
                        .is_summary = block.is_summary,
                        .markable = block.markable,
                        .breakpoint = block.breakpoint,
                        .prefix = IdentityOf(prefix)});
  }
  return segments;
}

struct Request {
  int64_t time_us = 0;
  std::string conversation;
  std::string shape;
  std::vector<Block> blocks;
};

struct Bill {
  double paid = 0;
  double direct = 0;
  double read = 0;
  double written = 0;
  double input = 0;
  double ratio() const { return paid / direct; }
  void Add(const Bill& other) {
    paid += other.paid;
    direct += other.direct;
    read += other.read;
    written += other.written;
    input += other.input;
  }
};

// MessagesCache models Anthropic: entries at breakpoints, a look back of `lookback` blocks from
// each, and the positions A, B and C that its documentation bills by.
class MessagesCache {
 public:
  MessagesCache(const ledger::PriceRow& row, int64_t first_byte_us)
      : row_(row), first_byte_us_(first_byte_us) {}

  Bill Send(const std::vector<planner::PlanSegment>& segments, const planner::Plan& plan,
            int64_t now_us) {
    const std::map<size_t, int64_t> points = PointsOf(segments, plan);
    std::vector<double> ends;
    double total = 0;
    for (const planner::PlanSegment& segment : segments)
      ends.push_back(total += segment.num_tokens);
    const auto minimum = static_cast<double>(row_.rules.minimum_tokens);
    const int64_t hit = Hit(segments, points, now_us);
    const double a = hit < 0 ? 0 : ends[static_cast<size_t>(hit)];
    double b = a;
    double c = a;
    for (const auto& [point, ttl] : points) {
      if (ends[point] < minimum || ends[point] <= a) continue;
      if (ttl > row_.rules.ttl_seconds) b = std::max(b, ends[point]);
      c = std::max(c, ends[point]);
      Entry& entry = entries_[segments[point].prefix];
      if (entry.expires_us <= now_us) entry = {.readable_us = now_us + first_byte_us_};
      entry.ttl_us = std::max(ttl * kSecondUs, entry.ttl_us);
      entry.expires_us = now_us + entry.ttl_us;
    }
    const ledger::CacheFactors& factors = *row_.factors;
    return {.paid = factors.read * a + factors.write_long * (b - a) +
                    factors.write * (c - std::max(a, b)) + (total - std::max(b, c)),
            .direct = total,
            .read = a,
            .written = c - a,
            .input = total};
  }
  void Clear() { entries_.clear(); }

 private:
  struct Entry {
    int64_t readable_us = 0;
    int64_t expires_us = 0;
    int64_t ttl_us = 0;
  };

  // Returns the write points of a plan. A plan that the API would refuse fails the test.
  std::map<size_t, int64_t> PointsOf(const std::vector<planner::PlanSegment>& segments,
                                     const planner::Plan& plan) const {
    std::map<size_t, int64_t> points;
    for (const planner::PlannedBreakpoint& planned : plan.breakpoints) {
      EXPECT_NE(segments[planned.segment].content, parse::Content::kThinking);
      points[planned.segment] = planned.breakpoint.ttl_seconds;
    }
    const size_t slots = points.size() + (plan.automatic ? 1 : 0);
    EXPECT_LE(slots, static_cast<size_t>(row_.rules.breakpoints_max)) << "a 400";
    if (plan.automatic) points[segments.size() - 1] = plan.automatic->ttl_seconds;
    int64_t before = 1 << 20;
    for (const auto& [point, ttl] : points) {
      EXPECT_LE(ttl, before) << "a 400: a longer ttl behind a shorter one";
      before = ttl;
    }
    return points;
  }

  int64_t Hit(const std::vector<planner::PlanSegment>& segments,
              const std::map<size_t, int64_t>& points, int64_t now_us) {
    int64_t hit = -1;
    for (const auto& [point, ttl] : points) {
      const auto last = static_cast<int64_t>(point);
      for (int64_t i = last; i >= 0 && i > last - row_.rules.lookback_blocks; --i) {
        const auto found = entries_.find(segments[static_cast<size_t>(i)].prefix);
        if (found == entries_.end() || found->second.expires_us <= now_us ||
            found->second.readable_us > now_us) {
          continue;
        }
        hit = std::max(hit, i);
        break;
      }
    }
    if (hit >= 0) {
      Entry& entry = entries_[segments[static_cast<size_t>(hit)].prefix];
      entry.expires_us = now_us + entry.ttl_us;
    }
    return hit;
  }

  const ledger::PriceRow& row_;
  const int64_t first_byte_us_;
  std::map<parse::Identity, Entry> entries_;
};

// BreakpointCache models OpenAI from GPT-5.6 on: an implicit breakpoint at the newest user or tool
// turn, explicit ones, and four writes in all. A read considers entries under its key at the first
// and the last explicit breakpoints and the last turns, and the longest match wins.
class BreakpointCache {
 public:
  BreakpointCache(const ledger::PriceRow& row, int64_t first_byte_us)
      : row_(row), first_byte_us_(first_byte_us) {}

  Bill Send(const std::vector<planner::PlanSegment>& segments, const planner::Plan& plan,
            int64_t now_us) {
    std::vector<size_t> turns;
    std::vector<size_t> wanted;
    std::vector<double> ends;
    double total = 0;
    for (size_t i = 0; i < segments.size(); ++i) {
      ends.push_back(total += segments[i].num_tokens);
      const bool is_marked = std::ranges::any_of(
          plan.breakpoints, [&](const planner::PlannedBreakpoint& m) { return m.segment == i; });
      const bool ends_turn =
          segments[i].role == parse::Role::kUser || segments[i].role == parse::Role::kTool;
      EXPECT_FALSE(is_marked && segments[i].section == parse::Section::kTools) << "a 400";
      if (ends_turn) turns.push_back(i);
      if (is_marked) wanted.push_back(i);
    }
    EXPECT_LT(wanted.size(), 4U) << "the implicit one is the fourth";
    EXPECT_LE(plan.prompt_cache_key.size(), 64U) << "a 400";
    // Four breakpoints are fewer than the explicit ones that a lookup considers.
    std::vector<size_t> points = wanted;
    const size_t num_turns = static_cast<size_t>(row_.rules.earlier_turns_read) + 1;
    points.insert(points.end(),
                  turns.end() - static_cast<ptrdiff_t>(std::min(turns.size(), num_turns)),
                  turns.end());
    if (!turns.empty()) wanted.push_back(turns.back());
    double read = 0;
    for (const size_t point : points) {
      const auto found = entries_.find({plan.prompt_cache_key, segments[point].prefix});
      if (found == entries_.end() || found->second.readable_us > now_us ||
          found->second.expires_us <= now_us) {
        continue;
      }
      read = std::max(read, ends[point]);
      found->second.expires_us = now_us + row_.rules.ttl_seconds * kSecondUs;
    }
    double end = read;
    for (const size_t point : wanted) {
      if (ends[point] < static_cast<double>(row_.rules.minimum_tokens) || ends[point] <= read) {
        continue;
      }
      end = std::max(end, ends[point]);
      entries_[{plan.prompt_cache_key, segments[point].prefix}] = {
          now_us + first_byte_us_, now_us + row_.rules.ttl_seconds * kSecondUs};
    }
    return {.paid = row_.factors->read * read + row_.factors->write * (end - read) + total - end,
            .direct = total,
            .read = read,
            .written = end - read,
            .input = total};
  }
  void Clear() { entries_.clear(); }

 private:
  struct Entry {
    int64_t readable_us = 0;
    int64_t expires_us = 0;
  };
  const ledger::PriceRow& row_;
  const int64_t first_byte_us_;
  std::map<std::pair<std::string, parse::Identity>, Entry> entries_;
};

// IncrementCache models OpenAI before GPT-5.6: whatever was sent is found again in steps of the
// rules' increment, by requests of the same key and the same first 256 tokens. Writes are free.
class IncrementCache {
 public:
  IncrementCache(const ledger::PriceRow& row, int64_t first_byte_us)
      : row_(row), first_byte_us_(first_byte_us) {}

  Bill Send(const std::vector<planner::PlanSegment>& segments, const planner::Plan& plan,
            int64_t now_us) {
    constexpr int64_t kMinimum = 1024;  // the rules' minimum is not always kept
    EXPECT_TRUE(plan.breakpoints.empty()) << "a 400";
    const int64_t step = row_.rules.increment_tokens;
    double total = 0;
    for (const planner::PlanSegment& segment : segments) total += segment.num_tokens;
    const std::string pool = plan.prompt_cache_key + "|" + PrefixAt(segments, 256);
    double read = 0;
    for (int64_t end = step; end <= static_cast<int64_t>(total); end += step) {
      Entry& entry = entries_[pool + "|" + PrefixAt(segments, end)];
      const bool is_held = entry.expires_us > now_us;
      if (is_held && entry.readable_us <= now_us && end >= kMinimum)
        read = static_cast<double>(end);
      if (!is_held) entry.readable_us = now_us + first_byte_us_;
      entry.expires_us = now_us + row_.rules.ttl_seconds * kSecondUs;
    }
    return {.paid = row_.factors->read * read + total - read,
            .direct = total,
            .read = read,
            .written = 0,
            .input = total};
  }
  void Clear() { entries_.clear(); }

 private:
  struct Entry {
    int64_t readable_us = 0;
    int64_t expires_us = 0;
  };
  // Names the first `tokens` tokens of a prompt.
  static std::string PrefixAt(const std::vector<planner::PlanSegment>& segments, int64_t tokens) {
    int64_t begin = 0;
    for (const planner::PlanSegment& segment : segments) {
      if (tokens <= begin + segment.num_tokens) {
        return ToHex(segment.prefix) + "+" + std::to_string(tokens - begin);
      }
      begin += segment.num_tokens;
    }
    return "short";
  }
  const ledger::PriceRow& row_;
  const int64_t first_byte_us_;
  std::map<std::string, Entry> entries_;
};

// Options of a run that sends all requests in the order of their times through one planner. Answers
// end `answer_us` after they began, and are learnt from then.
struct RunOptions {
  int64_t first_byte_us = 2 * kSecondUs;
  int64_t answer_us = 5 * kSecondUs;
  double reported = 1;     // the provider's token count per estimated token
  bool is_planned = true;  // false: the caller's own breakpoints go out
  double held = 1;         // the probability that a request finds what the provider was sent
  uint32_t seed = 0;       // of that chance
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kMessages;
};
struct RunResult {
  Bill total;
  std::vector<double> worst_after;  // paid / direct up to each request
  std::vector<planner::Plan> plans;
  std::vector<Bill> bills;  // of each request

  // Returns the sum of the bills from request `first` on.
  Bill From(size_t first) const {
    Bill sum;
    for (size_t i = first; i < bills.size(); ++i) sum.Add(bills[i]);
    return sum;
  }
};
inline planner::PlanArgs ArgsOf(
    const Request& request, const std::vector<planner::PlanSegment>& segments,
    const ledger::PriceRow& row,
    dialect::form::Endpoint endpoint = dialect::form::Endpoint::kMessages) {
  planner::PlanArgs args;
  args.tenant = "tenant";
  args.upstream = "upstream";
  args.model = row.models.front();
  args.endpoint = endpoint;
  args.row = &row;
  args.segments = segments;
  args.conversation = IdentityOf(request.conversation);
  args.shape = IdentityOf(request.shape);
  args.now_us = request.time_us;
  return args;
}

// Returns a plan with the caller's own breakpoints.
inline planner::Plan CallersPlan(const std::vector<planner::PlanSegment>& segments) {
  planner::Plan plan;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].breakpoint) plan.breakpoints.push_back({i, *segments[i].breakpoint});
  }
  return plan;
}

template <typename Cache = MessagesCache>
RunResult Simulate(std::vector<Request> requests, const ledger::PriceRow& row,
                   const RunOptions& options = {}) {
  std::ranges::stable_sort(requests, {}, &Request::time_us);
  const auto planner = planner::Planner::Make(planner::Planner::Options());
  Cache cache(row, options.first_byte_us);
  std::mt19937 random(options.seed);
  std::bernoulli_distribution is_held(options.held);
  RunResult result;
  std::multimap<int64_t, planner::Planner::Outcome> answers;
  const auto learn_until = [&](int64_t now_us) {
    while (!answers.empty() && answers.begin()->first <= now_us) {
      planner->Learn(answers.begin()->second);
      answers.erase(answers.begin());
    }
  };
  for (const Request& request : requests) {
    learn_until(request.time_us);
    std::vector<planner::PlanSegment> segments = SegmentsOf(request.blocks);
    const planner::PlanArgs args = ArgsOf(request, segments, row, options.endpoint);
    result.plans.push_back(options.is_planned ? planner->Make(args) : CallersPlan(segments));
    int64_t estimated = 0;
    for (planner::PlanSegment& segment : segments) {
      estimated += segment.num_tokens;
      segment.num_tokens = static_cast<uint32_t>(segment.num_tokens * options.reported);
    }
    if (!is_held(random)) cache.Clear();
    const Bill bill = cache.Send(segments, result.plans.back(), request.time_us);
    const int64_t end_us = request.time_us + options.answer_us;
    answers.emplace(
        end_us, planner::Planner::Outcome{.conversation = args.conversation,
                                          .plan = result.plans.back().id,
                                          .shape = args.shape,
                                          .cache_read_tokens = static_cast<int64_t>(bill.read),
                                          .cache_write_tokens = static_cast<int64_t>(bill.written),
                                          .input_tokens = static_cast<int64_t>(bill.input),
                                          .estimated_tokens = estimated,
                                          .now_us = end_us});
    result.bills.push_back(bill);
    result.total.Add(bill);
    result.worst_after.push_back(result.total.ratio());
  }
  return result;
}

// Options of a coding agent like those recorded: tools, a system prompt and a task, then turns of
// an answer with a call and its result.
struct AgentOptions {
  std::string name = "agent";
  std::string shape = "coder";
  int num_turns = 40;
  int64_t start_us = kMinuteUs;
  std::vector<int64_t> gaps_us = {20 * kSecondUs};  // used in turn, again and again
  int blocks_a_turn = 2;
  uint32_t tokens_a_turn = 900;
  uint32_t shared_tokens = 11'000;
  uint32_t task_tokens = 600;
};
inline std::vector<Request> Agent(const AgentOptions& options) {
  std::vector<Block> blocks;
  for (int i = 0; i < 10; ++i) {
    blocks.push_back(
        Tool(options.shape + " tool " + std::to_string(i), options.shared_tokens / 12));
  }
  blocks.push_back(System(options.shape + " system", options.shared_tokens / 6));
  blocks.push_back(User(options.name + " task", options.task_tokens));
  std::vector<Request> requests;
  int64_t now_us = options.start_us;
  for (int turn = 0; turn < options.num_turns; ++turn) {
    requests.push_back({now_us, options.name, options.shape, blocks});
    now_us += options.gaps_us[static_cast<size_t>(turn) % options.gaps_us.size()];
    for (int i = 0; i < options.blocks_a_turn; ++i) {
      const std::string text = options.name + " " + std::to_string(turn) + "." + std::to_string(i);
      const auto tokens = options.tokens_a_turn / static_cast<uint32_t>(options.blocks_a_turn);
      blocks.push_back(i % 2 == 0 ? Assistant(text, tokens) : User(text, tokens));
    }
  }
  return requests;
}

inline std::vector<Request> Join(std::vector<Request> a, const std::vector<Request>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace kvgate::prompt::simulation
