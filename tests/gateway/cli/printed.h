// Returns the text that a command prints into the file it is given.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace kvgate::cli {

inline std::string Printed(const std::function<void(std::FILE*)>& work) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  work(out);
  std::fclose(out);
  const std::string printed(text, size);
  std::free(text);
  return printed;
}

}  // namespace kvgate::cli
