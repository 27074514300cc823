// Bundle: the files of the page as `web` has built them, compressed with gzip. CMake makes the
// source.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kvgate::dashboard {

struct BundledFile {
  std::string_view name;    // "dashboard.js"
  std::string_view digest;  // SHA-256 of the compressed bytes, in hex
  std::string_view gzip;
};
std::span<const BundledFile> Bundle();

}  // namespace kvgate::dashboard
