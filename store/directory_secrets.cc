#include "store/directory_secrets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/log.h"
#include "store/directory_migration.h"
#include "store/file/sealed_kinds.h"

namespace kvgate::store {

using meta::MetaStore;
using meta::MetaTable;

namespace {

constexpr std::string_view kEnvironmentKey = "secret_env";
constexpr std::string_view kSealingKey = "sealing_secrets";  // key ids in hex, separated by commas
constexpr std::string_view kDerivingKey = "deriving_secret";
constexpr size_t kRememberedMax = 256;

Result<std::string> Remembered(const MetaStore& meta, std::string_view key) {
  KVGATE_TRY(std::optional<std::string> value, meta.Get(MetaTable::kDirectory, key));
  return std::move(value).value_or("");
}

Result<void> Remember(MetaStore& meta, std::string_view key, const std::string& value) {
  KVGATE_TRY(const std::string before, Remembered(meta, key));
  if (before == value) return {};
  return meta.Put(MetaTable::kDirectory, key, value);
}

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool Knows(const Keyring& ring, const std::string& hex) {
  Keyring::KeyId id{};
  if (hex.size() != 2 * id.size()) return false;
  for (size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<uint8_t>(std::strtoul(hex.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return ring.Has(id);
}

struct Absent {
  uint64_t num_turns = 0;
  uint64_t num_pins = 0;
  uint64_t num_parts = 0;  // of prompts
  uint64_t sum() const { return num_turns + num_pins + num_parts; }
};

Result<Absent> CountAbsent(const MetaStore& meta, const Keyring& ring) {
  Absent absent;
  const auto count = [&](MetaTable table, std::string_view prefix, const file::SealedKind& kind,
                         uint64_t& number) {
    return meta.Scan(table, prefix, [&](std::string_view, std::string_view value) {
      number += file::IsOfAnotherSecret(kind, ring, value) ? 1 : 0;
      return true;
    });
  };
  KVGATE_TRY_VOID(count(MetaTable::kTurns, "t", file::kTurnKind, absent.num_turns));
  KVGATE_TRY_VOID(count(MetaTable::kPins, "", file::kPinKind, absent.num_pins));
  KVGATE_TRY_VOID(count(MetaTable::kPrefixes, "", file::kPromptKind, absent.num_parts));
  return absent;
}

// Returns the ids of secrets that sealed values here but are missing from the ring. One log line
// reports them if any stored value needs them.
Result<std::vector<std::string>> FindLost(const MetaStore& meta, const Keyring& ring) {
  KVGATE_TRY(const std::string sealing, Remembered(meta, kSealingKey));
  std::vector<std::string> lost = Split(sealing);
  std::erase_if(lost, [&](const std::string& id) { return Knows(ring, id); });
  if (lost.empty()) return lost;
  KVGATE_TRY(const Absent absent, CountAbsent(meta, ring));
  if (absent.sum() == 0) {
    lost.clear();
    return lost;
  }
  KVGATE_LOG(kError, "store",
             "A SECRET IS MISSING: {} turns, {} pins and {} parts of prompts were sealed with {}, "
             "which {} has not, and are treated as absent. Turns and pins stay on the disk: put "
             "that secret back, behind the new one, to have them again",
             absent.num_turns, absent.num_pins, absent.num_parts, fmt::join(lost, ", "),
             ring.source());
  return lost;
}

// Seals and names again whatever other secrets have sealed or named and can still be opened, so
// that the user need not keep those secrets for it.
Result<void> FollowSecrets(MetaStore& meta, bool is_resealed) {
  const Keyring& ring = meta.keyring();
  const std::string own = ToHex(ring.sealing_key_id());
  const std::string deriving = ToHex(ring.deriving_key_id());
  KVGATE_TRY(const std::string before, Remembered(meta, kDerivingKey));
  const bool is_renamed = !before.empty() && before != deriving;
  if (!is_renamed && !is_resealed) return {};
  MigrationReport report;
  KVGATE_TRY_VOID(MigrateTurns(meta, report));
  KVGATE_TRY_VOID(MigrateSessions(meta, report));
  KVGATE_TRY_VOID(MigratePins(meta, report));
  KVGATE_LOG(
      kWarning, "store",
      "the secrets are others than before: {} turns of {} conversations and {} pins are "
      "sealed and named anew with {}{}",
      report.num_turns, report.num_conversations, report.num_pins, own,
      is_renamed ? "; salts are others, so KV of before is computed when it is asked for" : "");
  return {};
}

}  // namespace

Result<void> OpenSecrets(MetaStore& meta, file::SecretOptions options) {
  KVGATE_TRY(const std::string environment, Remembered(meta, kEnvironmentKey));
  // This lets commands that know only the directory find the variable that its server was given.
  if (options.environment.empty() && !environment.empty() &&
      file::CheckSecretEnvironment(environment)) {
    options.environment = environment;
  }
  Result<std::unique_ptr<Keyring>> ring = file::OpenKeyring(options);
  if (!ring && ring.error().code == ErrorCode::kNotFound && !options.make) {
    KVGATE_LOG(kWarning, "store", "{}: what is sealed is not shown", ring.error().detail);
    ring = Keyring::Generate();
  }
  if (!ring) return std::move(ring).error();
  meta.SetKeyring(std::move(*ring));
  KVGATE_TRY(std::vector<std::string> sealing, FindLost(meta, meta.keyring()));
  if (!options.make) return {};
  KVGATE_TRY(const std::string sealed, Remembered(meta, kSealingKey));
  std::vector<std::string> known = Split(sealed);
  std::erase_if(known, [&](const std::string& id) { return !Knows(meta.keyring(), id); });
  const std::string own = ToHex(meta.keyring().sealing_key_id());
  std::erase(known, own);
  // If there are too many, only the newest ids are kept.
  if (sealing.size() > kRememberedMax) {
    sealing.erase(sealing.begin(), sealing.end() - kRememberedMax);
  }
  sealing.push_back(own);
  std::vector<std::string> all = sealing;
  all.insert(all.end(), known.begin(), known.end());
  // The ids are written before anything is sealed with the own key. The known ids stay listed until
  // the resealing below is complete, so that a start that is killed in between continues it.
  KVGATE_TRY_VOID(Remember(meta, kSealingKey, fmt::format("{}", fmt::join(all, ","))));
  KVGATE_TRY_VOID(FollowSecrets(meta, !known.empty()));
  KVGATE_TRY_VOID(Remember(meta, kSealingKey, fmt::format("{}", fmt::join(sealing, ","))));
  KVGATE_TRY_VOID(Remember(meta, kDerivingKey, ToHex(meta.keyring().deriving_key_id())));
  return Remember(meta, kEnvironmentKey, options.environment);
}

}  // namespace kvgate::store
