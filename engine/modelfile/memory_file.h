// MemoryFile: bytes as a file that has no name in any folder and that nobody can write or cut. What
// takes a path can read it, and it is gone with its last descriptor, whatever becomes of the
// process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace kvgate::modelfile {

class MemoryFile {
 public:
  // Copies the bytes. `label` shows in /proc and must hold no slash. Fails with kIo if the system
  // refuses such files, and with kOverloaded if there is no memory for it.
  static Result<MemoryFile> Make(const char* label, std::span<const std::byte> bytes);
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  ~MemoryFile();

  // Names the file within this process, for as long as this object lives.
  std::filesystem::path path() const;

 private:
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;  // negative after a move
};

}  // namespace kvgate::modelfile
