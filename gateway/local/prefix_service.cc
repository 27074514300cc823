#include "gateway/local/prefix_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/utf8.h"
#include "engine/kv/tenant_salt.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/local/prefix_places.h"
#include "kernels/backend.h"

namespace kvgate::local {

using access::Caller;
using store::kv::KvStore;

namespace {

using dialect::form::JsonWriter;
using kernels::kKvBlockTokens;

Result<BlockHash> ParseId(std::string_view id) {
  Result<BlockHash> hash = ParseBlockHash(id);
  if (hash) return hash;
  return MakeError(ErrorCode::kInvalidArgument, "service",
                   "A prefix id is 32 hex digits, as GET /kvgate/v1/prefixes lists them.", "id");
}

void WritePin(const store::meta::Pin* pin, JsonWriter& json) {
  json.Key("pinned").Bool(pin != nullptr);
  if (pin == nullptr) return;
  if (!pin->name.empty()) json.Key("name").String(pin->name);
  if (!pin->version.empty()) json.Key("version").String(pin->version);
  json.Key("priority").Integer(pin->priority).Key("expires_at");
  if (pin->expires_unix == 0) {
    json.Null();
  } else {
    json.Integer(pin->expires_unix);
  }
}

void WritePlace(const PrefixPlace& place, JsonWriter& json) {
  json.Key("tier");
  if (place.tier.empty()) {
    json.Null();
  } else {
    json.String(place.tier);
  }
  if (!place.tokens) return;
  json.Key("tiers").BeginObject().Key("device").Unsigned(place.tokens->on_device);
  json.Key("host").Unsigned(place.tokens->on_host);
  json.Key("disk").Unsigned(place.tokens->on_disk).EndObject();
}

void WriteHits(const store::kv::KvPrefix& prefix, JsonWriter& json) {
  json.Key("hits").Unsigned(prefix.use.num_hits);
  json.Key("shared_hits").Unsigned(prefix.num_shared_hits);
  json.Key("saved_tokens").Unsigned(prefix.use.num_tokens);
  json.Key("saved_ms").Number(static_cast<double>(prefix.use.compute_us / 100) / 10);
}

// Returns the pins that the caller may see, by the hash of their last block.
std::map<BlockHash, store::meta::Pin> PinsOf(store::meta::PinBook* book, const Caller& caller) {
  std::map<BlockHash, store::meta::Pin> pins;
  if (book == nullptr) return pins;
  const std::string tenant = TenantOf(caller.credential);
  for (store::meta::Pin& pin : book->List()) {
    if (caller.is_admin() || pin.tenant == tenant) pins.emplace(pin.leaf.hash, std::move(pin));
  }
  return pins;
}

// Returns a text as one line of at most kBytesMax bytes for a terminal, cut between characters.
std::string Preview(std::string_view text) {
  constexpr size_t kBytesMax = 60;
  std::string line;
  for (const char c : text) {
    const bool is_space = static_cast<unsigned char>(c) <= ' ' || c == 0x7f;
    if (is_space && (line.empty() || line.ends_with(' '))) continue;
    line += is_space ? ' ' : c;
  }
  if (line.size() <= kBytesMax) return line;
  return line.substr(0, Utf8CutBefore(line, kBytesMax));
}

}  // namespace

std::string TenantOf(std::string_view credential) {
  if (credential.empty()) return "";
  const PrefixDigest digest = ThreadSha256().Update("kvgate.tenant:").Update(credential).Finish();
  return ToHex(digest.bytes);
}

std::string PrefixService::SaltOf(std::string_view tenant) const {
  return parts_.keyring == nullptr ? std::string(tenant) : kv::TenantSalt(*parts_.keyring, tenant);
}

tier::DirectoryKeys PrefixService::directory_keys() const {
  KVGATE_CHECK(parts_.keyring != nullptr, "a KV store without a keyring");
  return {.hash_seed = parts_.hash_seed, .ring = *parts_.keyring};
}

engine::PinnedPrefix PrefixService::ToPinnedPrefix(const store::meta::Pin& pin,
                                                   int priority) const {
  engine::PinnedPrefix pinned{
      .tokens = pin.tokens, .cache_salt = SaltOf(pin.tenant), .priority = priority};
  if (pin.expires_unix != 0) {
    const int64_t left = std::max<int64_t>(0, pin.expires_unix - WallClock::NowUnix());
    pinned.until = std::chrono::steady_clock::now() + std::chrono::seconds(left);
  }
  return pinned;
}

Result<KvStore*> PrefixService::RequireStore() const {
  if (parts_.kv == nullptr) {
    return MakeError(
        ErrorCode::kUnavailable, "service",
        fmt::format("This server runs without its disk tier: {}", parts_.no_disk_reason));
  }
  return parts_.kv;
}

Result<store::meta::PinBook*> PrefixService::RequirePins() const {
  KVGATE_TRY_VOID(RequireStore());
  if (parts_.pins == nullptr) {
    return MakeError(ErrorCode::kUnavailable, "service", "This server keeps no pins.");
  }
  return parts_.pins;
}

void PrefixService::Pin(const store::meta::Pin& pin, int priority) const {
  if (engine::Engine* engine = engine_.load(); engine != nullptr) {
    engine->Pin(ToPinnedPrefix(pin, priority));
  }
}

std::shared_ptr<const PrefixService::FirstBlock> PrefixService::FindFirstBlock(
    const store::kv::KvKey& key, size_t& reads_left) {
  {
    const std::lock_guard lock(owners_mutex_);
    const auto known = first_blocks_.find(key);
    if (known != first_blocks_.end()) return known->second;
  }
  if (reads_left == 0) return nullptr;
  --reads_left;
  Result<store::kv::KvBlock> block = parts_.kv->Read(key);
  if (!block) return nullptr;
  auto first = std::make_shared<const FirstBlock>(
      FirstBlock{.key = key, .tokens = std::move(block->tokens), .digest = block->digest});
  const std::lock_guard lock(owners_mutex_);
  if (first_blocks_.size() >= kOwnersMax) first_blocks_.clear();
  first_blocks_.insert_or_assign(key, first);
  return first;
}

// The digests of a chain begin with the salt, so the first block proves who owns the whole chain.
bool PrefixService::Owns(const Caller& caller, const store::kv::KvPrefix& prefix,
                         size_t& reads_left) {
  const std::string tenant = TenantOf(caller.credential);
  if (parts_.pins != nullptr) {
    if (const std::optional<store::meta::Pin> pin = parts_.pins->Find(prefix.leaf.hash))
      return pin->tenant == tenant;
  }
  const auto first =
      FindFirstBlock({.fingerprint = prefix.leaf.fingerprint, .hash = prefix.first}, reads_left);
  if (!first || first->tokens.size() != kKvBlockTokens) return false;
  const auto keys =
      tier::PrefixKeys({.fingerprint = first->key.fingerprint, .seed = parts_.hash_seed},
                       SaltOf(tenant), first->tokens);
  return keys.front().digest == first->digest;
}

Result<void> PrefixService::RequireOwn(const Caller& caller, const BlockHash& leaf) {
  if (caller.is_admin()) return {};
  size_t reads_left = 1;
  store::kv::KvPrefix prefix{.leaf = {.fingerprint = {}, .hash = leaf}, .first = {}};
  if (const auto chain = parts_.kv->Chain(leaf)) {
    prefix.leaf = chain->back();
    prefix.first = chain->front().hash;
  }
  if (Owns(caller, prefix, reads_left)) return {};
  return MakeError(ErrorCode::kNotFound, "service",
                   fmt::format("No stored prefix has the id {}.", ToHex(leaf)), "id");
}

// Returns the possible owners: the caller and, for an admin, also the empty tenant and the pin's
// tenant.
std::vector<std::string> PrefixService::TenantsOf(const Caller& caller,
                                                  const BlockHash& leaf) const {
  std::vector<std::string> tenants = {TenantOf(caller.credential)};
  if (!caller.is_admin()) return tenants;
  tenants.emplace_back();
  if (parts_.pins != nullptr) {
    if (const auto pin = parts_.pins->Find(leaf)) tenants.push_back(pin->tenant);
  }
  return tenants;
}

PrefixService::Shown PrefixService::Show(const Caller& caller, const store::kv::KvPrefix& prefix,
                                         const store::meta::Pin* pin, size_t& reads_left) {
  const engine::Engine* const engine = engine_.load();
  if (engine == nullptr || engine->info().kv_fingerprint != prefix.leaf.fingerprint) return {};
  Shown shown{.model = words_.name};
  if (!words_.text) return shown;
  std::vector<TokenId> tokens;
  if (pin != nullptr) {
    if (pin->tenant == TenantOf(caller.credential)) tokens = pin->tokens;
  } else if (Owns(caller, prefix, reads_left)) {
    const store::kv::KvKey key{.fingerprint = prefix.leaf.fingerprint, .hash = prefix.first};
    if (const auto first = FindFirstBlock(key, reads_left)) tokens = first->tokens;
  }
  tokens.resize(std::min<size_t>(tokens.size(), kKvBlockTokens));
  if (!tokens.empty()) shown.preview = Preview(words_.text(tokens));
  return shown;
}

Result<std::string> PrefixService::List(const Caller& caller) {
  KVGATE_TRY(KvStore* const kv, RequireStore());
  std::vector<store::kv::KvPrefix> prefixes = kv->ListPrefixes();
  std::ranges::stable_sort(prefixes, std::greater<>(), &store::kv::KvPrefix::last_used_unix);
  size_t reads_left = kOwnersReadMax;
  const auto is_others = [&](const store::kv::KvPrefix& prefix) {
    return !caller.is_admin() && !Owns(caller, prefix, reads_left);
  };
  std::erase_if(prefixes, is_others);
  const std::map<BlockHash, store::meta::Pin> pins = PinsOf(parts_.pins, caller);
  std::vector<ListedPrefix> listed;
  std::set<BlockHash> stored;
  for (const store::kv::KvPrefix& prefix : prefixes) {
    listed.push_back({.leaf = prefix.leaf});
    stored.insert(prefix.leaf.hash);
  }
  for (const auto& [id, pin] : pins) {
    if (stored.contains(id)) continue;
    const auto num_blocks = static_cast<uint32_t>(pin.tokens.size() / kKvBlockTokens);
    prefixes.push_back({.leaf = pin.leaf, .first = {}, .num_blocks = num_blocks});
    listed.push_back({.leaf = pin.leaf, .is_stored = false});
  }
  engine::Engine* const engine = engine_.load();
  const std::vector<PrefixPlace> places = FindPlaces(engine, *kv, listed);

  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("object").String("list");
  if (engine != nullptr) json.Key("hits_since").Integer(hits_since_us_);
  json.Key("data").BeginArray();
  size_t previews_left = std::min(reads_left, kPreviewsMax);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const store::kv::KvPrefix& prefix = prefixes[i];
    const auto pin = pins.find(prefix.leaf.hash);
    const store::meta::Pin* const pinned = pin == pins.end() ? nullptr : &pin->second;
    const Shown shown = Show(caller, prefix, pinned, previews_left);
    json.BeginObject().Key("id").String(ToHex(prefix.leaf.hash)).Key("object").String("prefix");
    json.Key("fingerprint").String(ToHex(prefix.leaf.fingerprint));
    if (!shown.model.empty()) json.Key("model").String(shown.model);
    if (!shown.preview.empty()) json.Key("preview").String(shown.preview);
    json.Key("blocks").Unsigned(prefix.num_blocks);
    json.Key("tokens").Unsigned(uint64_t{prefix.num_blocks} * kKvBlockTokens);
    json.Key("bytes").Unsigned(prefix.payload_bytes);
    json.Key("last_used").Integer(prefix.last_used_unix);
    WritePlace(places[i], json);
    if (engine != nullptr) WriteHits(prefix, json);
    WritePin(pinned, json);
    json.EndObject();
  }
  json.EndArray().Key("has_more").Bool(reads_left == 0).EndObject();
  return out;
}

