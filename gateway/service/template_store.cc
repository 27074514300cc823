#include "gateway/service/template_store.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_fence.h"
#include "base/utf8.h"
#include "gateway/service/branches/branch_format.h"
#include "store/directory_migration.h"
#include "store/file/byte_codec.h"
#include "store/file/sealed_kinds.h"

namespace kvgate::service {

using prompt::parse::Identity;
using prompt::templates::Slot;
using prompt::templates::Template;
using prompt::templates::Templates;
using store::file::ByteReader;
using store::file::kTemplatesKind;
using store::meta::MetaTable;
using store::meta::MetaWrite;

struct TemplateStore::Found {
  Templates::Learnt learnt;
  int64_t time_us = 0;
  std::string key;
  bool is_sealed_with_first = false;
};

namespace {

// The table holds rows of PromptStore and BranchStore as well.
constexpr std::string_view kRows = "V";
constexpr size_t kNameBytes = 16;
// Bounds of what is read back. Patterns are cut to theirs when they are written.
constexpr uint32_t kTemplatesMax = 1U << 12;
constexpr size_t kPatternBytesMax = 1U << 12;
constexpr size_t kModelNameMax = 1U << 10;
constexpr uint8_t kSharedVersion = 1;  // of a row as other gateways are told it

std::string RowKey(const Keyring& ring, const Identity& model) {
  std::string name;
  store::file::AppendValue(name, model.low);
  store::file::AppendValue(name, model.high);
  const Keyring::Secret secret = ring.Derive("templates", name);
  std::string key(kRows);
  key.append(reinterpret_cast<const char*>(secret.data()), kNameBytes);
  return key;
}

void AppendTemplate(std::string& out, const Template& it) {
  branches::AppendSlot(out, *it.slot);
  store::file::AppendValue(out, static_cast<uint8_t>(it.is_slot));
  const std::string_view pattern = it.pattern;
  const size_t end = Utf8CutBefore(pattern, std::min(pattern.size(), kPatternBytesMax));
  store::file::AppendText(out, pattern.substr(0, end));
  for (const uint32_t count : {it.value_changes, it.word_changes, it.conversations, it.begun,
                               it.begun_changed, it.line_tokens, it.stake_tokens}) {
    store::file::AppendValue(out, count);
  }
  store::file::AppendValue(out, it.last_line);
}

std::optional<Template> TakeTemplate(ByteReader& reader) {
  std::optional<Slot> slot = branches::TakeSlot(reader);
  if (!slot || slot->id == 0) return std::nullopt;
  Template it;
  it.slot = std::make_shared<const Slot>(std::move(*slot));
  it.is_slot = reader.Take<uint8_t>() != 0;
  it.pattern = reader.TakeText();
  for (uint32_t* count : {&it.value_changes, &it.word_changes, &it.conversations, &it.begun,
                          &it.begun_changed, &it.line_tokens, &it.stake_tokens}) {
    *count = reader.Take<uint32_t>();
  }
  it.last_line = reader.Take<uint64_t>();
  if (!reader.ok() || it.pattern.size() > kPatternBytesMax) return std::nullopt;
  return it;
}

std::string Encode(const Templates::Learnt& learnt, int64_t time_us) {
  std::string body;
  store::file::AppendValue(body, time_us);
  store::file::AppendValue(body, learnt.scope.tenant.low);
  store::file::AppendValue(body, learnt.scope.tenant.high);
  store::file::AppendText(body, learnt.scope.model);
  const size_t count = std::min<size_t>(learnt.templates.size(), kTemplatesMax);
  store::file::AppendValue(body, static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) AppendTemplate(body, learnt.templates[i]);
  return body;
}

uint64_t ChangesOf(const Templates::Learnt& learnt) {
  uint64_t sum = 0;
  for (const Template& it : learnt.templates) sum += it.num_changes();
  return sum;
}

// A row as other gateways are told it (store/FORMAT.md).
std::string ToShared(std::string_view body) {
  std::string row(1, static_cast<char>(kSharedVersion));
  row += body;
  return row;
}

struct Decoded {
  Templates::Learnt learnt;
  int64_t time_us = 0;
};

Result<Decoded> Decode(std::string_view body) {
  ByteReader reader(body);
  Decoded out;
  out.time_us = reader.Take<int64_t>();
  Templates::Scope& scope = out.learnt.scope;
  scope.tenant.low = reader.Take<uint64_t>();
  scope.tenant.high = reader.Take<uint64_t>();
  scope.model = reader.TakeText();
  const auto count = reader.Take<uint32_t>();
  bool is_whole = scope.model.size() <= kModelNameMax && count <= kTemplatesMax;
  for (uint32_t i = 0; i < count && is_whole; ++i) {
    std::optional<Template> it = TakeTemplate(reader);
    is_whole = it.has_value();
    if (it) out.learnt.templates.push_back(std::move(*it));
  }
  if (!is_whole || !reader.at_end()) {
    return store::file::Damaged(kTemplatesKind, "its sizes do not add up");
  }
  return out;
}

}  // namespace

TemplateStore::TemplateStore(const Options& options) : options_(options) {
  Load();
  thread_ = std::thread([this] { Run(); });
}

// The first step may have to write what a failed write has left; the second one takes the rest.
TemplateStore::~TemplateStore() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
  for (int step = 0; step < 2; ++step) {
    (void)Attempt("service", "keeping what was learnt", [this] { WriteNew(); });
  }
  if (options_.shared == nullptr) return;
  (void)Attempt("service", "telling what was learnt", [this] { options_.shared->AddQueued(); });
}

