// What a request would have used had kvgate changed nothing: its forms as received and as sent, put
// before the models of DirectCaches. Pure but for these; any thread may call it.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/reply/usage.h"
#include "gateway/prompt/diagnose/direct_caches.h"
#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/planner/plan.h"

namespace kvgate::prompt::diagnose {

// What has to be kept of a request's received form until its answer has ended.
struct Received {
  CachedPrompt prompt;
  const ledger::CacheRules* rules = nullptr;  // of the price row, which outlives it
  // Of the sent form: its cache, and the breakpoint of the whole request.
  parse::Identity sent_cache;
  std::optional<parse::Breakpoint> sent_automatic;
};

struct ReceivedArgs {
  const parse::RequestLayout& layout;
  std::string_view body;
  std::string_view tenant;
  std::string_view upstream;
  const ledger::PriceRow* row = nullptr;  // of the model; null: it is not known
  const planner::Plan& plan;
};
// Returns nullopt if the request has no known price.
std::optional<Received> ReceivedOf(const ReceivedArgs& args);

struct DirectArgs {
  const Received& received;
  const history::Branch& now;
  const history::Branch* before = nullptr;  // an earlier request that begins alike; null: none
  const ledger::reply::TokenUsage& usage;   // as reported
  int64_t now_us = 0;
};
ledger::reply::TokenUsage DirectUsage(const DirectArgs& args, DirectCaches& caches);

}  // namespace kvgate::prompt::diagnose
