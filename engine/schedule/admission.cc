#include "engine/schedule/admission.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <utility>

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

Admission::Admission(double tenant_kv_share, const Parts& parts)
    : tenant_kv_share_(tenant_kv_share),
      tenant_blocks_max_(
          std::max(1u, static_cast<uint32_t>(
                           std::ceil(tenant_kv_share * parts.groups.full().pool().num_blocks())))),
      parts_(parts),
      full_(parts.groups.full()) {}

int Admission::CountCachedTokens(const Sequence& sequence) const {
  const auto count = static_cast<int>(full_.CountInMemory(sequence.keys));
  return parts_.windows.LastResumePoint(sequence.keys, count, nullptr) * kKvBlockTokens;
}

Admission::Outcome Admission::Try(Sequence& sequence) {
  try {
    return Admit(sequence);
  } catch (const std::bad_alloc&) {
    parts_.offers.Release(sequence);
    sequence.state = SequenceState::kWaiting;
    throw;
  }
}

Admission::Outcome Admission::Admit(Sequence& sequence) {
  Hit hit = FindInMemory(sequence);
  if (AwaitsAnother(sequence, hit)) return Outcome::kAwaitsAnother;
  if (AwaitsLookUp(sequence, hit)) return Outcome::kAwaitsAnother;
  AddStored(sequence, hit);
  kv::PrefixMatch& match = hit.match;
  const int num_shared = static_cast<int>(match.blocks.size());
  const int num_new = parts_.context.BlocksNeeded(sequence) - num_shared;
  Outcome room = CheckRoom(sequence, num_new);
  if (room == Outcome::kNoRoom && match.partial) {
    // The source block of the copy must not take the room of its copy; otherwise a prompt that
    // fills the pool would wait forever.
    match.partial.Reset();
    room = CheckRoom(sequence, num_new);
  }
  if (room == Outcome::kAdmitted) room = CheckWindowRoom(sequence);
  if (room != Outcome::kAdmitted) return room;
  std::optional<std::vector<kv::BlockRef>> fresh = full_.Acquire(num_new, sequence.tenant);
  if (!fresh.has_value()) return Outcome::kNoRoom;
  if (!parts_.windows.Take(sequence, hit.num_blocks(), hit.stored_windows)) {
    return Outcome::kNoRoom;
  }
  if (hit.on_host.empty() && hit.num_stored == 0 && match.partial) {
    full_.Copy(match.partial.id(), fresh->front().id(), match.num_partial_tokens);
  } else {
    match.num_partial_tokens = 0;
  }
  full_.cache().CountUse(match);
  const int num_partial = match.num_partial_tokens;
  parts_.context.Append(sequence, std::move(match.blocks));
  match.blocks.clear();
  parts_.context.Append(sequence, std::move(*fresh));
  sequence.num_computed = num_shared * kKvBlockTokens + num_partial;
  sequence.num_offered_blocks = num_shared;
  sequence.num_stored_blocks = 0;
  Start(sequence, std::move(hit));
  return Outcome::kAdmitted;
}

// The full group's blocks may be in memory while their windows were evicted; a sequence that is
// computing those tokens again will have the windows.
bool Admission::AwaitsAnother(Sequence& sequence, const Hit& hit) {
  const bool shares_tail = parts_.groups.shares_partial_blocks() &&
                           parts_.context.SharesBehind(static_cast<int>(sequence.keys.size()));
  if (parts_.single_flight.Await(sequence, hit.num_in_memory(), shares_tail)) return true;
  return hit.resume_point < hit.num_in_memory() &&
         parts_.single_flight.Await(sequence, hit.resume_point, shares_tail);
}

// Asks the shared store for what is neither in memory nor on disk.
bool Admission::AwaitsLookUp(Sequence& sequence, const Hit& hit) {
  if (parts_.stores.shared == nullptr || sequence.was_looked_up) return false;
  int num_known = hit.num_in_memory();
  if (const tier::StoreTier* const disk = parts_.stores.disk; disk != nullptr) {
    num_known += Restorer::CountStored(*disk, sequence, num_known);
  }
  return parts_.look_ups.Await(sequence, num_known);
}

// --- the hit ------------------------------------------------------------------------------------

