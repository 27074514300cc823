#include "gateway/prompt/diagnose/prefix_break.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/utf8.h"
#include "gateway/prompt/diagnose/cache_effects.h"
#include "gateway/prompt/diagnose/miss_message.h"
#include "gateway/prompt/diagnose/prompt_difference.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::diagnose {

using history::SentRequest;
using history::SentSegment;

namespace {

constexpr size_t kExcerptBytesMax = 120;
constexpr size_t kExcerptLead = 40;  // part of it in front of the difference
// A provider that stores without being asked does so in steps, and its templates add a few tokens.
// A smaller loss than this, or than a fiftieth of the prompt, is ignored if nothing differs.
constexpr int64_t kStepTokens = 128;
constexpr int64_t kLossPart = 50;
// Any provider would have stored an equal front of this many tokens.
constexpr int64_t kSureTokens = 1024;
// Estimated counts may be off by this factor.
constexpr double kEstimateFactor = 1.1;

// Returns at most kExcerptBytesMax bytes that begin a little before `at`, cut at whole characters.
std::string Excerpt(std::string_view text, size_t at) {
  size_t begin = at > kExcerptLead ? at - kExcerptLead : 0;
  while (begin > 0 && begin < text.size() && IsUtf8Continuation(text[begin])) ++begin;
  const size_t end = Utf8CutBefore(text, std::min(text.size(), begin + kExcerptBytesMax));
  return std::string(text.substr(std::min(begin, text.size()), end - std::min(begin, end)));
}

void WriteExcerpts(std::string_view before, std::string_view after, PrefixBreak& out) {
  const std::string left = parse::TextOrJson(before);
  const std::string right = parse::TextOrJson(after);
  const auto unlike = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  const auto at = static_cast<size_t>(unlike.first - left.begin());
  out.before = Excerpt(left, at);
  out.after = Excerpt(right, at);
}

int64_t EstimateOf(const SentRequest& request) {
  int64_t tokens = 0;
  for (const SentSegment& segment : request.segments) tokens += segment.num_tokens;
  return tokens;
}

bool IsMarked(const SentRequest& request) {
  return std::any_of(request.segments.begin(), request.segments.end(),
                     [](const SentSegment& segment) { return segment.breakpoint.has_value(); });
}

bool IsBlock(const SentSegment& segment) { return segment.content != parse::Content::kMessageHead; }

// Returns true if a breakpoint of this request is within reach of the previous request's last one.
bool IsWithinLookback(const SentRequest& before, const SentRequest& now, int64_t lookback_blocks) {
  int64_t blocks = 0;
  int64_t last_stored = -1;
  for (const SentSegment& segment : before.segments) {
    if (IsBlock(segment)) ++blocks;
    if (segment.breakpoint) last_stored = blocks;
  }
  if (last_stored < 0) return true;
  int64_t nearest = -1;
  blocks = 0;
  for (const SentSegment& segment : now.segments) {
    if (IsBlock(segment)) ++blocks;
    if (segment.breakpoint && blocks >= last_stored && nearest < 0) nearest = blocks;
  }
  return nearest < 0 || nearest - last_stored < lookback_blocks;
}

class MissClassifier {
 public:
  explicit MissClassifier(const BreakArgs& args)
      : args_(args),
        effects_(CacheEffectsOf(args.provider, args.now.endpoint,
                                args.row == nullptr ? nullptr : &args.row->rules)),
        estimate_(EstimateOf(args.now)) {
    if (args.usage) {
      cached_ = args.usage->cache_read_tokens;
      total_ = args.usage->input_tokens();
      if (estimate_ > 0 && IsWhole()) {
        scale_ = static_cast<double>(total_) / static_cast<double>(estimate_);
      }
    }
    if (args.row != nullptr) rules_ = args.row->rules;
  }

  PrefixBreak Run() {
    if (args_.before == nullptr) {
      return IsWhole() ? Say(BreakCause::kFirstSeen, BreakDetail::kPlain) : Nothing();
    }
    if (!args_.usage) return WithoutUsage();
    if (effects_.needs_breakpoints) {
      if (const auto said = WithoutBreakpoints()) return *said;
    }
    stored_ = std::min(StoredTokens(), total_);
    if (cached_ == 0 && rules_.minimum_tokens > stored_) {
      return Say(BreakCause::kBelowMinimum, BreakDetail::kPlain);
    }
    lost_ = std::max<int64_t>(0, stored_ - cached_);
    const int64_t step =
        effects_.needs_breakpoints ? 0 : std::max<int64_t>(rules_.increment_tokens, 16);
    if (lost_ <= step) return Nothing();
    const auto difference = Difference();
    if (!difference || !Explains(*difference)) return IsWhole() ? WithoutDifference() : Nothing();
    if (IsWhole()) lost_ = std::min(lost_, ResentTokens() - cached_);
    // That is an estimate, and a small loss may be its error.
    if (lost_ <= 2 * step || lost_ < stored_ / kLossPart) return Nothing();
    return Say(*difference);
  }

