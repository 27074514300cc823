#include "gateway/ledger/reply/usage.h"

#include <algorithm>
#include <initializer_list>

namespace kvgate::ledger::reply {
namespace {

// More than any request has; keeps sums and prices far from overflow.
constexpr int64_t kCountMax = 1'000'000'000;

// Names stand in the order of UsageField.
constexpr std::array<std::string_view, kNumUsageFields> kNames = {
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "prompt_tokens_details.cached_tokens",
    "prompt_tokens_details.cache_write_tokens",
    "input_tokens_details.cached_tokens",
    "input_tokens_details.cache_write_tokens",
    "completion_tokens_details.reasoning_tokens",
    "output_tokens_details.reasoning_tokens",
    "prompt_cache_hit_tokens",
    "prompt_cache_miss_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation.ephemeral_5m_input_tokens",
    "cache_creation.ephemeral_1h_input_tokens",
    "promptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount"};

// Returns the first of the fields that was reported.
std::optional<int64_t> FirstOf(const ReportedUsage& reported,
                               std::initializer_list<UsageField> fields) {
  for (const UsageField field : fields) {
    if (const auto value = reported.Get(field)) return value;
  }
  return std::nullopt;
}

bool IsExclusive(const ReportedUsage& reported, dialect::form::Endpoint endpoint) {
  if (endpoint == dialect::form::Endpoint::kMessages) return true;
  // For an unknown endpoint: these two names stand beside exclusive counts only, unless a gateway
  // adds them to "prompt_tokens".
  return endpoint == dialect::form::Endpoint::kOther && !reported.Get(UsageField::kPromptTokens) &&
         FirstOf(reported, {UsageField::kCacheRead, UsageField::kCacheCreation}).has_value();
}

// The breakdown by lifetime may be absent, or may add up to less than the whole.
void SplitWrites(const ReportedUsage& reported, int64_t whole, TokenUsage& usage) {
  const int64_t hour = reported.Get(UsageField::kCacheCreation1h).value_or(0);
  const int64_t short_lived = reported.Get(UsageField::kCacheCreation5m).value_or(0);
  usage.cache_write_1h_tokens = hour;
  usage.cache_write_tokens = std::max(short_lived, whole - hour);
}

}  // namespace

std::string_view UsageFieldName(UsageField field) { return kNames[static_cast<size_t>(field)]; }

void ReportedUsage::Set(UsageField field, int64_t value) {
  if (value >= 0 && value <= kCountMax) values_[static_cast<size_t>(field)] = value;
}

void ReportedUsage::MergeMax(const ReportedUsage& other) {
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i] = std::max(values_[i], other.values_[i]);  // absent is -1
  }
}

bool ReportedUsage::empty() const {
  return std::all_of(values_.begin(), values_.end(),
                     [](int64_t value) { return value == kAbsent; });
}

std::optional<TokenUsage> Normalize(const ReportedUsage& reported,
                                    dialect::form::Endpoint endpoint) {
  TokenUsage usage;
  std::optional<int64_t> input =
      FirstOf(reported,
              {UsageField::kPromptTokens, UsageField::kInputTokens, UsageField::kPromptTokenCount});
  std::optional<int64_t> output = FirstOf(
      reported,
      {UsageField::kCompletionTokens, UsageField::kOutputTokens, UsageField::kCandidatesTokens});
  // Gemini counts thoughts beside the answer, all others in it.
  if (const auto thoughts = reported.Get(UsageField::kThoughtsTokens)) {
    output = output.value_or(0) + *thoughts;
  }
  const std::optional<int64_t> hit = reported.Get(UsageField::kCacheHit);
  const std::optional<int64_t> miss = reported.Get(UsageField::kCacheMiss);
  if (!input && hit && miss) input = *hit + *miss;
  if (!input && !output) return std::nullopt;
  usage.output_tokens = output.value_or(0);
  usage.reasoning_tokens =
      FirstOf(reported, {UsageField::kCompletionReasoning, UsageField::kOutputReasoning,
                         UsageField::kThoughtsTokens})
          .value_or(0);
  usage.cache_read_tokens =
      FirstOf(reported, {UsageField::kPromptCached, UsageField::kInputCached, UsageField::kCacheHit,
                         UsageField::kCacheRead, UsageField::kCachedContent})
          .value_or(0);
  const std::optional<int64_t> write =
      FirstOf(reported, {UsageField::kPromptCacheWrite, UsageField::kInputCacheWrite});
  if (write) {
    usage.cache_write_tokens = *write;
  } else {
    SplitWrites(reported, reported.Get(UsageField::kCacheCreation).value_or(0), usage);
  }
  const int64_t parts = usage.input_tokens();  // uncached_tokens is still 0
  const int64_t count = input.value_or(0);
  const bool exclusive = IsExclusive(reported, endpoint) || parts > count;
  usage.uncached_tokens = exclusive ? count : count - parts;
  return usage;
}

}  // namespace kvgate::ledger::reply