Result<std::string> PrefixService::Remove(const Caller& caller, std::string_view id, bool force) {
  KVGATE_TRY(KvStore* const kv, RequireStore());
  KVGATE_TRY(const BlockHash leaf, ParseId(id));
  KVGATE_TRY_VOID(RequireOwn(caller, leaf));
  if (force && parts_.pins != nullptr && parts_.pins->Find(leaf)) {
    KVGATE_TRY_VOID(EndPin(leaf));
  }
  KVGATE_TRY(const uint64_t num_records, kv->RemovePrefix(leaf));
  if (num_records == 0) {
    return MakeError(ErrorCode::kNotFound, "service",
                     fmt::format("No stored prefix has the id {}.", id), "id");
  }
  return fmt::format("{{\"removed\":{}}}", num_records);
}

Result<std::string> PrefixService::RemoveAll(bool force) {
  KVGATE_TRY(KvStore* const kv, RequireStore());
  if (force && parts_.pins != nullptr) {
    for (const store::meta::Pin& pin : parts_.pins->List()) {
      KVGATE_TRY_VOID(EndPin(pin.leaf.hash));
    }
  }
  KVGATE_TRY(const uint64_t num_records, kv->RemoveAll());
  return fmt::format("{{\"removed\":{}}}", num_records);
}

