// DirectCaches says what a request would have read from its provider's cache, and written to it,
// had all requests gone there as their callers wrote them. It keeps two models of the provider's
// cache by the rules of its price row, one of what was received and one of what was sent. What they
// differ by is what the gateway's edits have changed, and is added to what the provider reports: so
// what both models do not know, such as an eviction, does not count as a saving or a loss.
//
// It keeps hashes and times, and no text. Bounded: entries that nobody has read for longest are
// forgotten. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/reply/usage.h"
#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::diagnose {

// A prompt as a cache sees it, in the order of rendering.
struct CachedPrompt {
  struct Piece {
    parse::Identity bytes;  // of its bytes without breakpoint
    parse::Place place;
    uint32_t num_tokens = 0;  // estimated
    int32_t ttl_seconds = 0;  // of its breakpoint; 0: it has none
  };
  parse::Identity cache;  // whose cache, and which of its keys
  std::vector<Piece> pieces = {};
  int32_t automatic_ttl_seconds = 0;  // of the breakpoint of the whole request; 0: it has none
};
// What names the cache of a tenant's requests for a model, by prompt_cache_key if there is one.
parse::Identity CacheOf(std::string_view tenant, std::string_view upstream, std::string_view model,
                        std::string_view cache_key);
CachedPrompt AsReceived(const parse::RequestLayout& layout, parse::Identity cache,
                        bool tools_after_system);
CachedPrompt AsSent(const history::SentSegments& segments,
                    const std::optional<parse::Breakpoint>& automatic, parse::Identity cache,
                    bool tools_after_system);

class DirectCaches {
 public:
  // Entries of about 64 bytes each.
  explicit DirectCaches(size_t entries_max = size_t{1} << 17) : entries_max_(entries_max) {}

  enum class Form : uint8_t { kReceived, kSent };
  struct Request {
    const CachedPrompt& received;
    const CachedPrompt& sent;
    const ledger::CacheRules& rules;
    const ledger::reply::TokenUsage& usage;  // as reported
    int64_t time_us = 0;                     // when it was sent
    int64_t now_us = 0;                      // when its answer has ended
    // The share of the beginning of a piece that an earlier request had in that place, 0 to 1: what
    // caches by increments read of a piece that has changed. May be empty.
    std::function<double(const parse::Place&, Form)> share_before = {};
  };
  // Notes the request, and returns the usage that it would have had. Its input and its output are
  // those of `usage`, but for the tokens that the gateway has added or left out.
  ledger::reply::TokenUsage Note(const Request& request);

 private:
  struct Entry {
    int64_t begin_us = 0;  // readable from then on
    int64_t end_us = 0;
    int64_t ttl_us = 0;
  };
  struct Outcome {
    double total = 0;
    double read = 0;
    double written = 0;
    double written_long = 0;
  };
  using Entries = std::unordered_map<parse::Identity, Entry>;

  Outcome Ask(const CachedPrompt& prompt, Form form, double scale, const Request& request);
  Entry* FindLocked(const parse::Identity& key);
  void PutLocked(const parse::Identity& key, const Entry& entry);

  const size_t entries_max_;
  std::mutex mutex_;
  // Used since the older ones were set aside, and those.
  Entries newer_;
  Entries older_;
};

}  // namespace kvgate::prompt::diagnose
