#include "gateway/prompt/diagnose/direct_caches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "base/digest.h"
#include "gateway/prompt/parse/canonical.h"

namespace kvgate::prompt::diagnose {

using parse::Identity;

namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int32_t kLongSeconds = 3'600;
constexpr size_t kLookbackUsual = 20;
constexpr int64_t kIncrementUsual = 64;
constexpr int64_t kTtlUsual = 300;  // of providers that state none

void RenderToolsLast(std::vector<CachedPrompt::Piece>& pieces) {
  const auto is_system = [](const CachedPrompt::Piece& piece) {
    return piece.place.section == parse::Section::kSystem;
  };
  const auto messages = std::ranges::find_if(pieces, [](const CachedPrompt::Piece& piece) {
    return piece.place.section == parse::Section::kMessages;
  });
  std::stable_partition(pieces.begin(), messages, is_system);
}

template <typename S>
CachedPrompt::Piece PieceOf(const S& segment, const Identity& bytes) {
  CachedPrompt::Piece piece{
      .bytes = bytes, .place = segment.place, .num_tokens = segment.num_tokens};
  // A breakpoint without a lifetime of its own has the provider's.
  if (segment.breakpoint) piece.ttl_seconds = std::max(segment.breakpoint->ttl_seconds, 1);
  return piece;
}

// The end of a piece.
struct End {
  Identity key;
  double tokens = 0;  // up to there
};

std::vector<End> EndsOf(const CachedPrompt& prompt, DirectCaches::Form form, double scale) {
  std::vector<End> ends;
  ends.reserve(prompt.pieces.size());
  const std::array<uint64_t, 3> first = {prompt.cache.low, prompt.cache.high,
                                         static_cast<uint64_t>(form)};
  const auto [low, high] = Xxh3(std::as_bytes(std::span(first)));
  End end{.key = {.low = low, .high = high}};
  for (const CachedPrompt::Piece& piece : prompt.pieces) {
    end.key = parse::Chain(end.key, piece.bytes);
    end.tokens += scale * piece.num_tokens;
    ends.push_back(end);
  }
  return ends;
}

// A point at which an entry is written, by its piece.
struct Point {
  size_t piece = 0;
  int64_t ttl_seconds = 0;
};

std::vector<Point> PointsOf(const CachedPrompt& prompt, const ledger::CacheRules& rules) {
  const int64_t usual = rules.ttl_seconds > 0 ? rules.ttl_seconds : kTtlUsual;
  std::vector<Point> points;
  if (rules.breakpoints == ledger::BreakpointSyntax::kNone) {
    for (size_t i = 0; i < prompt.pieces.size(); ++i) {
      points.push_back({.piece = i, .ttl_seconds = usual});
    }
    return points;
  }
  for (size_t i = 0; i < prompt.pieces.size(); ++i) {
    const int64_t ttl = prompt.pieces[i].ttl_seconds;
    if (ttl > 0) points.push_back({.piece = i, .ttl_seconds = ttl > 1 ? ttl : usual});
  }
  const bool marks_end = prompt.automatic_ttl_seconds > 0 || rules.implicit_breakpoint;
  if (marks_end && !prompt.pieces.empty()) {
    points.push_back({.piece = prompt.pieces.size() - 1,
                      .ttl_seconds = std::max<int64_t>(prompt.automatic_ttl_seconds, usual)});
  }
  return points;
}

}  // namespace

Identity CacheOf(std::string_view tenant, std::string_view upstream, std::string_view model,
                 std::string_view cache_key) {
  Identity cache;
  for (const std::string_view part : {tenant, upstream, model, cache_key}) {
    cache = parse::Chain(cache, parse::HashBytes(part, parse::Domain::kConversation));
  }
  return cache;
}

CachedPrompt AsReceived(const parse::RequestLayout& layout, Identity cache,
                        bool tools_after_system) {
  CachedPrompt prompt{.cache = cache};
  prompt.pieces.reserve(layout.segments.size());
  for (const parse::Segment& segment : layout.segments) {
    prompt.pieces.push_back(PieceOf(segment, segment.raw));
  }
  if (tools_after_system) RenderToolsLast(prompt.pieces);
  if (layout.automatic) prompt.automatic_ttl_seconds = layout.automatic->ttl_seconds;
  return prompt;
}

CachedPrompt AsSent(const history::SentSegments& segments,
                    const std::optional<parse::Breakpoint>& automatic, Identity cache,
                    bool tools_after_system) {
  CachedPrompt prompt{.cache = cache};
  prompt.pieces.reserve(segments.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    prompt.pieces.push_back(PieceOf(segments[i], segments[i].sent_raw));
  }
  if (tools_after_system) RenderToolsLast(prompt.pieces);
  if (automatic) prompt.automatic_ttl_seconds = automatic->ttl_seconds;
  return prompt;
}

DirectCaches::Entry* DirectCaches::FindLocked(const Identity& key) {
  if (const auto found = newer_.find(key); found != newer_.end()) return &found->second;
  auto old = older_.extract(key);
  return old.empty() ? nullptr : &newer_.insert(std::move(old)).position->second;
}

void DirectCaches::PutLocked(const Identity& key, const Entry& entry) {
  if (Entry* const known = FindLocked(key); known != nullptr) {
    if (known->end_us < entry.begin_us) known->begin_us = entry.begin_us;
    known->end_us = std::max(known->end_us, entry.end_us);
    known->ttl_us = std::max(known->ttl_us, entry.ttl_us);
    return;
  }
  if (newer_.size() >= entries_max_ / 2) {
    older_ = std::move(newer_);
    newer_ = {};
  }
  newer_.emplace(key, entry);
}

