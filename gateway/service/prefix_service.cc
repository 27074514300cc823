#include "gateway/service/prefix_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include <kvgate/digest.h>

#include "gateway/protocol/json_writer.h"
#include "kernels/backend.h"

namespace kvgate::service {
namespace {

using kernels::kKvBlockTokens;
using protocol::JsonWriter;

int64_t NowUnix() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<BlockHash> ParseId(std::string_view id) {
  Result<BlockHash> hash = ParseBlockHash(id);
  if (hash) return hash;
  return MakeError(ErrorCode::kInvalidArgument, "service",
                   "A prefix id is 32 hex digits, as GET /kvgate/v1/prefixes lists them.", "id");
}

void WritePin(const store::Pin* pin, JsonWriter& json) {
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

void WritePrefix(const store::KvPrefix& prefix, const store::Pin* pin, JsonWriter& json) {
  json.BeginObject().Key("id").String(ToHex(prefix.leaf.hash)).Key("object").String("prefix");
  json.Key("fingerprint").String(ToHex(prefix.leaf.fingerprint));
  json.Key("blocks").Unsigned(prefix.num_blocks);
  json.Key("tokens").Unsigned(uint64_t{prefix.num_blocks} * kKvBlockTokens);
  json.Key("bytes").Unsigned(prefix.payload_bytes);
  json.Key("last_used").Integer(prefix.last_used_unix);
  WritePin(pin, json);
  json.EndObject();
}

}  // namespace

std::string TenantOf(std::string_view credential) {
  if (credential.empty()) return "";
  const PrefixDigest digest = ThreadSha256().Update("kvgate.tenant:").Update(credential).Finish();
  return ToHex(digest.bytes);
}

engine::Protection ToProtection(const store::Pin& pin, int priority) {
  engine::Protection protection{.tokens = pin.tokens, .cache_salt = pin.salt, .priority = priority};
  if (pin.expires_unix != 0) {
    const int64_t left = std::max<int64_t>(0, pin.expires_unix - NowUnix());
    protection.until = std::chrono::steady_clock::now() + std::chrono::seconds(left);
  }
  return protection;
}

Result<store::KvStore*> PrefixService::RequireStore() const {
  if (parts_.kv == nullptr) {
    return MakeError(
        ErrorCode::kUnavailable, "service",
        fmt::format("This server runs without its disk tier: {}", parts_.no_disk_reason));
  }
  return parts_.kv;
}

Result<store::PinBook*> PrefixService::RequirePins() const {
  KVGATE_TRY_VOID(RequireStore());
  if (parts_.pins == nullptr) {
    return MakeError(ErrorCode::kUnavailable, "service", "This server keeps no pins.");
  }
  return parts_.pins;
}

void PrefixService::Protect(const store::Pin& pin, int priority) const {
  if (engine::Engine* engine = engine_.load(); engine != nullptr) {
    engine->Protect(ToProtection(pin, priority));
  }
}

Result<std::string> PrefixService::List() const {
  KVGATE_TRY(store::KvStore* const kv, RequireStore());
  std::vector<store::KvPrefix> prefixes = kv->ListPrefixes();
  std::ranges::stable_sort(prefixes, std::greater<>(), &store::KvPrefix::last_used_unix);
  std::map<BlockHash, store::Pin> pins;
  if (parts_.pins != nullptr) {
    for (store::Pin& pin : parts_.pins->List()) pins.emplace(pin.leaf.hash, std::move(pin));
  }
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const store::KvPrefix& prefix : prefixes) {
    const auto pin = pins.find(prefix.leaf.hash);
    WritePrefix(prefix, pin == pins.end() ? nullptr : &pin->second, json);
    if (pin != pins.end()) pins.erase(pin);
  }
  for (const auto& [id, pin] : pins) {
    WritePrefix(
        {.leaf = pin.leaf, .num_blocks = static_cast<uint32_t>(pin.tokens.size() / kKvBlockTokens)},
        &pin, json);
  }
  json.EndArray().EndObject();
  return out;
}

Result<std::string> PrefixService::Remove(std::string_view id, bool force) {
  KVGATE_TRY(store::KvStore* const kv, RequireStore());
  KVGATE_TRY(const BlockHash leaf, ParseId(id));
  if (force && parts_.pins != nullptr && parts_.pins->Find(leaf)) {
    KVGATE_TRY_VOID(Unpin(id));
  }
  KVGATE_TRY(const uint64_t num_records, kv->RemovePrefix(leaf));
  if (num_records == 0) {
    return MakeError(ErrorCode::kNotFound, "service",
                     fmt::format("No stored prefix has the id {}.", id), "id");
  }
  return fmt::format("{{\"removed\":{}}}", num_records);
}

Result<std::string> PrefixService::RemoveAll(bool force) {
  KVGATE_TRY(store::KvStore* const kv, RequireStore());
  if (force && parts_.pins != nullptr) {
    for (const store::Pin& pin : parts_.pins->List()) {
      KVGATE_TRY_VOID(Unpin(ToHex(pin.leaf.hash)));
    }
  }
  KVGATE_TRY(const uint64_t num_records, kv->RemoveAll());
  return fmt::format("{{\"removed\":{}}}", num_records);
}

Result<std::string> PrefixService::Verify(const Progress& progress) {
  KVGATE_TRY(store::KvStore* const kv, RequireStore());
  KVGATE_TRY(const store::KvVerifyReport report, kv->Verify(progress));
  return fmt::format("{{\"checked\":{},\"dropped\":{},\"orphans\":{},\"damaged_pins\":{}}}",
                     report.num_checked, report.num_dropped, report.num_orphans,
                     parts_.pins == nullptr ? 0 : parts_.pins->num_damaged());
}

Result<void> PrefixService::KeepPin(const store::KvKey& leaf, std::string salt,
                                    std::vector<TokenId> tokens,
                                    const protocol::PinOptions& options) {
  KVGATE_TRY(store::PinBook* const pins, RequirePins());
  store::Pin pin{.leaf = leaf,
                 .model = {},
                 .name = options.name,
                 .version = options.version,
                 .salt = std::move(salt),
                 .priority = options.priority,
                 .expires_unix = options.ttl_seconds == 0 ? 0 : NowUnix() + options.ttl_seconds,
                 .created_us = 0,
                 .tokens = std::move(tokens)};
  if (const engine::Engine* engine = engine_.load();
      engine != nullptr && engine->info().kv_fingerprint == leaf.fingerprint) {
    pin.model = engine->info().model_fingerprint;
  }
  std::vector<store::Pin> before = pins->List();
  KVGATE_TRY_VOID(pins->Put(pin));
  // An older version of the name has lost its pin with that, and loses its place in memory.
  for (const store::Pin& old : before) {
    if (!pins->Find(old.leaf.hash)) Protect(old, 0);
  }
  Protect(pin, pin.priority);
  return {};
}

Result<std::string> PrefixService::Pin(std::string_view id, std::string_view body,
                                       std::string_view credential) {
  KVGATE_TRY(store::PinBook* const pins, RequirePins());
  KVGATE_TRY(const BlockHash leaf, ParseId(id));
  KVGATE_TRY(const protocol::PinOptions options, protocol::DecodePinOptions(body, parts_.limits));
  if (const std::optional<store::Pin> pinned = pins->Find(leaf)) {
    KVGATE_TRY_VOID(KeepPin(pinned->leaf, pinned->salt, pinned->tokens, options));
  } else {
    const std::vector<std::string> salts = {TenantOf(credential), ""};
    KVGATE_TRY(tier::StoredPrefix prefix,
               tier::ReadPrefix(*parts_.kv, parts_.hash_seed, leaf, salts));
    KVGATE_TRY_VOID(KeepPin(prefix.keys.back(), prefix.salt, std::move(prefix.tokens), options));
  }
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("id").String(ToHex(leaf)).Key("object").String("prefix");
  const std::optional<store::Pin> kept = pins->Find(leaf);
  WritePin(kept ? &*kept : nullptr, json);
  json.EndObject();
  return out;
}

Result<std::string> PrefixService::Unpin(std::string_view id) {
  KVGATE_TRY(store::PinBook* const pins, RequirePins());
  KVGATE_TRY(const BlockHash leaf, ParseId(id));
  const Result<store::Pin> pin = pins->Remove(leaf);
  if (!pin && pin.error().code == ErrorCode::kNotFound) {
    return MakeError(ErrorCode::kNotFound, "service",
                     fmt::format("No pinned prefix has the id {}.", id), "id");
  }
  if (!pin) return pin.error();
  Protect(*pin, 0);
  return fmt::format("{{\"id\":\"{}\",\"object\":\"prefix\",\"pinned\":false}}", ToHex(leaf));
}

Result<std::unique_ptr<tier::PrefixExporter>> PrefixService::StartExport(
    std::string_view id, std::string_view credential) {
  KVGATE_TRY(store::KvStore* const kv, RequireStore());
  KVGATE_TRY(const BlockHash leaf, ParseId(id));
  const std::vector<std::string> salts = {TenantOf(credential), ""};
  KVGATE_TRY(tier::StoredPrefix prefix, tier::ReadPrefix(*kv, parts_.hash_seed, leaf, salts));
  return std::make_unique<tier::PrefixExporter>(*kv, std::move(prefix));
}

Result<std::unique_ptr<tier::PrefixImporter>> PrefixService::StartImport() {
  KVGATE_TRY(store::KvStore* const kv, RequireStore());
  return std::make_unique<tier::PrefixImporter>(*kv, parts_.hash_seed);
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

}  // namespace kvgate::service
