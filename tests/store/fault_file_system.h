// A disk that fails: RocksDB's FileSystem over real files that fails the n-th call, or any call
// with a probability, in the ways that disks do. It can also lose what was not synced, and stop for
// ever, as for a process that has been killed.
//
// Any thread may use it. The lock, server.json, the seed and meta.sequence do not go through it.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace kvgate::store {

enum class Fault {
  kNone,
  kError,        // EIO
  kFull,         // ENOSPC
  kShortWrite,   // half of the data is written, then an error
  kLyingSync,    // reports success without syncing
  kFlippedRead,  // one bit of the data read is wrong
  kHang,         // blocks until Release
};
inline constexpr size_t kNumFaults = 7;

class FaultFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FaultFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FaultFileSystem"; }

  // Fails the n-th call from now, counted from 1, and the `then` calls that follow it.
  void FailNth(uint64_t n, Fault fault, uint64_t then = 0) {
    const std::lock_guard lock(mutex_);
    fail_at_ = num_calls_ + n;
    fail_until_ = fail_at_ + then;
    nth_ = fault;
  }
  struct Odds {
    double probability = 0;
    bool writes_only = false;
    bool reads_only = false;
    bool flips = false;  // reads may return flipped bits
    bool lies = false;   // syncs may report false success
  };
  void FailAtRandom(const Odds& odds, uint64_t seed) {
    const std::lock_guard lock(mutex_);
    odds_ = odds;
    random_.seed(seed);
  }
  void Heal() {
    const std::lock_guard lock(mutex_);
    odds_ = {};
    fail_at_ = 0;
    hanging_ = false;
    released_.notify_all();
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    hanging_ = false;
    released_.notify_all();
  }

  // Makes every call fail without effect, until Revive.
  void Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    hanging_ = false;
    released_.notify_all();
  }
  void Revive() {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
  }
  // Simulates a power failure: cuts each file at a random point of its unsynced part. REQUIRES: no
  // file is open.
  void LoseUnsynced(std::mt19937_64& random) {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, synced] : synced_bytes_) {
      std::error_code error;
      const uint64_t bytes = std::filesystem::file_size(path, error);
      if (error || synced >= bytes) continue;
      ++num_cut_;
      if (synced == 0 && random() % 2 == 0) {
        std::filesystem::remove(path, error);
      } else {
        std::filesystem::resize_file(path, synced + random() % (bytes - synced + 1), error);
      }
    }
    synced_bytes_.clear();
  }

  uint64_t num_calls() const {
    const std::lock_guard lock(mutex_);
    return num_calls_;
  }
  // Returns the number of files cut by power losses.
  uint64_t num_cut() const {
    const std::lock_guard lock(mutex_);
    return num_cut_;
  }
  uint64_t num_faults(Fault kind) const {
    const std::lock_guard lock(mutex_);
    return num_by_kind_[static_cast<size_t>(kind)];
  }

  // --- FileSystem ---------------------------------------------------------------------------

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    if (auto failed = Fail(Kind::kWrite); !failed.ok()) return failed;
    const auto renamed = FileSystemWrapper::RenameFile(from, to, options, context);
    const std::lock_guard lock(mutex_);
    if (const auto at = synced_bytes_.find(from); renamed.ok() && at != synced_bytes_.end()) {
      synced_bytes_[to] = at->second;
      synced_bytes_.erase(at);
    }
    return renamed;
  }
  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    if (auto failed = Fail(Kind::kWrite); !failed.ok()) return failed;
    const auto deleted = FileSystemWrapper::DeleteFile(name, options, context);
    const std::lock_guard lock(mutex_);
    if (deleted.ok()) synced_bytes_.erase(name);
    return deleted;
  }
  rocksdb::IOStatus GetFileSize(const std::string& name, const rocksdb::IOOptions& options,
                                uint64_t* size, rocksdb::IODebugContext* context) override {
    if (auto failed = Fail(Kind::kLook); !failed.ok()) return failed;
    return FileSystemWrapper::GetFileSize(name, options, size, context);
  }

  // --- for its files ------------------------------------------------------------------------

  enum class Kind { kLook, kRead, kWrite, kSync };
  Fault Draw(Kind kind);
  // Applies the errors and hangs itself. Faults that change the data are returned in `drawn` for
  // the caller to apply.
  rocksdb::IOStatus Fail(Kind kind, Fault* drawn = nullptr);
  void NoteSynced(const std::string& name, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    synced_bytes_[name] = bytes;
  }
  bool stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::mt19937_64 random_;
  Odds odds_;
  Fault nth_ = Fault::kNone;
  uint64_t fail_at_ = 0;
  uint64_t fail_until_ = 0;
  uint64_t num_calls_ = 0;
  uint64_t num_cut_ = 0;
  std::array<uint64_t, kNumFaults> num_by_kind_{};
  bool hanging_ = false;
  bool stopped_ = false;
  std::map<std::string, uint64_t> synced_bytes_;  // of files created since the last power loss
};