Result<std::string> PrefixService::Verify(const Progress& progress) {
  KVGATE_TRY(KvStore* const kv, RequireStore());
  KVGATE_TRY(const store::kv::KvVerifyReport report, kv->Verify(progress));
  return fmt::format("{{\"checked\":{},\"dropped\":{},\"orphans\":{},\"damaged_pins\":{}}}",
                     report.num_checked, report.num_dropped, report.num_orphans,
                     parts_.pins == nullptr ? 0 : parts_.pins->num_damaged());
}

Result<void> PrefixService::KeepPin(const store::kv::KvKey& leaf, std::string tenant,
                                    std::vector<TokenId> tokens,
                                    const dialect::own::PinOptions& options) {
  KVGATE_TRY(store::meta::PinBook* const pins, RequirePins());
  store::meta::Pin pin{
      .leaf = leaf,
      .model = {},
      .name = options.name,
      .version = options.version,
      .tenant = std::move(tenant),
      .priority = options.priority,
      .expires_unix = options.ttl_seconds == 0 ? 0 : WallClock::NowUnix() + options.ttl_seconds,
      .created_us = 0,
      .tokens = std::move(tokens)};
  if (const engine::Engine* engine = engine_.load();
      engine != nullptr && engine->info().kv_fingerprint == leaf.fingerprint) {
    pin.model = engine->info().model_fingerprint;
  }
  std::vector<store::meta::Pin> before = pins->List();
  KVGATE_TRY_VOID(pins->Put(pin));
  // An older version of the same name lost its pin when this one was put, so its KV is unpinned in
  // memory too.
  for (const store::meta::Pin& old : before) {
    if (!pins->Find(old.leaf.hash)) Pin(old, 0);
  }
  Pin(pin, pin.priority);
  return {};
}

