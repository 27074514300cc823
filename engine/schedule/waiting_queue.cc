#include "engine/schedule/waiting_queue.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"

namespace kvgate::schedule {
namespace {

constexpr size_t kTenantsRemembered = 1024;
// Among this many at the front of a lane, the one with the most cached tokens goes first ...
constexpr size_t kPrefixWindow = 8;
// ... but no sequence is passed over more often than this.
constexpr int kPassesMax = 4;
constexpr int kShortTurnsPerLong = 3;

}  // namespace

double WaitingQueue::LeastService() const {
  double least = std::numeric_limits<double>::max();
  for (const Tenant& tenant : tenants_) {
    if (tenant.num_sequences > 0) least = std::min(least, tenant.service);
  }
  return least == std::numeric_limits<double>::max() ? 0 : least;
}

// Returns the number of a salt. When the table is full, a new tenant takes the number of the tenant
// that has been idle for longest.
uint32_t WaitingQueue::NumberFor(const std::string& salt) {
  if (const auto found = by_salt_.find(salt); found != by_salt_.end()) return found->second;
  const auto is_idle = [](const Tenant& tenant) { return tenant.num_sequences == 0; };
  auto number = static_cast<uint32_t>(tenants_.size());
  if (tenants_.size() >= kTenantsRemembered && std::ranges::any_of(tenants_, is_idle)) {
    const auto idle_since = [&](const Tenant& tenant) {
      return is_idle(tenant) ? tenant.idle_since : std::numeric_limits<uint64_t>::max();
    };
    const auto longest = std::ranges::min_element(tenants_, {}, idle_since);
    number = static_cast<uint32_t>(longest - tenants_.begin());
  }
  Tenant tenant;
  tenant.salt = salt;
  const auto known = by_salt_.emplace(salt, number).first;
  if (number < tenants_.size()) {
    by_salt_.erase(tenants_[number].salt);
    tenants_[number] = std::move(tenant);
    return number;
  }
  try {
    tenants_.push_back(std::move(tenant));
  } catch (const std::bad_alloc&) {
    by_salt_.erase(known);
    throw;
  }
  return number;
}

void WaitingQueue::Enter(uint32_t number) {
  Tenant& tenant = tenants_[number];
  if (tenant.num_sequences == 0) tenant.service = std::max(tenant.service, LeastService());
  ++tenant.num_sequences;
}

void WaitingQueue::Add(std::unique_ptr<Sequence>&& sequence) {
  const uint32_t number = NumberFor(sequence->salt);
  sequence->tenant = number;
  LaneOf(*sequence).push_back(std::move(sequence));
  Enter(number);
  ++size_;
}

void WaitingQueue::AddPreempted(SequenceList& from, SequenceList::iterator sequence) {
  (*sequence)->num_passed_over = 0;
  SequenceList& lane = LaneOf(**sequence);
  lane.splice(lane.begin(), from, sequence);
  ++size_;
}

SequenceList& WaitingQueue::LaneOf(const Sequence& sequence) {
  const int lane = sequence.num_preemptions > 0 ? kPreempted : sequence.is_long ? kLong : kShort;
  return tenants_[sequence.tenant].lanes[lane];
}

// Finds the sequence whose turn has come and counts those ahead of it as passed over.
SequenceList::iterator WaitingQueue::TurnOf(const Sequence& sequence) {
  SequenceList& lane = LaneOf(sequence);
  const auto found = std::ranges::find(lane, &sequence, &std::unique_ptr<Sequence>::get);
  KVGATE_CHECK(found != lane.end(), "a sequence is taken that does not wait");
  for (auto ahead = lane.begin(); ahead != found; ++ahead) ++(*ahead)->num_passed_over;
  --size_;
  Tenant& tenant = tenants_[sequence.tenant];
  tenant.num_short_turns = sequence.is_long ? 0 : tenant.num_short_turns + 1;
  return found;
}

std::unique_ptr<Sequence> WaitingQueue::Take(const Sequence& sequence) {
  const auto place = TurnOf(sequence);
  SequenceList& lane = LaneOf(sequence);
  std::unique_ptr<Sequence> taken = std::move(*place);
  lane.erase(place);
  return taken;
}

void WaitingQueue::TakeTo(const Sequence& sequence, SequenceList& to) {
  const auto place = TurnOf(sequence);
  to.splice(to.end(), LaneOf(sequence), place);
}

void WaitingQueue::OnEnded(const Sequence& sequence) {
  Tenant& tenant = tenants_[sequence.tenant];
  KVGATE_CHECK(tenant.num_sequences > 0, "a tenant's sequence ends twice");
  if (--tenant.num_sequences == 0) tenant.idle_since = ++num_idle_turns_;
}

bool WaitingQueue::Cursor::empty() const {
  return std::ranges::all_of(lanes, [](const auto& lane) { return lane.empty(); });
}

Sequence* WaitingQueue::ChooseFrom(Cursor& cursor) {
  int chosen = kPreempted;
  if (cursor.lanes[kPreempted].empty()) {
    const bool long_turn =
        cursor.lanes[kShort].empty() || cursor.num_short_turns >= kShortTurnsPerLong;
    chosen = long_turn && !cursor.lanes[kLong].empty() ? kLong : kShort;
    cursor.num_short_turns = chosen == kLong ? 0 : cursor.num_short_turns + 1;
  }
  auto& lane = cursor.lanes[chosen];
  auto best = lane.begin();
  if (chosen != kPreempted && best->sequence->num_passed_over < kPassesMax) {
    const auto end =
        lane.begin() + static_cast<std::ptrdiff_t>(std::min(lane.size(), kPrefixWindow));
    best = std::ranges::max_element(lane.begin(), end, {}, &Candidate::num_cached);
  }
  Sequence* const sequence = best->sequence;
  cursor.service += std::max(1, sequence->num_pending() - best->num_cached);
  lane.erase(best);
  return sequence;
}

std::vector<Sequence*> WaitingQueue::Candidates(
    size_t count, const std::function<bool(const Sequence&)>& skip,
    const std::function<int(const Sequence&)>& num_cached) {
  std::vector<Cursor> cursors;
  for (uint32_t number = 0; number < tenants_.size(); ++number) {
    Tenant& tenant = tenants_[number];
    Cursor cursor;
    cursor.tenant = number;
    cursor.service = tenant.service;
    cursor.num_short_turns = tenant.num_short_turns;
    for (int lane = 0; lane < kNumLanes; ++lane) {
      for (const std::unique_ptr<Sequence>& sequence : tenant.lanes[lane]) {
        if (cursor.lanes[lane].size() == std::max(count, kPrefixWindow)) break;
        if (!skip(*sequence)) cursor.lanes[lane].push_back({.sequence = sequence.get()});
      }
      if (cursor.lanes[lane].size() < 2) continue;
      for (Candidate& candidate : cursor.lanes[lane]) {
        candidate.num_cached = num_cached(*candidate.sequence);
      }
    }
    if (!cursor.empty()) cursors.push_back(std::move(cursor));
  }
  std::vector<Sequence*> candidates;
  while (candidates.size() < count && !cursors.empty()) {
    const auto next = std::ranges::min_element(cursors, {}, &Cursor::service);
    candidates.push_back(ChooseFrom(*next));
    if (next->empty()) cursors.erase(next);
  }
  return candidates;
}

void WaitingQueue::Charge(uint32_t tenant, int num_tokens) {
  tenants_[tenant].service += num_tokens;
}

Sequence* WaitingQueue::Find(RequestId id) const {
  for (const Tenant& tenant : tenants_) {
    for (const SequenceList& lane : tenant.lanes) {
      for (const std::unique_ptr<Sequence>& sequence : lane) {
        if (sequence->id == id) return sequence.get();
      }
    }
  }
  return nullptr;
}

Sequence* WaitingQueue::Any() const {
  for (const Tenant& tenant : tenants_) {
    for (const SequenceList& lane : tenant.lanes) {
      if (!lane.empty()) return lane.front().get();
    }
  }
  return nullptr;
}

void WaitingQueue::ForEach(const std::function<void(const Sequence&)>& visit) const {
  for (const Tenant& tenant : tenants_) {
    for (const SequenceList& lane : tenant.lanes) {
      for (const std::unique_ptr<Sequence>& sequence : lane) visit(*sequence);
    }
  }
}

}  // namespace kvgate::schedule
