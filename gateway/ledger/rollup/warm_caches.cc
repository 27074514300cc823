#include "gateway/ledger/rollup/warm_caches.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kvgate::ledger::rollup {
namespace {

bool IsSooner(const WarmCache* a, const WarmCache* b) {
  return a->expires_us != b->expires_us ? a->expires_us < b->expires_us
                                        : a->conversation < b->conversation;
}

}  // namespace

void WarmCaches::Note(WarmCache cache) {
  const int64_t now_us = cache.last_us;
  Key key(cache.conversation, cache.upstream);
  // An answer that took long must not replace a later one's.
  const auto found = caches_.find(key);
  if (found != caches_.end() && found->second.last_us > cache.last_us) return;
  caches_.insert_or_assign(std::move(key), std::move(cache));
  if (caches_.size() <= kCachesMax) return;
  std::erase_if(caches_, [&](const auto& item) { return item.second.expires_us <= now_us; });
  // A quarter goes at once, so that not every request has to look for the next one.
  if (caches_.size() <= kCachesMax) return;
  std::vector<int64_t> ends;
  for (const auto& [name, held] : caches_) ends.push_back(held.expires_us);
  const auto cut = ends.begin() + kCachesMax / 4;
  std::nth_element(ends.begin(), cut, ends.end());
  std::erase_if(caches_, [&](const auto& item) { return item.second.expires_us <= *cut; });
}

void WarmCaches::Write(int64_t now_us, std::optional<std::string_view> tenant,
                       dialect::form::JsonWriter& json) const {
  std::vector<const WarmCache*> warm;
  for (const auto& [key, cache] : caches_) {
    if (cache.expires_us > now_us && (!tenant || cache.tenant == *tenant)) warm.push_back(&cache);
  }
  std::sort(warm.begin(), warm.end(), IsSooner);
  if (warm.size() > kShownMax) warm.resize(kShownMax);
  json.BeginArray();
  for (const WarmCache* cache : warm) {
    json.BeginObject().Key("conversation").String(cache->conversation);
    if (!cache->session.empty()) json.Key("session").String(cache->session);
    json.Key("tenant").String(cache->tenant).Key("model").String(cache->model);
    json.Key("upstream").String(cache->upstream).Key("tokens").Integer(cache->tokens);
    json.Key("last_us").Integer(cache->last_us).Key("expires_us").Integer(cache->expires_us);
    json.Key("cold_nanodollars").Integer(cache->cold_nanodollars).EndObject();
  }
  json.EndArray();
}

}  // namespace kvgate::ledger::rollup