Result<std::string> PrefixService::Pin(const Caller& caller, std::string_view id,
                                       std::string_view body) {
  KVGATE_TRY(store::meta::PinBook* const pins, RequirePins());
  KVGATE_TRY(const BlockHash leaf, ParseId(id));
  KVGATE_TRY(const dialect::own::PinOptions options,
             dialect::own::DecodePinOptions(body, parts_.limits));
  KVGATE_TRY_VOID(RequireOwn(caller, leaf));
  if (const std::optional<store::meta::Pin> pinned = pins->Find(leaf)) {
    KVGATE_TRY_VOID(KeepPin(pinned->leaf, pinned->tenant, pinned->tokens, options));
  } else {
    KVGATE_TRY(tier::StoredPrefix prefix,
               tier::ReadPrefix(*parts_.kv, directory_keys(), leaf, TenantsOf(caller, leaf)));
    KVGATE_TRY_VOID(KeepPin(prefix.keys.back(), prefix.tenant, std::move(prefix.tokens), options));
  }
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("id").String(ToHex(leaf)).Key("object").String("prefix");
  const std::optional<store::meta::Pin> kept = pins->Find(leaf);
  WritePin(kept ? &*kept : nullptr, json);
  json.EndObject();
  return out;
}

Result<void> PrefixService::EndPin(const BlockHash& leaf) {
  KVGATE_TRY(store::meta::PinBook* const pins, RequirePins());
  KVGATE_TRY(const store::meta::Pin pin, pins->Remove(leaf));
  Pin(pin, 0);
  return {};
}

