#include "gateway/session/memory/kept_memory.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::memory {

using dialect::form::JsonWriter;
using transcript::RawObject;

namespace {

constexpr std::string_view kSource = "session.memory";
constexpr int64_t kNeverHeard = -1;

// One side's word on a name: when it changed, and to what; null: it was removed.
struct Said {
  int64_t changed_us = kNeverHeard;
  const Entry* entry = nullptr;
};

Said SaidOf(const KeptMemory& kept, std::string_view name) {
  const auto found = kept.changed_us.find(name);
  if (found == kept.changed_us.end()) return {};
  return {.changed_us = found->second, .entry = Find(kept.memory.entries, name)};
}

bool IsLater(const Said& a, const Said& b) {
  if (a.changed_us != b.changed_us) return a.changed_us > b.changed_us;
  if (a.entry == nullptr || b.entry == nullptr) return a.entry == nullptr && b.entry != nullptr;
  return a.entry->value > b.entry->value;
}

void MergeSwitch(const KeptMemory& ours, const KeptMemory& theirs, KeptMemory& merged) {
  const auto rank = [](const KeptMemory& kept) {  // of two at once the removal, then true
    return std::pair(kept.switched_us,
                     !kept.memory.retrieves ? 2 : static_cast<int>(*kept.memory.retrieves));
  };
  const KeptMemory& later = rank(ours) > rank(theirs) ? ours : theirs;
  merged.switched_us = later.switched_us;
  merged.memory.retrieves = later.memory.retrieves;
}

int64_t LastChange(const KeptMemory& kept) {
  int64_t last = kept.switched_us;
  for (const auto& [name, changed_us] : kept.changed_us) last = std::max(last, changed_us);
  return last;
}

// Facts that do not fit leave as if nobody had heard of them.
void LeaveOutOldest(KeptMemory& kept) {
  while (!CheckSize(kept.memory.entries)) {
    const auto oldest = std::min_element(
        kept.memory.entries.begin(), kept.memory.entries.end(), [&](const auto& a, const auto& b) {
          return std::pair(kept.changed_us.at(a.name), std::string_view(a.name)) <
                 std::pair(kept.changed_us.at(b.name), std::string_view(b.name));
        });
    kept.changed_us.erase(oldest->name);
    kept.memory.entries.erase(oldest);
  }
}

void LetRemovedGo(KeptMemory& kept) {
  std::vector<std::pair<int64_t, std::string>> removed;
  for (const auto& [name, changed_us] : kept.changed_us) {
    if (Find(kept.memory.entries, name) == nullptr) removed.emplace_back(changed_us, name);
  }
  if (removed.size() <= KeptMemory::kRemovedMax) return;
  std::sort(removed.begin(), removed.end());
  removed.resize(removed.size() - KeptMemory::kRemovedMax);
  for (const auto& [changed_us, name] : removed) kept.changed_us.erase(name);
}

Result<void> ReadTimes(std::string_view object, KeptMemory& kept) {
  if (object.empty()) return {};
  KVGATE_TRY(const Entries times, ReadEntries(object, "changed"));
  for (const Entry& entry : times) {
    int64_t changed_us = 0;
    const char* const end = entry.value.data() + entry.value.size();
    const auto read = std::from_chars(entry.value.data(), end, changed_us);
    if (read.ec != std::errc() || read.ptr != end || changed_us < 0) {
      return MakeError(ErrorCode::kDataLoss, kSource, "the time of a memory's change is no number");
    }
    kept.changed_us[entry.name] = changed_us;
  }
  return {};
}

}  // namespace

KeptMemory Changed(const KeptMemory& kept, const Memory& next, int64_t now_us) {
  // Later than all that is known here, whatever the clock says.
  const int64_t changed_us = std::max({now_us, LastChange(kept) + 1, int64_t{1}});
  KeptMemory changed{.memory = next,
                     .changed_us = kept.changed_us,
                     .switched_us = kept.switched_us,
                     .sharing = kept.sharing};
  for (const Entry& entry : kept.memory.entries) {
    if (Find(next.entries, entry.name) == nullptr) changed.changed_us[entry.name] = changed_us;
  }
  for (const Entry& entry : next.entries) {
    const Entry* const before = Find(kept.memory.entries, entry.name);
    const bool is_same = before != nullptr && before->value == entry.value;
    if (!is_same) changed.changed_us[entry.name] = changed_us;
  }
  if (next.retrieves != kept.memory.retrieves) changed.switched_us = changed_us;
  changed.memory.updated_us = next.is_empty() ? 0 : changed_us;
  LetRemovedGo(changed);
  return changed;
}

