#include "gateway/session/memory/memory_book.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::memory {

using protocol::form::JsonWriter;
using store::meta::MetaTable;
using store::meta::MetaWrite;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session.memory";
constexpr std::string_view kPurpose = "memory";
constexpr char kRow = 'M';
constexpr size_t kNameBytes = 16;
constexpr int64_t kVersion = 1;

std::string Named(const Keyring& ring, std::string_view purpose, std::string_view name) {
  const Keyring::Secret secret = ring.Derive(purpose, name);
  return {reinterpret_cast<const char*>(secret.data()), kNameBytes};
}

std::string TenantKey(const Keyring& ring, std::string_view tenant) {
  return kRow + Named(ring, "memory.tenant", tenant);
}

struct Row {
  std::string tenant;
  std::string session;
  Memory memory;
};

std::string ToText(const MemoryBook::Place& place, const Memory& memory) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject().Key("version").Integer(kVersion).Key("tenant").String(place.tenant);
  json.Key("session").String(place.session).Key("updated_us").Integer(memory.updated_us);
  if (memory.retrieves) json.Key("retrieval").Integer(*memory.retrieves ? 1 : 2);
  json.Key("facts");
  WriteEntries(memory.entries, json);
  json.EndObject();
  return text;
}

// Sealed for its purpose alone, because a row may have to be named anew; whose it is stands inside.
Result<Row> Read(const Keyring& ring, std::string_view sealed) {
  KVGATE_TRY(const std::string text, ring.Open({.purpose = kPurpose}, sealed));
  const auto object = RawObject::Read(text);
  if (!object || object->IntegerAt("version") != kVersion) {
    return MakeError(ErrorCode::kUnsupported, kSource, "a memory is of another version");
  }
  Row row{.tenant = object->StringAt("tenant"),
          .session = object->StringAt("session"),
          .memory = {.updated_us = object->IntegerAt("updated_us")}};
  if (const int64_t retrieval = object->IntegerAt("retrieval"); retrieval != 0) {
    row.memory.retrieves = retrieval == 1;
  }
  KVGATE_TRY(row.memory.entries, ReadEntries(object->At("facts"), "facts"));
  return row;
}

int64_t SystemUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<std::unique_ptr<MemoryBook>> MemoryBook::Open(Options options) {
  if (!options.now_us) options.now_us = SystemUs;
  std::unique_ptr<MemoryBook> book(new MemoryBook(std::move(options)));
  KVGATE_TRY_VOID(book->Restore());
  return book;
}

std::string MemoryBook::KeyOf(const Place& place) const {
  const Keyring& ring = options_.meta.keyring();
  std::string name = fmt::format("{}:", place.tenant.size());
  name += place.tenant;
  name += place.session;
  return TenantKey(ring, place.tenant) + Named(ring, "memory.session", name);
}

Result<void> MemoryBook::Restore() {
  const Keyring& ring = options_.meta.keyring();
  struct Found {
    std::string key;
    std::string sealed;
  };
  std::vector<Found> rows;
  KVGATE_TRY_VOID(options_.meta.Scan(MetaTable::kPrefixes, std::string(1, kRow),
                                     [&](std::string_view key, std::string_view value) {
                                       rows.push_back({std::string(key), std::string(value)});
                                       return true;
                                     }));
  std::vector<MetaWrite> writes;
  size_t num_locked = 0;
  const std::string newest = ring.Seal({.purpose = kPurpose}, "");
  const int64_t oldest_us = options_.now_us() - options_.orphan_age_us;
  for (const Found& row : rows) {
    if (!ring.Knows(row.sealed)) {
      ++num_locked;
      continue;
    }
    const Result<Row> read = Read(ring, row.sealed);
    if (!read) {
      KVGATE_LOG(kWarning, "store", "a memory cannot be read and is dropped: {}",
                 read.error().ToString());
      writes.push_back({.key = row.key, .value = std::nullopt});
      continue;
    }
    const Place place{.tenant = read->tenant, .session = read->session};
    const bool is_old = !place.session.empty() && read->memory.updated_us < oldest_us;
    if (is_old && options_.has_session && !options_.has_session(place)) {
      writes.push_back({.key = row.key, .value = std::nullopt});
      continue;
    }
    const std::string key = KeyOf(place);
    ++num_rows_[key.substr(0, 1 + kNameBytes)];
    // Version and key of what is sealed stand in its first nine bytes.
    const bool is_newest = row.sealed.substr(0, 9) == newest.substr(0, 9);
    if (key == row.key && is_newest) continue;
    if (key != row.key) writes.push_back({.key = row.key, .value = std::nullopt});
    writes.push_back(
        {.key = key, .value = ring.Seal({.purpose = kPurpose}, ToText(place, read->memory))});
  }
  if (num_locked > 0) {
    KVGATE_LOG(kWarning, "store",
               "{} memories are sealed with a secret that is not there, and absent", num_locked);
  }
  return writes.empty() ? Result<void>() : options_.meta.PutAll(MetaTable::kPrefixes, writes);
}

Result<Memory> MemoryBook::Get(const Place& place) const {
  KVGATE_TRY(const auto sealed, options_.meta.Get(MetaTable::kPrefixes, KeyOf(place)));
  if (!sealed || !options_.meta.keyring().Knows(*sealed)) return Memory();
  Result<Row> row = Read(options_.meta.keyring(), *sealed);
  if (!row || row->tenant != place.tenant || row->session != place.session) {
    KVGATE_LOG(kWarning, "store", "a memory is damaged, and taken for none");
    return Memory();
  }
  return std::move(row->memory);
}

Result<Entries> MemoryBook::EntriesOf(const Place& session) const {
  KVGATE_TRY(Memory all, Get({.tenant = session.tenant}));
  if (session.session.empty()) return std::move(all.entries);
  KVGATE_TRY(const Memory own, Get(session));
  Apply(own.entries, all.entries);
  return std::move(all.entries);
}

Result<void> MemoryBook::Write(const std::string& key, const Place& place, const Memory& memory) {
  return options_.meta.Put(
      MetaTable::kPrefixes, key,
      options_.meta.keyring().Seal({.purpose = kPurpose}, ToText(place, memory)));
}

Result<Memory> MemoryBook::Update(const Place& place, const Change& change) {
  const std::lock_guard lock(mutex_);
  KVGATE_TRY(Memory memory, Get(place));
  const bool was_there = memory.updated_us != 0;
  KVGATE_TRY_VOID(change(memory));
  KVGATE_TRY_VOID(CheckSize(memory.entries));
  const std::string key = KeyOf(place);
  size_t& num_rows = num_rows_[key.substr(0, 1 + kNameBytes)];
  if (memory.is_empty()) {
    if (was_there) KVGATE_TRY_VOID(options_.meta.Delete(MetaTable::kPrefixes, key));
    num_rows -= was_there && num_rows > 0 ? 1 : 0;
    memory.updated_us = 0;
    return memory;
  }
  if (!was_there && num_rows >= kSessionsMax) {
    return MakeError(
        ErrorCode::kTooLarge, kSource,
        fmt::format("There are {} memories already; delete some that are not needed.", num_rows));
  }
  memory.updated_us = std::max<int64_t>(1, options_.now_us());
  KVGATE_TRY_VOID(Write(key, place, memory));
  num_rows += was_there ? 0 : 1;
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