Result<void> TemplateStore::Purge(store::meta::MetaStore& meta) {
  std::vector<MetaWrite> gone;
  KVGATE_TRY_VOID(
      meta.Scan(MetaTable::kPrefixes, kRows, [&](std::string_view key, std::string_view) {
        gone.push_back({.key = std::string(key), .value = std::nullopt});
        return true;
      }));
  if (gone.empty()) return {};
  return meta.PutAll(MetaTable::kPrefixes, gone);
}

int64_t TemplateStore::NowUs() const {
  return options_.now_us ? options_.now_us() : WallClock::NowUs();
}

int64_t TemplateStore::OldestUs() const {
  return NowUs() -
         std::chrono::duration_cast<std::chrono::microseconds>(options_.retention).count();
}

// Rows sealed with another secret are dropped, which costs only what they taught.
std::vector<TemplateStore::Found> TemplateStore::Scan() {
  const Keyring& ring = options_.meta.keyring();
  const int64_t oldest_us = OldestUs();
  std::vector<Found> found;
  const store::meta::MetaStore::Visit take = [&](std::string_view key, std::string_view value) {
    const auto unsealed = Unseal(kTemplatesKind, ring, key, value);
    Result<Decoded> decoded = unsealed ? Decode(unsealed->body) : unsealed.error();
    if (!decoded && decoded.error().code != ErrorCode::kPermissionDenied) {
      KVGATE_LOG(kWarning, "service", "dropped: {}", decoded.error().ToString());
    }
    if (!decoded || decoded->time_us < oldest_us) {
      Delete(std::string(key));
      return true;
    }
    found.push_back({.learnt = std::move(decoded->learnt),
                     .time_us = decoded->time_us,
                     .key = std::string(key),
                     .is_sealed_with_first = store::IsSealedWithFirst(ring, value)});
    return true;
  };
  const auto scanned = options_.meta.Scan(MetaTable::kPrefixes, kRows, take);
  if (!scanned) {
    KVGATE_LOG(kWarning, "service", "what was learnt of prompts is not known: {}",
               scanned.error().ToString());
  }
  return found;
}

