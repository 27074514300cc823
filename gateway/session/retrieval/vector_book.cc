#include "gateway/session/retrieval/vector_book.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "store/directory_migration.h"
#include "store/file/byte_codec.h"
#include "store/file/sealed_kinds.h"
#include "store/meta/turn_names.h"

namespace kvgate::session::retrieval {

using store::file::ByteReader;
using store::file::kVectorsKind;
using store::meta::MetaTable;
using store::meta::MetaWrite;
using store::meta::TurnName;

namespace {

constexpr std::string_view kSource = "session.vectors";
constexpr MetaTable kTable = MetaTable::kPrefixes;
constexpr std::string_view kPrefix = "E";
constexpr size_t kTenantBytes = 1 + sizeof(TurnName);              // of a key, to its session
constexpr size_t kSessionBytes = kTenantBytes + sizeof(TurnName);  // and to its turn
constexpr size_t kCountMax = 65'536;

void Append(const TurnName& name, std::string& key) { key.append(name.begin(), name.end()); }

// The first key behind all that begin so.
std::string After(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

uint64_t HashOf(std::span<const std::string> texts) {
  std::string all;
  for (const std::string& text : texts) store::file::AppendText(all, text);
  return Xxh3(store::file::AsBytes(all)).first;
}

}  // namespace

struct VectorBook::Row {
  std::string tenant;
  std::string session;
  std::string turn;
  std::string model;
  uint64_t texts = 0;  // their hash
  std::vector<Meaning> meanings;
  Place place() const { return {.tenant = tenant, .session = session}; }
};

Result<std::unique_ptr<VectorBook>> VectorBook::Open(Options options) {
  std::unique_ptr<VectorBook> book(new VectorBook(std::move(options)));
  KVGATE_TRY_VOID(book->Restore());
  return book;
}

std::string VectorBook::PrefixOf(const Place& place) const {
  const store::meta::TurnNames names(options_.meta.keyring());
  std::string key(kPrefix);
  Append(names.Tenant(place.tenant), key);
  Append(names.Session(place.tenant, place.session), key);
  return key;
}

std::string VectorBook::KeyOf(const Place& place, std::string_view turn) const {
  std::string key = PrefixOf(place);
  Append(store::meta::TurnNames(options_.meta.keyring()).Id(place.tenant, turn), key);
  return key;
}

std::string VectorBook::Write(const Row& row, std::string_view key) const {
  std::string body;
  for (const std::string* text : {&row.tenant, &row.session, &row.turn, &row.model}) {
    store::file::AppendText(body, *text);
  }
  uint32_t dimensions = 0;
  for (const Meaning& one : row.meanings) {
    if (one.is_known()) dimensions = static_cast<uint32_t>(one.dimensions());
  }
  store::file::AppendValue(body, row.texts);
  store::file::AppendValue(body, dimensions);
  store::file::AppendValue(body, static_cast<uint32_t>(row.meanings.size()));
  for (const Meaning& one : row.meanings) {
    store::file::AppendValue(body, static_cast<uint8_t>(one.is_known() ? 1 : 0));
    body += one.bytes();
  }
  return Seal(kVectorsKind, options_.meta.keyring(), key, body);
}

Result<VectorBook::Row> VectorBook::Read(std::string_view key, std::string_view value) const {
  KVGATE_TRY(const store::file::UnsealedValue unsealed,
             Unseal(kVectorsKind, options_.meta.keyring(), key, value));
  ByteReader reader(unsealed.body);
  Row row;
  for (std::string* text : {&row.tenant, &row.session, &row.turn, &row.model}) {
    *text = reader.TakeText();
  }
  row.texts = reader.Take<uint64_t>();
  const auto dimensions = reader.Take<uint32_t>();
  const auto count = reader.Take<uint32_t>();
  if (count > kCountMax) return Damaged(kVectorsKind, "it has too many vectors");
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    const bool is_known = reader.Take<uint8_t>() != 0;
    row.meanings.push_back(is_known ? Meaning::FromBytes(reader.TakeBytes(dimensions)) : Meaning());
  }
  if (!reader.at_end()) return Damaged(kVectorsKind, "its sizes do not add up");
  return row;
}

void VectorBook::Account(std::string_view key, size_t before, size_t after) {
  const std::string prefix(key.substr(0, kSessionBytes));
  Kept& kept = kept_[prefix];
  kept.bytes = kept.bytes - before + after;
  bytes_ = bytes_ - before + after;
  if (kept.bytes == 0) kept_.erase(prefix);
}

Result<void> VectorBook::Restore() {
  const Keyring& ring = options_.meta.keyring();
  std::vector<std::string> to_read;
  const auto visit = [&](std::string_view key, std::string_view value) {
    const std::string prefix(key.substr(0, kSessionBytes));
    // Of each session one row tells if all are named and wanted still.
    const bool is_first = !kept_.contains(prefix);
    if (is_first || !store::IsSealedWithFirst(ring, value)) to_read.emplace_back(key);
    Account(key, 0, key.size() + value.size());
    return true;
  };
  KVGATE_TRY_VOID(options_.meta.Scan(kTable, kPrefix, visit));
  for (const std::string& key : to_read) {
    KVGATE_TRY(const bool is_renamed, Renew(key));
    if (is_renamed) KVGATE_TRY_VOID(RenewSession(key.substr(0, kSessionBytes)));
  }
  return {};
}

Result<void> VectorBook::RenewSession(const std::string& prefix) {
  std::vector<std::string> keys;
  KVGATE_TRY_VOID(
      options_.meta.Scan(kTable, prefix, [&](std::string_view key, std::string_view /*value*/) {
        keys.emplace_back(key);
        return true;
      }));
  for (const std::string& key : keys) KVGATE_TRY_VOID(Renew(key));
  return {};
}

Result<bool> VectorBook::Renew(const std::string& key) {
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, key));
  if (!value) return false;
  const Result<Row> row = Read(key, *value);
  if (!row) {
    KVGATE_LOG(kWarning, kSource, "absent: {}", row.error().ToString());
    if (row.error().code == ErrorCode::kDataLoss) KVGATE_TRY_VOID(Delete(key));
    return false;
  }
  if (options_.has_turn && !options_.has_turn(row->place(), row->turn)) {
    KVGATE_TRY_VOID(DeleteSession(key.substr(0, kSessionBytes)));
    return false;
  }
  const std::string name = KeyOf(row->place(), row->turn);
  const bool is_renamed = name != key;
  if (!is_renamed && store::IsSealedWithFirst(options_.meta.keyring(), *value)) return false;
  if (is_renamed) KVGATE_TRY_VOID(Delete(key));
  std::string anew = Write(*row, name);
  const MetaWrite write{.key = name, .value = std::move(anew)};
  KVGATE_TRY_VOID(options_.meta.PutAll(kTable, {&write, 1}));
  const size_t before = is_renamed ? 0 : key.size() + value->size();
  Account(name, before, name.size() + write.value->size());
  return is_renamed;
}