// Also computes the keys of the sequence's reusable blocks.
Admission::Hit Admission::FindInMemory(Sequence& sequence) {
  const int num_reusable = parts_.context.NumReusableBlocks(sequence);
  parts_.offers.ComputeKeys(sequence, num_reusable);
  sequence.keys.resize(static_cast<size_t>(num_reusable));
  const int num_partial = parts_.context.SharesBehind(num_reusable) ? 1 : 0;
  const size_t num_tokens = std::min(
      sequence.tokens.size() - 1, static_cast<size_t>(num_reusable + num_partial) * kKvBlockTokens);
  Hit hit{.match = full_.cache().Match(sequence.root, sequence.keys,
                                       std::span(sequence.tokens).first(num_tokens))};
  if (!parts_.groups.shares_partial_blocks()) {
    hit.match.partial.Reset();
    hit.match.num_partial_tokens = 0;
  }
  // The host blocks are held from here on, because making room may evict others into the host
  // arena.
  if (tier::HostTier* const host = full_.host(); host != nullptr) {
    hit.on_host = host->Match(std::span(sequence.keys).subspan(hit.match.blocks.size()));
    CutToHostSpeed(hit);
  }
  hit.resume_point = parts_.windows.LastResumePoint(sequence.keys, hit.num_in_memory(), nullptr);
  return hit;
}

// Cuts the hit to the blocks that are copied sooner than computed: a slow bus may lose against a
// fast device.
void Admission::CutToHostSpeed(Hit& hit) const {
  if (hit.on_host.empty() || parts_.costs.host_bytes_per_second() <= 0) return;
  const CostModel::RestorePlan plan = parts_.costs.PlanRestore(
      {.first_position = static_cast<int>(hit.match.blocks.size()) * kKvBlockTokens,
       .num_blocks = static_cast<int>(hit.on_host.size()),
       .block_bytes = full_.block_bytes(),
       .bytes_ahead = full_.host()->bytes_restoring(),
       .bytes_per_second = parts_.costs.host_bytes_per_second()});
  hit.is_cut = plan.num_blocks < static_cast<int>(hit.on_host.size());
  while (static_cast<int>(hit.on_host.size()) > plan.num_blocks) hit.on_host.pop_back();
}

// Adds the part in a store, and cuts the hit to what is worth it. What the shared store has behind
// the disk's part follows once that is loaded.
void Admission::AddStored(Sequence& sequence, Hit& hit) {
  hit.loads_whole = !parts_.groups.windows().empty();
  if (hit.loads_whole) return CutToResumePoint(sequence, hit);
  // Without windows every position is a resume point, and the restorer plans how much of the
  // store's part is worth it.
  if (sequence.skips_stores || hit.is_cut) return;
  for (tier::StoreTier* const store : parts_.stores.all()) {
    if (store == nullptr || hit.num_stored > 0) continue;
    hit.store = store;
    hit.num_stored = Restorer::CountStored(*store, sequence, hit.num_in_memory());
  }
}

// The one that reaches farthest first; the disk before the shared store if both reach as far.
std::vector<Admission::StoredPart> Admission::StoredParts(const Sequence& sequence,
                                                          const Hit& hit) const {
  std::vector<StoredPart> parts;
  if (sequence.skips_stores) return parts;
  for (tier::StoreTier* const store : parts_.stores.all()) {
    if (store == nullptr) continue;
    StoredPart part{.store = store};
    if (!hit.is_cut) {
      part.num_stored = Restorer::CountStored(*store, sequence, hit.num_in_memory());
    }
    part.resume_point =
        parts_.windows.LastResumePoint(sequence.keys, hit.num_in_memory() + part.num_stored, store);
    parts.push_back(part);
  }
  std::ranges::stable_sort(parts, std::greater<>(), &StoredPart::resume_point);
  return parts;
}

// Cuts the hit to the last resume point whose windows are available.
void Admission::CutToResumePoint(Sequence& sequence, Hit& hit) {
  int num_found = hit.num_in_memory();
  int resume_point = hit.resume_point;
  for (const StoredPart& part : StoredParts(sequence, hit)) {
    num_found = std::max(num_found, hit.num_in_memory() + part.num_stored);
    if (part.resume_point <= resume_point) continue;
    const int num_from_store = std::max(0, part.resume_point - hit.num_in_memory());
    const uint64_t bytes = static_cast<uint64_t>(num_from_store) * full_.block_bytes() +
                           parts_.windows.BytesToLoad(sequence.keys, part.resume_point);
    if (parts_.restorer.Pays(sequence, *part.store,
                             {.first_position = resume_point * kKvBlockTokens,
                              .num_tokens = (part.resume_point - resume_point) * kKvBlockTokens,
                              .bytes = bytes})) {
      resume_point = part.resume_point;
      hit.store = part.store;
      hit.num_stored = part.num_stored;
    }
  }
  // A shared prefix ended at these resume points, so another prompt may branch there too.
  if (resume_point < num_found) sequence.AddResumePoint(num_found * kKvBlockTokens);
  if (resume_point > 0) sequence.AddResumePoint(resume_point * kKvBlockTokens);
  hit.num_stored = std::clamp(resume_point - hit.num_in_memory(), 0, hit.num_stored);
  while (hit.num_in_memory() > resume_point && !hit.on_host.empty()) hit.on_host.pop_back();
  while (hit.num_in_memory() > resume_point) hit.match.blocks.pop_back();
}

