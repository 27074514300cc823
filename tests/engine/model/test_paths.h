// These paths say where the tests of models read and write.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>


#include "tests/base/temp_folder.h"

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

}  // namespace kvgate::model
