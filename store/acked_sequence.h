// AckedSequence: how far a log was written when a writer was last told so: one number in a file
// beside the database, which survives what ends the process. A log that was cut, lost a record or
// lost a file still opens; only this number tells that acknowledged writes are gone.
//
// Any thread. Format: store/FORMAT.md, meta.sequence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>

namespace kvgate::store {

class AckedSequence {
 public:
  // Where the file cannot be made, nothing is noted, which is logged.
  explicit AckedSequence(const std::filesystem::path& path);
  ~AckedSequence();
  AckedSequence(const AckedSequence&) = delete;
  AckedSequence& operator=(const AckedSequence&) = delete;

  // What had been acknowledged when this was opened; absent: nothing that could be read.
  std::optional<uint64_t> at_open() const { return at_open_; }
  // Costs one write to the page cache. Smaller numbers than the last one are ignored.
  void Note(uint64_t sequence);
  // Also a smaller one: what was lost has been said.
  void Restart(uint64_t sequence);

 private:
  void Write(uint64_t sequence);

  int descriptor_ = -1;
  std::optional<uint64_t> at_open_;
  std::mutex mutex_;
  uint64_t sequence_ = 0;
};

}  // namespace kvgate::store
