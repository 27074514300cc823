#include "gateway/service/prompt_store.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <kvgate/digest.h>
#include <kvgate/log.h>
#include <kvgate/wall_clock.h>

#include "store/byte_codec.h"
#include "store/directory_migration.h"
#include "store/sealed_kinds.h"

namespace kvgate::service {
namespace {

using prompt::Identity;
using prompt::TenantMemory;
using store::MetaTable;
using store::MetaWrite;

// Rows of version 1 were 't' and 'o', with their names in clear: a guess could be checked by them.
constexpr char kText = 'T';
constexpr char kOrder = 'O';
constexpr size_t kNameBytes = 16;

void AppendIdentity(std::string& out, const Identity& identity) {
  store::AppendValue(out, identity.low);
  store::AppendValue(out, identity.high);
}

Identity TakeIdentity(store::ByteReader& reader) {
  Identity identity;
  identity.low = reader.Take<uint64_t>();
  identity.high = reader.Take<uint64_t>();
  return identity;
}

struct Encoded {
  std::string key;
  std::string value;
};

Encoded Encode(const TenantMemory::Row& row, int64_t time_us, const Keyring& ring) {
  std::string payload;
  if (row.bytes) {
    payload = *row.bytes;
  } else {
    for (const Identity& tool : row.order) AppendIdentity(payload, tool);
  }
  std::string name;
  AppendIdentity(name, row.key);
  // A scope has several orders.
  if (!row.bytes) store::AppendValue(name, Xxh3(store::AsBytes(payload)).first);
  Encoded out;
  out.key += row.bytes ? kText : kOrder;
  const Keyring::Secret secret = ring.Derive("prompts", out.key + name);
  out.key.append(reinterpret_cast<const char*>(secret.data()), kNameBytes);
  std::string body;
  store::AppendValue(body, time_us);
  store::AppendText(body, payload);
  AppendIdentity(body, row.key);
  out.value = Seal(store::kPromptKind, ring, out.key, body);
  return out;
}

struct Decoded {
  TenantMemory::Row row;
  int64_t time_us = 0;
  bool was_clear = false;
};

Result<Decoded> Decode(std::string_view key, std::string_view value, const Keyring& ring) {
  const Result<store::UnsealedValue> unsealed = Unseal(store::kPromptKind, ring, key, value);
  if (!unsealed) return unsealed.error();
  store::ByteReader reader(unsealed->body);
  Decoded out;
  out.was_clear = unsealed->was_clear;
  out.time_us = reader.Take<int64_t>();
  std::string payload = reader.TakeText();
  store::ByteReader name(key);
  auto kind = name.Take<char>();
  if (out.was_clear) {
    kind = static_cast<char>(kind - 'a' + 'A');
    out.row.key = TakeIdentity(name);
  } else {
    out.row.key = TakeIdentity(reader);
  }
  const bool whole = reader.at_end() && name.ok() && (kind == kText || kind == kOrder);
  if (!whole || (kind == kOrder && payload.size() % sizeof(Identity) != 0)) {
    return Damaged(store::kPromptKind, "its sizes do not add up");
  }
  if (kind == kText) {
    out.row.bytes = std::make_shared<const std::string>(std::move(payload));
    return out;
  }
  store::ByteReader order(payload);
  while (!order.at_end()) out.row.order.push_back(TakeIdentity(order));
  return out;
}

}  // namespace

PromptStore::PromptStore(const Options& options) : options_(options) {
  Load();
  options_.tenants.TakeNew();
  thread_ = std::thread([this] { Run(); });
}

PromptStore::~PromptStore() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
  WriteNew();
}

Result<void> PromptStore::Purge(store::MetaStore& meta) {
  std::vector<MetaWrite> gone;
  KVGATE_TRY_VOID(meta.Scan(MetaTable::kPrefixes, "", [&](std::string_view key, std::string_view) {
    gone.push_back({.key = std::string(key), .value = std::nullopt});
    return true;
  }));
  if (gone.empty()) return {};
  return meta.PutAll(MetaTable::kPrefixes, gone);
}

int64_t PromptStore::NowUs() const {
  return options_.now_us ? options_.now_us() : WallClock::NowUs();
}

int64_t PromptStore::OldestUs(int64_t now_us) const {
  return now_us - std::chrono::duration_cast<std::chrono::microseconds>(options_.retention).count();
}

