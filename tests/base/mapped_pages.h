// A temporary file, mapped for reading like a model file, and the state of its pages.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "tests/base/temp_folder.h"

namespace kvgate {

class MappedPages {
 public:
  explicit MappedPages(std::span<const std::byte> contents) {
    const TempFolder folder;
    const std::string path = folder / "pages";
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_GE(fd_, 0);
    EXPECT_EQ(write(fd_, contents.data(), contents.size()), std::ssize(contents));
    void* address = mmap(nullptr, contents.size(), PROT_READ, MAP_SHARED, fd_, 0);
    EXPECT_NE(address, MAP_FAILED);
    bytes_ = {static_cast<const std::byte*>(address), contents.size()};
  }
  ~MappedPages() {
    munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    close(fd_);
  }
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;

  static size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  std::span<const std::byte> bytes() const { return bytes_; }
  size_t num_pages() const { return (bytes_.size() + page_bytes() - 1) / page_bytes(); }

  // Returns the number of pages that this process has mapped (bit 63 of their pagemap entries).
  size_t NumHeld() const {
    std::vector<uint64_t> entries(num_pages());
    const size_t first = reinterpret_cast<uintptr_t>(bytes_.data()) / page_bytes();
    const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(pread(fd, entries.data(), entries.size() * sizeof(uint64_t),
                    static_cast<off_t>(first * sizeof(uint64_t))),
              static_cast<ssize_t>(entries.size() * sizeof(uint64_t)));
    close(fd);
    size_t count = 0;
    for (const uint64_t entry : entries) count += entry >> 63;
    return count;
  }

  // Returns the number of pages in the page cache, by whichever process.
  size_t NumCached() const {
    std::vector<unsigned char> cached(num_pages());
    EXPECT_EQ(mincore(const_cast<std::byte*>(bytes_.data()), bytes_.size(), cached.data()), 0);
    size_t count = 0;
    for (const unsigned char page : cached) count += page & 1;
    return count;
  }

  // Drops the file from the page cache. Returns false if that is impossible because its file system
  // keeps it only in memory.
  bool ForgetFile() const {
    fdatasync(fd_);
    posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    return NumCached() == 0;
  }

 private:
  int fd_ = -1;
  std::span<const std::byte> bytes_;
};

}  // namespace kvgate
