#include "gateway/prompt/diagnose/prefix_break.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "gateway/prompt/diagnose/cache_effects.h"
#include "gateway/prompt/diagnose/miss_message.h"
#include "gateway/prompt/diagnose/prompt_difference.h"
#include "gateway/prompt/diagnose/repetition.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::diagnose {

using history::SentRequest;
using history::SentSegment;

namespace {

constexpr size_t kExcerptBytesMax = 120;
constexpr size_t kExcerptLead = 40;  // part of it in front of the difference
// A provider counts in blocks of its cache; this is the block of one that names none.
constexpr int64_t kBlockTokens = 128;
// Where nothing differs, a provider that stores without being asked may also leave this part of a
// prompt unread, because its template adds tokens that are not in the request.
constexpr int64_t kLossPart = 50;
// Any provider would have stored an equal front of this many tokens.
constexpr int64_t kSureTokens = 1024;
// Estimated counts may be off by this factor, and by the tokens that a template sets around turns.
constexpr double kEstimateFactor = 1.1;
constexpr int64_t kTemplateTokens = 16;
// Errors of parts cancel out, once all of them are scaled to the reported sum.
constexpr double kPartError = 0.05;

// Returns at most kExcerptBytesMax bytes that begin a little before `at`, cut at whole characters.
std::string Excerpt(std::string_view text, size_t at) {
  size_t begin = at > kExcerptLead ? at - kExcerptLead : 0;
  while (begin > 0 && begin < text.size() && IsUtf8Continuation(text[begin])) ++begin;
  const size_t end = Utf8CutBefore(text, std::min(text.size(), begin + kExcerptBytesMax));
  return std::string(text.substr(std::min(begin, text.size()), end - std::min(begin, end)));
}

// The position at which two texts begin to differ.
struct Deviation {
  std::string before;
  std::string after;
  size_t at = 0;
};
Deviation FindDeviation(std::string_view before, std::string_view after) {
  Deviation out{.before = parse::TextOrJson(before), .after = parse::TextOrJson(after)};
  const auto unlike =
      std::mismatch(out.before.begin(), out.before.end(), out.after.begin(), out.after.end());
  out.at = static_cast<size_t>(unlike.first - out.before.begin());
  return out;
}

// Returns the line of a text of several lines in which the difference begins; 0 if there is no such
// text on both sides.
int64_t LineOf(const Deviation& found) {
  const std::string_view text = found.after;
  if (found.before.empty() || text.find('\n') == std::string_view::npos) return 0;
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(found.at), '\n');
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

// Returns the estimated tokens up to the request's last breakpoint among the first `front_tokens`;
// 0 if there is none.
int64_t LastBreakpoint(const SentRequest& request, int64_t front_tokens) {
  int64_t tokens = 0;
  int64_t marked = 0;
  for (const SentSegment& segment : request.segments) {
    tokens += segment.num_tokens;
    if (tokens > front_tokens) break;
    if (segment.breakpoint) marked = tokens;
  }
  return marked;
}

BreakDetail DetailOf(const PromptDifference& difference) {
  if (difference.is_ours) return BreakDetail::kOwnKey;
  if (!difference.volatile_kind.empty()) return BreakDetail::kVolatile;
  return difference.same_value ? BreakDetail::kSpelling : BreakDetail::kPlain;
}

// Tells why a request was read no further. `sent again` are its tokens that an earlier request had,
// too; what of them was not read is lost. All counts are as the provider reports them, and what it
// does not report is estimated and scaled.
class MissClassifier {
 public:
  explicit MissClassifier(const BreakArgs& args)
      : args_(args),
        effects_(CacheEffectsOf(args.provider, args.now.endpoint,
                                args.row == nullptr ? nullptr : &args.row->rules)),
        estimate_(EstimateOf(args.now)) {
    if (args.row != nullptr) rules_ = args.row->rules;
    if (rules_.increment_tokens > 1) block_ = rules_.increment_tokens;
    if (!args.usage) return;
    cached_ = args.usage->cache_read_tokens;
    total_ = args.usage->input_tokens();
    if (estimate_ > 0 && IsWhole()) {
      scale_ = static_cast<double>(total_) / static_cast<double>(estimate_);
    }
  }

