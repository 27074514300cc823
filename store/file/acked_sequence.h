// AckedSequence: how far a log was written when a writer was last told so, and what it stood on:
// one file beside the database, which survives what ends the process. A log that was cut, lost a
// record at its front or its end, or lost a file still opens, and so does a MANIFEST that lost its
// end; only this file tells that acknowledged writes are gone.
//
// Any thread. Format: store/FORMAT.md, meta.sequence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>

namespace kvgate::store {

// A MANIFEST only grows, so that its first `bytes` stay as they are for as long as it is there.
struct ManifestMark {
  uint64_t number = 0;  // 0: not known
  uint64_t bytes = 0;
  uint64_t digest = 0;  // of those bytes
  friend bool operator==(const ManifestMark&, const ManifestMark&) = default;
};

struct AckedState {
  uint64_t sequence = 0;       // the last row that was acknowledged
  uint64_t first_logged = 0;   // rows from this one on stand in logs; 0: not known
  ManifestMark manifest = {};  // as it was when first_logged was
  friend bool operator==(const AckedState&, const AckedState&) = default;
};

class AckedSequence {
 public:
  // Absent: none, or nothing that can be trusted. Of the version before, the sequence alone.
  static std::optional<AckedState> Read(const std::filesystem::path& path);

  // Where the file cannot be made, nothing is noted, which is logged.
  explicit AckedSequence(const std::filesystem::path& path);
  ~AckedSequence();
  AckedSequence(const AckedSequence&) = delete;
  AckedSequence& operator=(const AckedSequence&) = delete;

  // Costs one write to the page cache. Smaller numbers than the last one are ignored.
  void Note(uint64_t sequence);
  // What the log stands on now, unless `is_stale` says then that this has changed.
  void NoteBase(
      uint64_t first_logged, const ManifestMark& manifest,
      const std::function<bool()>& is_stale = [] { return false; });
  // All of it, also with a smaller number: what was lost has been said.
  void Restart(const AckedState& state);

 private:
  void Write();

  int descriptor_ = -1;
  std::mutex mutex_;
  AckedState state_;
};

}  // namespace kvgate::store
