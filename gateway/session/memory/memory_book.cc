#include "gateway/session/memory/memory_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/session/transcript/raw_object.h"
#include "store/directory_migration.h"
#include "store/file/sealed_kinds.h"
#include "store/meta/turn_names.h"

namespace kvgate::session::memory {

using dialect::form::JsonWriter;
using store::file::kMemoryKind;
using store::meta::MetaTable;
using store::meta::MetaWrite;
using store::meta::TurnName;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session.memory";
constexpr MetaTable kTable = MetaTable::kPrefixes;
constexpr std::string_view kPrefix = "M";
constexpr size_t kTenantBytes = 1 + sizeof(TurnName);  // of a key, up to its session

void Append(const TurnName& name, std::string& key) { key.append(name.begin(), name.end()); }

struct Row {
  std::string tenant;
  std::string session;
  Memory memory;
};

std::string ToText(const MemoryBook::Place& place, const Memory& memory) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject().Key("tenant").String(place.tenant).Key("session").String(place.session);
  json.Key("updated_us").Integer(memory.updated_us);
  if (memory.retrieves) json.Key("retrieval").Integer(*memory.retrieves ? 1 : 2);
  json.Key("facts");
  WriteEntries(memory.entries, json);
  json.EndObject();
  return text;
}

Result<Row> Read(const Keyring& ring, std::string_view key, std::string_view value) {
  KVGATE_TRY(const store::file::UnsealedValue unsealed, Unseal(kMemoryKind, ring, key, value));
  const auto object = RawObject::Read(unsealed.body);
  if (!object) return Damaged(kMemoryKind, "it is no JSON object");
  Row row{.tenant = object->StringAt("tenant"),
          .session = object->StringAt("session"),
          .memory = {.updated_us = object->IntegerAt("updated_us")}};
  if (const int64_t retrieval = object->IntegerAt("retrieval"); retrieval != 0) {
    row.memory.retrieves = retrieval == 1;
  }
  KVGATE_TRY(row.memory.entries, ReadEntries(object->At("facts"), "facts"));
  return row;
}

}  // namespace

Result<std::unique_ptr<MemoryBook>> MemoryBook::Open(Options options) {
  if (!options.now_us) options.now_us = WallClock::NowUs;
  std::unique_ptr<MemoryBook> book(new MemoryBook(std::move(options)));
  KVGATE_TRY_VOID(book->Restore());
  return book;
}

std::string MemoryBook::KeyOf(const Place& place) const {
  const store::meta::TurnNames names(options_.meta.keyring());
  std::string key(kPrefix);
  Append(names.Tenant(place.tenant), key);
  Append(names.Session(place.tenant, place.session), key);
  return key;
}

MetaWrite MemoryBook::WriteOf(const Place& place, const Memory& memory) const {
  std::string key = KeyOf(place);
  std::string value = Seal(kMemoryKind, options_.meta.keyring(), key, ToText(place, memory));
  return {.key = std::move(key), .value = std::move(value)};
}

Result<void> MemoryBook::Restore() {
  const Keyring& ring = options_.meta.keyring();
  std::vector<MetaWrite> writes;
  const int64_t oldest_us = options_.now_us() - options_.orphan_age_us;
  const auto visit = [&](std::string_view key, std::string_view value) {
    const Result<Row> row = Read(ring, key, value);
    if (!row) {
      KVGATE_LOG(kWarning, kSource, "absent: {}", row.error().ToString());
      if (row.error().code == ErrorCode::kDataLoss)
        writes.push_back({.key = std::string(key), .value = std::nullopt});
      return true;
    }
    const Place place{.tenant = row->tenant, .session = row->session};
    const bool is_old = !place.session.empty() && row->memory.updated_us < oldest_us;
    if (is_old && options_.has_session && !options_.has_session(place)) {
      writes.push_back({.key = std::string(key), .value = std::nullopt});
      return true;
    }
    MetaWrite anew = WriteOf(place, row->memory);
    ++num_rows_[anew.key.substr(0, kTenantBytes)];
    const bool is_renamed = anew.key != key;
    if (is_renamed) writes.push_back({.key = std::string(key), .value = std::nullopt});
    if (is_renamed || !store::IsSealedWithFirst(ring, value)) writes.push_back(std::move(anew));
    return true;
  };
  KVGATE_TRY_VOID(options_.meta.Scan(kTable, kPrefix, visit));
  return writes.empty() ? Result<void>() : options_.meta.PutAll(kTable, writes);
}

Result<Memory> MemoryBook::Get(const Place& place) const {
  const std::string key = KeyOf(place);
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, key));
  if (!value) return Memory();
  Result<Row> row = Read(options_.meta.keyring(), key, *value);
  if (row) return std::move(row->memory);
  KVGATE_LOG(kWarning, kSource, "taken for none: {}", row.error().ToString());
  return Memory();
}

Result<Memory> MemoryBook::Holding(const Place& session) const {
  KVGATE_TRY(Memory all, Get({.tenant = session.tenant}));
  KVGATE_TRY(const Memory own, Get(session));
  Apply(own.entries, all.entries);
  if (own.retrieves) all.retrieves = own.retrieves;
  return all;
}

Result<Memory> MemoryBook::Update(const Place& place, const Change& change) {
  const std::lock_guard lock(mutex_);
  KVGATE_TRY(Memory memory, Get(place));
  const bool was_there = memory.updated_us != 0;
  KVGATE_TRY_VOID(change(memory));
  KVGATE_TRY_VOID(CheckSize(memory.entries));
  const std::string key = KeyOf(place);
  const std::string tenant = key.substr(0, kTenantBytes);
  if (memory.is_empty()) {
    memory.updated_us = 0;
    if (!was_there) return memory;
    KVGATE_TRY_VOID(options_.meta.Delete(kTable, key));
    if (--num_rows_[tenant] == 0) num_rows_.erase(tenant);
    return memory;
  }
  const auto rows = num_rows_.find(tenant);
  if (!was_there && rows != num_rows_.end() && rows->second >= kSessionsMax) {
    return MakeError(ErrorCode::kTooLarge, kSource,
                     fmt::format("There are {} memories already; delete some that are not needed.",
                                 rows->second));
  }
  memory.updated_us = std::max<int64_t>(1, options_.now_us());
  const MetaWrite write = WriteOf(place, memory);
  KVGATE_TRY_VOID(options_.meta.PutAll(kTable, {&write, 1}));
  if (!was_there) ++num_rows_[tenant];
  return memory;
}

Result<void> MemoryBook::Remove(const Place& place) {
  const auto clear = [](Memory& memory) {
    memory = {.updated_us = memory.updated_us};
    return Result<void>();
  };
  KVGATE_TRY(const Memory left, Update(place, clear));
  return {};
}

}  // namespace kvgate::session::memory