  PrefixBreak Run() {
    if (args_.usage && cached_ > 0 && total_ - cached_ <= block_) return Nothing();
    if (args_.before == nullptr) {
      return IsWhole() ? Say(BreakCause::kFirstSeen) : Nothing(BreakDetail::kHeldElsewhere);
    }
    if (!args_.usage) return WithoutUsage();
    if (!IsWhole()) return OfHeldTurns();
    const int64_t most = std::min(args_.before->input_tokens.value_or(total_), total_);
    if (cached_ == 0 && most < rules_.minimum_tokens) return TooShort();
    if (args_.same_conversation && most - cached_ <= block_) return Nothing();
    const SentAgain again = CountSentAgain(most);
    sent_again_ = again.tokens;
    if (cached_ == 0 && sent_again_ < rules_.minimum_tokens) return TooShort();
    lost_ = std::max<int64_t>(0, sent_again_ - cached_);
    if (lost_ <= block_ + again.tokens_off) {
      const bool is_new = cached_ == 0 && !args_.same_conversation;
      return Nothing(BreakDetail::kPlain, is_new ? BreakCause::kFirstSeen : BreakCause::kNone);
    }
    if (!IsExpected()) return Nothing(BreakDetail::kPlain, BreakCause::kFirstSeen);
    const auto difference = Difference();
    if (!difference) return OfEqualFront(sent_again_);
    if (!IsFrontLost(difference->front_tokens)) return Say(*difference);
    return OfEqualFront(std::min(Scaled(difference->front_tokens), sent_again_));
  }

 private:
  std::optional<PromptDifference> Difference() const {
    const auto read = static_cast<int64_t>(static_cast<double>(cached_) / scale_);
    return FindPromptDifference({.before = *args_.before,
                                 .now = args_.now,
                                 .effects = effects_,
                                 .read_tokens = args_.usage ? read : 0,
                                 .same_conversation = args_.same_conversation});
  }

  // False if the provider holds the history: it is then unknown which response this request
  // continues and how much of it should have been read.
  bool IsWhole() const { return args_.now.holds_history; }

  // A provider that finds only whole turns may serve one conversation's front to another, but need
  // not, unless it has done so before.
  bool IsExpected() const {
    return args_.same_conversation || !rules_.unit_is_turn ||
           args_.before->cached_tokens.value_or(0) > 0;
  }

  // Without usage the difference is reported, but its cost is unknown.
  PrefixBreak WithoutUsage() {
    if (!args_.same_conversation) return Say(BreakCause::kFirstSeen);
    const auto difference = Difference();
    return difference ? Say(*difference) : Nothing(BreakDetail::kNoUsage);
  }

  // The provider adds the turns that it holds, so only tools, system and parameters can be
  // compared, and at most what the request before has stored is lost.
  PrefixBreak OfHeldTurns() {
    sent_again_ = std::min(StoredTokens(), total_);
    lost_ = std::max<int64_t>(0, sent_again_ - cached_);
    if (lost_ <= block_) return Nothing(BreakDetail::kHeldElsewhere);
    const auto difference = Difference();
    return difference ? Say(*difference) : Nothing(BreakDetail::kHeldElsewhere);
  }

  PrefixBreak Nothing(BreakDetail detail = BreakDetail::kPlain,
                      BreakCause cause = BreakCause::kNone) {
    lost_ = 0;
    reusable_ = std::max(cached_, std::min(sent_again_, total_));
    return Say(cause, detail);
  }

  PrefixBreak TooShort() {
    const bool is_own = args_.same_conversation;
    return Nothing(BreakDetail::kPlain,
                   is_own ? BreakCause::kBelowMinimum : BreakCause::kFirstSeen);
  }

  int64_t Scaled(int64_t estimate) const {
    return static_cast<int64_t>(std::llround(static_cast<double>(estimate) * scale_));
  }

  // Two counts of what was sent again: this prompt without what is new, and the one before without
  // what is gone. That with the smaller estimated part is the more exact one.
  struct SentAgain {
    int64_t tokens = 0;
    int64_t tokens_off = 0;  // the count may be too large by this
  };
  SentAgain CountSentAgain(int64_t most) const {
    const SentRequest& before = *args_.before;
    const Repetition parts = FindRepetition(before, args_.now, args_.same_conversation);
    double estimated = parts.new_tokens * scale_;
    double again = static_cast<double>(total_) - estimated;
    if (before.input_tokens) {
      const int64_t estimate = std::max<int64_t>(EstimateOf(before), 1);
      const auto reported = static_cast<double>(*before.input_tokens);
      const double gone = parts.gone_tokens * reported / static_cast<double>(estimate);
      if (gone < estimated) {
        again = reported - gone;
        estimated = gone;
      }
    }
    int64_t tokens = std::clamp<int64_t>(std::llround(again), 0, most);
    // A provider that stores by itself, and tells how much, has not stored what lies behind.
    const bool told = before.written_tokens.value_or(0) > 0 && !effects_.needs_breakpoints;
    if (told) tokens = std::min(tokens, StoredTokens());
    return {tokens, kTemplateTokens + std::llround(estimated * kPartError)};
  }

