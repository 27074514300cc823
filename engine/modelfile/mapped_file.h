// MappedFile: a whole file mapped for reading. Its pages are shared with every other process that
// reads the file, and so are changes: a file that is written in place shows its new bytes, and
// reading beyond the end of a file that was cut raises SIGBUS. Loading therefore copies the bytes
// it keeps; what is read after loading goes through ReadAt, which returns an error instead.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"

namespace kvgate::modelfile {

// The properties of a file that show if it may have been written. The change time of the inode
// (ctime) cannot be set back. It also changes when the file gains or loses a name, as when it is
// replaced by rename; then num_names differs too, and the bytes are the same.
struct FileIdentity {
  uint64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint64_t num_names = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Returns true if the bytes may differ between the two.
bool MayDiffer(const FileIdentity& before, const FileIdentity& now);

class MappedFile {
 public:
  // Fails with kNotFound if it does not exist, kIo if it cannot be read or is no regular file,
  // kDataLoss if it is empty, and kOverloaded if there is no memory to map it.
  static Result<std::unique_ptr<MappedFile>> Open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  // The identity when the file was opened.
  const FileIdentity& identity() const { return identity_; }
  // Returns the identity of the mapped file, even if its path now names another. Fails with kIo.
  Result<FileIdentity> CurrentIdentity() const;
  // Reads the file's current bytes. Fails with kDataLoss if it ends before, and with kIo if it
  // cannot be read.
  Result<void> ReadAt(uint64_t offset, std::span<std::byte> to) const;

  // Returns the path of the mapping that contains an address; null if none does. May be called in a
  // signal handler: it takes no lock and no memory.
  static const char* PathOf(const void* address) noexcept;

 private:
  MappedFile(std::filesystem::path path, int descriptor, const FileIdentity& identity,
             std::span<const std::byte> bytes);
  const std::filesystem::path path_;
  const int descriptor_;
  const FileIdentity identity_;
  const std::span<const std::byte> bytes_;
  const int slot_;  // in the list that PathOf reads; negative if the list was full
};

}  // namespace kvgate::modelfile
