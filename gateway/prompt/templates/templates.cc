#include "gateway/prompt/templates/templates.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::templates {

using parse::Identity;

namespace {

// A line whose words change is a slot from the third time on: before, its caller may be editing it.
constexpr uint32_t kWordChangesMin = 3;
// Values that a user wrote may be edited too, but hardly the same ones twice.
constexpr uint32_t kUserValueChangesMin = 2;
constexpr size_t kModelBytes = 512;  // a model without its entries
constexpr size_t kPatternBytesMax = 400;
constexpr size_t kModelNameMax = 256;

// Returns true if `now` stands where the slot stood, but says another thing.
bool IsReplaced(const Template& slot, const LineForm& now) {
  return slot.is_slot && !IsOf(slot.slot->form, now);
}

// Returns the entry of a line that has changed: the one that is it but for its values, else one
// that has its place and most of its words. A line whose values have changed and that stands
// elsewhere may be another one in nearly the same words.
template <typename Entries>
auto FindEntry(Entries& entries, const LineForm& before, const LineForm& now, LineChange change) {
  const auto exact = std::find_if(entries.begin(), entries.end(), [&](const Template& entry) {
    const LineForm& form = entry.slot->form;
    return form.place == now.place && (form.mask == before.mask || form.mask == now.mask);
  });
  if (exact != entries.end()) return exact;
  return std::find_if(entries.begin(), entries.end(), [&](const Template& entry) {
    const LineForm& form = entry.slot->form;
    const bool may_be =
        change == LineChange::kWords || form.before == now.before || form.after == now.after;
    return may_be && (IsOf(form, before) || IsOf(form, now));
  });
}

// Returns true if a line is a slot after so many changes of its values and words.
bool IsSlotAfter(Place place, uint32_t value_changes, uint32_t word_changes) {
  const uint32_t values_min = place == Place::kFirstUser ? kUserValueChangesMin : 1;
  return value_changes >= values_min || word_changes >= kWordChangesMin;
}

// Returns the masked line with marks for the words that are not among the template's.
std::string PatternOf(std::string_view masked, const std::vector<uint64_t>& tokens) {
  if (tokens.empty()) return std::string(masked.substr(0, kPatternBytesMax));
  std::string pattern;
  size_t next = 0;
  for (size_t at = 0; at < masked.size();) {
    const size_t end = std::min(masked.find(' ', at), masked.size());
    const std::string_view word = masked.substr(at, end - at);
    at = end + 1;
    while (next < tokens.size() && tokens[next] == kAnyToken) ++next;
    const bool is_kept = next < tokens.size() && tokens[next] == HashOf(word);
    if (is_kept) ++next;
    const std::string_view shown = is_kept ? word : std::string_view(&kMark, 1);
    if (!is_kept && pattern.ends_with(kMark)) continue;
    if (!pattern.empty()) pattern += ' ';
    pattern += shown;
    if (pattern.size() >= kPatternBytesMax) break;
  }
  return pattern;
}

}  // namespace

struct Templates::Model {
  Identity key;
  Identity tenant;
  std::string name;
  std::list<Template> entries;           // last used first
  std::shared_ptr<const SlotSet> known;  // null: to be made anew
  size_t bytes = 0;
  bool is_stored = false;  // a store has taken or restored it
};

Templates::Scope Templates::ScopeOf(std::string_view tenant, std::string_view model) {
  return {parse::HashBytes(tenant, parse::Domain::kConversation),
          std::string(model.substr(0, kModelNameMax))};
}

Identity Templates::KeyOf(const Scope& scope) {
  return parse::Chain(scope.tenant, parse::HashBytes(scope.model, parse::Domain::kConversation));
}

Templates::Templates(const Options& options) : options_(options) {}
Templates::~Templates() = default;

std::shared_ptr<const SlotSet> Templates::Known(const Scope& scope, bool is_used) {
  static const auto kEmpty = std::make_shared<const SlotSet>();
  const Identity key = KeyOf(scope);
  const std::lock_guard lock(mutex_);
  const auto found = by_scope_.find(key);
  if (found == by_scope_.end()) return kEmpty;
  Model& model = *found->second;
  if (is_used) models_.splice(models_.begin(), models_, found->second);
  if (!model.known) {
    SlotSet::Slots slots;
    for (const Template& entry : model.entries) {
      if (entry.is_slot) slots.push_back(entry.slot);
    }
    model.known = std::make_shared<const SlotSet>(std::move(slots));
  }
  return model.known;
}