  // Returns how many tokens the earlier request left in the cache.
  int64_t StoredTokens() const {
    const SentRequest& before = *args_.before;
    if (!before.input_tokens) {
      const int64_t all = EstimateOf(before);
      const int64_t marked = LastBreakpoint(before, all);
      return Scaled(effects_.needs_breakpoints && marked > 0 ? marked : all);
    }
    const int64_t written = before.written_tokens.value_or(0);
    const bool told = effects_.needs_breakpoints || written > 0;
    return told ? before.cached_tokens.value_or(0) + written : *before.input_tokens;
  }

  bool WasMarked() const {
    const SentRequest& before = *args_.before;
    return IsMarked(before) || before.written_tokens.value_or(0) > 0 ||
           before.cached_tokens.value_or(0) > 0;
  }
  // If tokens were written or read, caching was requested: at a block, or for the whole prompt.
  bool IsMarkedNow() const {
    const auto& usage = *args_.usage;
    return IsMarked(args_.now) || usage.cache_write_tokens > 0 || usage.cache_write_1h_tokens > 0 ||
           cached_ > 0;
  }

  bool IsLapsed() const {
    const int64_t ttl_seconds =
        args_.before->ttl_seconds > 0 ? args_.before->ttl_seconds : rules_.ttl_seconds;
    return ttl_seconds > 0 && args_.now.time_us - args_.before->time_us > ttl_seconds * 1'000'000;
  }

  // Returns how many tokens of an equal front certainly stood in the cache as an entry of their
  // own, which a request with another text behind them can read.
  int64_t EntryWithin(int64_t front_estimate) const {
    const int64_t front = std::min(Scaled(front_estimate), sent_again_);
    if (!effects_.needs_breakpoints) return front - front % block_;
    const int64_t marked = Scaled(LastBreakpoint(*args_.before, front_estimate));
    const int64_t was_read = args_.before->cached_tokens.value_or(0);
    return std::max(std::min(marked, StoredTokens()), was_read <= front ? was_read : 0);
  }

  // Returns true if the loss is not the difference's doing: most of it lies in the equal front of
  // so many estimated tokens.
  bool IsFrontLost(int64_t front_estimate) const {
    const int64_t front = std::min(Scaled(front_estimate), sent_again_);
    if (front < rules_.minimum_tokens || front - cached_ <= block_) return false;
    if (IsLapsed() && cached_ == 0 && front >= kSureTokens) return true;
    const int64_t behind = sent_again_ - std::max(front, cached_);
    if (effects_.needs_breakpoints) {
      const int64_t last = LastBreakpoint(*args_.before, EstimateOf(*args_.before));
      const bool ends_before = last > 0 && last <= front_estimate;
      if (!IsMarkedNow() || !WasMarked() || ends_before) return front - cached_ > behind;
    }
    const int64_t entry = EntryWithin(front_estimate);
    const auto sure = static_cast<int64_t>(static_cast<double>(entry) / kEstimateFactor);
    return entry >= std::max(kSureTokens, rules_.minimum_tokens) && sure - cached_ > block_ &&
           sure - cached_ > sent_again_ - entry;
  }

  // Nothing differs in the first `front` tokens, and they were not read.
  PrefixBreak OfEqualFront(int64_t front) {
    reusable_ = front;
    if (effects_.needs_breakpoints) {
      if (const auto said = OfBreakpoints(front)) return *said;
    } else if (args_.same_conversation && lost_ <= sent_again_ / kLossPart) {
      return Nothing();
    }
    if (IsLapsed()) return Say(BreakCause::kTtlLapsed);
    if (effects_.needs_breakpoints && args_.same_conversation && rules_.lookback_blocks > 0 &&
        !IsWithinLookback(*args_.before, args_.now, rules_.lookback_blocks)) {
      return Say(BreakCause::kNotMarked, BreakDetail::kLookback);
    }
    return Say(BreakCause::kProviderMiss, MissDetail());
  }