DirectCaches::Outcome DirectCaches::Ask(const CachedPrompt& prompt, Form form, double scale,
                                        const Request& request) {
  const ledger::CacheRules& rules = request.rules;
  const bool is_marked = rules.breakpoints == ledger::BreakpointSyntax::kCacheControl;
  const bool is_by_increments = rules.breakpoints == ledger::BreakpointSyntax::kNone;
  // Of an entry. What is read by increments may begin with pieces that are shorter.
  const double minimum = is_by_increments ? 0 : static_cast<double>(rules.minimum_tokens);
  const std::vector<End> ends = EndsOf(prompt, form, scale);
  const std::vector<Point> points = PointsOf(prompt, rules);
  Outcome outcome;
  if (ends.empty()) return outcome;
  outcome.total = ends.back().tokens;
  const std::lock_guard lock(mutex_);
  const auto find = [&](size_t piece) -> Entry* {
    if (ends[piece].tokens < minimum) return nullptr;
    Entry* const entry = FindLocked(ends[piece].key);
    const bool is_there =
        entry != nullptr && entry->begin_us <= request.time_us && request.time_us < entry->end_us;
    return is_there ? entry : nullptr;
  };
  const size_t lookback =
      rules.lookback_blocks > 0 ? static_cast<size_t>(rules.lookback_blocks) : kLookbackUsual;
  size_t num_read = 0;  // pieces
  if (is_marked) {
    for (const Point& point : points) {
      const size_t stop = point.piece + 1 > lookback ? point.piece + 1 - lookback : 0;
      for (size_t i = point.piece + 1; i > std::max(stop, num_read); --i) {
        if (find(i - 1) == nullptr) continue;
        num_read = i;
        break;
      }
    }
  } else {
    for (size_t i = ends.size(); i > 0 && num_read == 0; --i) {
      if (find(i - 1) != nullptr) num_read = i;
    }
  }
  if (num_read > 0) outcome.read = ends[num_read - 1].tokens;
  if (is_by_increments) {
    if (num_read < ends.size() && request.share_before) {
      const double share = request.share_before(prompt.pieces[num_read].place, form);
      outcome.read += share * scale * prompt.pieces[num_read].num_tokens;
    }
    const auto unit =
        static_cast<double>(rules.increment_tokens > 0 ? rules.increment_tokens : kIncrementUsual);
    outcome.read = std::floor(outcome.read / unit) * unit;
    if (outcome.read < static_cast<double>(rules.minimum_tokens)) outcome.read = 0;
  }
  if (Entry* const entry = num_read > 0 ? find(num_read - 1) : nullptr; entry != nullptr) {
    entry->end_us = std::max(entry->end_us, request.time_us + entry->ttl_us);
  }
  double end = outcome.read;
  double end_long = outcome.read;
  for (const Point& point : points) {
    const double tokens = ends[point.piece].tokens;
    if (tokens < minimum || (tokens <= outcome.read && !is_by_increments)) continue;
    const bool is_long = !is_by_increments && point.ttl_seconds >= kLongSeconds;
    if (!is_by_increments) end = std::max(end, tokens);
    if (is_long) end_long = std::max(end_long, tokens);
    PutLocked(ends[point.piece].key, {.begin_us = request.now_us,
                                      .end_us = request.time_us + point.ttl_seconds * kSecondUs,
                                      .ttl_us = point.ttl_seconds * kSecondUs});
  }
  outcome.written_long = end_long - outcome.read;
  outcome.written = end - end_long;
  return outcome;
}

ledger::reply::TokenUsage DirectCaches::Note(const Request& request) {
  const ledger::reply::TokenUsage& usage = request.usage;
  double estimated = 0;
  for (const CachedPrompt::Piece& piece : request.sent.pieces) estimated += piece.num_tokens;
  const double scale = estimated > 0 ? static_cast<double>(usage.input_tokens()) / estimated : 1.0;
  const Outcome sent = Ask(request.sent, Form::kSent, scale, request);
  const Outcome received = Ask(request.received, Form::kReceived, scale, request);
  const auto moved = [](int64_t reported, double by) {
    return std::max<int64_t>(0, reported + std::llround(by));
  };
  ledger::reply::TokenUsage direct = usage;
  const int64_t input = moved(usage.input_tokens(), received.total - sent.total);
  // A part of what was read, because counts of single pieces are estimates; of what was not read,
  // the part that is written.
  const auto read = static_cast<double>(usage.cache_read_tokens);
  direct.cache_read_tokens = sent.read > 0 ? moved(0, read * received.read / sent.read)
                                           : moved(usage.cache_read_tokens, received.read);
  const auto unread = static_cast<double>(usage.input_tokens() - usage.cache_read_tokens);
  const auto direct_unread =
      static_cast<double>(std::max<int64_t>(0, input - direct.cache_read_tokens));
  const auto more = [&](double Outcome::*written) {
    const auto share = [&](const Outcome& of) {
      return of.total > of.read ? of.*written / (of.total - of.read) : 0.0;
    };
    return direct_unread * share(received) - unread * share(sent);
  };
  direct.cache_write_tokens = moved(usage.cache_write_tokens, more(&Outcome::written));
  direct.cache_write_1h_tokens = moved(usage.cache_write_1h_tokens, more(&Outcome::written_long));
  // What was read or written is no more than the prompt.
  direct.cache_read_tokens = std::min(direct.cache_read_tokens, input);
  int64_t left = input - direct.cache_read_tokens;
  direct.cache_write_1h_tokens = std::min(direct.cache_write_1h_tokens, left);
  left -= direct.cache_write_1h_tokens;
  direct.cache_write_tokens = std::min(direct.cache_write_tokens, left);
  direct.uncached_tokens = left - direct.cache_write_tokens;
  return direct;
}

}  // namespace kvgate::prompt::diagnose