 private:
  std::optional<PromptDifference> Difference() const {
    const auto read = static_cast<int64_t>(static_cast<double>(cached_) / scale_);
    return FindPromptDifference({.before = *args_.before,
                                 .now = args_.now,
                                 .effects = effects_,
                                 .read_tokens = args_.usage ? read : 0});
  }

  // False if the provider holds the history: it is then unknown which response this request
  // continues and how much of it should have been read.
  bool IsWhole() const { return args_.now.holds_history; }

  // Without usage the difference is reported, but its cost is unknown.
  PrefixBreak WithoutUsage() {
    const auto difference = Difference();
    return difference ? Say(*difference) : Nothing();
  }

  PrefixBreak Nothing() {
    lost_ = 0;
    reusable_ = stored_;
    return Say(BreakCause::kNone, BreakDetail::kPlain);
  }

  // Handles misses of a provider that stores only what ends at a breakpoint; nullopt if they are
  // others.
  std::optional<PrefixBreak> WithoutBreakpoints() {
    if (cached_ > 0) return std::nullopt;
    const SentRequest& before = *args_.before;
    // If tokens were written, caching was requested: at a block, or else for the whole prompt.
    const auto& usage = *args_.usage;
    const bool now_marked =
        IsMarked(args_.now) || usage.cache_write_tokens > 0 || usage.cache_write_1h_tokens > 0;
    const bool was_marked = IsMarked(before) || before.written_tokens.value_or(0) > 0 ||
                            before.cached_tokens.value_or(0) > 0;
    if (now_marked && was_marked) {
      if (!before.input_tokens || StoredTokens() > 0) return std::nullopt;
      if (*before.input_tokens < rules_.minimum_tokens) {
        return Say(BreakCause::kBelowMinimum, BreakDetail::kPlain);
      }
      // An early breakpoint may cover less than the minimum.
      const bool known = rules_.minimum_tokens > 0 && MarkedTokens() >= rules_.minimum_tokens;
      return known ? Say(BreakCause::kProviderMiss, BreakDetail::kNothingStored)
                   : Say(BreakCause::kBelowMinimum, BreakDetail::kPlain);
    }
    stored_ = std::min(before.input_tokens.value_or(0), total_);
    if (stored_ < rules_.minimum_tokens) return Say(BreakCause::kBelowMinimum, BreakDetail::kPlain);
    // Counts what could have been read if both requests had set breakpoints.
    const auto difference = Difference();
    reusable_ = difference ? std::min(stored_, Scaled(difference->front_tokens)) : stored_;
    lost_ = reusable_;
    return Say(BreakCause::kNotMarked,
               now_marked ? BreakDetail::kNoBreakpointBefore : BreakDetail::kPlain);
  }

  // Estimated tokens up to the previous request's last breakpoint; all of them for an automatic
  // one.
  int64_t MarkedTokens() const {
    int64_t tokens = 0;
    int64_t marked = 0;
    for (const SentSegment& segment : args_.before->segments) {
      tokens += segment.num_tokens;
      if (segment.breakpoint) marked = tokens;
    }
    return Scaled(marked > 0 ? marked : tokens);
  }

  int64_t Scaled(int64_t estimate) const {
    return static_cast<int64_t>(std::llround(static_cast<double>(estimate) * scale_));
  }

  // Returns how many tokens the previous request left in the cache.
  int64_t StoredTokens() const {
    const SentRequest& before = *args_.before;
    if (!before.input_tokens) {
      return effects_.needs_breakpoints ? MarkedTokens() : Scaled(EstimateOf(before));
    }
    const int64_t written = before.written_tokens.value_or(0);
    const bool told = effects_.needs_breakpoints || written > 0;
    return told ? before.cached_tokens.value_or(0) + written : *before.input_tokens;
  }

  // Returns how many tokens of this request were sent before, at any place. Turns that were dropped
  // or that are new are not lost.
  int64_t ResentTokens() const {
    std::unordered_set<parse::Identity> sent;
    for (const SentSegment& segment : args_.before->segments) {
      sent.insert(segment.same);
      sent.insert(segment.stable);
    }
    int64_t tokens = 0;
    for (const SentSegment& segment : args_.now.segments) {
      const bool is_turn = segment.place.section == parse::Section::kMessages;
      if (!is_turn || sent.contains(segment.same) || sent.contains(segment.stable)) {
        tokens += segment.num_tokens;
      }
    }
    return std::min(Scaled(tokens), total_);
  }

