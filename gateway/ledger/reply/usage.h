// Usage is what an answer reports to have used, in the fields of its dialect and in one common
// form. Pure data and functions that know no bytes and no prices.
//
// Two conventions exist. In the inclusive one (Chat Completions, Completions, Responses,
// embeddings), the input count contains the tokens read from and written to a cache; in the
// exclusive one (Messages) it does not. Confusing them charges a prefix twice, or not at all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/dialect/form/dialect.h"

namespace kvgate::ledger::reply {

// The counts in answers, by their names below "usage".
enum class UsageField : uint8_t {
  kPromptTokens,
  kCompletionTokens,
  kTotalTokens,
  kInputTokens,
  kOutputTokens,
  kPromptCached,         // prompt_tokens_details.cached_tokens
  kPromptCacheWrite,     // prompt_tokens_details.cache_write_tokens
  kInputCached,          // input_tokens_details.cached_tokens
  kInputCacheWrite,      // input_tokens_details.cache_write_tokens
  kCompletionReasoning,  // completion_tokens_details.reasoning_tokens
  kOutputReasoning,      // output_tokens_details.reasoning_tokens
  kCacheHit,             // prompt_cache_hit_tokens
  kCacheMiss,            // prompt_cache_miss_tokens
  kCacheRead,            // cache_read_input_tokens
  kCacheCreation,        // cache_creation_input_tokens
  kCacheCreation5m,      // cache_creation.ephemeral_5m_input_tokens
  kCacheCreation1h,      // cache_creation.ephemeral_1h_input_tokens
  kPromptTokenCount,     // usageMetadata.promptTokenCount
  kCandidatesTokens,     // usageMetadata.candidatesTokenCount, without thoughts
  kThoughtsTokens,       // usageMetadata.thoughtsTokenCount
  kCachedContent,        // usageMetadata.cachedContentTokenCount, part of the prompt's
  kCount,
};
inline constexpr size_t kNumUsageFields = static_cast<size_t>(UsageField::kCount);
// "prompt_tokens_details.cached_tokens"
std::string_view UsageFieldName(UsageField field);

// The counts as reported; an absent count is not zero.
class ReportedUsage {
 public:
  ReportedUsage() { values_.fill(kAbsent); }
  std::optional<int64_t> Get(UsageField field) const {
    const int64_t value = values_[static_cast<size_t>(field)];
    return value == kAbsent ? std::nullopt : std::optional(value);
  }
  // Ignores negative counts and counts above 10^9, which then stay absent.
  void Set(UsageField field, int64_t value);
  // Takes the larger value of each field: a stream reports its counts in several events, each of
  // them growing or reported once.
  void MergeMax(const ReportedUsage& other);
  bool empty() const;

 private:
  static constexpr int64_t kAbsent = -1;
  std::array<int64_t, kNumUsageFields> values_;
};

// The common form: disjoint parts of the input, and the output.
struct TokenUsage {
  int64_t uncached_tokens = 0;
  int64_t cache_read_tokens = 0;
  int64_t cache_write_tokens = 0;     // for five minutes, or the provider's own lifetime
  int64_t cache_write_1h_tokens = 0;  // for an hour, which has a price of its own
  int64_t output_tokens = 0;          // including reasoning
  int64_t reasoning_tokens = 0;
  int64_t input_tokens() const {
    return uncached_tokens + cache_read_tokens + cache_write_tokens + cache_write_1h_tokens;
  }
  friend bool operator==(const TokenUsage&, const TokenUsage&) = default;
};

// Returns nullopt if neither an input nor an output count was reported. If the cached parts exceed
// the input count, that count is taken as an exclusive one.
std::optional<TokenUsage> Normalize(const ReportedUsage& reported,
                                    dialect::form::Endpoint endpoint);

}  // namespace kvgate::ledger::reply
