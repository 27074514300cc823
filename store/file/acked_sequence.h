// AckedSequence: remembers how far the meta/ log had been written when a write was last
// acknowledged, and which files the log depended on at that time. It is one file beside the
// database and survives a crash. RocksDB still opens a log that was cut, lost records at either end
// or lost a whole file, and a MANIFEST that lost its end; only this file reveals that acknowledged
// writes are gone.
//
// All functions may be called from any thread. Format: store/FORMAT.md, meta.sequence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>

namespace kvgate::store::file {

// A MANIFEST only grows, so its first `bytes` bytes stay the same as long as the file exists.
struct ManifestMark {
  uint64_t number = 0;  // 0 means not known
  uint64_t bytes = 0;
  uint64_t digest = 0;  // of the first `bytes` bytes
  friend bool operator==(const ManifestMark&, const ManifestMark&) = default;
};

struct AckedState {
  uint64_t sequence = 0;       // number of the last acknowledged row
  uint64_t first_logged = 0;   // the logs hold the rows from this one on; 0 means not known
  ManifestMark manifest = {};  // its state when first_logged was noted
  friend bool operator==(const AckedState&, const AckedState&) = default;
};

class AckedSequence {
 public:
  // Returns null if there is no file or its content cannot be trusted. A file of format version 1
  // holds only the sequence.
  static std::optional<AckedState> Read(const std::filesystem::path& path);

  // If the file cannot be created, a warning is logged and later notes are dropped.
  explicit AckedSequence(const std::filesystem::path& path);
  ~AckedSequence();
  AckedSequence(const AckedSequence&) = delete;
  AckedSequence& operator=(const AckedSequence&) = delete;

  // Costs one write to the page cache. Numbers not above the last one are ignored.
  void Note(uint64_t sequence);
  // Records what the log depends on, unless `is_stale`, called under the lock, says that this has
  // changed in the meantime.
  void NoteBase(
      uint64_t first_logged, const ManifestMark& manifest,
      const std::function<bool()>& is_stale = [] { return false; });
  // Replaces the whole state, even by a smaller sequence: the caller has already reported the loss.
  void Restart(const AckedState& state);

 private:
  void Write();

  int descriptor_ = -1;
  std::mutex mutex_;
  AckedState state_;
};

}  // namespace kvgate::store::file