  bool IsLapsed() const {
    const int64_t ttl_seconds =
        args_.before->ttl_seconds > 0 ? args_.before->ttl_seconds : rules_.ttl_seconds;
    return ttl_seconds > 0 && args_.now.time_us - args_.before->time_us > ttl_seconds * 1'000'000;
  }

  // A difference explains nothing if it lies behind everything that was stored, or if the TTL is
  // over and even a long equal front was not read.
  bool Explains(const PromptDifference& difference) const {
    const int64_t front = Scaled(difference.front_tokens);
    if (IsLapsed() && cached_ == 0 && front >= std::max(kSureTokens, rules_.minimum_tokens)) {
      return false;
    }
    return static_cast<double>(front) <=
           static_cast<double>(stored_) * kEstimateFactor + static_cast<double>(kStepTokens);
  }

  PrefixBreak WithoutDifference() {
    reusable_ = stored_;
    if (!effects_.needs_breakpoints &&
        lost_ <= std::max({kStepTokens, 2 * rules_.increment_tokens, stored_ / kLossPart})) {
      return Nothing();
    }
    if (IsLapsed()) return Say(BreakCause::kTtlLapsed, BreakDetail::kPlain);
    if (effects_.needs_breakpoints && rules_.lookback_blocks > 0 &&
        !IsWithinLookback(*args_.before, args_.now, rules_.lookback_blocks)) {
      return Say(BreakCause::kNotMarked, BreakDetail::kLookback);
    }
    return Say(BreakCause::kProviderMiss, MissDetail());
  }

  BreakDetail MissDetail() const {
    if (!args_.before->input_tokens) return BreakDetail::kUnanswered;
    const auto& segments = args_.before->segments;
    const bool thinks = std::any_of(segments.begin(), segments.end(), [](const SentSegment& it) {
      return it.content == parse::Content::kThinking;
    });
    return thinks ? BreakDetail::kThinking : BreakDetail::kPlain;
  }

  // The lost tokens were charged like the first ones behind the read prefix: writes first, then
  // input.
  int64_t LostNanodollars() const {
    if (args_.row == nullptr || !args_.usage || lost_ <= 0) return 0;
    ledger::TokenUsage could = *args_.usage;
    int64_t left = lost_;
    for (int64_t* part :
         {&could.cache_write_1h_tokens, &could.cache_write_tokens, &could.uncached_tokens}) {
      const int64_t moved = std::min(left, *part);
      *part -= moved;
      could.cache_read_tokens += moved;
      left -= moved;
    }
    const auto paid = ledger::CostOf(*args_.row, *args_.usage, "");
    const auto less = ledger::CostOf(*args_.row, could, "");
    return paid && less ? std::max<int64_t>(0, paid->nanodollars - less->nanodollars) : 0;
  }

  PrefixBreak Say(const PromptDifference& difference) {
    reusable_ = Scaled(difference.front_tokens);
    if (args_.usage) reusable_ = std::min(reusable_, total_);
    PrefixBreak out = Say(difference.cause,
                          !difference.volatile_kind.empty() ? BreakDetail::kVolatile
                          : difference.same_value           ? BreakDetail::kSpelling
                                                            : BreakDetail::kPlain,
                          difference.path);
    out.volatile_kind = difference.volatile_kind;
    if (args_.keep_text) WriteExcerpts(difference.before, difference.after, out);
    return out;
  }

  PrefixBreak Say(BreakCause cause, BreakDetail detail, std::string path = {}) const {
    PrefixBreak out;
    out.cause = cause;
    out.reusable_tokens = reusable_;
    out.lost_tokens = lost_;
    out.lost_nanodollars = LostNanodollars();
    out.message = MessageOf(cause, detail, CompareReason(args_.provider_reason, cause, path));
    out.path = std::move(path);
    return out;
  }

  const BreakArgs& args_;
  const CacheEffects effects_;
  const int64_t estimate_;
  ledger::CacheRules rules_;
  double scale_ = 1;    // reported tokens per estimated token
  int64_t cached_ = 0;  // read by this request
  int64_t total_ = 0;   // all input tokens
  int64_t stored_ = 0;  // could have been read
  int64_t lost_ = 0;
  int64_t reusable_ = 0;
};

}  // namespace

PrefixBreak FindBreak(const BreakArgs& args) { return MissClassifier(args).Run(); }

}  // namespace kvgate::prompt::diagnose