Result<std::string> PrefixService::Unpin(const Caller& caller, std::string_view id) {
  KVGATE_TRY(store::meta::PinBook* const pins, RequirePins());
  KVGATE_TRY(const BlockHash leaf, ParseId(id));
  const std::optional<store::meta::Pin> pin = pins->Find(leaf);
  const bool is_there = pin && (caller.is_admin() || pin->tenant == TenantOf(caller.credential));
  const Result<void> ended =
      is_there ? EndPin(leaf) : MakeError(ErrorCode::kNotFound, "service", "not there");
  if (!ended && ended.error().code == ErrorCode::kNotFound) {
    return MakeError(ErrorCode::kNotFound, "service",
                     fmt::format("No pinned prefix has the id {}.", id), "id");
  }
  if (!ended) return ended.error();
  return fmt::format("{{\"id\":\"{}\",\"object\":\"prefix\",\"pinned\":false}}", ToHex(leaf));
}

Result<std::unique_ptr<tier::PrefixExporter>> PrefixService::StartExport(const Caller& caller,
                                                                         std::string_view id) {
  KVGATE_TRY(KvStore* const kv, RequireStore());
  KVGATE_TRY(const BlockHash leaf, ParseId(id));
  KVGATE_TRY_VOID(RequireOwn(caller, leaf));
  KVGATE_TRY(tier::StoredPrefix prefix,
             tier::ReadPrefix(*kv, directory_keys(), leaf, TenantsOf(caller, leaf)));
  return std::make_unique<tier::PrefixExporter>(*kv, *parts_.keyring, std::move(prefix));
}

std::vector<tier::ImportTarget> PrefixService::ImportTargets(const KvStore& kv) const {
  if (const engine::Engine* engine = engine_.load(); engine != nullptr) {
    const engine::EngineInfo& info = engine->info();
    return {{.fingerprint = info.kv_fingerprint,
             .name = fmt::format("this server's ({}, {})", info.model.name,
                                 kernels::DTypeName(info.kv_dtype))}};
  }
  std::vector<tier::ImportTarget> targets;
  for (const store::kv::KvPrefix& prefix : kv.ListPrefixes()) {
    const auto is_known = [&](const tier::ImportTarget& target) {
      return target.fingerprint == prefix.leaf.fingerprint;
    };
    if (std::ranges::any_of(targets, is_known)) continue;
    targets.push_back(
        {.fingerprint = prefix.leaf.fingerprint, .name = "what this directory holds KV of"});
  }
  return targets;
}

Result<std::unique_ptr<tier::PrefixImporter>> PrefixService::StartImport(bool any) {
  KVGATE_TRY(KvStore* const kv, RequireStore());
  return std::make_unique<tier::PrefixImporter>(
      *kv, directory_keys(), any ? std::vector<tier::ImportTarget>() : ImportTargets(*kv));
}

std::string PrefixService::Describe(const tier::ImportReport& report) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("id");
  if (report.num_imported == 0) {
    json.Null();
  } else {
    json.String(ToHex(report.id));
  }
  json.Key("object").String("prefix").Key("fingerprint").String(ToHex(report.fingerprint));
  json.Key("blocks").Unsigned(report.num_blocks);
  json.Key("imported").Unsigned(report.num_imported).Key("dropped").Unsigned(report.num_dropped());
  json.Key("tokens").Unsigned(uint64_t{report.num_imported} * kKvBlockTokens);
  json.Key("reason");
  if (report.reason.empty()) {
    json.Null();
  } else {
    json.String(report.reason);
  }
  json.EndObject();
  return out;
}

uint64_t ForgetPrefix(KvStore* kv, const BlockHash& last) {
  if (kv == nullptr) return 0;
  const Result<uint64_t> removed = kv->RemovePrefix(last);
  const bool is_needed = !removed && (removed.error().code == ErrorCode::kNotFound ||
                                      removed.error().code == ErrorCode::kInvalidArgument);
  if (!removed && !is_needed) {
    KVGATE_LOG(kWarning, "service", "the KV of a removed prefix stays on disk: {}",
               removed.error().ToString());
  }
  return removed ? *removed : 0;
}

}  // namespace kvgate::local
