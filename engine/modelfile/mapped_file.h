// MappedFile: a whole file mapped for reading. Its pages are shared with every other process that
// reads the same file, and so are changes that others make: a file that is written in place shows
// its new bytes, and a read beyond the end of one that was cut is answered with SIGBUS. What is
// read for good is read when the file is opened; what is read later goes through ReadAt, which
// fails instead. Any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include <kvgate/result.h>

namespace kvgate::model {

// What tells whether somebody may have written a file. The time of the last change of the inode
// (ctime) cannot be set back; it also moves when the file gets or loses a name, as one that is
// replaced by rename does: then num_names differs, too, and the bytes are the same.
struct FileIdentity {
  uint64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint64_t num_names = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Whether bytes may differ between the two.
bool MayDiffer(const FileIdentity& before, const FileIdentity& now);

class MappedFile {
 public:
  // kNotFound: there is none; kIo: it cannot be read (or is no file); kDataLoss: it is empty.
  static Result<std::unique_ptr<MappedFile>> Open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  // When it was opened.
  const FileIdentity& identity() const { return identity_; }
  // Of the file that is mapped, whatever its path names now. kIo.
  Result<FileIdentity> CurrentIdentity() const;
  // What the file has there now. kDataLoss: it ends before; kIo: it cannot be read.
  Result<void> ReadAt(uint64_t offset, std::span<std::byte> to) const;

  // The path of the mapping that holds an address; null: none does. May be called in the handler of
  // a signal: it takes no lock and no memory.
  static const char* PathOf(const void* address) noexcept;

 private:
  MappedFile(std::filesystem::path path, int descriptor, const FileIdentity& identity,
             std::span<const std::byte> bytes);
  const std::filesystem::path path_;
  const int descriptor_;
  const FileIdentity identity_;
  const std::span<const std::byte> bytes_;
  const int slot_;  // of the list that PathOf reads; negative: it was full
};

}  // namespace kvgate::model
