// These paths say where the tests of models read and write.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <unistd.h>

namespace kvgate::model {

// Returns a path in the data folder beside the project (models, vocabularies); tests that need it
// skip when it is missing.
inline std::filesystem::path TestDataPath(const std::string& name) {
  const char* root = std::getenv("KVGATE_TEST_DATA");
  const std::filesystem::path base =
      root != nullptr ? std::filesystem::path(root)
                      : std::filesystem::path(KVGATE_SOURCE_DIR) / ".." / "shared";
  return base / name;
}

// ScratchDirectory is a test's own directory; the destructor removes it with its contents.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "kvgate_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace kvgate::model
