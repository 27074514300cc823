#include "gateway/service/prompt_store.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/memory_fence.h"
#include "store/directory_migration.h"
#include "store/file/byte_codec.h"
#include "store/file/sealed_kinds.h"

namespace kvgate::service {
namespace {

using prompt::history::TenantMemory;
using prompt::parse::Identity;
using store::meta::MetaTable;
using store::meta::MetaWrite;

// Rows of version 1 used 't' and 'o' and had unkeyed names, against which a guessed prompt could be
// checked.
constexpr char kText = 'T';
constexpr char kOrder = 'O';
// All kinds of rows of this store, of version 1 too. The table holds those of BranchStore as well.
constexpr std::string_view kKinds[] = {"T", "O", "t", "o"};
constexpr size_t kNameBytes = 16;
constexpr uint16_t kScopeVersion = 3;  // the first version that names the scope of a text
// Of a row as other gateways are told it (store/FORMAT.md).
constexpr uint8_t kSharedVersion = 1;

void AppendIdentity(std::string& out, const Identity& identity) {
  store::file::AppendValue(out, identity.low);
  store::file::AppendValue(out, identity.high);
}

Identity TakeIdentity(store::file::ByteReader& reader) {
  Identity identity;
  identity.low = reader.Take<uint64_t>();
  identity.high = reader.Take<uint64_t>();
  return identity;
}

struct Encoded {
  std::string key;
  std::string value;
};

std::string PayloadOf(const TenantMemory::Row& row) {
  if (row.bytes) return *row.bytes;
  std::string payload;
  for (const Identity& tool : row.order) AppendIdentity(payload, tool);
  return payload;
}

// Returns false if a row of this kind has no such payload.
bool SetPayload(char kind, std::string payload, TenantMemory::Row& row) {
  if (kind == kText) {
    row.bytes = std::make_shared<const std::string>(std::move(payload));
    return true;
  }
  if (kind != kOrder || payload.size() % sizeof(Identity) != 0) return false;
  row.scope = row.key;
  store::file::ByteReader order(payload);
  while (!order.at_end()) row.order.push_back(TakeIdentity(order));
  return true;
}

// A row as other gateways are told it.
std::string ToShared(const TenantMemory::Row& row) {
  std::string out;
  store::file::AppendValue(out, kSharedVersion);
  out += row.bytes ? kText : kOrder;
  AppendIdentity(out, row.key);
  AppendIdentity(out, row.scope);
  store::file::AppendText(out, PayloadOf(row));
  return out;
}

std::optional<TenantMemory::Row> FromShared(std::string_view bytes) {
  store::file::ByteReader reader(bytes);
  const auto version = reader.Take<uint8_t>();
  const auto kind = reader.Take<char>();
  TenantMemory::Row row{.key = TakeIdentity(reader), .scope = TakeIdentity(reader)};
  std::string payload = reader.TakeText();
  const bool is_row =
      reader.at_end() && version == kSharedVersion && SetPayload(kind, std::move(payload), row);
  return is_row ? std::optional(std::move(row)) : std::nullopt;
}

Encoded Encode(const TenantMemory::Row& row, int64_t time_us, const Keyring& ring) {
  const std::string payload = PayloadOf(row);
  std::string name;
  AppendIdentity(name, row.key);
  // The payload is part of the name, because a scope has several orders.
  if (!row.bytes) store::file::AppendValue(name, Xxh3(store::file::AsBytes(payload)).first);
  Encoded out;
  out.key += row.bytes ? kText : kOrder;
  const Keyring::Secret secret = ring.Derive("prompts", out.key + name);
  out.key.append(reinterpret_cast<const char*>(secret.data()), kNameBytes);
  std::string body;
  store::file::AppendValue(body, time_us);
  store::file::AppendText(body, payload);
  AppendIdentity(body, row.key);
  AppendIdentity(body, row.scope);
  out.value = Seal(store::file::kPromptKind, ring, out.key, body);
  return out;
}

struct Decoded {
  TenantMemory::Row row;
  int64_t time_us = 0;
  bool was_clear = false;
};

Result<Decoded> Decode(std::string_view key, std::string_view value, const Keyring& ring) {
  const Result<store::file::UnsealedValue> unsealed =
      Unseal(store::file::kPromptKind, ring, key, value);
  if (!unsealed) return unsealed.error();
  store::file::ByteReader reader(unsealed->body);
  Decoded out;
  out.was_clear = unsealed->was_clear;
  out.time_us = reader.Take<int64_t>();
  std::string payload = reader.TakeText();
  store::file::ByteReader name(key);
  auto kind = name.Take<char>();
  if (out.was_clear) {
    kind = static_cast<char>(kind - 'a' + 'A');
    out.row.key = TakeIdentity(name);
  } else {
    out.row.key = TakeIdentity(reader);
    if (unsealed->version >= kScopeVersion) out.row.scope = TakeIdentity(reader);
  }
  const bool whole = reader.at_end() && name.ok();
  if (!whole || !SetPayload(kind, std::move(payload), out.row)) {
    return Damaged(store::file::kPromptKind, "its sizes do not add up");
  }
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
  (void)Attempt("service", "keeping what was sent", [this] {
    WriteNew();
    if (options_.shared != nullptr) options_.shared->AddQueued();
  });
}

Result<void> PromptStore::Purge(store::meta::MetaStore& meta) {
  std::vector<MetaWrite> gone;
  for (const std::string_view kind : kKinds) {
    KVGATE_TRY_VOID(
        meta.Scan(MetaTable::kPrefixes, kind, [&](std::string_view key, std::string_view) {
          gone.push_back({.key = std::string(key), .value = std::nullopt});
          return true;
        }));
  }
  if (gone.empty()) return {};
  return meta.PutAll(MetaTable::kPrefixes, gone);
}

int64_t PromptStore::NowUs() const {
  return options_.now_us ? options_.now_us() : WallClock::NowUs();
}

int64_t PromptStore::OldestUs(int64_t now_us) const {
  return now_us - std::chrono::duration_cast<std::chrono::microseconds>(options_.retention).count();
}

// Rows of version 1 are rewritten sealed in the same write that deletes them. Rows sealed with
// another secret are dropped, which costs only cached tokens.
void PromptStore::Load() {
  const Keyring& ring = options_.meta.keyring();
  const int64_t oldest_us = OldestUs(NowUs());
  std::vector<MetaWrite> writes;
  std::vector<std::pair<Kept, TenantMemory::Row>> found;
  uint64_t num_clear = 0;
  const store::meta::MetaStore::Visit take = [&](std::string_view key, std::string_view value) {
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
              .bytes = key.size() + value.size(),
              .scope = decoded->row.scope};
    if (is_old) {
      Encoded sealed = Encode(decoded->row, decoded->time_us, ring);
      kept.key = sealed.key;
      kept.bytes = sealed.key.size() + sealed.value.size();
      writes.push_back({.key = std::move(sealed.key), .value = std::move(sealed.value)});
      num_clear += decoded->was_clear ? 1 : 0;
    }
    found.emplace_back(std::move(kept), std::move(decoded->row));
    return true;
  };
  Result<void> scanned;
  for (const std::string_view kind : kKinds) {
    if (scanned) scanned = options_.meta.Scan(MetaTable::kPrefixes, kind, take);
  }
  if (!scanned) {
    KVGATE_LOG(kWarning, "service", "prompts sent before are not known: {}",
               scanned.error().ToString());
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first.time_us < b.first.time_us; });
  for (auto& [kept, row] : found) {
    Keep(std::move(kept));
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

// What others have sent is heard at once, so that a gateway that was started anew sends the same.
void PromptStore::Run() {
  (void)Attempt("service", "hearing what was sent", [this] { TalkToOthers(); });
  std::unique_lock lock(mutex_);
  while (!ends_) {
    wake_.wait_for(lock, options_.write_interval, [this] { return ends_; });
    if (ends_) return;
    lock.unlock();
    (void)Attempt("service", "keeping what was sent", [this] {
      WriteNew();
      TalkToOthers();
    });
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

// The oldest rows are deleted in the same write that adds their replacements.
void PromptStore::TakeNew() {
  const std::vector<TenantMemory::Row> rows = options_.tenants.TakeNew();
  if (rows.empty()) return;
  const int64_t now_us = NowUs();
  for (const TenantMemory::Row& row : rows) {
    Encoded encoded = Encode(row, now_us, options_.meta.keyring());
    const size_t size = encoded.key.size() + encoded.value.size();
    if (size > options_.bytes_max) continue;
    Keep({.time_us = now_us, .key = encoded.key, .bytes = size, .scope = row.scope});
    unwritten_.push_back({.key = std::move(encoded.key), .value = std::move(encoded.value)});
    if (options_.shared != nullptr) options_.shared->Queue(ToShared(row));
  }
  MakeRoom(OldestUs(now_us));
}

// What is left out is of a newer version.
void PromptStore::TalkToOthers() {
  if (options_.shared == nullptr) return;
  options_.shared->Exchange([this](std::string_view bytes) {
    if (auto row = FromShared(bytes)) options_.tenants.Restore(*std::move(row));
  });
}

// The steps that may throw for lack of memory run first, so that a failure changes nothing.
void PromptStore::Keep(Kept kept) {
  std::list<Kept> row;
  row.push_back(std::move(kept));
  const Kept& added = row.front();
  Share& share = shares_[added.scope];
  share.rows.push_back(row.begin());
  share.bytes += added.bytes;
  bytes_ += added.bytes;
  if (share.bytes > options_.bytes_max / 2) largest_ = added.scope;
  kept_.splice(kept_.end(), row);
}

void PromptStore::MakeRoom(int64_t oldest_us) {
  while (!kept_.empty() && kept_.front().time_us < oldest_us) DropOldestOf(kept_.front().scope);
  while (bytes_ > options_.bytes_max) {
    const auto largest = shares_.find(largest_);
    const bool is_over = largest != shares_.end() && largest->second.bytes > options_.bytes_max / 2;
    DropOldestOf(is_over ? largest_ : kept_.front().scope);
  }
}

void PromptStore::DropOldestOf(const Scope& scope) {
  const auto share = shares_.find(scope);
  const auto oldest = share->second.rows.front();
  unwritten_.push_back({.key = oldest->key, .value = std::nullopt});
  bytes_ -= oldest->bytes;
  share->second.bytes -= oldest->bytes;
  share->second.rows.pop_front();
  if (share->second.rows.empty()) shares_.erase(share);
  kept_.erase(oldest);
}

}  // namespace kvgate::service