KeptMemory Merged(const KeptMemory& ours, const KeptMemory& theirs) {
  KeptMemory merged{.sharing = ours.sharing};
  MergeSwitch(ours, theirs, merged);
  for (const KeptMemory* side : {&theirs, &ours}) {
    for (const auto& [name, changed_us] : side->changed_us) {
      int64_t& latest = merged.changed_us[name];
      latest = std::max(latest, changed_us);
    }
  }
  for (const KeptMemory* side : {&theirs, &ours}) {
    for (const Entry& entry : side->memory.entries) {
      if (Find(merged.memory.entries, entry.name) != nullptr) continue;
      const Said by_them = SaidOf(theirs, entry.name);
      const Said by_us = SaidOf(ours, entry.name);
      const Said& holds = IsLater(by_us, by_them) ? by_us : by_them;
      if (holds.entry != nullptr) merged.memory.entries.push_back(*holds.entry);
    }
  }
  LeaveOutOldest(merged);
  LetRemovedGo(merged);
  if (!merged.memory.is_empty()) {
    merged.memory.updated_us =
        std::max({ours.memory.updated_us, theirs.memory.updated_us, LastChange(merged)});
  }
  return merged;
}

void ForgetRemoved(KeptMemory& kept, int64_t before_us) {
  std::erase_if(kept.changed_us, [&](const auto& change) {
    return change.second < before_us && Find(kept.memory.entries, change.first) == nullptr;
  });
  if (!kept.memory.retrieves && kept.switched_us < before_us) kept.switched_us = 0;
}

bool IsSame(const KeptMemory& a, const KeptMemory& b) {
  return a.memory.entries == b.memory.entries && a.memory.retrieves == b.memory.retrieves &&
         a.changed_us == b.changed_us && a.switched_us == b.switched_us;
}

std::string ToText(const MemoryOwner& owner, const KeptMemory& kept, bool with_sharing) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject().Key("tenant").String(owner.tenant).Key("session").String(owner.session);
  json.Key("updated_us").Integer(kept.memory.updated_us);
  if (kept.memory.retrieves) json.Key("retrieval").Integer(*kept.memory.retrieves ? 1 : 2);
  json.Key("facts");
  WriteEntries(kept.memory.entries, json);
  json.Key("changed").BeginObject();
  for (const auto& [name, changed_us] : kept.changed_us) json.Key(name).Integer(changed_us);
  json.EndObject();
  if (kept.switched_us != 0) json.Key("switched_us").Integer(kept.switched_us);
  if (with_sharing) json.Key("shared").Integer(static_cast<int>(kept.sharing));
  json.EndObject();
  return text;
}

// An earlier version wrote no times: its facts were all set when it was written.
Result<ReadMemory> ReadText(std::string_view text) {
  const auto object = RawObject::Read(text);
  if (!object) return MakeError(ErrorCode::kDataLoss, kSource, "a memory is no JSON object");
  ReadMemory read{
      .owner = {.tenant = object->StringAt("tenant"), .session = object->StringAt("session")},
      .kept = {.memory = {.updated_us = object->IntegerAt("updated_us")}}};
  KeptMemory& kept = read.kept;
  kept.switched_us = object->IntegerAt("switched_us");
  if (const int64_t retrieval = object->IntegerAt("retrieval"); retrieval != 0) {
    kept.memory.retrieves = retrieval == 1;
    if (kept.switched_us == 0) kept.switched_us = kept.memory.updated_us;
  }
  const int64_t sharing = object->IntegerAt("shared");
  if (sharing == 1) kept.sharing = KeptMemory::Sharing::kTold;
  if (sharing == 2) kept.sharing = KeptMemory::Sharing::kUntold;
  KVGATE_TRY(kept.memory.entries, ReadEntries(object->At("facts"), "facts"));
  KVGATE_TRY_VOID(CheckSize(kept.memory.entries));
  KVGATE_TRY_VOID(ReadTimes(object->At("changed"), kept));
  for (const Entry& entry : kept.memory.entries) {
    kept.changed_us.try_emplace(entry.name, kept.memory.updated_us);
  }
  return read;
}

}  // namespace kvgate::session::memory