// Rows that other secrets have sealed or named are written again by those of now. Of two rows for
// one model, which only a failure of that leaves, the newer one holds.
void TemplateStore::Load() {
  const Keyring& ring = options_.meta.keyring();
  std::vector<Found> found = Scan();
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.time_us > b.time_us; });
  for (Found& row : found) {
    const Identity model = Templates::KeyOf(row.learnt.scope);
    std::string key = RowKey(ring, model);
    if (row.key != key) Delete(row.key);
    if (rows_.contains(model)) continue;
    if (row.key != key || !row.is_sealed_with_first) {
      const std::string body = Encode(row.learnt, row.time_us);
      unwritten_.push_back({.key = key, .value = Seal(kTemplatesKind, ring, key, body)});
    }
    kept_.push_back({.model = model, .key = std::move(key), .time_us = row.time_us});
    rows_.emplace(model, std::prev(kept_.end()));
    options_.templates.Restore(std::move(row.learnt));
  }
  if (unwritten_.empty()) return;
  (void)Attempt("service", "keeping what was learnt", [this] { WriteNew(); });
}

// What others know is heard at once, so that a gateway that was started anew begins with it.
void TemplateStore::Run() {
  (void)Attempt("service", "hearing what was learnt", [this] { TalkToOthers(); });
  std::unique_lock lock(mutex_);
  while (!ends_) {
    wake_.wait_for(lock, options_.write_interval, [this] { return ends_; });
    if (ends_) return;
    lock.unlock();
    (void)Attempt("service", "keeping what was learnt", [this] {
      WriteNew();
      TalkToOthers();
    });
    lock.lock();
  }
}

void TemplateStore::WriteNew() {
  if (unwritten_.empty()) TakeChanged();
  if (unwritten_.empty()) return;
  const auto written = options_.meta.PutAll(MetaTable::kPrefixes, unwritten_);
  if (written) {
    unwritten_.clear();
  } else if (!told_) {
    KVGATE_LOG(kWarning, "service", "what is learnt now will not be known after a restart: {}",
               written.error().ToString());
  }
  told_ = !written;
}

// Where memory runs out, all that was taken is gone through again the next time, which is harmless.
void TemplateStore::TakeChanged() {
  const Keyring& ring = options_.meta.keyring();
  if (taken_.learnt.empty() && taken_.left.empty()) taken_ = options_.templates.TakeChanged();
  const int64_t now_us = NowUs();
  for (const Identity& model : taken_.left) Drop(model);
  for (const Templates::Learnt& learnt : taken_.learnt) {
    const Identity model = Templates::KeyOf(learnt.scope);
    std::string key = RowKey(ring, model);
    const std::string body = Encode(learnt, now_us);
    unwritten_.push_back({.key = key, .value = Seal(kTemplatesKind, ring, key, body)});
    const uint64_t num_changes = ChangesOf(learnt);
    const auto row = rows_.find(model);
    // That a conversation began with a line is no news to others.
    const bool is_told = row != rows_.end() && row->second->num_told == num_changes;
    if (options_.shared != nullptr && !is_told) options_.shared->Queue(ToShared(body));
    Keep({.model = model, .key = std::move(key), .time_us = now_us, .num_told = num_changes});
  }
  taken_ = {};
  const int64_t oldest_us = OldestUs();
  while (!kept_.empty() && kept_.back().time_us < oldest_us) Drop(kept_.back().model);
}

// What is left out is of a newer version.
void TemplateStore::TalkToOthers() {
  if (options_.shared == nullptr) return;
  options_.shared->Exchange([this](std::string_view row) {
    if (row.empty() || static_cast<uint8_t>(row[0]) != kSharedVersion) return;
    if (auto decoded = Decode(row.substr(1))) options_.templates.Merge(std::move(decoded->learnt));
  });
}

void TemplateStore::Keep(Kept kept) {
  if (const auto known = rows_.find(kept.model); known != rows_.end()) {
    known->second->time_us = kept.time_us;
    known->second->num_told = kept.num_told;
    kept_.splice(kept_.begin(), kept_, known->second);
    return;
  }
  std::list<Kept> row;
  row.push_back(std::move(kept));
  rows_.emplace(row.front().model, row.begin());
  kept_.splice(kept_.begin(), row);
}

void TemplateStore::Drop(const Identity& model) {
  const auto known = rows_.find(model);
  if (known == rows_.end()) return;
  Delete(known->second->key);
  kept_.erase(known->second);
  rows_.erase(known);
}

void TemplateStore::Delete(std::string key) {
  unwritten_.push_back({.key = std::move(key), .value = std::nullopt});
}

}  // namespace kvgate::service
