#include "gateway/session/prompts/prompt_rows.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "store/directory_migration.h"
#include "store/file/byte_codec.h"
#include "store/file/sealed_kinds.h"

namespace kvgate::session::prompts {
namespace {

using store::file::ByteReader;
using store::file::kNamedPromptKind;
using store::meta::MetaTable;
using store::meta::MetaWrite;

constexpr MetaTable kTable = MetaTable::kPrefixes;
constexpr std::string_view kPrefix = "N";
constexpr size_t kNameBytes = 16;
constexpr double kNoShare = -1;

std::string KeyOf(const PromptName& name, const Keyring& ring) {
  std::string whole;
  store::file::AppendText(whole, name.name);
  store::file::AppendText(whole, name.version);
  const Keyring::Secret secret = ring.Derive(kNamedPromptKind.purpose, whole);
  std::string key(kPrefix);
  key.append(reinterpret_cast<const char*>(secret.data()), kNameBytes);
  return key;
}

MetaWrite Encode(const PromptVersion& version, const Keyring& ring) {
  std::string body;
  store::file::AppendValue(body, version.created_us);
  store::file::AppendValue(body, version.share.value_or(kNoShare));
  store::file::AppendText(body, version.id.name);
  store::file::AppendText(body, version.id.version);
  store::file::AppendText(body, version.text);
  std::string key = KeyOf(version.id, ring);
  std::string value = Seal(kNamedPromptKind, ring, key, body);
  return {.key = std::move(key), .value = std::move(value)};
}

Result<PromptVersion> Decode(std::string_view key, std::string_view value, const Keyring& ring) {
  KVGATE_TRY(const store::file::UnsealedValue unsealed, Unseal(kNamedPromptKind, ring, key, value));
  ByteReader reader(unsealed.body);
  const auto created_us = reader.Take<int64_t>();
  const auto share = reader.Take<double>();
  PromptName id{.name = reader.TakeText(), .version = reader.TakeText()};
  const std::string text = reader.TakeText();
  if (!reader.at_end()) return Damaged(kNamedPromptKind, "its sizes do not add up");
  KVGATE_TRY(PromptVersion version,
             MakeVersion(std::move(id), text, share < 0 ? std::nullopt : std::optional(share)));
  version.created_us = created_us;
  return version;
}

Error NotKept() {
  return MakeError(ErrorCode::kUnavailable, "session.prompts",
                   "Nothing is kept here, as there is no data directory: name prompts in the "
                   "configuration, [[prompt]].");
}

}  // namespace

Result<std::vector<PromptVersion>> PromptRows::Load() {
  std::vector<PromptVersion> versions;
  if (meta_ == nullptr) return versions;
  const Keyring& ring = meta_->keyring();
  std::vector<MetaWrite> writes;
  KVGATE_TRY_VOID(meta_->Scan(kTable, kPrefix, [&](std::string_view key, std::string_view value) {
    Result<PromptVersion> version = Decode(key, value, ring);
    if (!version) {
      KVGATE_LOG(kWarning, "session.prompts", "absent: {}", version.error().ToString());
      return true;
    }
    MetaWrite anew = Encode(*version, ring);
    const bool is_renamed = anew.key != key;
    if (is_renamed) writes.push_back({.key = std::string(key), .value = std::nullopt});
    if (is_renamed || !store::IsSealedWithFirst(ring, value)) writes.push_back(std::move(anew));
    versions.push_back(*std::move(version));
    return true;
  }));
  if (writes.empty()) return versions;
  if (const auto written = meta_->PutAll(kTable, writes); !written) {
    KVGATE_LOG(kWarning, "session.prompts", "prompts cannot be sealed anew: {}",
               written.error().ToString());
  }
  return versions;
}

Result<void> PromptRows::Put(const PromptVersion& version) {
  if (meta_ == nullptr) return NotKept();
  const MetaWrite write = Encode(version, meta_->keyring());
  return meta_->PutAll(kTable, {&write, 1});
}

Result<void> PromptRows::Remove(const std::vector<PromptName>& names) {
  if (meta_ == nullptr) return NotKept();
  std::vector<MetaWrite> writes;
  for (const PromptName& name : names) {
    writes.push_back({.key = KeyOf(name, meta_->keyring()), .value = std::nullopt});
  }
  return meta_->PutAll(kTable, writes);
}

}  // namespace kvgate::session::prompts