uint64_t Templates::SlotAfter(const Scope& scope, const LineForm& before, const LineForm& now,
                              LineChange change) const {
  const bool is_value = change == LineChange::kValues;
  if (is_value && IsSlotAfter(before.place, 1, 0)) return SlotIdOf(before);
  const std::lock_guard lock(mutex_);
  const auto found = by_scope_.find(KeyOf(scope));
  if (found == by_scope_.end()) return 0;
  const std::list<Template>& entries = found->second->entries;
  const auto entry = FindEntry(entries, before, now, change);
  if (entry == entries.end() || (!is_value && IsReplaced(*entry, now))) return 0;
  const bool is_slot = IsSlotAfter(before.place, entry->value_changes + (is_value ? 1 : 0),
                                   entry->word_changes + (is_value ? 0 : 1));
  return is_slot ? entry->slot->id : 0;
}

void Templates::Learn(const Scope& scope, const Lesson& lesson) {
  if (lesson.empty()) return;
  const std::lock_guard lock(mutex_);
  Model& model = FindOrAddLocked(scope);
  for (const Observation& observation : lesson.changes) ObserveLocked(model, observation);
  for (const Beginning& beginning : lesson.beginnings) BeginLocked(model, beginning);
  MakeRoomLocked();
}

Templates::Model& Templates::FindOrAddLocked(const Scope& scope) {
  const Identity key = KeyOf(scope);
  const auto found = by_scope_.find(key);
  if (found != by_scope_.end()) {
    models_.splice(models_.begin(), models_, found->second);
    return models_.front();
  }
  models_.push_front({.key = key,
                      .tenant = scope.tenant,
                      .name = scope.model,
                      .entries = {},
                      .known = {},
                      .bytes = 0,
                      .is_stored = false});
  by_scope_.emplace(key, models_.begin());
  Count(models_.front(), kModelBytes);
  return models_.front();
}

void Templates::ObserveLocked(Model& model, const Observation& seen) {
  auto& entries = model.entries;
  const auto place = FindEntry(entries, seen.before, seen.now, seen.change);
  if (place == entries.end()) {
    if (entries.size() >= options_.slots_max) {
      Count(model, -static_cast<int64_t>(entries.back().num_bytes()));
      if (entries.back().is_slot) model.known = nullptr;
      entries.pop_back();
    }
    Template& entry = entries.emplace_front();
    entry.slot = std::make_shared<const Slot>(
        Slot{.id = SlotIdOf(seen.before), .form = seen.before, .moves = false});
  } else {
    if (seen.change == LineChange::kWords && IsReplaced(*place, seen.now)) return;
    entries.splice(entries.begin(), entries, place);
    Count(model, -static_cast<int64_t>(entries.front().num_bytes()));
  }
  changed_.insert(model.key);
  Template& entry = entries.front();
  const bool is_value = seen.change == LineChange::kValues;
  ++(is_value ? entry.value_changes : entry.word_changes);
  entry.conversations += seen.is_first ? 1 : 0;
  entry.line_tokens = seen.line_tokens;
  entry.stake_tokens = seen.stake_tokens;
  const bool is_learnt = IsSlotAfter(seen.now.place, entry.value_changes, entry.word_changes);
  const bool was_learnt = std::exchange(entry.is_slot, entry.is_slot || is_learnt);
  Slot slot = *entry.slot;
  if (slot.form.mask != seen.now.mask) {
    slot.form.tokens = CommonTokens(slot.form.tokens, seen.now.tokens);
    slot.form.mask = seen.now.mask;
    slot.form.num_words = seen.now.num_words;
  }
  slot.form.before = seen.now.before;
  slot.form.after = seen.now.after;
  slot.moves = ShouldMove(entry, slot.moves || !was_learnt);
  entry.pattern = PatternOf(seen.pattern, slot.form.tokens);
  if (!was_learnt || !(slot == *entry.slot)) {
    entry.slot = std::make_shared<const Slot>(std::move(slot));
    if (entry.is_slot) model.known = nullptr;
  }
  Count(model, static_cast<int64_t>(entry.num_bytes()));
}

