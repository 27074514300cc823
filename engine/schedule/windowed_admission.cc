// The scheduler's handling of models with sliding windows.
#include <algorithm>
#include <utility>

#include "engine/schedule/scheduler.h"

namespace kvgate::schedule {

using kernels::kKvBlockTokens;

void Scheduler::AddResumePoint(Sequence& sequence, int num_tokens) {
  if (std::ranges::find(sequence.resume_points, num_tokens) == sequence.resume_points.end()) {
    sequence.resume_points.push_back(num_tokens);
  }
}

// The full group's blocks may be in memory while their windows were evicted; a sequence that is
// computing those tokens again will have the windows.
bool Scheduler::AwaitsWindows(Sequence& sequence, const Hit& hit) {
  const int resume_point = windows_.LastResumePoint(sequence.keys, hit.num_in_memory(), false);
  return resume_point < hit.num_in_memory() &&
         AwaitAnother(sequence, static_cast<size_t>(resume_point));
}

// Cuts the hit to the last resume point whose windows are available.
void Scheduler::CutToWindows(Sequence& sequence, Hit& hit) {
  hit.match.partial.Reset();  // no index lists its windows
  hit.match.num_partial_tokens = 0;
  const int num_found = hit.num_blocks();
  int resume_point = windows_.LastResumePoint(sequence.keys, hit.num_in_memory(), false);
  if (disk_ != nullptr && !sequence.skips_disk) {
    const int farther = windows_.LastResumePoint(sequence.keys, num_found, true);
    const int num_from_disk = std::max(0, farther - hit.num_in_memory());
    const uint64_t bytes = static_cast<uint64_t>(num_from_disk) * full_.block_bytes() +
                           windows_.DiskBytes(sequence.keys, farther);
    if (farther > resume_point &&
        restorer_.Pays(sequence, resume_point * kKvBlockTokens,
                       (farther - resume_point) * kKvBlockTokens, bytes)) {
      resume_point = farther;
    }
  }
  // A shared prefix ended at these resume points, so another prompt may branch there too.
  if (resume_point < num_found) AddResumePoint(sequence, num_found * kKvBlockTokens);
  if (resume_point > 0) AddResumePoint(sequence, resume_point * kKvBlockTokens);
  hit.num_on_disk = std::clamp(resume_point - hit.num_in_memory(), 0, hit.num_on_disk);
  while (hit.num_in_memory() > resume_point && !hit.on_host.empty()) hit.on_host.pop_back();
  while (hit.num_in_memory() > resume_point) hit.match.blocks.pop_back();
}

Scheduler::Admission Scheduler::CheckWindowRoom(const Sequence& sequence) const {
  if (options_.tenant_kv_share < 1 && !RunsAlone(sequence) &&
      !windows_.HasQuota(sequence, options_.tenant_kv_share)) {
    return Admission::kOverQuota;
  }
  return windows_.HasRoom(sequence, running_) ? Admission::kAdmitted : Admission::kNoRoom;
}

bool Scheduler::TakeWindows(Sequence& sequence, Hit& hit) {
  return windows_.Take(sequence, hit.num_blocks(), hit.windows_on_disk);
}

// Windows are loaded first, because the rest is of no use without them.
void Scheduler::BeginRestore(Sequence& sequence, Hit hit) {
  const int first = sequence.num_computed / kKvBlockTokens;
  std::vector<tier::LoadItem> items = std::move(hit.windows_on_disk);
  for (int block = first; block < first + hit.num_on_disk; ++block) {
    items.push_back({.key = sequence.keys[static_cast<size_t>(block)],
                     .block = sequence.full().block_table[static_cast<size_t>(block)]});
  }
  if (!items.empty()) restorer_.BeginWhole(sequence, std::move(items), hit.num_on_disk);
}

// The load failed or was given up, so the sequence is admitted again with only what is in memory.
void Scheduler::AdmitAnew(Sequence& sequence) {
  sequence.skips_disk = true;
  sequence.num_restoring_blocks = 0;
  sequence.admitted_before = sequence.num_preemptions > 0;
  BackToLine(sequence);
}

// Windows before a point where other prompts may resume have the write priority of the block; the
// priority of other windows is unknown, so they count as common.
void Scheduler::TakeUnstoredWindows(const Sequence& sequence, int block,
                                    tier::WriteAdmission* admission,
                                    std::vector<tier::WriteItem>& items) {
  const tier::WritePriority priority = windows_.IsNearResumePoint(sequence, block)
                                           ? WritePriorityOf(sequence, block)
                                           : tier::WritePriority::kCommon;
  windows_.TakeUnstored(
      sequence, block,
      [&](uint64_t bytes) { return admission == nullptr || admission->Admit(bytes, priority); },
      items);
}

}  // namespace kvgate::schedule
