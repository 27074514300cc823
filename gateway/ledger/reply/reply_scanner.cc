#include "gateway/ledger/reply/reply_scanner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

namespace kvgate::ledger::reply {
namespace {

// Strings are searched in windows of this size. Otherwise the search for the quote would pass over
// the same bytes again for every escape in front of it.
constexpr std::ptrdiff_t kWindowBytes = 256;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Accepts whole numbers only, in the forms 12, 12.0 and 1.2e1.
std::optional<int64_t> ParseCount(std::string_view text) {
  int64_t whole = 0;
  const char* const end = text.data() + text.size();
  if (const auto [at, code] = std::from_chars(text.data(), end, whole);
      code == std::errc() && at == end) {
    return whole;
  }
  double number = 0;
  const auto [at, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || at != end || !(std::abs(number) < 1e15)) return std::nullopt;
  if (number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

struct ReplyScanner::Known {
  Node node;
  std::string_view key;
  What what;
  Node child;
  UsageField field;
};

// Rows of one node must be adjacent, because KnownIn returns them as a range.
const ReplyScanner::Known ReplyScanner::kKnown[] = {
    {Node::kTop, "usage", What::kObject, Node::kUsage, {}},
    {Node::kTop, "usageMetadata", What::kObject, Node::kUsage, {}},
    {Node::kTop, "modelVersion", What::kModel, Node::kNone, {}},
    {Node::kTop, "response", What::kObject, Node::kResponse, {}},
    {Node::kTop, "message", What::kObject, Node::kMessage, {}},
    {Node::kTop, "model", What::kModel, Node::kNone, {}},
    {Node::kTop, "service_tier", What::kServiceTier, Node::kNone, {}},
    {Node::kTop, "type", What::kType, Node::kNone, {}},
    {Node::kTop, "error", What::kError, Node::kNone, {}},
    {Node::kTop, "diagnostics", What::kObject, Node::kDiagnostics, {}},
    {Node::kTop, "input_transformations", What::kTransformations, Node::kNone, {}},
    {Node::kTop, "prompt_cache_diagnostics", What::kObject, Node::kCacheDiagnostics, {}},
    {Node::kResponse, "usage", What::kObject, Node::kUsage, {}},
    {Node::kResponse, "model", What::kModel, Node::kNone, {}},
    {Node::kResponse, "service_tier", What::kServiceTier, Node::kNone, {}},
    {Node::kResponse, "error", What::kError, Node::kNone, {}},
    {Node::kResponse, "prompt_cache_diagnostics", What::kObject, Node::kCacheDiagnostics, {}},
    {Node::kMessage, "diagnostics", What::kObject, Node::kDiagnostics, {}},
    {Node::kMessage, "input_transformations", What::kTransformations, Node::kNone, {}},
    {Node::kMessage, "usage", What::kObject, Node::kUsage, {}},
    {Node::kMessage, "model", What::kModel, Node::kNone, {}},
    {Node::kDiagnostics, "cache_miss_reason", What::kObject, Node::kMissReason, {}},
    {Node::kMissReason, "type", What::kReason, Node::kNone, {}},
    {Node::kCacheDiagnostics, "reason", What::kReason, Node::kNone, {}},
    {Node::kCacheDiagnostics, "type", What::kReasonType, Node::kNone, {}},
    {Node::kUsage, "service_tier", What::kServiceTier, Node::kNone, {}},
    {Node::kUsage, "prompt_tokens_details", What::kObject, Node::kPromptDetails, {}},
    {Node::kUsage, "completion_tokens_details", What::kObject, Node::kCompletionDetails, {}},
    {Node::kUsage, "input_tokens_details", What::kObject, Node::kInputDetails, {}},
    {Node::kUsage, "output_tokens_details", What::kObject, Node::kOutputDetails, {}},
    {Node::kUsage, "cache_creation", What::kObject, Node::kCacheCreation, {}},
    {Node::kUsage, "prompt_tokens", What::kCount, Node::kNone, UsageField::kPromptTokens},
    {Node::kUsage, "completion_tokens", What::kCount, Node::kNone, UsageField::kCompletionTokens},
    {Node::kUsage, "total_tokens", What::kCount, Node::kNone, UsageField::kTotalTokens},
    {Node::kUsage, "input_tokens", What::kCount, Node::kNone, UsageField::kInputTokens},
    {Node::kUsage, "output_tokens", What::kCount, Node::kNone, UsageField::kOutputTokens},
    {Node::kUsage, "prompt_cache_hit_tokens", What::kCount, Node::kNone, UsageField::kCacheHit},
    {Node::kUsage, "prompt_cache_miss_tokens", What::kCount, Node::kNone, UsageField::kCacheMiss},
    {Node::kUsage, "cache_read_input_tokens", What::kCount, Node::kNone, UsageField::kCacheRead},
    {Node::kUsage, "cache_creation_input_tokens", What::kCount, Node::kNone,
     UsageField::kCacheCreation},
    {Node::kUsage, "promptTokenCount", What::kCount, Node::kNone, UsageField::kPromptTokenCount},
    {Node::kUsage, "candidatesTokenCount", What::kCount, Node::kNone,
     UsageField::kCandidatesTokens},
    {Node::kUsage, "thoughtsTokenCount", What::kCount, Node::kNone, UsageField::kThoughtsTokens},
    {Node::kUsage, "cachedContentTokenCount", What::kCount, Node::kNone,
     UsageField::kCachedContent},
    {Node::kUsage, "totalTokenCount", What::kCount, Node::kNone, UsageField::kTotalTokens},
    {Node::kPromptDetails, "cached_tokens", What::kCount, Node::kNone, UsageField::kPromptCached},
    {Node::kPromptDetails, "cache_write_tokens", What::kCount, Node::kNone,
     UsageField::kPromptCacheWrite},
    {Node::kInputDetails, "cached_tokens", What::kCount, Node::kNone, UsageField::kInputCached},
    {Node::kInputDetails, "cache_write_tokens", What::kCount, Node::kNone,
     UsageField::kInputCacheWrite},
    {Node::kCompletionDetails, "reasoning_tokens", What::kCount, Node::kNone,
     UsageField::kCompletionReasoning},
    {Node::kOutputDetails, "reasoning_tokens", What::kCount, Node::kNone,
     UsageField::kOutputReasoning},
    {Node::kCacheCreation, "ephemeral_5m_input_tokens", What::kCount, Node::kNone,
     UsageField::kCacheCreation5m},
    {Node::kCacheCreation, "ephemeral_1h_input_tokens", What::kCount, Node::kNone,
     UsageField::kCacheCreation1h},
};

// Returns the rows of one node.
std::span<const ReplyScanner::Known> ReplyScanner::KnownIn(Node node) {
  using Ranges = std::array<std::span<const Known>, static_cast<size_t>(Node::kNone) + 1>;
  static const Ranges ranges = [] {
    Ranges made;
    for (const Known& known : kKnown) {
      std::span<const Known>& range = made[static_cast<size_t>(known.node)];
      range = {range.empty() ? &known : range.data(), range.size() + 1};
    }
    return made;
  }();
  return ranges[static_cast<size_t>(node)];
}

void ReplyScanner::Reset() {
  state_ = State::kStart;
  depth_ = 0;
  has_reason_ = false;
  facts_ = ReplyFacts();
}

void ReplyScanner::Feed(std::string_view piece) {
  const char* at = piece.data();
  const char* const end = at + piece.size();
  while (at != end) {
    switch (state_) {
      case State::kKey:
      case State::kText:
        at = TextBytes(at, end);
        break;
      case State::kNumber:
        at = NumberBytes(at, end);
        break;
      case State::kSkip:
        at = SkipBytes(at, end);
        break;
      case State::kDone:
      case State::kBroken:
        return;
      default:
        at = Structure(at);
    }
  }
}

// Handles one byte between values.
const char* ReplyScanner::Structure(const char* at) {
  const char c = *at;
  if (IsSpace(c)) return at + 1;
  if (state_ == State::kStart && c == '{') {
    nodes_[depth_++] = Node::kTop;
    state_ = State::kKeyOrEnd;
  } else if (state_ == State::kKeyOrEnd && c == '"') {
    scalar_.clear();
    cut_ = escaped_ = false;
    state_ = State::kKey;
  } else if (state_ == State::kColon && c == ':') {
    state_ = State::kValue;
  } else if (state_ == State::kValue) {
    BeginValue(c);
  } else if (state_ == State::kNext && c == ',') {
    state_ = State::kKeyOrEnd;
  } else if ((state_ == State::kNext || state_ == State::kKeyOrEnd) && c == '}') {
    EndContainer();
  } else {
    state_ = State::kBroken;
  }
  return at + 1;
}

void ReplyScanner::BeginValue(char first) {
  scalar_.clear();
  cut_ = escaped_ = in_string_ = false;
  if (first == '{' && what_ == What::kObject && depth_ < kDepthMax) {
    nodes_[depth_++] = child_;
    state_ = State::kKeyOrEnd;
    return;
  }
  if (first == '{' || first == '[' || first == '"') {
    if (what_ == What::kError) facts_.error = true;
    skip_depth_ = 1;
    counts_dropped_ = what_ == What::kTransformations && first == '[';
    dropped_matched_ = 0;
    state_ = first == '"' ? State::kText : State::kSkip;
    return;
  }
  const bool begins = first == '-' || (first >= '0' && first <= '9') || first == 't' ||
                      first == 'f' || first == 'n';
  scalar_.Append(first);
  state_ = begins ? State::kNumber : State::kBroken;
}

// Reads a key or a string value, at least a byte of it. One that is longer than the buffer is no
// known key.
const char* ReplyScanner::TextBytes(const char* at, const char* end) {
  const bool keeps = state_ == State::kKey || what_ == What::kModel ||
                     what_ == What::kServiceTier || what_ == What::kType ||
                     what_ == What::kReason || what_ == What::kReasonType;
  while (true) {
    const char* run = at;
    if (std::exchange(escaped_, false)) {
      // Some writers escape slashes; other escapes do not occur in names.
      if (*run != '/') cut_ = true;
      ++run;
    }
    while (run != end && *run != '"' && *run != '\\') ++run;
    const std::string_view bytes(at, static_cast<size_t>(run - at));
    if (keeps && !scalar_.Append(bytes)) cut_ = true;
    if (run == end) return end;
    at = run + 1;
    if (*run == '"') break;
    escaped_ = true;
    if (at == end) return end;
  }
  if (state_ == State::kKey) {
    LookUpKey();
    state_ = State::kColon;
  } else {
    EndScalar();
    state_ = State::kNext;
  }
  return at;
}

const char* ReplyScanner::NumberBytes(const char* at, const char* end) {
  for (; at != end; ++at) {
    const char c = *at;
    if (IsSpace(c) || c == ',' || c == '}' || c == ']') {
      EndScalar();
      state_ = State::kNext;
      return at;
    }
    if (scalar_.size == scalar_.bytes.size()) cut_ = true;
    scalar_.Append(c);
  }
  return at;
}

const char* ReplyScanner::SkipBytes(const char* at, const char* end) {
  while (at != end) {
    if (counts_dropped_) CountDropped(*at);
    if (escaped_) {
      escaped_ = false;
      ++at;
    } else if (in_string_ && counts_dropped_) {
      escaped_ = *at == '\\';
      in_string_ = *at != '"';
      ++at;
    } else if (in_string_) {
      const auto window = static_cast<size_t>(std::min(end - at, kWindowBytes));
      const auto* quote = static_cast<const char*>(std::memchr(at, '"', window));
      const size_t before = quote == nullptr ? window : static_cast<size_t>(quote - at);
      if (const auto* slash = static_cast<const char*>(std::memchr(at, '\\', before))) {
        escaped_ = true;
        at = slash + 1;
      } else {
        in_string_ = quote == nullptr;
        at += before + (quote == nullptr ? 0 : 1);
      }
    } else {
      const char c = *at++;
      if (c == '"') in_string_ = true;
      if (c == '{' || c == '[') ++skip_depth_;
      if ((c == '}' || c == ']') && --skip_depth_ == 0) {
        state_ = State::kNext;
        return at;
      }
    }
  }
  return at;
}

// Looks for the whole text of a string, quotes included. It has no border but its quote, so a
// mismatch can only begin anew at one.
void ReplyScanner::CountDropped(char c) {
  static constexpr std::string_view kType = "\"thinking_dropped\"";
  if (c == kType[dropped_matched_]) {
    ++dropped_matched_;
  } else {
    dropped_matched_ = c == '"' ? 1 : 0;
  }
  if (dropped_matched_ < kType.size()) return;
  ++facts_.num_thinking_dropped;
  dropped_matched_ = 0;
}

void ReplyScanner::LookUpKey() {
  what_ = What::kNothing;
  child_ = Node::kNone;
  if (cut_) return;
  for (const Known& known : KnownIn(nodes_[depth_ - 1])) {
    if (known.key != scalar_.view()) continue;
    what_ = known.what;
    child_ = known.child;
    field_ = known.field;
    return;
  }
}

// A reason takes precedence over a type. A null in place of the reason's object means that the
// reason is not known yet.
void ReplyScanner::EndReason(bool text) {
  ShortText<40>& reason = facts_.provider_reason;
  std::string_view said = scalar_.view();
  if (text == (what_ == What::kObject)) return;
  if (!text) {
    if (child_ != Node::kMissReason || said != "null") return;
    said = "pending";
  }
  const bool is_type = what_ == What::kReasonType;
  if (cut_ || (is_type && has_reason_)) return;
  has_reason_ = has_reason_ || !is_type;
  reason.clear();
  for (const char c : said) reason.Append(c);
}

void ReplyScanner::EndScalar() {
  const bool text = state_ == State::kText;
  if (what_ == What::kReason || what_ == What::kReasonType || what_ == What::kObject) {
    EndReason(text);
    return;
  }
  const auto keep = [this](auto& out) {
    out.clear();
    if (cut_) return;
    out.Append(scalar_.view());
  };
  if (text && what_ == What::kModel) keep(facts_.model);
  if (text && what_ == What::kServiceTier) keep(facts_.service_tier);
  if (text && what_ == What::kType) keep(facts_.type);
  if (text || cut_) return;
  if (what_ == What::kError) facts_.error = scalar_.view() != "null" && scalar_.view() != "false";
  if (what_ != What::kCount) return;
  if (const auto count = ParseCount(scalar_.view())) facts_.usage.Set(field_, *count);
}

void ReplyScanner::EndContainer() {
  --depth_;
  state_ = depth_ == 0 ? State::kDone : State::kNext;
}

}  // namespace kvgate::ledger::reply