inline Fault FaultFileSystem::Draw(Kind kind) {
  ++num_calls_;
  if (fail_at_ != 0 && num_calls_ >= fail_at_ && num_calls_ <= fail_until_) return nth_;
  if (odds_.probability <= 0) return Fault::kNone;
  const bool writes = kind == Kind::kWrite || kind == Kind::kSync;
  if (writes ? odds_.reads_only : odds_.writes_only) return Fault::kNone;
  if (std::uniform_real_distribution<>(0, 1)(random_) >= odds_.probability) return Fault::kNone;
  switch (random_() % 4) {
    case 0:
      return Fault::kFull;
    case 1:
      return kind == Kind::kWrite ? Fault::kShortWrite : Fault::kError;
    case 2:
      if (kind == Kind::kSync && odds_.lies) return Fault::kLyingSync;
      if (kind == Kind::kRead && odds_.flips) return Fault::kFlippedRead;
      return Fault::kError;
    default:
      return Fault::kError;
  }
}

inline rocksdb::IOStatus FaultFileSystem::Fail(Kind kind, Fault* drawn) {
  std::unique_lock lock(mutex_);
  if (stopped_) return rocksdb::IOStatus::IOError("the process is gone");
  Fault fault = Draw(kind);
  const bool reads = kind == Kind::kLook || kind == Kind::kRead;
  if (reads && (fault == Fault::kFull || fault == Fault::kShortWrite)) fault = Fault::kError;
  if (fault == Fault::kLyingSync && kind != Kind::kSync) fault = Fault::kError;
  if (fault == Fault::kFlippedRead && kind != Kind::kRead) fault = Fault::kError;
  if (fault == Fault::kNone) return rocksdb::IOStatus::OK();
  ++num_by_kind_[static_cast<size_t>(fault)];
  if (drawn != nullptr) *drawn = fault;
  if (fault == Fault::kHang) {
    hanging_ = true;
    released_.wait(lock, [this] { return !hanging_; });
    return stopped_ ? rocksdb::IOStatus::IOError("the process is gone") : rocksdb::IOStatus::OK();
  }
  const bool is_callers = fault == Fault::kLyingSync || fault == Fault::kFlippedRead ||
                          (fault == Fault::kShortWrite && drawn != nullptr);
  if (is_callers) return rocksdb::IOStatus::OK();
  if (fault == Fault::kFull) return rocksdb::IOStatus::NoSpace("injected: No space left on device");
  return rocksdb::IOStatus::IOError("injected: Input/output error");
}

// A clock that shortens RocksDB's pauses, which last a second after each failure.
class QuickClock final : public rocksdb::SystemClockWrapper {
 public:
  using SystemClockWrapper::SystemClockWrapper;
  const char* Name() const override { return "QuickClock"; }
  void SleepForMicroseconds(int microseconds) override {
    SystemClockWrapper::SleepForMicroseconds(std::min(microseconds, 500));
  }
};

class QuickEnv final : public rocksdb::EnvWrapper {
 public:
  explicit QuickEnv(std::unique_ptr<rocksdb::Env> env) : EnvWrapper(std::move(env)) {
    system_clock_ = std::make_shared<QuickClock>(system_clock_);
  }
};

class FaultWritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultWritableFile(FaultFileSystem& system, std::string name,
                    std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)), system_(system), name_(std::move(name)) {
    system_.NoteSynced(name_, 0);
  }

  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    Fault fault = Fault::kNone;
    auto failed = system_.Fail(FaultFileSystem::Kind::kWrite, &fault);
    if (!failed.ok()) return failed;
    const size_t bytes = fault == Fault::kShortWrite ? data.size() / 2 : data.size();
    const rocksdb::Slice part(data.data(), bytes);
    auto written = FSWritableFileOwnerWrapper::Append(part, options, context);
    if (written.ok()) bytes_ += bytes;
    if (fault == Fault::kShortWrite) return rocksdb::IOStatus::IOError("injected: a short write");
    return written;
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&,
                           rocksdb::IODebugContext* context) override {
    return Append(data, options, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    return SyncBy([&] { return FSWritableFileOwnerWrapper::Flush(options, context); });
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    return Sync(options, context);
  }
  rocksdb::IOStatus RangeSync(uint64_t, uint64_t, const rocksdb::IOOptions&,
                              rocksdb::IODebugContext*) override {
    return system_.Fail(FaultFileSystem::Kind::kWrite);  // RangeSync promises no durability
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    const auto failed = system_.Fail(FaultFileSystem::Kind::kWrite);
    const auto closed = FSWritableFileOwnerWrapper::Close(options, context);
    return failed.ok() ? closed : failed;
  }

 private:
  // The page cache stands in for the disk, so only Stop and LoseUnsynced reveal what was not
  // synced.
  template <typename Call>
  rocksdb::IOStatus SyncBy(Call call) {
    Fault fault = Fault::kNone;
    auto failed = system_.Fail(FaultFileSystem::Kind::kSync, &fault);
    if (!failed.ok()) return failed;
    if (fault == Fault::kShortWrite) return rocksdb::IOStatus::IOError("injected: not synced");
    auto done = call();
    if (done.ok() && fault != Fault::kLyingSync) system_.NoteSynced(name_, bytes_);
    return done;
  }

  FaultFileSystem& system_;
  const std::string name_;
  uint64_t bytes_ = 0;
};

// Flips a bit of what was read, but only in the caller's buffer, because other memory may be
// mapped.
inline void FlipBit(rocksdb::Slice* result, char* scratch) {
  if (result->empty() || result->data() != scratch) return;
  scratch[result->size() / 3] = static_cast<char>(scratch[result->size() / 3] ^ 0x04);
}

class FaultRandomAccessFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  FaultRandomAccessFile(FaultFileSystem& system, std::unique_ptr<rocksdb::FSRandomAccessFile> file)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), system_(system) {}
  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* context) const override {
    Fault fault = Fault::kNone;
    auto failed = system_.Fail(FaultFileSystem::Kind::kRead, &fault);
    if (!failed.ok()) return failed;
    auto read = FSRandomAccessFileOwnerWrapper::Read(offset, n, options, result, scratch, context);
    if (fault == Fault::kFlippedRead) FlipBit(result, scratch);
    return read;
  }

 private:
  FaultFileSystem& system_;
};

class FaultSequentialFile final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  FaultSequentialFile(FaultFileSystem& system, std::unique_ptr<rocksdb::FSSequentialFile> file)
      : FSSequentialFileOwnerWrapper(std::move(file)), system_(system) {}
  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext* context) override {
    Fault fault = Fault::kNone;
    auto failed = system_.Fail(FaultFileSystem::Kind::kRead, &fault);
    if (!failed.ok()) return failed;
    auto read = FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, context);
    if (fault == Fault::kFlippedRead) FlipBit(result, scratch);
    return read;
  }

 private:
  FaultFileSystem& system_;
};

inline rocksdb::IOStatus FaultFileSystem::NewWritableFile(
    const std::string& name, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* file, rocksdb::IODebugContext* context) {
  if (auto failed = Fail(Kind::kWrite); !failed.ok()) return failed;
  auto opened = FileSystemWrapper::NewWritableFile(name, options, file, context);
  if (opened.ok()) *file = std::make_unique<FaultWritableFile>(*this, name, std::move(*file));
  return opened;
}

inline rocksdb::IOStatus FaultFileSystem::NewRandomAccessFile(
    const std::string& name, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* file, rocksdb::IODebugContext* context) {
  if (auto failed = Fail(Kind::kLook); !failed.ok()) return failed;
  auto opened = FileSystemWrapper::NewRandomAccessFile(name, options, file, context);
  if (opened.ok()) *file = std::make_unique<FaultRandomAccessFile>(*this, std::move(*file));
  return opened;
}

inline rocksdb::IOStatus FaultFileSystem::NewSequentialFile(
    const std::string& name, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSSequentialFile>* file, rocksdb::IODebugContext* context) {
  if (auto failed = Fail(Kind::kLook); !failed.ok()) return failed;
  auto opened = FileSystemWrapper::NewSequentialFile(name, options, file, context);
  if (opened.ok()) *file = std::make_unique<FaultSequentialFile>(*this, std::move(*file));
  return opened;
}

}  // namespace kvgate::store
