#include "gateway/prompt/diagnose/direct_usage.h"

#include <algorithm>
#include <string>

namespace kvgate::prompt::diagnose {

std::optional<Received> ReceivedOf(const ReceivedArgs& args) {
  if (args.row == nullptr || !args.row->prices) return std::nullopt;
  const ledger::CacheRules& rules = args.row->rules;
  std::string_view key;
  std::string_view sent_key;
  if (rules.cache_key == ledger::CacheKeyUse::kMatched) {
    const parse::Parameter* const callers = args.layout.Find("prompt_cache_key");
    if (callers != nullptr) key = callers->value.In(args.body);
    const bool adds_key = callers == nullptr && !args.plan.prompt_cache_key.empty();
    sent_key = adds_key ? args.plan.prompt_cache_key : key;
  }
  const auto cache = [&](std::string_view of_key) {
    return CacheOf(args.tenant, args.upstream, args.layout.model, of_key);
  };
  return Received{.prompt = AsReceived(args.layout, cache(key), rules.tools_after_system),
                  .rules = &rules,
                  .sent_cache = cache(sent_key),
                  .sent_automatic = args.plan.automatic};
}

ledger::reply::TokenUsage DirectUsage(const DirectArgs& args, DirectCaches& caches) {
  const auto share = [&](const parse::Place& place, DirectCaches::Form form) {
    if (args.before == nullptr) return 0.0;
    const bool is_callers = form == DirectCaches::Form::kReceived;
    const std::string* const now = history::BytesAt(args.now, place, is_callers);
    const std::string* const then = history::BytesAt(*args.before, place, is_callers);
    if (now == nullptr || then == nullptr || now->empty()) return 0.0;
    const auto end = std::ranges::mismatch(*now, *then).in1;
    return static_cast<double>(end - now->begin()) / static_cast<double>(now->size());
  };
  const history::SentRequest& request = args.now.request;
  const CachedPrompt sent =
      AsSent(request.segments, args.received.sent_automatic, args.received.sent_cache,
             args.received.rules->tools_after_system);
  return caches.Note({.received = args.received.prompt,
                      .sent = sent,
                      .rules = *args.received.rules,
                      .usage = args.usage,
                      .time_us = request.time_us,
                      .now_us = args.now_us,
                      .share_before = share});
}

}  // namespace kvgate::prompt::diagnose
