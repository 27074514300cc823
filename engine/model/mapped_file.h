// MappedFile: a whole file mapped for reading. Its pages are shared with every other process that
// reads the same file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include <kvgate/result.h>

namespace kvgate::model {

class MappedFile {
 public:
  // kNotFound: there is none; kIo: it cannot be read (or is no file); kDataLoss: it is empty.
  static Result<std::unique_ptr<MappedFile>> Open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace kvgate::model