// --- room ---------------------------------------------------------------------------------------

bool Admission::RunsAlone(const Sequence& sequence) const {
  return std::ranges::none_of(parts_.running,
                              [&](const auto& other) { return other->tenant == sequence.tenant; });
}

Admission::Outcome Admission::CheckRoom(const Sequence& sequence, int num_new) const {
  const kv::BlockPool& pool = full_.pool();
  const auto wanted = static_cast<size_t>(num_new);
  const bool has_quota = tenant_blocks_max_ < pool.num_blocks();
  if (has_quota && !RunsAlone(sequence) &&
      pool.num_used_by(sequence.tenant) + wanted > tenant_blocks_max_) {
    return Outcome::kOverQuota;
  }
  // Keeps one spare block for each running sequence; otherwise the newcomer would be preempted at
  // once.
  return wanted + parts_.running.size() > pool.num_available() ? Outcome::kNoRoom
                                                               : Outcome::kAdmitted;
}

Admission::Outcome Admission::CheckWindowRoom(const Sequence& sequence) const {
  if (tenant_kv_share_ < 1 && !RunsAlone(sequence) &&
      !parts_.windows.HasQuota(sequence, tenant_kv_share_)) {
    return Outcome::kOverQuota;
  }
  return parts_.windows.HasRoom(sequence, parts_.running) ? Outcome::kAdmitted : Outcome::kNoRoom;
}

// --- start --------------------------------------------------------------------------------------

// Starts a sequence that has all its blocks: fills them from the lower tiers.
void Admission::Start(Sequence& sequence, Hit hit) {
  sequence.state = SequenceState::kRunning;
  const bool is_first = !sequence.admitted_before;
  sequence.admitted_before = true;
  const int num_on_host = static_cast<int>(hit.on_host.size());
  const int num_used = sequence.num_computed / kKvBlockTokens + num_on_host;
  if (is_first) {
    sequence.num_device_tokens = sequence.num_computed;
    sequence.num_host_tokens = num_on_host * kKvBlockTokens;
    sequence.admitted_at = Clock::now();
  }
  RestoreFromHost(sequence, std::move(hit.on_host));
  TouchOnDisk(sequence, num_used);
  parts_.single_flight.Lead(sequence, static_cast<size_t>(num_used));
  BeginLoad(sequence, std::move(hit));
  if (is_first) sequence.restored_at = Clock::now();
}

// The copies may still be running when this sequence and others already reference the blocks.
void Admission::RestoreFromHost(Sequence& sequence, std::vector<kv::BlockRef> on_host) {
  if (full_.host() == nullptr) return;
  const auto first = static_cast<size_t>(sequence.num_computed / kKvBlockTokens);
  const auto shared = std::span(sequence.full().block_table).first(first + on_host.size());
  if (!on_host.empty()) {
    const int num_tokens = static_cast<int>(on_host.size()) * kKvBlockTokens;
    full_.host()->Restore(std::move(on_host), shared.subspan(first));
    sequence.num_computed += num_tokens;
    parts_.offers.OfferFull(sequence);
  }
  sequence.copy_ticket = std::max(parts_.windows.TicketOf(sequence), full_.TicketOf(shared));
}

// Blocks in use in memory also count as used on disk.
void Admission::TouchOnDisk(const Sequence& sequence, int num_used) {
  if (parts_.stores.disk == nullptr || num_used == 0) return;
  const auto used = std::span(sequence.keys).first(static_cast<size_t>(num_used));
  for (const auto& group : parts_.groups.all()) {
    parts_.stores.disk->Touch(used.subspan(static_cast<size_t>(group->FirstSeen(num_used))),
                              group->index());
  }
}

// Windows are loaded first, because the rest is of no use without them.
void Admission::BeginLoad(Sequence& sequence, Hit hit) {
  if (!hit.loads_whole) {
    if (hit.num_stored > 0) parts_.restorer.Begin(sequence, *hit.store, hit.num_stored);
    return;
  }
  std::vector<tier::LoadItem> items = std::move(hit.stored_windows);
  const int first = sequence.num_computed / kKvBlockTokens;
  for (int block = first; block < first + hit.num_stored; ++block) {
    items.push_back({.key = sequence.keys[static_cast<size_t>(block)],
                     .block = sequence.full().block_table[static_cast<size_t>(block)]});
  }
  if (items.empty()) return;
  parts_.restorer.BeginWhole(sequence, *hit.store, std::move(items), hit.num_stored);
}

}  // namespace kvgate::schedule