// Rows of version 1 are written again, sealed, in the step that deletes them. What another secret
// has sealed is dropped: all that it saved is tokens.
void PromptStore::Load() {
  const Keyring& ring = options_.meta.keyring();
  const int64_t oldest_us = OldestUs(NowUs());
  std::vector<MetaWrite> writes;
  std::vector<std::pair<Kept, TenantMemory::Row>> found;
  uint64_t num_clear = 0;
  const auto scanned = options_.meta.Scan(
      MetaTable::kPrefixes, "", [&](std::string_view key, std::string_view value) {
        Result<Decoded> decoded = Decode(key, value, ring);
        if (!decoded && decoded.error().code != ErrorCode::kPermissionDenied) {
          KVGATE_LOG(kWarning, "service", "dropped: {}", decoded.error().ToString());
        }
        const bool stays = decoded && decoded->time_us >= oldest_us;
        const bool is_old = !store::IsSealedWithFirst(ring, value);
        if (!stays || is_old) {
          writes.push_back({.key = std::string(key), .value = std::nullopt});
        }
        if (!stays) return true;
        Kept kept{.time_us = decoded->time_us,
                  .key = std::string(key),
                  .bytes = key.size() + value.size()};
        if (is_old) {
          Encoded sealed = Encode(decoded->row, decoded->time_us, ring);
          kept.key = sealed.key;
          kept.bytes = sealed.key.size() + sealed.value.size();
          writes.push_back({.key = std::move(sealed.key), .value = std::move(sealed.value)});
          num_clear += decoded->was_clear ? 1 : 0;
        }
        found.emplace_back(std::move(kept), std::move(decoded->row));
        return true;
      });
  if (!scanned) {
    KVGATE_LOG(kWarning, "service", "prompts sent before are not known: {}",
               scanned.error().ToString());
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first.time_us < b.first.time_us; });
  for (auto& [kept, row] : found) {
    bytes_ += kept.bytes;
    kept_.push_back(std::move(kept));
    options_.tenants.Restore(std::move(row));
  }
  if (writes.empty()) return;
  if (const auto written = options_.meta.PutAll(MetaTable::kPrefixes, writes); !written) {
    KVGATE_LOG(kWarning, "service", "old prompts cannot be deleted, or sealed: {}",
               written.error().ToString());
  } else if (num_clear > 0) {
    if (const auto gone = options_.meta.Compact(MetaTable::kPrefixes); !gone) {
      KVGATE_LOG(kWarning, "service", "prompts may be on the disk in clear: {}",
                 gone.error().ToString());
    }
    KVGATE_LOG(kInfo, "service", "{} parts of prompts of an older version are sealed", num_clear);
  }
}

void PromptStore::Run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    wake_.wait_for(lock, options_.write_interval, [this] { return ends_; });
    if (ends_) return;
    lock.unlock();
    WriteNew();
    lock.lock();
  }
}

void PromptStore::WriteNew() {
  if (unwritten_.empty()) TakeNew();
  if (unwritten_.empty()) return;
  const auto written = options_.meta.PutAll(MetaTable::kPrefixes, unwritten_);
  if (written) {
    unwritten_.clear();
  } else if (!told_) {
    KVGATE_LOG(kWarning, "service", "what is sent now will not be known after a restart: {}",
               written.error().ToString());
  }
  told_ = !written;
}

// The oldest go in the step that writes what takes their place.
void PromptStore::TakeNew() {
  const std::vector<TenantMemory::Row> rows = options_.tenants.TakeNew();
  if (rows.empty()) return;
  const int64_t now_us = NowUs();
  for (const TenantMemory::Row& row : rows) {
    Encoded encoded = Encode(row, now_us, options_.meta.keyring());
    const size_t size = encoded.key.size() + encoded.value.size();
    if (size > options_.bytes_max) continue;
    bytes_ += size;
    kept_.push_back({.time_us = now_us, .key = encoded.key, .bytes = size});
    unwritten_.push_back({.key = std::move(encoded.key), .value = std::move(encoded.value)});
  }
  const int64_t oldest_us = OldestUs(now_us);
  while (!kept_.empty() && (bytes_ > options_.bytes_max || kept_.front().time_us < oldest_us)) {
    bytes_ -= kept_.front().bytes;
    unwritten_.push_back({.key = std::move(kept_.front().key), .value = std::nullopt});
    kept_.pop_front();
  }
}

}  // namespace kvgate::service
