// Usage: what an answer says it used, in the fields of its dialect and in one form for all of them.
// Pure data and functions; it knows no bytes, no prices.
//
// Two conventions are in use. Inclusive (Chat Completions, Completions, Responses, embeddings): the
// input count contains what was read from and written to a cache. Exclusive (Messages): it does
// not. Taking one for the other charges a prefix twice, or not at all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/upstream/dialect.h"

namespace kvgate::ledger {

// The counts that answers carry, by their name below "usage".
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
  kCount,
};
inline constexpr size_t kNumUsageFields = static_cast<size_t>(UsageField::kCount);
// "prompt_tokens_details.cached_tokens"
std::string_view UsageFieldName(UsageField field);

// As reported; absent is not zero.
class ReportedUsage {
 public:
  ReportedUsage() { values_.fill(kAbsent); }
  std::optional<int64_t> Get(UsageField field) const {
    const int64_t value = values_[static_cast<size_t>(field)];
    return value == kAbsent ? std::nullopt : std::optional(value);
  }
  // Counts beyond 10^12 and negative ones are no counts: they stay absent.
  void Set(UsageField field, int64_t value);
  // Field by field the larger one: a stream tells its counts in several events, each of them
  // growing or said once.
  void MergeMax(const ReportedUsage& other);
  bool empty() const;

 private:
  static constexpr int64_t kAbsent = -1;
  std::array<int64_t, kNumUsageFields> values_;
};

// The one form: disjoint parts of the input, and the output.
struct TokenUsage {
  int64_t uncached_tokens = 0;
  int64_t cache_read_tokens = 0;
  int64_t cache_write_tokens = 0;     // for five minutes, or as long as the provider has it
  int64_t cache_write_1h_tokens = 0;  // for an hour, at that price
  int64_t output_tokens = 0;          // reasoning included
  int64_t reasoning_tokens = 0;
  int64_t input_tokens() const {
    return uncached_tokens + cache_read_tokens + cache_write_tokens + cache_write_1h_tokens;
  }
  friend bool operator==(const TokenUsage&, const TokenUsage&) = default;
};

// Nothing where neither an input nor an output count was reported. A part that is larger than its
// whole is taken at its word: then the count was an exclusive one.
std::optional<TokenUsage> Normalize(const ReportedUsage& reported, upstream::Endpoint endpoint);

}  // namespace kvgate::ledger