Result<void> VectorBook::Delete(const std::string& key) {
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, key));
  if (!value) return {};
  KVGATE_TRY_VOID(options_.meta.Delete(kTable, key));
  Account(key, key.size() + value->size(), 0);
  return {};
}

Result<void> VectorBook::DeleteSession(const std::string& prefix) {
  const auto kept = kept_.find(prefix);
  if (kept == kept_.end()) return {};
  const MetaWrite write{.key = prefix, .value = std::nullopt, .until = After(prefix)};
  KVGATE_TRY_VOID(options_.meta.PutAll(kTable, {&write, 1}));
  bytes_ -= kept->second.bytes;
  kept_.erase(kept);
  return {};
}

Result<std::optional<std::vector<Meaning>>> VectorBook::Get(const Place& place,
                                                            std::string_view turn,
                                                            std::span<const std::string> texts) {
  const std::string key = KeyOf(place, turn);
  KVGATE_TRY(const auto value, options_.meta.Get(kTable, key));
  if (!value) return std::nullopt;
  Result<Row> row = Read(key, *value);
  if (!row) {
    KVGATE_LOG(kWarning, kSource, "they are made again: {}", row.error().ToString());
    const std::lock_guard lock(mutex_);
    KVGATE_TRY_VOID(Delete(key));
    return std::nullopt;
  }
  const bool is_of_these = row->model == options_.model && row->meanings.size() == texts.size() &&
                           row->texts == HashOf(texts);
  if (!is_of_these) return std::nullopt;
  return std::move(row->meanings);
}