void Templates::BeginLocked(Model& model, const Beginning& beginning) {
  auto& entries = model.entries;
  const auto place = std::find_if(entries.begin(), entries.end(), [&](const Template& entry) {
    return entry.slot->id == beginning.slot;
  });
  if (place == entries.end()) return;
  changed_.insert(model.key);
  entries.splice(entries.begin(), entries, place);
  Template& entry = entries.front();
  if (entry.begun > 0 && entry.last_line != beginning.line) ++entry.begun_changed;
  ++entry.begun;
  entry.last_line = beginning.line;
  const bool moves = ShouldMove(entry, entry.slot->moves);
  if (moves == entry.slot->moves) return;
  Slot slot = *entry.slot;
  slot.moves = moves;
  entry.slot = std::make_shared<const Slot>(std::move(slot));
  model.known = nullptr;
}

void Templates::Count(Model& model, int64_t bytes) {
  model.bytes += static_cast<size_t>(bytes);
  bytes_ += static_cast<size_t>(bytes);
  size_t& of_tenant = tenant_bytes_[model.tenant];
  of_tenant += static_cast<size_t>(bytes);
  if (of_tenant > options_.bytes_max / 2) largest_ = model.tenant;
}

void Templates::MakeRoomLocked() {
  while (bytes_ > options_.bytes_max && !models_.empty()) {
    auto leaves = std::prev(models_.end());
    const auto largest = tenant_bytes_.find(largest_);
    const bool is_over = largest != tenant_bytes_.end() && largest->second > options_.bytes_max / 2;
    while (is_over && leaves->tenant != largest_) --leaves;
    if (leaves->is_stored) left_.insert(leaves->key);
    changed_.erase(leaves->key);
    Count(*leaves, -static_cast<int64_t>(leaves->bytes));
    if (tenant_bytes_[leaves->tenant] == 0) tenant_bytes_.erase(leaves->tenant);
    by_scope_.erase(leaves->key);
    models_.erase(leaves);
  }
}

Templates::Learnt Templates::LearntOf(const Model& model) {
  return {.scope = {.tenant = model.tenant, .model = model.name},
          .templates = {model.entries.begin(), model.entries.end()}};
}

std::vector<Templates::Learnt> Templates::List(std::string_view tenant) const {
  const Identity wanted = parse::HashBytes(tenant, parse::Domain::kConversation);
  std::vector<Learnt> all;
  const std::lock_guard lock(mutex_);
  for (const Model& model : models_) {
    if (model.tenant == wanted && !model.entries.empty()) all.push_back(LearntOf(model));
  }
  return all;
}

// The steps that may throw for lack of memory run first, so that a failure takes nothing.
Templates::Changes Templates::TakeChanged() {
  Changes changes;
  const std::lock_guard lock(mutex_);
  changes.learnt.reserve(changed_.size());
  for (const Identity& key : changed_) {
    changes.learnt.push_back(LearntOf(*by_scope_.at(key)));
  }
  changes.left.reserve(left_.size());
  for (const Identity& key : left_) {
    if (!changed_.contains(key)) changes.left.push_back(key);
  }
  for (const Identity& key : changed_) by_scope_.at(key)->is_stored = true;
  changed_.clear();
  left_.clear();
  return changes;
}

void Templates::Restore(Learnt learnt) {
  const Identity key = KeyOf(learnt.scope);
  const std::lock_guard lock(mutex_);
  if (by_scope_.contains(key)) return;
  Model& model = FindOrAddLocked(learnt.scope);
  models_.splice(models_.end(), models_, models_.begin());
  model.is_stored = true;
  for (Template& it : learnt.templates) {
    if (model.entries.size() >= options_.slots_max) break;
    Count(model, static_cast<int64_t>(it.num_bytes()));
    model.entries.push_back(std::move(it));
  }
  MakeRoomLocked();
}

void Templates::Merge(Learnt learnt) {
  const std::lock_guard lock(mutex_);
  Model& model = FindOrAddLocked(learnt.scope);
  auto& entries = model.entries;
  for (Template& theirs : learnt.templates) {
    const auto ours = std::find_if(entries.begin(), entries.end(), [&](const Template& entry) {
      return entry.slot->id == theirs.slot->id;
    });
    const bool is_known = ours != entries.end();
    const bool is_taken =
        is_known ? theirs.num_changes() > ours->num_changes() : entries.size() < options_.slots_max;
    if (!is_taken) continue;
    if (theirs.is_slot || (is_known && ours->is_slot)) model.known = nullptr;
    Count(model, static_cast<int64_t>(theirs.num_bytes()) -
                     (is_known ? static_cast<int64_t>(ours->num_bytes()) : 0));
    if (is_known) {
      *ours = std::move(theirs);
    } else {
      entries.push_back(std::move(theirs));
    }
  }
  MakeRoomLocked();
}

size_t Templates::num_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kvgate::prompt::templates
