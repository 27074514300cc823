// ExplicitCaching is what becomes of a request to Gemini whose tools and system instruction a cache
// holds that Gemini keeps under a name: they are left out, and the name stands in their place. It
// also writes the requests by which such caches are made and prolonged; whether one pays is the
// planner's to decide (gateway/prompt/planner/explicit_caches.h).
//
// A cache holds the bytes of one caller's prompt for one upstream, credential and model, and is
// used for no other. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/ledger/prices.h"
#include "gateway/metrics/prompt_metrics.h"
#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/planner/explicit_caches.h"

namespace kvgate::service::explicit_cache {

class ExplicitCaching;

// A request to the provider that makes a cache, or prolongs it.
struct CacheOrder {
  ExplicitCaching* caching = nullptr;  // is to be told what comes of it
  prompt::planner::ExplicitCaches::Key key;
  bool prolongs = false;
  std::string path;  // with the query
  std::string body;
  int64_t ttl_seconds = 0;
};

// One request whose prefix a cache may hold.
struct CacheUse {
  prompt::planner::ExplicitCaches::Key key;
  std::string name;                             // it goes out with; empty: as it came
  std::vector<prompt::parse::Edit> edits = {};  // that put the name in; sorted
  std::optional<CacheOrder> order = {};         // what the provider is to be asked beside it
  int64_t body_bytes = 0;
};

class ExplicitCaching {
 public:
  // `metrics` may be null; what is given must outlive it.
  ExplicitCaching(const ledger::Prices& prices, metrics::PromptMetrics* metrics)
      : prices_(prices), metrics_(metrics) {}

  struct Args {
    std::string_view body;  // of a request of Gemini's dialect
    std::string_view tenant;
    std::string_view upstream;
    std::string_view provider;
    std::string_view credential;  // as sent to the upstream
    std::string_view model;       // as the upstream knows it
    int64_t now_us = 0;
  };
  // nullopt: the provider keeps nothing for rent, the body has nothing that a cache could hold or
  // much more than that, its caller has named one, or it cannot be read.
  std::optional<CacheUse> Decide(const Args& args);

  struct Answer {
    int64_t input_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t now_us = 0;
  };
  void NoteAnswer(const CacheUse& use, const Answer& answer);
  // What came of an order. Returns the tokens that the cache holds; an error if there is none.
  Result<int64_t> NoteOutcome(const CacheOrder& order, int status, std::string_view body,
                              int64_t now_us);
  // The provider has refused a request with the name, and taken it without.
  void NoteLost(const CacheUse& use);

 private:
  void Count(std::string_view event);

  const ledger::Prices& prices_;
  metrics::PromptMetrics* const metrics_;
  prompt::planner::ExplicitCaches caches_;
};

}  // namespace kvgate::service::explicit_cache