  // Handles what was not asked for, at a provider that stores only what ends at a breakpoint;
  // nullopt if it was.
  std::optional<PrefixBreak> OfBreakpoints(int64_t front) {
    const SentRequest& before = *args_.before;
    if (!IsMarkedNow()) return Say(BreakCause::kNotMarked);
    if (!WasMarked()) return Say(BreakCause::kNotMarked, BreakDetail::kNoBreakpointBefore);
    if (!before.input_tokens) return std::nullopt;
    const int64_t stored = StoredTokens();
    if (stored == 0) {
      // An early breakpoint may cover less than the minimum.
      const int64_t all = EstimateOf(before);
      const int64_t last = LastBreakpoint(before, all);
      const int64_t marked = Scaled(last > 0 ? last : all);
      const bool is_long = rules_.minimum_tokens > 0 && marked >= rules_.minimum_tokens &&
                           *before.input_tokens >= rules_.minimum_tokens;
      return is_long ? Say(BreakCause::kProviderMiss, BreakDetail::kNothingStored)
                     : Nothing(BreakDetail::kPlain, BreakCause::kBelowMinimum);
    }
    const auto front_estimate = std::llround(static_cast<double>(front) / scale_);
    const int64_t entry = args_.same_conversation ? stored : EntryWithin(front_estimate + block_);
    if (front - entry <= std::max(block_, entry - cached_)) {
      // What was not marked was not stored, so that no provider can have lost it.
      lost_ = std::min(lost_, std::max<int64_t>(entry - cached_, 0));
      reusable_ = cached_ + lost_;
      return std::nullopt;
    }
    return Say(BreakCause::kNotMarked, args_.same_conversation ? BreakDetail::kEarlyBreakpoint
                                                               : BreakDetail::kSharedUnmarked);
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
    ledger::reply::TokenUsage could = *args_.usage;
    int64_t left = lost_;
    for (int64_t* part :
         {&could.cache_write_1h_tokens, &could.cache_write_tokens, &could.uncached_tokens}) {
      const int64_t moved = std::min(left, *part);
      *part -= moved;
      could.cache_read_tokens += moved;
      left -= moved;
    }
    const auto paid = ledger::CostOf(*args_.row, *args_.usage, args_.service_tier);
    const auto less = ledger::CostOf(*args_.row, could, args_.service_tier);
    return paid && less ? std::max<int64_t>(0, paid->nanodollars - less->nanodollars) : 0;
  }

  PrefixBreak Say(const PromptDifference& difference) {
    reusable_ = Scaled(difference.front_tokens);
    // What was read could be used again, also where a provider reads a part of a segment.
    if (args_.usage) reusable_ = std::min(std::max(reusable_, cached_), total_);
    const Deviation deviation = FindDeviation(difference.before, difference.after);
    line_ = LineOf(deviation);
    PrefixBreak out = Say(difference.cause, DetailOf(difference), difference.path);
    out.volatile_kind = difference.volatile_kind;
    if (args_.keep_text) {
      out.before = Excerpt(deviation.before, deviation.at);
      out.after = Excerpt(deviation.after, deviation.at);
    }
    return out;
  }

  PrefixBreak Say(BreakCause cause, BreakDetail detail = BreakDetail::kPlain,
                  std::string path = {}) const {
    PrefixBreak out;
    out.cause = cause;
    out.reusable_tokens = reusable_;
    out.lost_tokens = lost_;
    out.lost_nanodollars = LostNanodollars();
    out.message = MessageOf({.cause = cause,
                             .detail = detail,
                             .agreement = CompareReason(args_.provider_reason, cause, path),
                             .treatment = args_.treatment,
                             .same_conversation = args_.same_conversation || lost_ == 0,
                             .line = line_});
    out.path = std::move(path);
    return out;
  }

  const BreakArgs& args_;
  const CacheEffects effects_;
  const int64_t estimate_;
  ledger::CacheRules rules_;
  int64_t block_ = kBlockTokens;  // a smaller loss is none
  double scale_ = 1;              // reported tokens per estimated token
  int64_t cached_ = 0;            // read by this request
  int64_t total_ = 0;             // all input tokens
  int64_t sent_again_ = 0;
  int64_t lost_ = 0;
  int64_t reusable_ = 0;
  int64_t line_ = 0;
};

}  // namespace

PrefixBreak FindBreak(const BreakArgs& args) { return MissClassifier(args).Run(); }

}  // namespace kvgate::prompt::diagnose
