#include "gateway/ledger/rollup/rollups.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace kvgate::ledger::rollup {
namespace {

using store::meta::MetaTable;
using store::meta::MetaWrite;

constexpr int64_t kRetireIntervalUs = kMinuteUs;
constexpr std::string_view kNotePrefix = "j/";

std::string NoteKey(uint64_t number) { return fmt::format("{}{:016x}", kNotePrefix, number); }

// 0 if the key is not one of NoteKey.
uint64_t NumberOfNote(std::string_view key) {
  uint64_t number = 0;
  const std::string_view digits = key.substr(std::min(key.size(), kNotePrefix.size()));
  (void)std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

std::string PlacePrefix(Step step, int64_t minute, std::string_view scope) {
  return TimePrefix(step, minute).append("/").append(scope).append("/");
}

std::string KeyOf(Step step, int64_t minute, const std::string& scope,
                  const std::pair<By, std::string>& name) {
  return GroupPrefix({.step = step, .minute = minute, .scope = scope, .by = name.first})
      .append(name.second);
}

}  // namespace

void Rollups::AddTo(Held& held, const Name& name, const Bucket& bucket) {
  auto found = held.buckets.find(name);
  if (found == held.buckets.end()) {
    size_t& num_names = held.num_names[name.first];
    const bool fits = num_names + 1 < kNamesMax || name.second == kOther;
    const Name place = fits ? name : Name(name.first, kOther);
    bool is_new = false;
    std::tie(found, is_new) = held.buckets.try_emplace(place);
    if (is_new) ++num_names;
  }
  found->second.Merge(bucket);
  held.changed.insert(found->first);
}

Result<void> Rollups::LoadPlace(const Place& place) {
  Held held;
  const std::string prefix = PlacePrefix(place.step, place.minute, place.scope);
  KVGATE_TRY_VOID(
      meta_.Scan(MetaTable::kLedger, prefix, [&](std::string_view key, std::string_view value) {
        const std::string_view rest = key.substr(prefix.size());
        const size_t slash = rest.find('/');
        const std::optional<By> by = ParseBy(rest.substr(0, slash));
        Bucket bucket;
        if (!by || slash == std::string_view::npos || !DecodeBucket(value, bucket)) {
          KVGATE_LOG(kWarning, "ledger", "the rollup '{}' cannot be read; it begins anew", key);
          return true;
        }
        held.buckets.emplace(Name(*by, rest.substr(slash + 1)), std::move(bucket));
        ++held.num_names[*by];
        return true;
      }));
  held_.emplace(place, std::move(held));
  return {};
}

Result<void> Rollups::Load(const Batch& batch) {
  for (const auto& [key, names] : batch.sums()) {
    for (const std::string& scope : {ScopeOfAll(), ScopeOfTenant(key.tenant)}) {
      for (const Step step : kSteps) {
        const Place place{.step = step, .minute = BeginOf(step, key.minute), .scope = scope};
        if (!held_.contains(place)) KVGATE_TRY_VOID(LoadPlace(place));
        held_[place].used = num_sums_;
      }
    }
  }
  return {};
}

Result<void> Rollups::Restore() {
  return meta_.Scan(
      MetaTable::kLedger, kNotePrefix, [this](std::string_view key, std::string_view value) {
        if (!noted_.AddEncoded(value)) {
          KVGATE_LOG(kWarning, "ledger",
                     "the note '{}' cannot be read; its requests are in no rollup", key);
        }
        notes_.emplace_back(key);
        next_note_ = NumberOfNote(key) + 1;
        return true;
      });
}

std::vector<MetaWrite> Rollups::Note(std::span<const Entry> entries) {
  is_note_ = true;
  step_.Clear();
  for (const Entry& entry : entries) step_.Add(entry);
  if (step_.empty()) return {};
  return {{.key = NoteKey(next_note_), .value = step_.Encode()}};
}

Result<std::vector<MetaWrite>> Rollups::Sum(std::span<const Entry> entries) {
  is_note_ = false;
  ++num_sums_;
  step_ = noted_;
  for (const Entry& entry : entries) step_.Add(entry);
  KVGATE_TRY_VOID(Load(step_));
  noted_.Clear();
  for (const auto& [key, names] : step_.sums()) {
    for (const std::string& scope : {ScopeOfAll(), ScopeOfTenant(key.tenant)}) {
      for (const Step step : kSteps) {
        const Place place{.step = step, .minute = BeginOf(step, key.minute), .scope = scope};
        Held& held = held_[place];
        changed_.insert(place);
        for (const auto& [name, bucket] : names) AddTo(held, name, bucket);
      }
    }
  }
  step_.Clear();
  std::vector<MetaWrite> rows;
  for (const Place& place : changed_) {
    const Held& held = held_.at(place);
    for (const Name& name : held.changed) {
      rows.push_back({.key = KeyOf(place.step, place.minute, place.scope, name),
                      .value = EncodeBucket(held.buckets.at(name))});
    }
  }
  for (const std::string& note : notes_) rows.push_back({.key = note, .value = std::nullopt});
  return rows;
}

void Rollups::Accept() {
  if (!is_note_) return AcceptSums();
  if (step_.empty()) return;
  noted_.Merge(step_);
  step_.Clear();
  notes_.push_back(NoteKey(next_note_++));
}

void Rollups::AcceptSums() {
  notes_.clear();
  for (const Place& place : changed_) {
    Held& held = held_.at(place);
    held.changed.clear();
    num_buckets_ += held.buckets.size() - std::exchange(held.num_counted, held.buckets.size());
  }
  changed_.clear();
  if (num_buckets_ + held_.size() > options_.buckets_max) DropUnused();
}

// Drops what was used longest ago.
void Rollups::DropUnused() {
  std::vector<std::pair<uint64_t, Place>> by_use;
  for (const auto& [place, held] : held_) by_use.emplace_back(held.used, place);
  std::sort(by_use.begin(), by_use.end());
  for (const auto& [used, place] : by_use) {
    if (num_buckets_ + held_.size() <= options_.buckets_max / 2) break;
    const auto found = held_.find(place);
    num_buckets_ -= found->second.num_counted;
    held_.erase(found);
  }
}

Result<std::vector<MetaWrite>> Rollups::TakeOld(int64_t now_us) {
  std::vector<MetaWrite> rows;
  if (now_us < retire_at_us_) return rows;
  for (const Step step : kSteps) {
    const std::string begin = TimePrefix(step, 0);
    const std::string prefix = begin.substr(0, begin.rfind('/') + 1);
    const std::string end = TimePrefix(step, now_us / kMinuteUs - RetentionMinutes(step));
    std::string& last = retired_[step];
    KVGATE_TRY_VOID(meta_.ScanFrom(MetaTable::kLedger, {.prefix = prefix, .from = last},
                                   [&](std::string_view key, std::string_view) {
                                     if (key >= end || rows.size() >= options_.retire_max) {
                                       return false;
                                     }
                                     rows.push_back(
                                         {.key = std::string(key), .value = std::nullopt});
                                     return true;
                                   }));
    if (!rows.empty() && rows.back().key.starts_with(prefix)) last = rows.back().key;
  }
  // A full call may have left some.
  retire_at_us_ = rows.size() >= options_.retire_max ? 0 : now_us + kRetireIntervalUs;
  return rows;
}

}  // namespace kvgate::ledger::rollup
