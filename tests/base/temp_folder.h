// TempFolder: a folder of one test's own. Tests run in many processes at a time, so a fixed name
// below /tmp is one that two of them write; tidy.py refuses other ways to a temporary place.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace kvgate {

// A directory in memory if the system has one, for tests that open a thousand directories.
inline std::filesystem::path FastDirectory() {
  const std::filesystem::path memory = "/dev/shm";
  if (::access(memory.c_str(), W_OK) == 0) return memory;
  return std::filesystem::temp_directory_path();
}

// The destructor removes the folder with all that lies in it.
class TempFolder {
 public:
  explicit TempFolder(const std::filesystem::path& place = std::filesystem::temp_directory_path()) {
    std::string name = (place / "kvgate-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder: " + name);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace kvgate