Result<void> VectorBook::ForEach(const Place& place, const TextsOf& texts_of, const Visit& visit) {
  std::vector<std::string> damaged;
  const auto look = [&](std::string_view key, std::string_view value) {
    Result<Row> row = Read(key, value);
    if (!row) {
      KVGATE_LOG(kWarning, kSource, "they are made again: {}", row.error().ToString());
      damaged.emplace_back(key);
      return true;
    }
    if (row->model != options_.model) return true;
    const std::vector<std::string> texts = texts_of(row->turn);
    const bool is_of_these = row->meanings.size() == texts.size() && row->texts == HashOf(texts);
    if (is_of_these) visit(row->turn, std::move(row->meanings));
    return true;
  };
  KVGATE_TRY_VOID(options_.meta.Scan(kTable, PrefixOf(place), look));
  const std::lock_guard lock(mutex_);
  for (const std::string& key : damaged) KVGATE_TRY_VOID(Delete(key));
  return {};
}

Result<void> VectorBook::MakeRoom(const std::string& prefix, size_t bytes) {
  const std::string tenant = prefix.substr(0, kTenantBytes);
  while (bytes_ + bytes > options_.bytes_max) {
    size_t of_tenant = 0;
    for (const auto& [key, kept] : kept_) of_tenant += key.starts_with(tenant) ? kept.bytes : 0;
    const bool is_above_share = of_tenant > options_.bytes_max / 2;
    const auto oldest = [&](bool only_own) {
      auto found = kept_.end();
      for (auto one = kept_.begin(); one != kept_.end(); ++one) {
        if (one->first == prefix || (only_own && !one->first.starts_with(tenant))) continue;
        const bool is_older =
            found == kept_.end() || one->second.last_written < found->second.last_written;
        if (is_older) found = one;
      }
      return found;
    };
    auto victim = oldest(is_above_share);
    if (victim == kept_.end()) victim = oldest(/*only_own=*/false);
    if (victim == kept_.end()) {
      return MakeError(ErrorCode::kTooLarge, std::string(kSource),
                       "the vectors of one session have no room");
    }
    const std::string key = victim->first;
    KVGATE_TRY_VOID(DeleteSession(key));
  }
  return {};
}

Result<void> VectorBook::LookAtOne() {
  auto next = kept_.upper_bound(looked_at_);
  if (next == kept_.end()) next = kept_.begin();
  if (next == kept_.end() || !options_.has_turn) return {};
  looked_at_ = next->first;
  std::optional<Row> row;
  KVGATE_TRY_VOID(
      options_.meta.Scan(kTable, looked_at_, [&](std::string_view key, std::string_view value) {
        if (Result<Row> read = Read(key, value)) row = *std::move(read);
        return false;
      }));
  const bool is_gone = row && !options_.has_turn(row->place(), row->turn);
  return is_gone ? DeleteSession(looked_at_) : Result<void>();
}

Result<void> VectorBook::Put(const Place& place, std::string_view turn,
                             std::span<const std::string> texts,
                             std::span<const Meaning> meanings) {
  const std::lock_guard lock(mutex_);
  if (options_.has_turn && !options_.has_turn(place, turn)) return {};
  const std::string key = KeyOf(place, turn);
  std::string value = Write({.tenant = std::string(place.tenant),
                             .session = std::string(place.session),
                             .turn = std::string(turn),
                             .model = options_.model,
                             .texts = HashOf(texts),
                             .meanings = {meanings.begin(), meanings.end()}},
                            key);
  KVGATE_TRY_VOID(Delete(key));
  KVGATE_TRY_VOID(MakeRoom(key.substr(0, kSessionBytes), key.size() + value.size()));
  const MetaWrite write{.key = key, .value = std::move(value)};
  KVGATE_TRY_VOID(options_.meta.PutAll(kTable, {&write, 1}));
  Account(key, 0, key.size() + write.value->size());
  kept_[key.substr(0, kSessionBytes)].last_written = ++num_writes_;
  return LookAtOne();
}

Result<void> VectorBook::Remove(const Place& place) {
  const std::lock_guard lock(mutex_);
  return DeleteSession(PrefixOf(place));
}

size_t VectorBook::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kvgate::session::retrieval
