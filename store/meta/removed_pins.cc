#include "store/meta/removed_pins.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "store/file/byte_codec.h"
#include "store/file/sealed_kinds.h"

namespace kvgate::store::meta {
namespace {

constexpr std::string_view kSource = "store.pins";
constexpr MetaTable kTable = MetaTable::kPrefixes;
constexpr std::string_view kKeyBegin = "U";
constexpr size_t kNameBytes = 32;

std::string KeyOf(const std::string& prefix) { return std::string(kKeyBegin) + prefix; }

MetaWrite WriteOf(const Keyring& ring, const RemovedPin& removed) {
  std::string body;
  file::AppendValue(body, removed.removed_us);
  file::AppendText(body, removed.tenant);
  std::string key = KeyOf(removed.prefix);
  std::string value = file::Seal(file::kRemovedPinKind, ring, key, body);
  return {.key = std::move(key), .value = std::move(value)};
}

Result<RemovedPin> Read(const Keyring& ring, std::string_view key, std::string_view value) {
  KVGATE_TRY(const file::UnsealedValue unsealed,
             file::Unseal(file::kRemovedPinKind, ring, key, value));
  file::ByteReader reader(unsealed.body);
  RemovedPin removed{.prefix = std::string(key.substr(kKeyBegin.size()))};
  removed.removed_us = reader.Take<int64_t>();
  removed.tenant = reader.TakeText();
  if (reader.at_end() && removed.prefix.size() == kNameBytes) return removed;
  return file::Damaged(file::kRemovedPinKind, "it has another size");
}

}  // namespace

std::string PrefixNameOf(const Keyring& ring, const Pin& pin) {
  std::string text;
  file::AppendText(text, pin.tenant);
  const bool has_model = pin.model != Fingerprint();
  const Fingerprint& model = has_model ? pin.model : pin.leaf.fingerprint;
  file::AppendValue(text, model.low);
  file::AppendValue(text, model.high);
  const auto tokens = std::as_bytes(std::span(pin.tokens));
  text.append(reinterpret_cast<const char*>(tokens.data()), tokens.size());
  const Keyring::Secret name = ring.Derive("pinned prefix", text);
  return std::string(name.begin(), name.end());
}

Result<RemovedPins> RemovedPins::Load(MetaStore& meta, bool read_only) {
  RemovedPins pins(meta);
  std::vector<MetaWrite> dropped;
  const int64_t oldest_us = WallClock::NowUs() - kAgeUsMax;
  KVGATE_TRY_VOID(meta.Scan(kTable, kKeyBegin, [&](std::string_view key, std::string_view value) {
    Result<RemovedPin> removed = Read(meta.keyring(), key, value);
    const bool is_foreign = !removed && removed.error().code == ErrorCode::kPermissionDenied;
    if (removed && removed->removed_us >= oldest_us) {
      std::string prefix = removed->prefix;
      pins.removed_.emplace(std::move(prefix), *std::move(removed));
    } else if (!is_foreign) {
      dropped.push_back({.key = std::string(key), .value = std::nullopt});
    }
    return true;
  }));
  if (read_only || dropped.empty()) return pins;
  if (const auto gone = meta.PutAll(kTable, dropped); !gone) {
    KVGATE_LOG(kWarning, kSource, "what is dropped stays on the disk: {}", gone.error().ToString());
  }
  return pins;
}

int64_t RemovedPins::RemovedUs(const std::string& prefix) const {
  const auto found = removed_.find(prefix);
  return found == removed_.end() ? 0 : found->second.removed_us;
}

Result<void> RemovedPins::Note(const RemovedPin& removed) {
  if (RemovedUs(removed.prefix) >= removed.removed_us) return {};
  std::vector<MetaWrite> writes = {WriteOf(meta_->keyring(), removed)};
  auto oldest = removed_.end();
  if (removed_.size() >= kRemovedMax && !removed_.contains(removed.prefix)) {
    oldest = std::min_element(removed_.begin(), removed_.end(), [](const auto& a, const auto& b) {
      return a.second.removed_us < b.second.removed_us;
    });
    writes.push_back({.key = KeyOf(oldest->first), .value = std::nullopt});
  }
  KVGATE_TRY_VOID(meta_->PutAll(kTable, writes));
  if (oldest != removed_.end()) removed_.erase(oldest);
  removed_[removed.prefix] = removed;
  return {};
}

Result<void> RemovedPins::Erase(const std::string& prefix) {
  if (!removed_.contains(prefix)) return {};
  KVGATE_TRY_VOID(meta_->Delete(kTable, KeyOf(prefix)));
  removed_.erase(prefix);
  return {};
}

std::vector<RemovedPin> RemovedPins::List() const {
  std::vector<RemovedPin> list;
  for (const auto& [prefix, removed] : removed_) list.push_back(removed);
  return list;
}

}  // namespace kvgate::store::meta
